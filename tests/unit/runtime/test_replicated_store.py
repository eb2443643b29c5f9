"""The store of a replicated lace, beyond what the kit for stores asks of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bobbin import profile
from bobbin.errors import UsageError
from bobbin.records.record import build_plex
from bobbin.runtime import replicated_commands as wire
from bobbin.runtime.replicated_commands import Keep, PutPiece, PutRecords, decode_command
from bobbin.runtime.replicated_keeper import LaceKeeper
from bobbin.runtime.replicated_store import ReplicatedStore
from bobbin.runtime.tangle_writing import tables_of
from bobbin.store.base import Outcome, StoreRecordId
from bobbin.store.sqlite import open_store
from tests.conformance.samples import plex
from tests.support.replicated import LocalLog


class Opened:
    """A store with its log."""

    def __init__(self, path: Path) -> None:
        open_store(path, create=True, now=lambda: 0).close()
        self.keeper = LaceKeeper(path, now=lambda: 0)
        self.log = LocalLog(path, self.keeper)
        self.store = ReplicatedStore(
            open_store(path, now=lambda: 7), self.log, now=lambda: 99, subscribe=self.keeper.subscribe
        )

    def commands(self) -> list[wire.Command]:
        return [decode_command(raw) for raw in self.log.commands]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    made = Opened(tmp_path / "a.db")
    yield made
    made.store.close()
    made.keeper.close()


def test_many_records_are_several_commands_and_one_answer(opened: Opened) -> None:
    records = [plex(number) for number in range(wire.COMMAND_RECORDS_MAX + 10)]
    puts = opened.store.put_records(records)
    assert [put.id for put in puts] == list(range(1, len(records) + 1))
    assert [put.hash for put in puts] == [record.hash for record in records]
    commands = opened.commands()
    assert all(isinstance(command, PutRecords) for command in commands)
    assert len(commands) >= 2
    assert all(len(raw) <= wire.COMMAND_BYTES + 64 * 1024 for raw in opened.log.commands)


def test_what_begins_while_something_else_is_under_way_is_answered_by_itself(opened: Opened) -> None:
    first = opened.store.begin_put([plex(1), plex(2)])
    second = opened.store.begin_put([plex(2), plex(3)])
    nothing = opened.store.begin_put([])
    assert [put.outcome for put in first()] == [Outcome.STORED] * 2
    assert [(put.outcome, put.hash) for put in second()] == [
        (Outcome.DUPLICATE, plex(2).hash),
        (Outcome.STORED, plex(3).hash),
    ]
    assert nothing() == []
    assert not opened.store.changed_elsewhere()


def test_a_record_that_is_too_long_for_one_command_comes_in_pieces(opened: Opened) -> None:
    data = bytes(5 * 1024 * 1024)
    assert len(data) < profile.DATA_BYTES_MAX
    long = build_plex(group="u", app="a", name="long", tai_ns=1, data=data, extras=())
    puts = opened.store.put_records([plex(1), long, plex(2)])
    assert [(put.outcome, put.id, put.hash) for put in puts] == [
        (Outcome.STORED, 1, plex(1).hash),
        (Outcome.STORED, 2, long.hash),
        (Outcome.STORED, 3, plex(2).hash),
    ]
    assert sum(isinstance(command, PutPiece) for command in opened.commands()) == 3
    assert all(len(raw) < 3 * 1024 * 1024 for raw in opened.log.commands), "the log takes no more of one"
    assert opened.store.get(long.hash) == long.raw


def test_rejected_bytes_stay_at_this_node(opened: Opened) -> None:
    (put,) = opened.store.put_many([b"rubbish"], source="a file")
    assert put.outcome is Outcome.REJECTED
    assert [row.source for row in opened.store.quarantined()] == ["a file"]
    assert opened.log.commands == []


def test_cursors_go_through_the_log_and_caches_do_not(opened: Opened) -> None:
    opened.store.keep("cursor", "peer/link", b"where")
    opened.store.keep("decision", "x", b"cache")
    opened.store.keep("cursor", "peer/huge", bytes(wire.KEPT_BYTES_MAX + 1))
    assert [type(command) for command in opened.commands()] == [Keep]
    assert opened.store.kept("cursor", "peer/link") == b"where"
    assert opened.store.kept("decision", "x") == b"cache"
    assert len(opened.store.kept("cursor", "peer/huge") or b"") == wire.KEPT_BYTES_MAX + 1
    opened.store.keep("cursor", "peer/link", None)
    assert opened.store.kept("cursor", "peer/link") is None


def test_removals_are_dated_by_whoever_asks(opened: Opened) -> None:
    opened.store.remove(plex(1).hash, reason="why")
    assert [refusal.tai for refusal in opened.store.refusals()] == [99]


def test_what_another_node_writes_wakes_and_is_a_change_from_elsewhere(opened: Opened) -> None:
    woken: list[StoreRecordId] = []
    undo = opened.store.subscribe(woken.append)
    opened.store.put_records([plex(1)])
    assert woken == [1]
    assert not opened.store.changed_elsewhere()
    opened.log.commit(wire.encode(PutRecords(bytes(16), [plex(2).raw])))
    opened.store.settle()
    assert woken == [1, 2]
    assert opened.store.changed_elsewhere()
    assert not opened.store.changed_elsewhere()
    undo()
    opened.store.put_records([plex(3)])
    assert woken == [1, 2]


def test_it_says_how_far_it_is(opened: Opened) -> None:
    opened.store.put_records([plex(1)])
    state = opened.store.replica()
    assert state is not None
    assert (state.applied, state.high_water) == (1, 1)


def test_tangles_are_not_replicated(opened: Opened) -> None:
    with pytest.raises(UsageError, match="not replicated"):
        tables_of(opened.store)
