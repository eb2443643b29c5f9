"""Several machines on one log."""

from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256

import msgspec
import pytest

from bobbin.cluster.composite import (
    TABLE_TAGS,
    Composite,
    Part,
    Placed,
    Plain,
    PlainSource,
    Source,
    build_all,
    open_all,
)
from bobbin.cluster.key_value import KeyValue, Kind, Put
from bobbin.cluster.names import Index, Term
from bobbin.cluster.state_machine import Capture
from bobbin.errors import IntegrityError
from bobbin.wire.cluster.commands import decode_outcome, encode_command, key_value

_ONE, _TWO = range(32, 40), range(48, 64)


class _Words:
    """A machine that remembers the commands it was given."""

    def __init__(self, tag: int) -> None:
        self.tag = tag
        self.words: list[bytes] = []

    def apply(self, index: Index, term: Term, command: bytes) -> bytes:
        self.words.append(command)
        return b"%d/%d" % (index, term)

    @property
    def root(self) -> bytes:
        return sha256(b"".join(self.words)).digest()

    def snapshot(self) -> Capture:
        return [entry(self.tag + 1, word) for word in self.words]

    def restore(self, entries: Iterable[bytes]) -> None:
        read = [msgspec.msgpack.decode(raw) for raw in entries]
        if any(one[0] != self.tag + 1 for one in read):
            raise IntegrityError("not mine")
        self.words = [one[1] for one in read]


class _Kept:
    """One that keeps its state by itself."""

    def __init__(self, machine: _Words, applied: int) -> None:
        self.machine = machine
        self._applied = Index(applied)
        self.events: list[str] = []

    @property
    def applied(self) -> Index:
        return self._applied

    @property
    def root(self) -> bytes:
        return self.machine.root

    def snapshot(self) -> Capture:
        return self.machine.snapshot()

    def apply_many(self, commands: Sequence[Placed]) -> list[bytes]:
        done = [
            b"" if index <= self._applied else self.machine.apply(index, term, raw) for index, term, raw in commands
        ]
        self._applied = max(self._applied, commands[-1][0])
        self.events.append(f"batch of {len(commands)}")
        return done

    def settle(self, index: Index) -> None:
        self.events.append(f"settle {index}")

    def adopt(self) -> None:
        self.events.append("adopt")

    def close(self) -> None:
        self.events.append("close")


class _KeptSource:
    tags = _TWO

    def __init__(self, applied: int) -> None:
        self.applied = applied
        self.made: list[_Kept] = []

    def open(self) -> _Kept:
        self.made.append(_Kept(_Words(48), self.applied))
        return self.made[-1]

    def build(self, entries: Iterable[bytes], index: Index) -> Part:
        words = _Words(48)
        words.restore(entries)
        self.made.append(_Kept(words, index))
        return self.made[-1]


def entry(tag: int, word: bytes) -> bytes:
    return msgspec.msgpack.encode([tag, word])


def put(key: bytes) -> bytes:
    return encode_command(Put(b"", 0, key, b"v"))


def placed(*commands: bytes, first: int = 1) -> list[Placed]:
    return [(Index(first + at), Term(1), raw) for at, raw in enumerate(commands)]


def nothing(_: bytes) -> None:
    """Nobody listens."""


def sources() -> list[PlainSource[_Words]]:
    return [PlainSource(_TWO, lambda: _Words(48)), PlainSource(_ONE, lambda: _Words(32))]


def words(composite: Composite[KeyValue], tag: int) -> list[bytes]:
    part = composite.part(tag)
    assert isinstance(part, Plain)
    assert isinstance(part.machine, _Words)
    return part.machine.words


def test_a_command_goes_to_the_machine_that_has_its_number() -> None:
    composite = open_all(key_value(), sources())
    heard: list[bytes] = []
    commands = [put(b"a"), entry(48, b"x"), entry(32, b"y"), put(b"b"), entry(63, b"z")]
    answers = composite.apply_many(placed(*commands), heard.append)
    assert [answers[1], answers[2], answers[4]] == [b"2/1", b"3/1", b"5/1"]
    assert [decode_outcome(answers[at]).kind for at in (0, 3)] == [Kind.WRITTEN] * 2
    assert heard == [put(b"a"), put(b"b")]
    assert (words(composite, 32), words(composite, 48)) == ([commands[2]], [commands[1], commands[4]])
    assert composite.part(47) is None


@pytest.mark.parametrize("raw", [b"", b"\x92", entry(45, b""), entry(31, b""), entry(99, b""), b"\xff\xff"])
def test_what_is_nobodys_is_the_tables_which_refuses_it(raw: bytes) -> None:
    composite = open_all(key_value(), sources())
    (answer,) = composite.apply_many(placed(raw), nothing)
    assert decode_outcome(answer).kind is Kind.NO_COMMAND
    assert words(composite, 32) == words(composite, 48) == []


def test_the_root_of_a_table_alone_is_its_own_and_else_covers_all() -> None:
    alone = open_all(key_value(), [])
    alone.apply_many(placed(put(b"a")), nothing)
    assert alone.root == alone.table.root
    one, two = open_all(key_value(), sources()), open_all(key_value(), sources())
    assert one.root == two.root != one.table.root
    seen = {one.root}
    for number, raw in enumerate([put(b"a"), entry(32, b"x"), entry(48, b"x")], start=1):
        one.apply_many(placed(raw, first=number), nothing)
        seen.add(one.root)
    assert len(seen) == 4


def test_a_snapshot_has_all_machines_and_builds_new_ones() -> None:
    one = open_all(key_value(), sources())
    one.apply_many(placed(put(b"a"), entry(48, b"x"), entry(32, b"y"), entry(48, b"z")), nothing)
    capture = one.snapshot(Index(4))
    entries = list(capture)
    assert len(entries) == len(capture)
    one.apply_many(placed(entry(32, b"later"), first=5), nothing)
    before = open_all(key_value(), sources())
    after = build_all(key_value(), sources(), iter(entries), Index(4), before)
    after.succeed(before)
    assert after.table.get(b"a") is not None
    assert (words(after, 32), words(after, 48)) == ([entry(32, b"y")], [entry(48, b"x"), entry(48, b"z")])
    assert after.root != one.root
    assert words(before, 32) == words(before, 48) == []


def test_a_snapshot_of_a_table_alone_is_what_it_was() -> None:
    one = open_all(key_value(), [])
    one.apply_many(placed(put(b"a")), nothing)
    assert list(one.snapshot(Index(1))) == list(one.table.snapshot())


@pytest.mark.parametrize(
    "more",
    [[entry(45, b"nobody's")], [entry(33, b"x"), entry(49, b"y"), entry(33, b"again")], [entry(40, b"")]],
    ids=["of no machine", "in another order", "between two machines"],
)
def test_entries_that_nobody_takes_are_refused_and_what_was_built_is_let_go(more: list[bytes]) -> None:
    kept = _KeptSource(0)
    made: list[Source] = [PlainSource(_ONE, lambda: _Words(32)), kept]
    present = open_all(key_value(), made)
    entries: Iterator[bytes] = iter([*key_value().snapshot(), *more])
    with pytest.raises(IntegrityError):
        build_all(key_value(), made, entries, Index(9), present)
    assert present.part(48) is kept.made[0]
    assert kept.made[0].events == []
    assert all(one.events == ["close"] for one in kept.made[1:])


def test_a_machine_that_keeps_its_state_is_not_built_from_an_older_snapshot() -> None:
    source = _KeptSource(7)
    present = open_all(key_value(), [source])
    entries = [*key_value().snapshot(), entry(49, b"old")]
    same = build_all(key_value(), [source], iter(entries), Index(7), present)
    same.succeed(present)
    assert same.part(48) is present.part(48)
    assert source.made[0].events == []
    newer = build_all(key_value(), [source], iter(entries), Index(8), same)
    newer.succeed(same)
    assert newer.part(48) is source.made[1]
    assert (source.made[0].events, source.made[1].events) == (["close"], ["adopt"])
    newer.close()
    assert source.made[1].events == ["adopt", "close"]


def test_one_that_keeps_its_state_gets_its_commands_together_and_skips_what_it_has() -> None:
    source = _KeptSource(2)
    composite = open_all(key_value(), [source])
    assert not composite.is_at(Index(1))
    answers = composite.apply_many(placed(entry(48, b"1"), entry(48, b"2"), put(b"a"), entry(48, b"4")), nothing)
    assert (answers[0], answers[1], answers[3]) == (b"", b"", b"4/1")
    assert source.made[0].machine.words == [entry(48, b"4")]
    assert composite.is_at(Index(4))
    composite.snapshot(Index(4))
    assert source.made[0].events == ["batch of 3", "settle 4"]


def test_ranges_are_disjoint_and_above_the_tables() -> None:
    assert (TABLE_TAGS.start, TABLE_TAGS.stop) == (0, 32)
    plain = Plain(_Words(32))
    for ranges in ([range(31, 40)], [range(32, 48), range(47, 50)], [range(48, 50), range(32, 40)], [range(100, 129)]):
        with pytest.raises(AssertionError):
            Composite(key_value(), [(tags, plain) for tags in ranges])
