"""Several state machines on one log: the table of keys, and beside it any number of others.

A command and an entry of a snapshot are MessagePack arrays that begin with the number of their kind. That number is
their second byte, and by it a machine is chosen: each one beside the table has a range of numbers of its own. Whatever
is nobody's is the table's, which refuses what it does not know. So all nodes of a cluster must have the same machines;
they are fixed when the cluster is made.

The machines know nothing of one another. What they hold together follows from the log, so the order between commands of
different machines does not matter, and the commands of one machine may be handed over many at a time.

**A machine may keep its state by itself**, in a database say. It then knows the place up to which it has applied, and
skips what is handed to it again after a restart. A snapshot that is not beyond that place is not read for it.

**Restoring** never touches a machine in use: a new one is built from the snapshot, in another thread, beside the
old one, and takes its place when all of the snapshot was read.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from itertools import groupby
from typing import Final, Generic, Protocol, TypeAlias, TypeVar

from bobbin.cluster.names import Index, Term
from bobbin.cluster.state_machine import Capture, StateMachine
from bobbin.errors import IntegrityError

TABLE_TAGS: Final = range(32)
"""What no other machine may claim."""
TAG_MAX: Final = 127
"""The largest number that is one byte."""
_ROOT: Final = b"bobbin-cluster-composite-root/v1"

Placed: TypeAlias = tuple[Index, Term, bytes]
"""A committed command and its place in the log."""


class Part(Protocol):
    """One machine beside the table. ``Plain`` makes one of any ``StateMachine``."""

    @property
    def applied(self) -> Index | None:
        """The place up to which the machine keeps its state by itself, over restarts; None if it keeps nothing."""
        ...

    def apply_many(self, commands: Sequence[Placed]) -> list[bytes]:
        """Do committed commands, in order, each once: those at or below ``applied`` are skipped and answered by b"".

        What a command asks for never raises. ``ResourceError`` says that the machine cannot go on; the node stops then.
        """
        ...

    @property
    def root(self) -> bytes:
        """32 bytes that are equal when two states are."""
        ...

    def settle(self, index: Index) -> None:
        """Everything of the log up to here is applied. Called before a snapshot is taken at that place."""
        ...

    def snapshot(self) -> Capture:
        """The state as it is now. The numbers of all entries are in the range of the machine."""
        ...

    def adopt(self) -> None:
        """A machine that was built from a snapshot is in use from now on; the one before it is closed."""
        ...

    def close(self) -> None:
        """It is not needed any more."""
        ...


class Source(Protocol):
    """Where the machines of one kind come from."""

    @property
    def tags(self) -> range:
        """The numbers of its commands and of the entries of its snapshots."""
        ...

    def open(self) -> Part:
        """The machine that a node starts with."""
        ...

    def build(self, entries: Iterable[bytes], index: Index) -> Part:
        """A machine beside the present one, from a snapshot that was taken at a place. For any thread.

        Raises ``IntegrityError`` where the entries make no sense; then nothing remains of it.
        """
        ...


M = TypeVar("M", bound=StateMachine)
M_co = TypeVar("M_co", bound=StateMachine, covariant=True)


class Plain(Generic[M_co]):
    """A machine that is held in memory alone."""

    applied: Final = None

    def __init__(self, machine: M_co) -> None:
        self.machine: Final = machine

    def apply_many(self, commands: Sequence[Placed]) -> list[bytes]:
        apply = self.machine.apply
        return [apply(index, term, command) for index, term, command in commands]

    @property
    def root(self) -> bytes:
        return self.machine.root

    def settle(self, index: Index) -> None:
        """Nothing is kept."""

    def snapshot(self) -> Capture:
        return self.machine.snapshot()

    def adopt(self) -> None:
        """Nothing was in anybody's way."""

    def close(self) -> None:
        """Nothing is held."""


class PlainSource(Generic[M]):
    """Makes them."""

    def __init__(self, tags: range, make: Callable[[], M]) -> None:
        self.tags: Final = tags
        self._make: Final = make

    def open(self) -> Plain[M]:
        return Plain(self._make())

    def build(self, entries: Iterable[bytes], index: Index) -> Plain[M]:  # noqa: ARG002 -- others keep it
        machine = self._make()
        machine.restore(entries)
        return Plain(machine)


class Composite(Generic[M]):
    """The machines of one node: the table and what stands beside it."""

    def __init__(self, table: M, parts: Sequence[tuple[range, Part]] = ()) -> None:
        """``parts``: ascending by their numbers, none of which is two machines'."""
        self.table: Final = table
        self.parts: Final = tuple(parts)
        before = TABLE_TAGS
        for tags, _ in self.parts:
            assert before.stop <= tags.start < tags.stop <= TAG_MAX + 1, "machines have ranges of their own, ascending"
            before = tags
        self._by_tag: Final = {tag: part for tags, part in self.parts for tag in tags}

    def part(self, tag: int) -> Part | None:
        """The machine beside the table that has this number."""
        return self._by_tag.get(tag)

    def part_of(self, command: bytes) -> Part | None:
        """Whose command it is; None for the table."""
        return self._by_tag.get(command[1]) if len(command) > 1 else None

    def apply_many(self, commands: Sequence[Placed], after_table: Callable[[bytes], None]) -> list[bytes]:
        """Do commands and give their answers, in order; ``after_table`` hears each one that was the table's."""
        answers = [b""] * len(commands)
        waiting: dict[int, tuple[Part, list[int]]] = {}
        for place, (index, term, command) in enumerate(commands):
            part = self.part_of(command)
            if part is None:
                answers[place] = self.table.apply(index, term, command)
                after_table(command)
            else:
                waiting.setdefault(id(part), (part, []))[1].append(place)
        for part, places in waiting.values():
            for place, answer in zip(places, part.apply_many([commands[place] for place in places]), strict=True):
                answers[place] = answer
        return answers

    @property
    def root(self) -> bytes:
        """The table's, where nothing stands beside it; else over the roots of all."""
        if not self.parts:
            return self.table.root
        roots = [bytes([tags.start]) + part.root for tags, part in self.parts]
        return sha256(_ROOT + self.table.root + b"".join(roots)).digest()

    def is_at(self, index: Index) -> bool:
        """Whether no machine is ahead of this place, as one may be that kept its state over a restart."""
        return all(part.applied is None or part.applied <= index for _, part in self.parts)

    def snapshot(self, index: Index) -> "CompositeCapture":
        """All of it, as it is at this place of the log."""
        for _, part in self.parts:
            part.settle(index)
        return CompositeCapture([self.table.snapshot(), *(part.snapshot() for _, part in self.parts)])

    def succeed(self, before: "Composite[M]") -> None:
        """Take the place of these machines; those that are not here any more are closed."""
        kept = {id(part) for _, part in self.parts}
        for _, part in before.parts:
            if id(part) not in kept:
                part.close()
        known = {id(part) for _, part in before.parts}
        for _, part in self.parts:
            if id(part) not in known:
                part.adopt()

    def close(self) -> None:
        for _, part in self.parts:
            part.close()


class CompositeCapture:
    """What all machines were at one moment, the table first."""

    def __init__(self, captures: Sequence[Capture]) -> None:
        self._captures: Final = captures

    def __len__(self) -> int:
        return sum(map(len, self._captures))

    def __iter__(self) -> Iterator[bytes]:
        for capture in self._captures:
            yield from capture


def open_all(table: M, sources: Sequence[Source]) -> Composite[M]:
    """The machines that a node starts with."""
    ordered = sorted(sources, key=lambda source: source.tags.start)
    return Composite(table, [(source.tags, source.open()) for source in ordered])


def build_all(
    table: M, sources: Sequence[Source], entries: Iterable[bytes], index: Index, present: Composite[M]
) -> Composite[M]:
    """New machines from a snapshot; of the present ones, those stay that have applied as much by themselves.

    May be called in any thread. ``table`` is an empty one. Raises ``IntegrityError``, and then nothing remains.
    """
    ordered = sorted(sources, key=lambda source: source.tags.start)
    parts: list[tuple[range, Part]] = []
    built: list[Part] = []
    groups = _Groups(entries, [source.tags for source in ordered])
    try:
        table.restore(groups.take(None))
        for source in ordered:
            own, there = groups.take(source.tags), present.part(source.tags.start)
            if there is not None and there.applied is not None and there.applied >= index:
                parts.append((source.tags, there))
                continue
            part = source.build(own, index)
            built.append(part)
            parts.append((source.tags, part))
        groups.end()
    except BaseException:
        for part in built:
            part.close()
        raise
    return Composite(table, parts)


class _Groups:
    """The entries of a snapshot, machine by machine."""

    def __init__(self, entries: Iterable[bytes], ranges: Sequence[range]) -> None:
        owners = {tag: tags for tags in ranges for tag in tags}
        self._groups: Final = groupby(entries, key=lambda entry: owners.get(entry[1]) if len(entry) > 1 else None)
        self._next = next(self._groups, None)
        self._is_taken = False

    def take(self, tags: range | None) -> Iterator[bytes]:
        """The entries of one machine, if they come next. To be read before anything else is taken."""
        self._step_on()
        if self._next is None or self._next[0] != tags:
            return iter(())
        self._is_taken = True
        return self._next[1]

    def end(self) -> None:
        self._step_on()
        if self._next is not None:
            raise IntegrityError("a snapshot has entries that no machine of this node takes, or takes in this order")

    def _step_on(self) -> None:
        """What was not read of a group is read here, so that the whole stream is checked."""
        if self._is_taken:
            self._next = next(self._groups, None)
            self._is_taken = False
