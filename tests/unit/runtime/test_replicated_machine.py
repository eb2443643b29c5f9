"""The machine of a replicated lace: order, repetition, refusals, snapshots."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bobbin.cluster.composite import Placed
from bobbin.cluster.names import Index, Term
from bobbin.errors import IntegrityError, UsageError
from bobbin.records.record import read_trusted
from bobbin.runtime import replicated_commands as wire
from bobbin.runtime.replicated_commands import (
    Answer,
    CompareRoot,
    Keep,
    Lift,
    NotDone,
    PutPiece,
    PutRecords,
    RaiseFence,
    Remove,
    SetEffect,
    Stored,
    Truth,
    decode_answer,
    encode,
)
from bobbin.runtime.replicated_machine import LaceMachine, build
from bobbin.store.base import Outcome
from bobbin.store.sqlite import open_store
from bobbin.wire.cluster import snapshot_stream
from tests.conformance.samples import plex, sealed

YES, NO = Truth(value=True), Truth(value=False)


def token(number: int) -> bytes:
    return number.to_bytes(16, "big")


def make(path: Path) -> LaceMachine:
    open_store(path, create=True, now=lambda: 0).close()
    return LaceMachine(path, now=lambda: 0)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[LaceMachine]:
    made = make(tmp_path / "a.db")
    yield made
    made.close()


TERM = Term(6)


def placed(*commands: wire.Command | bytes, first: int = 1) -> list[Placed]:
    raws = [command if isinstance(command, bytes) else encode(command) for command in commands]
    return [(Index(index), TERM, raw) for index, raw in enumerate(raws, start=first)]


def do(machine: LaceMachine, *commands: wire.Answered, first: int) -> list[Answer]:
    done = machine.apply(placed(*commands, first=first), first + len(commands) - 1)
    return [decode_answer(done.answers[command.token]) for command in commands]


def put(number: int, *records: int) -> PutRecords:
    return PutRecords(token(number), [plex(record).raw for record in records])


HISTORY: list[wire.Command | bytes] = [
    put(1, 1, 2, 3),
    put(2, 3, 4),
    b"no command",
    Remove(token(3), plex(2).hash, "a trial", 77),
    put(4, 2, 5),
    PutRecords(token(5), [b"no record"]),
    Keep(token(6), "cursor", "peer/link", b"where"),
    Lift(token(7), plex(2).hash),
    put(8, 2),
    RaiseFence(token(9), 3),
    SetEffect(token(10), "mail 7", 3),
    put(1, 9),
    PutPiece(token(11), token(90), 0, sealed(1).raw[:100], 2),
]


def test_a_history_comes_to_the_same_however_it_is_cut(tmp_path: Path) -> None:
    """The numbers, the answers and the roots do not depend on which commands share a transaction."""
    found = []
    for size in (1, 3, len(HISTORY)):
        machine = make(tmp_path / f"{size}.db")
        answers: dict[bytes, bytes] = {}
        commands = placed(*HISTORY)
        for begin in range(0, len(commands), size):
            some = commands[begin : begin + size]
            answers |= machine.apply(some, some[-1][0]).answers
        numbers = [(stored.id, stored.hash) for stored in machine.store.scan()]
        found.append((machine.state, answers, numbers, list(machine.store.refusals())))
        assert list(machine.store.check()) == []
        machine.close()
    assert found[0] == found[1] == found[2]
    state, answers, numbers, _ = found[0]
    assert state.applied == len(HISTORY)
    assert [name for _, name in numbers] == [plex(number).hash for number in (1, 3, 4, 5, 2)]
    assert [number for number, _ in numbers] == [1, 3, 4, 5, 6]
    assert decode_answer(answers[token(1)]) == Stored(1, 3), "the first answer, also to the repetition"
    assert isinstance(decode_answer(answers[token(5)]), NotDone)


def test_what_is_there_already_is_skipped(machine: LaceMachine) -> None:
    do(machine, put(1, 1), put(2, 2), first=1)
    again = machine.apply(placed(put(1, 1), put(2, 2), put(3, 3)), 3)
    assert again.answers.keys() == {token(3)}
    assert machine.store.high_water() == 3
    assert machine.state.applied == 3


def test_a_record_whose_key_another_one_has_stops_no_node(machine: LaceMachine) -> None:
    """Its name begins as that of a stored one, which anybody can bring about by trials; the command is committed."""
    stored = plex(1)
    name = stored.hash.encode()
    symbol = b"A" if name[-6:-5] != b"A" else b"B"
    twin = read_trusted(stored.raw.replace(name, name[:-6] + symbol + name[-5:]))
    assert twin.digest[:8] == stored.digest[:8]
    assert twin.digest != stored.digest
    assert do(machine, put(1, 1), first=1) == [Stored(1, 1)]
    (answer,) = do(machine, PutRecords(token(2), [twin.raw]), first=2)
    assert answer == Stored(2, 1)
    assert do(machine, PutRecords(token(3), [plex(1).raw, twin.raw]), first=3) == [
        Stored(0, 2, [(Outcome.DUPLICATE, 1, None), (Outcome.DUPLICATE, 2, None)])
    ]


def test_a_repeated_command_is_answered_and_not_done(machine: LaceMachine) -> None:
    assert do(machine, Remove(token(1), plex(1).hash, "x", 1), first=1) == [NO]
    assert do(machine, Lift(token(2), plex(1).hash), first=2) == [YES]
    assert do(machine, Remove(token(1), plex(1).hash, "x", 1), first=3) == [NO]
    assert list(machine.store.refusals()) == [], "it was lifted since"


def test_times_come_with_the_command(machine: LaceMachine) -> None:
    do(machine, Remove(token(1), plex(1).hash, "x", 123_456), first=1)
    assert [refusal.tai for refusal in machine.store.refusals()] == [123_456]


@pytest.mark.parametrize(
    "command",
    [
        PutRecords(token(1), [plex(1).raw, plex(2).raw[:-1]]),
        PutRecords(token(1), [plex(1).raw, b""]),
        Remove(token(1), "P.short.H3", "x", 1),
        Lift(token(1), "nothing"),
        Keep(token(1), "another kind", "key", b"x"),
        Keep(token(1), "cursor", "", b"x"),
        SetEffect(token(1), "", 1),
        SetEffect(token(1), "mail", 1, "perhaps"),
        PutPiece(token(1), token(2), 0, b"half a record", 1),
        RaiseFence(token(1), TERM + 1),
        RaiseFence(token(1), 2**63 - 1),
        SetEffect(token(1), "mail", TERM + 1),
    ],
)
def test_what_makes_no_sense_changes_nothing(machine: LaceMachine, command: wire.Answered) -> None:
    root = machine.state.root
    (answer,) = do(machine, command, first=1)
    assert isinstance(answer, NotDone)
    assert machine.state.root == root
    assert machine.state.applied == 1
    assert machine.store.high_water() == 0


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_long_record_comes_in_pieces(machine: LaceMachine, order: tuple[int, int]) -> None:
    raw = sealed(1).raw
    pieces = [PutPiece(token(1), token(9), 0, raw[:50], 2), PutPiece(token(2), token(9), 1, raw[50:], 2)]
    assert do(machine, *(pieces[at] for at in order), first=1) == [YES, Stored(1, 1)]
    assert machine.store.get(sealed(1).hash) == raw
    (answer,) = do(machine, PutPiece(token(3), token(9), 2, b"x", 2), first=3)
    assert isinstance(answer, NotDone)


def test_roots_to_be_compared_are_handed_on(machine: LaceMachine) -> None:
    done = machine.apply(placed(CompareRoot(5, bytes(32))), 1)
    assert done.compared == [CompareRoot(5, bytes(32))]
    assert machine.state.applied == 1


def test_effects_begin_once_and_under_the_newest_right(machine: LaceMachine) -> None:
    assert do(machine, RaiseFence(token(1), 5), RaiseFence(token(2), 4), first=1) == [YES, NO]
    assert do(machine, SetEffect(token(3), "a", 4), SetEffect(token(4), "a", 5), first=3) == [NO, YES]
    assert do(machine, SetEffect(token(5), "a", 5), SetEffect(token(6), "b", 5), first=5) == [NO, YES]
    assert do(machine, RaiseFence(token(7), 6), SetEffect(token(8), "a", 5, "applied"), first=7) == [YES, YES]
    assert do(machine, SetEffect(token(9), "a", 6, "rejected", settles=True), first=9) == [NO], "it is over"
    assert do(machine, SetEffect(token(10), "b", 6, "rejected"), first=10) == [NO], "another one has begun it"
    assert do(machine, SetEffect(token(11), "b", 6, "rejected", settles=True), first=11) == [YES]
    assert [(row.id, row.outcome) for row in machine.store.replica.effects()] == [("a", "applied"), ("b", "rejected")]


def test_nobody_takes_a_right_that_no_leader_has_yet(machine: LaceMachine) -> None:
    """Or no leader could ever be appointed."""
    assert isinstance(do(machine, RaiseFence(token(1), 2**63 - 1), first=1)[0], NotDone)
    assert machine.state.fence == 0
    assert do(machine, RaiseFence(token(2), TERM), SetEffect(token(3), "a", TERM), first=2) == [YES, YES]


# ---- snapshots ------------------------------------------------------------------------------------------------------


def test_a_snapshot_is_of_one_moment_and_builds_the_same(machine: LaceMachine, tmp_path: Path) -> None:
    machine.apply(placed(*HISTORY), len(HISTORY))
    machine.store.keep("decision", "local", b"this node's own")
    before = machine.state
    capture = machine.capture()
    do(machine, put(50, 50), first=40)
    entries = list(capture)
    assert len(entries) == len(machine.capture()) - 2, "one record and one answer fewer than now"
    build(tmp_path / "b.db", entries, before.applied, now=lambda: 0)
    other = make(tmp_path / "c.db")
    do(other, put(1, 100), first=1)
    assert other.take_over(tmp_path / "b.db") == before
    assert [(one.id, one.hash) for one in other.store.scan()] == [
        (one.id, one.hash) for one in machine.store.scan() if one.hash != plex(50).hash
    ]
    assert list(other.store.refusals()) == list(machine.store.refusals())
    assert other.store.mark().removal == machine.store.mark().removal
    assert other.store.kept("cursor", "peer/link") == b"where"
    assert other.store.kept("decision", "local") is None
    assert list(other.store.check()) == []
    # It goes on as the others do: numbers, pieces and answers.
    more: list[wire.Command | bytes] = [
        put(50, 50),
        put(1, 7),
        PutPiece(token(51), token(90), 1, sealed(1).raw[100:], 2),
    ]
    for one in (machine, other):
        one.apply(placed(*more, first=60), 70)
    assert machine.state == other.state
    assert other.store.have(sealed(1).hash)
    assert not other.store.have(plex(7).hash), "the answer to that command is known"
    other.close()


def test_a_snapshot_is_written_while_the_lace_goes_on(machine: LaceMachine, tmp_path: Path) -> None:
    """A capture that has been read to its end has let go of its moment, and cannot be asked any more."""
    machine.apply(placed(*HISTORY), len(HISTORY))
    before = machine.state
    capture = machine.capture()
    pieces = []
    for number, piece in enumerate(snapshot_stream.encode(capture)):
        do(machine, put(50 + number, 50 + number), first=40 + number)
        pieces.append(piece)
    do(machine, put(90, 90), first=90)
    build(tmp_path / "b.db", snapshot_stream.decode(pieces), before.applied, now=lambda: 0)
    assert make(tmp_path / "c.db").take_over(tmp_path / "b.db") == before
    with pytest.raises(UsageError, match="closed"):
        len(capture)


def test_a_snapshot_that_is_not_beyond_the_store_is_not_taken_over(machine: LaceMachine, tmp_path: Path) -> None:
    do(machine, put(1, 1), first=1)
    build(tmp_path / "b.db", list(machine.capture()), 1, now=lambda: 0)
    do(machine, put(2, 2), first=2)
    assert machine.take_over(tmp_path / "b.db").applied == 2
    assert machine.store.have(plex(2).hash)


def test_damaged_snapshots_are_refused_and_leave_nothing(machine: LaceMachine, tmp_path: Path) -> None:
    machine.apply(placed(*HISTORY), len(HISTORY))
    entries = list(machine.capture())
    records = [at for at, raw in enumerate(entries) if raw[1] == 57]
    without = [raw for at, raw in enumerate(entries) if at != records[1]]
    swapped = [*entries[: records[0]], entries[records[1]], entries[records[0]], *entries[records[1] + 1 :]]
    refusal = encode(wire.RefusalEntry("no name", "x", 1))
    changed = list(entries)
    changed[records[0]] = changed[records[0]][:-1] + b"?"
    for wrong in (
        changed,
        [],
        entries[1:],
        without,
        swapped,
        [*entries, b"rubbish"],
        [*entries, refusal],
        [*entries, entries[0]],
    ):
        with pytest.raises(IntegrityError):
            build(tmp_path / "b.db", wrong, 5, now=lambda: 0)
        assert not list(tmp_path.glob("b.db*"))


def test_outcomes_of_records_are_those_of_a_store(machine: LaceMachine) -> None:
    do(machine, put(1, 1), Remove(token(2), plex(2).hash, "why", 1), first=1)
    (answer,) = do(machine, put(3, 1, 2, 3), first=3)
    assert isinstance(answer, Stored)
    assert answer.each == [
        (Outcome.DUPLICATE, 1, None),
        (Outcome.REFUSED, None, "why"),
        (Outcome.STORED, 2, None),
    ]
