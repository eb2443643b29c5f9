"""A store as a copy of a replicated lace: places, sums, answers, pieces, and taking over what was built beside it."""

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from bobbin.errors import IntegrityError, UsageError
from bobbin.store.base import Outcome, Rejected, StoreRecordId
from bobbin.store.sqlite import open_store
from bobbin.store.sqlite.config import Config
from bobbin.store.sqlite.replica import ANSWERS_MAX, EffectRow, ReplicaState
from bobbin.store.sqlite.store import SqliteStore
from tests.conformance.samples import plex, sealed

LOOSE = Config(syncs_commits=False)


@pytest.fixture
def copy(tmp_path: Path) -> Iterator[SqliteStore]:
    with open_store(tmp_path / "a.db", create=True, now=lambda: 0, config=LOOSE) as store:
        store.replica.begin()
        yield store


def state(store: SqliteStore) -> ReplicaState:
    found = store.replica.state()
    assert found is not None
    return found


def test_the_place_is_in_the_same_commit(copy: SqliteStore, tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), copy.replica.applying(7) as write:  # noqa: PT012 -- it must fail inside
        write.put([plex(1)])
        raise ZeroDivisionError
    assert state(copy).applied == 0
    assert copy.high_water() == 0
    with copy.replica.applying(7) as write:
        assert [put.id for put in write.put([plex(1), sealed(2)])] == [1, 2]
    assert state(copy).applied == 7
    with open_store(tmp_path / "a.db", now=lambda: 0, read_only=True) as other:
        assert state(other) == state(copy)
    assert list(copy.check()) == []


def test_commits_wait_for_the_disk_unless_a_log_stands_behind(tmp_path: Path) -> None:
    for config, level in ((LOOSE, 1), (Config(), 2)):
        with open_store(tmp_path / f"{level}.db", create=True, now=lambda: 0, config=config) as store:
            assert store._connection.pragma("synchronous") == level


def test_equal_histories_have_equal_roots_however_they_are_cut(tmp_path: Path) -> None:
    roots = []
    for name, cuts in (("a", ([1, 2, 3], [4])), ("b", ([1], [2, 3, 4]))):
        with open_store(tmp_path / f"{name}.db", create=True, now=lambda: 5) as store:
            store.replica.begin()
            for place, numbers in enumerate(cuts, start=1):
                with store.replica.applying(place) as write:
                    write.put([plex(number) for number in numbers])
            with store.replica.applying(3) as write:
                assert write.remove(plex(2).hash, reason="why", tai=99)
            roots.append(state(store).root)
    assert roots[0] == roots[1]


def test_the_root_follows_every_change_and_comes_back_with_it(copy: SqliteStore) -> None:
    seen = [state(copy).root]

    def look() -> None:
        assert state(copy).root not in seen
        seen.append(state(copy).root)
        assert list(copy.check()) == []

    with copy.replica.applying(1) as write:
        write.put([plex(1)])
    look()
    with copy.replica.applying(2) as write:
        assert write.remove(plex(1).hash, reason="a", tai=1)
    look()
    with copy.replica.applying(3) as write:
        assert not write.remove(plex(1).hash, reason="b", tai=1)
    look()
    with copy.replica.applying(4) as write:
        assert write.lift(plex(1).hash)
        assert not write.lift(plex(1).hash)
    look()
    with copy.replica.applying(5) as write:
        write.set_effect(EffectRow("mail", 3, None))
    look()
    with copy.replica.applying(6) as write:
        write.set_effect(EffectRow("mail", 3, "applied"))
        assert write.effect("mail") == EffectRow("mail", 3, "applied")
    look()
    with copy.replica.applying(7) as write:
        assert write.raise_fence(4)
        assert not write.raise_fence(3)
    look()
    before = state(copy).root
    with copy.replica.applying(8) as write:
        write.keep("cursor", "a", b"1")
    assert state(copy).root == before, "what only saves work is left out"


def test_a_changed_sum_is_found(copy: SqliteStore, tmp_path: Path) -> None:
    with copy.replica.applying(1) as write:
        write.put([plex(1)])
    connection = apsw.Connection(str(tmp_path / "a.db"))
    connection.execute("UPDATE replica SET sum = zeroblob(512)")
    connection.close()
    assert [finding.where for finding in copy.check()] == ["replica"]


def test_only_so_many_answers_are_remembered(copy: SqliteStore) -> None:
    with copy.replica.applying(ANSWERS_MAX + 1) as write:
        for place in range(ANSWERS_MAX + 2):
            write.remember(place, place.to_bytes(16, "big"), b"x%d" % place)
    assert copy.replica.answer((0).to_bytes(16, "big")) is None
    assert copy.replica.answer((1).to_bytes(16, "big")) is None
    assert copy.replica.answer((2).to_bytes(16, "big")) == b"x2"


def test_an_answer_counts_for_so_many_places_whatever_is_in_the_table(copy: SqliteStore) -> None:
    with copy.replica.applying(ANSWERS_MAX + 4) as write:
        write.remember(3, b"a", b"x")
        assert write.answered(ANSWERS_MAX + 3, b"a") == b"x"
        assert write.answered(ANSWERS_MAX + 4, b"a") is None
        write.remember(ANSWERS_MAX + 4, b"a", b"y")
        assert write.answered(ANSWERS_MAX + 5, b"a") == b"y"
    assert copy.replica.answer(b"a") == b"y"


def test_pieces_wait_for_the_rest_and_the_oldest_go_first(copy: SqliteStore) -> None:
    with copy.replica.applying(1) as write:
        for place in range(10):
            write.add_piece(place, bytes([place]) * 16, 0, b"a")
        assert write.add_piece(10, bytes([9]) * 16, 1, b"b") == 2
        assert write.take_pieces(bytes(16)) == []
        assert write.take_pieces(bytes([9]) * 16) == [b"a", b"b"]
        assert write.take_pieces(bytes([9]) * 16) == []


def test_a_store_with_records_of_its_own_is_no_copy(tmp_path: Path) -> None:
    with open_store(tmp_path / "own.db", create=True, now=lambda: 0) as store:
        assert store.replica.state() is None
        store.put_records([plex(1)])
        with pytest.raises(UsageError, match="records of its own"):
            store.replica.begin()


def test_a_backup_follows_no_log(copy: SqliteStore, tmp_path: Path) -> None:
    with copy.replica.applying(1) as write:
        write.put([plex(1)])
    copy.backup(tmp_path / "backup.db")
    with open_store(tmp_path / "backup.db", now=lambda: 0) as store:
        assert store.replica.state() is None
        store.put_records([plex(2)])
        assert list(store.check()) == []


def test_taking_over_replaces_everything_but_the_quarantine(copy: SqliteStore, tmp_path: Path) -> None:
    with copy.replica.applying(1) as write:
        write.put([plex(number) for number in range(3)])
    copy.put_records([], rejected=[Rejected(raw=b"bad", reason="x", detail="y")])
    before = copy.snapshot()
    source = tmp_path / "b.db"
    with open_store(source, create=True, now=lambda: 0) as other:
        other.replica.begin()
        with other.replica.filling() as fill:
            fill.records([(1, plex(0)), (2, plex(1)), (9, sealed(9))])
            fill.refusal(plex(2).hash, "gone", 5)
            fill.change(1, 1, 2, plex(2).digest)
        wanted = ReplicaState(applied=20, root=b"", fence=2, high_water=StoreRecordId(12), changes=1)
        with pytest.raises(IntegrityError, match="root"):
            other.replica.finish(wanted)
        root = expected_root(tmp_path)
        other.replica.finish(ReplicaState(applied=20, root=root, fence=2, high_water=StoreRecordId(12), changes=1))
    copy.replica.take_over(source)
    assert [(stored.id, stored.hash) for stored in copy.scan()] == [
        (1, plex(0).hash),
        (2, plex(1).hash),
        (9, sealed(9).hash),
    ]
    assert [stored.id for stored in before.scan()] == [1, 2, 3], "whoever reads sees one moment"
    before.close()
    assert state(copy).applied == 20
    assert copy.high_water() == 12
    assert [row.raw for row in copy.quarantined()] == [b"bad"]
    assert list(copy.check()) == []
    with copy.replica.applying(21) as write:
        (put, refused) = write.put([plex(7), plex(2)])
    assert (put.id, refused.outcome) == (13, Outcome.REFUSED), "numbers go on from the highest that was given"
    assert list(copy.check()) == []


def expected_root(tmp_path: Path) -> bytes:
    """The root of a copy that came to the same by itself."""
    with open_store(tmp_path / "c.db", create=True, now=lambda: 0) as store:
        store.replica.begin()
        with store.replica.applying(20) as write:
            write.put([plex(0), plex(1), plex(2)])
            write.put([plex(number) for number in range(10, 15)])
            write.put([sealed(9)])
            write.put([plex(number) for number in range(15, 18)])
            write.remove(plex(2).hash, reason="gone", tai=5)
            write.raise_fence(2)
        connection = store._connection
        connection.execute("DELETE FROM change")
        # The others were never there: their parts of the sum are taken out again by removing them.
        with store.replica.applying(20) as write:
            for number in range(10, 18):
                write.remove(plex(number).hash, reason="x", tai=1)
                write.lift(plex(number).hash)
        connection.execute("DELETE FROM change WHERE id > 1")
        connection.execute("UPDATE sqlite_sequence SET seq = 1 WHERE name = 'change'")
        return state(store).root


def test_a_snapshot_that_makes_no_sense_is_refused(tmp_path: Path) -> None:
    with open_store(tmp_path / "b.db", create=True, now=lambda: 0) as store:
        with pytest.raises(IntegrityError, match="comes after"), store.replica.filling() as fill:  # noqa: PT012
            fill.records([(2, plex(1))])
            fill.records([(2, plex(2))])
        with pytest.raises(IntegrityError, match="twice"), store.replica.filling() as fill:
            fill.records([(1, plex(1)), (2, plex(1))])
        assert store.high_water() == 0
