"""Connections that are lent, taken back and kept."""

from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from bobbin.errors import UsageError
from bobbin.records.coordinate import Prefix
from bobbin.store.sqlite import Config, SqliteStore, open_store
from bobbin.store.sqlite.connection import Access, Source
from bobbin.store.sqlite.readers import Readers
from tests.conformance.samples import plex


@pytest.fixture
def readers(store: SqliteStore, path: Path) -> Iterator[Readers]:
    store.put_records([plex(number) for number in range(5)])
    pool = Readers(Source(path=path, access=Access.WRITE, config=Config(idle_readers_max=2)))
    yield pool
    pool.close()


def test_a_connection_is_used_again(readers: Readers) -> None:
    first = readers.lend()
    first.close()
    first.close()
    second = readers.lend()
    assert second.connection is first.connection
    third = readers.lend()
    assert third.connection is not second.connection
    second.close()
    third.close()


def test_a_connection_that_is_used_again_shows_the_new_moment(store: SqliteStore, readers: Readers) -> None:
    first = readers.lend()
    assert first.high_water == 5
    first.close()
    store.put_records([plex(50)])
    second = readers.lend()
    assert second.connection is first.connection
    assert second.high_water == 6
    second.close()


def test_no_more_than_the_bound_are_kept(readers: Readers) -> None:
    moments = [readers.lend() for _ in range(4)]
    for moment in moments:
        moment.close()
    assert len(readers._idle) == 2


def test_a_connection_that_still_reads_is_not_kept(readers: Readers) -> None:
    moment = readers.lend()
    walk = moment.walk(lambda connection: connection.execute("SELECT id FROM record"))
    next(walk)
    moment.close()
    assert readers._idle == []
    with pytest.raises(UsageError, match="closed"):
        next(walk)


def test_an_iterator_of_an_ended_moment_fails_also_where_its_connection_is_kept(
    store: SqliteStore, readers: Readers
) -> None:
    moment = readers.lend()
    unstarted = moment.walk(lambda connection: connection.execute("SELECT id FROM record"))
    moment.close()
    assert len(readers._idle) == 1
    with pytest.raises(UsageError, match="closed"):
        next(unstarted)

    snapshot = store.snapshot()
    between_jumps = snapshot.list(Prefix(group="u"), tips=True)
    next(between_jumps)
    snapshot.close()
    with pytest.raises(UsageError, match="closed"):
        next(between_jumps)


def test_what_comes_back_after_the_end_is_closed(readers: Readers) -> None:
    moment = readers.lend()
    readers.close()
    moment.close()
    assert readers._idle == []


def test_a_snapshot_may_be_used_and_closed_in_another_thread(store: SqliteStore, readers: Readers) -> None:
    assert readers is not None
    snapshot = store.snapshot()
    names: list[str] = []

    def work() -> None:
        names.extend(line.hash for line in snapshot.scan())
        snapshot.close()

    thread = Thread(target=work)
    thread.start()
    store.put_records([plex(60)])
    thread.join()
    assert names == [plex(number).hash for number in range(5)]
    assert store.snapshot().high_water() == 6


def test_a_snapshot_outlives_its_store(path: Path) -> None:
    store = open_store(path, create=True, now=lambda: 0)
    store.put_records([plex(1)])
    snapshot = store.snapshot()
    store.close()
    assert snapshot.get(plex(1).hash) == plex(1).raw
    snapshot.close()
