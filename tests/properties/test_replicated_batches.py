"""However the commands of one log are cut into transactions, every node of a replicated lace comes to the same.

The slow way is one command at a time. Tokens come again, some of them after so long that the answer is forgotten.
"""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin.cluster.composite import Placed
from bobbin.cluster.names import Index, Term
from bobbin.runtime.replicated_commands import (
    Answered,
    Lift,
    PutPiece,
    PutRecords,
    RaiseFence,
    Remove,
    SetEffect,
    encode,
)
from bobbin.runtime.replicated_machine import LaceMachine, build
from bobbin.store.sqlite import open_store, replica
from tests.conformance.samples import plex
from tests.properties.effort import scaled

_ANSWERS_MAX = 4
_RECORDS = [plex(number) for number in range(4)]


@st.composite
def _commands(draw: st.DrawFn) -> Answered:
    token = draw(st.integers(0, 6)).to_bytes(16, "big")
    record = draw(st.sampled_from(_RECORDS))
    match draw(st.integers(0, 7)):
        case 0 | 1:
            return Remove(token, record.hash, "trial", draw(st.integers(0, 2)))
        case 2:
            return Lift(token, record.hash)
        case 3:
            return RaiseFence(token, draw(st.integers(0, 4)))
        case 4:
            return SetEffect(token, draw(st.sampled_from("ab")), draw(st.integers(0, 3)))
        case 5:
            half = len(record.raw) // 2
            number = draw(st.integers(0, 1))
            return PutPiece(token, record.digest[:16], number, (record.raw[:half], record.raw[half:])[number], 2)
        case _:
            return PutRecords(token, [record.raw])


@st.composite
def _logs(draw: st.DrawFn) -> list[Placed]:
    """Places that have nothing for the lace are left out."""
    log: list[Placed] = []
    place = 0
    for command in draw(st.lists(_commands(), min_size=2, max_size=16)):
        place += draw(st.sampled_from((1, 1, 1, 2, 3)))
        log.append((Index(place), Term(3), encode(command)))
    return log


def _outcome(folder: Path, log: Sequence[Placed], cuts: Sequence[int], *, moves_at: int | None) -> object:
    """All that a node holds in the end; at one of the cuts it may begin anew with a snapshot."""
    path = folder / "0.db"
    open_store(path, create=True, now=lambda: 0).close()
    machine = LaceMachine(path, now=lambda: 0)
    try:
        for begin, end in zip((0, *cuts), (*cuts, len(log)), strict=True):
            some = log[begin:end]
            machine.apply(some, some[-1][0])
            if begin == moves_at:
                place, entries = machine.state.applied, list(machine.capture())
                machine.close()
                build(folder / "1.db", entries, place, now=lambda: 0)
                machine = LaceMachine(folder / "1.db", now=lambda: 0)
        connection = machine.store._connection
        answers = list(connection.execute("SELECT id, token, answer FROM answer ORDER BY id"))
        assert list(machine.store.check()) == []
        numbers = [(stored.id, stored.hash) for stored in machine.store.scan()]
        return machine.state, numbers, list(machine.store.refusals()), machine.store.replica.effects(), answers
    finally:
        machine.close()


@scaled(0.4)
@given(st.data())
def test_any_batches_of_one_log_come_to_the_same(data: st.DataObject) -> None:
    log = data.draw(_logs(), label="log")
    cuts = sorted(data.draw(st.sets(st.integers(1, len(log) - 1)), label="cuts"))
    moves_at = data.draw(st.none() | st.sampled_from((0, *cuts)), label="moves at")
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as folder:
        patch.setattr(replica, "ANSWERS_MAX", _ANSWERS_MAX)
        for name in "ab":
            (Path(folder) / name).mkdir()
        slow = _outcome(Path(folder) / "a", log, range(1, len(log)), moves_at=None)
        assert _outcome(Path(folder) / "b", log, cuts, moves_at=moves_at) == slow
