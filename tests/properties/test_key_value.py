"""The key-value table does what a plain dictionary does, and two tables have one root exactly when they are equal.

The slow way is ``_Model``: a dictionary of keys, and every answer ever given to a client.
"""

from dataclasses import dataclass, field
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from bobbin.cluster.key_value import Command, CompareAndSwap, Delete, Kind, Outcome, Put, client_id
from bobbin.cluster.names import Index, Term
from bobbin.wire.cluster.commands import decode_command, decode_outcome, encode_command, key_value
from bobbin.wire.cluster.snapshot_stream import decode, encode
from tests.properties.effort import scaled

_CLIENTS = [b"", *(client_id(Index(0), bytes([number]) * 8) for number in range(3))]
_KEYS = st.sampled_from([b"a", b"b", b"c", b"\x00", b"long" * 50])
_VALUES = st.sampled_from([b"", b"1", b"2", bytes(300)])


@st.composite
def _commands(draw: st.DrawFn) -> Command:
    client = draw(st.sampled_from(_CLIENTS))
    sequence = draw(st.integers(1, 12)) if client else 0
    key = draw(_KEYS)
    match draw(st.integers(0, 3)):
        case 0:
            return Delete(client, sequence, key)
        case 1:
            return CompareAndSwap(client, sequence, key, draw(st.none() | _VALUES), draw(st.none() | _VALUES))
        case _:
            return Put(client, sequence, key, draw(_VALUES))


@dataclass
class _Model:
    """What the table should be."""

    values: dict[bytes, tuple[bytes, int]] = field(default_factory=dict)
    answers: dict[tuple[bytes, int], Outcome] = field(default_factory=dict)

    def apply(self, index: int, command: Command) -> Outcome:
        name = (command.client, command.sequence)
        if command.client and name in self.answers:
            return self.answers[name]
        self.answers[name] = outcome = self._do(index, command)
        return outcome

    def _do(self, index: int, command: Command) -> Outcome:
        present = self.values.get(command.key)
        if isinstance(command, CompareAndSwap) and command.expected != (present[0] if present else None):
            return Outcome(Kind.DIFFERENT, present[1] if present else 0)
        new = None if isinstance(command, Delete) else command.value
        if new is not None:
            self.values[command.key] = (new, index)
            return Outcome(Kind.WRITTEN, index)
        return Outcome(Kind.ABSENT if self.values.pop(command.key, None) is None else Kind.DELETED, 0)


@scaled(2)
@given(st.lists(_commands() | st.binary(max_size=8), max_size=40), st.integers(1, 5))
def test_the_table_is_a_dictionary_that_does_every_numbered_command_once(
    commands: list[Command | bytes], restore_each: int
) -> None:
    """Now and then it goes through a snapshot on the way, which nobody may notice."""
    model, table = _Model(), key_value()
    for index, command in enumerate(commands, 1):
        if isinstance(command, bytes):
            # A few random bytes are hardly ever a command, and then one without a client.
            answer = decode_outcome(table.apply(Index(index), Term(1), command))
            assert answer.kind.is_refusal or model.apply(index, decode_command(command)) == answer
            continue
        answer = decode_outcome(table.apply(Index(index), Term(1), encode_command(command)))
        assert answer == model.apply(index, command)
        assert [(item.key, (item.value, item.version)) for item in table.scan()] == sorted(model.values.items())
        if index % restore_each == 0:
            copy = key_value()
            copy.restore(decode(encode(table.snapshot())))
            assert copy.root == table.root
            table = copy


@given(
    st.lists(_commands(), max_size=25),
    st.lists(_commands(), max_size=25),
    st.integers(0, 25),
    st.integers(1, 7),
)
def test_two_roots_are_equal_exactly_when_two_snapshots_are(
    ours: list[Command], theirs: list[Command], shared: int, ask_each: int
) -> None:
    """One side is asked for its root all the time, the other at the end; they differ from some command on, or never."""
    one, other = key_value(), key_value()
    for index, command in enumerate(ours, 1):
        one.apply(Index(index), Term(1), encode_command(command))
        if index % ask_each == 0:
            assert len(one.root) == 32
    for index, command in enumerate(ours[:shared] + theirs[: max(0, len(ours) - shared)], 1):
        other.apply(Index(index), Term(1), encode_command(command))
    assert (one.root == other.root) is (list(one.snapshot()) == list(other.snapshot()))


@given(st.dictionaries(st.binary(min_size=1, max_size=3), _VALUES, max_size=20), st.randoms(use_true_random=False))
def test_the_root_tells_what_is_there_and_not_how_it_came(contents: dict[bytes, bytes], random: Random) -> None:
    """Each key is written at a place of its own, once directly and once after detours."""
    places = {key: 1_000 + number for number, key in enumerate(sorted(contents))}
    straight, winding = key_value(), key_value()
    for key, place in places.items():
        straight.apply(Index(place), Term(1), encode_command(Put(b"", 0, key, contents[key])))
    order = list(places)
    random.shuffle(order)
    for step, key in enumerate(order, 1):
        winding.apply(Index(step), Term(1), encode_command(Put(b"", 0, key, b"for now")))
        if step % 2:
            assert winding.root != straight.root
            winding.apply(Index(step), Term(1), encode_command(Delete(b"", 0, key)))
        winding.apply(Index(places[key]), Term(1), encode_command(Put(b"", 0, key, contents[key])))
    assert winding.root == straight.root
    assert list(winding.snapshot()) == list(straight.snapshot())
