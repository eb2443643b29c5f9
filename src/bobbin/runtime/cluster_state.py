"""The state that a node applies the log to: the table of clients' keys, and in it what the cluster keeps for itself.

Other machines may stand beside the table (``cluster.composite``); this one hands them what is theirs.

Some keys cannot be written by clients. Under them stand the members and callers (``cluster_members``), and now and then
the root of the state: the leader writes the root that it had at some place of the log, and every node compares it with
the root that it had there. Two nodes whose committed data differ are never merged: the one that finds it out stops, and
says so (CL-374).

Until a node has applied what it had when it stopped, it goes by the copy in its folder. A node that nobody leads may
ask others who is known meanwhile: their word is a help to be found and no more. It makes nobody a caller and nobody
unknown, it is not written into the log, and it is over as soon as this node has applied what a leader had.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from bobbin.cluster.composite import Composite, Placed, Source, build_all, open_all
from bobbin.cluster.key_value import Delete, KeyValue, Put
from bobbin.cluster.names import Index, NodeId
from bobbin.cluster.raft.entries import Entry
from bobbin.errors import IntegrityError, PeerError
from bobbin.runtime.cluster_members import KEY_END, RESERVED, Directory, KnownMembers
from bobbin.wire.cluster.commands import decode_command, encode_command, key_value

ROOTS_MAX: Final = 64
"""Places whose root is remembered, to be compared with the leader's."""
_ROOT_KEY: Final = RESERVED + b"root"
_COMPLETE_KEY: Final = RESERVED + b"complete"
"""Written after the first members: from then on the table says who is known."""


class Divergence(IntegrityError):
    """Two nodes have applied the same log to different ends. Nothing is mended: somebody has to look."""


class _Checkpoint(Struct, frozen=True, array_like=True):
    index: int
    root: bytes


class State:
    """What one node has applied."""

    def __init__(self, *, known: KnownMembers, checkpoint_entries: int, sources: Sequence[Source] = ()) -> None:
        """``sources``: of the machines beside the table, which are opened here."""
        self._sources: Final = tuple(sources)
        self.machines: Composite[KeyValue] = open_all(key_value(), self._sources)
        self.index: Index = Index(0)
        """Of the last entry that was applied, or that a restored snapshot stands in for."""
        self._known: Final = known
        self._goal = known.index
        """Applied that far, the table is at least as new as the copy."""
        self._words: Final[dict[NodeId, Directory]] = {}
        self._enough = 1
        self._words_goal: int | None = None
        """Applied that far, the table is as new as any word; None until a leader was heard."""
        self._every: Final = checkpoint_entries
        self._reserved: dict[bytes, bytes] = {}
        self._roots: dict[int, bytes] = {}
        self._checkpoints: Final[deque[bytes]] = deque()
        self.changes = 0
        """Counts up when members or callers may have changed."""

    @property
    def table(self) -> KeyValue:
        """Clients' keys and values."""
        return self.machines.table

    def apply(self, entries: Sequence[Entry]) -> list[bytes]:
        """Apply what is committed; the answers in order, empty where an entry is no command. Raises ``Divergence``."""
        answers = self._apply_parts(entries) if self.machines.parts else self._apply_table(entries)
        if entries:
            before, self.index = self.index, entries[-1].index
            if self._words or before < self._goal:
                self._note_progress(before)
        return answers

    def _apply_table(self, entries: Sequence[Entry]) -> list[bytes]:
        apply, every = self.machines.table.apply, self._every
        answers: list[bytes] = []
        for entry in entries:
            payload = entry.payload
            if type(payload) is bytes:
                answers.append(apply(entry.index, entry.term, payload))
                if RESERVED in payload:
                    self._look(payload)
            else:
                answers.append(b"")
            if entry.index % every == 0:
                self._note_root(entry.index)
        return answers

    def _apply_parts(self, entries: Sequence[Entry]) -> list[bytes]:
        """With machines beside the table: each gets its commands together, up to where the root is looked at."""
        answers: list[bytes] = []
        commands: list[Placed] = []
        places: list[int] = []

        def hand_over() -> None:
            for place, answer in zip(places, self.machines.apply_many(commands, self._after_table), strict=True):
                answers[place] = answer
            commands.clear()
            places.clear()

        for place, entry in enumerate(entries):
            answers.append(b"")
            payload = entry.payload
            if type(payload) is bytes:
                commands.append((entry.index, entry.term, payload))
                places.append(place)
            if entry.index % self._every == 0:
                hand_over()
                self._note_root(entry.index)
        hand_over()
        return answers

    def _after_table(self, command: bytes) -> None:
        if RESERVED in command:
            self._look(command)

    def _note_root(self, index: Index) -> None:
        if not self.machines.is_at(index):
            return  # a machine kept what comes later: its root is not of this place
        root = self._roots[index] = self.machines.root
        while len(self._roots) > ROOTS_MAX:
            del self._roots[next(iter(self._roots))]
        checkpoint = msgspec.msgpack.encode(_Checkpoint(index, root))
        self._checkpoints.append(encode_command(Put(b"", 0, _ROOT_KEY, checkpoint)))

    def take_checkpoints(self) -> list[bytes]:
        """Commands by which a leader tells the others what root it had; nobody else sends them."""
        found = list(self._checkpoints)
        self._checkpoints.clear()
        return found

    def _look(self, payload: bytes) -> None:
        """A command has, perhaps, changed a reserved key."""
        try:
            command = decode_command(payload)
        except PeerError:
            return
        key = command.key
        if not key.startswith(RESERVED):
            return
        item = self.table.get(key)
        if item is None:
            self._reserved.pop(key, None)
        else:
            self._reserved[key] = item.value
            if key == _ROOT_KEY:
                self._compare(item.value)
                return
        self.changes += 1

    def _compare(self, value: bytes) -> None:
        try:
            checkpoint = msgspec.msgpack.decode(value, type=_Checkpoint)
        except msgspec.MsgspecError:
            return
        own = self._roots.get(checkpoint.index)
        if own is not None and own != checkpoint.root:
            raise Divergence(
                f"the state at index {checkpoint.index} has the root {own.hex()} here and {checkpoint.root.hex()} at "
                "the leader: committed data differ, so this node stops"
            )

    # ---- who is known -----------------------------------------------------------------------------------------------

    @property
    def is_complete(self) -> bool:
        """Whether all the first members stand in the table."""
        return _COMPLETE_KEY in self._reserved

    @property
    def says_who_is_known(self) -> bool:
        """Whether the members stand in the table, as much of the log is applied as was, and nobody's word is used."""
        return self._has_caught_up and not self._words

    @property
    def _has_caught_up(self) -> bool:
        return self.is_complete and self.index >= self._goal

    @property
    def is_waiting(self) -> bool:
        """Whether it would help to know how far a leader is."""
        return bool(self._words) or self.index < self._goal

    @property
    def own_directory(self) -> Directory:
        """Who is known by what this node has applied or kept, without what others say."""
        return Directory.of_entries(self._reserved.items()) if self._has_caught_up else self._known.directory

    @property
    def directory(self) -> Directory:
        """Who is known now."""
        own = self.own_directory
        return own.with_words(self._words.values(), enough=self._enough) if self._words else own

    def learn(self, teller: NodeId, known: KnownMembers, *, enough: int) -> bool:
        """Hear from another node, which has applied more, who is known; whether it had.

        What ``enough`` of them say alike counts: as many as with this node could decide anything anyway.
        """
        if known.index <= self.index:
            return self._forget(teller)
        self._words.pop(teller, None)  # the newest word stands last, and counts where two differ
        self._words[teller] = known.directory
        self._enough = enough
        self._words_goal = None
        self.changes += 1
        return True

    def _forget(self, teller: NodeId) -> bool:
        if self._words.pop(teller, None) is None:
            return False
        self.changes += 1
        return True

    def settle(self, index: Index) -> None:
        """Whoever leads has applied up to here. Once this node has, too, it needs neither the copy nor any word."""
        self._words_goal = index if self._words_goal is None else min(self._words_goal, index)
        if index < self._goal:
            self._goal = index
            self.changes += 1
        self._note_progress(Index(-1))

    def _note_progress(self, before: Index) -> None:
        """More is applied than before: perhaps the table is what counts now."""
        if before < self._goal <= self.index:
            self.changes += 1
        if self._words and self._words_goal is not None and self.index >= self._words_goal:
            self._words.clear()
            self.changes += 1

    # ---- snapshots --------------------------------------------------------------------------------------------------

    def build(self, entries: Iterable[bytes], index: Index) -> Composite[KeyValue]:
        """The machines that a snapshot of this place wrote down, beside the present ones; ``restore`` takes them.

        May be called in any thread. Raises ``IntegrityError``.
        """
        return build_all(key_value(), self._sources, entries, index, self.machines)

    def restore(self, machines: Composite[KeyValue], index: Index) -> None:
        """A snapshot takes the place of everything."""
        machines.succeed(self.machines)
        self.machines = machines
        self.index = index
        self._roots.clear()
        self._checkpoints.clear()
        self._reserved = {}
        first = RESERVED
        while items := machines.table.scan(first, end=KEY_END):
            self._reserved.update((item.key, item.value) for item in items)
            first = items[-1].key + b"\x00"
        self.changes += 1

    def close(self) -> None:
        """Let go of what the machines hold."""
        self.machines.close()


def commands_of(directory: Directory) -> list[bytes]:
    """Commands that put everybody who is known into the table, and say that it is complete."""
    entries = [*directory.entries(), (_COMPLETE_KEY, b"1")]
    return [encode_command(Put(b"", 0, key, value)) for key, value in entries]


def put_entry(key: bytes, value: bytes) -> bytes:
    """A command for one reserved key."""
    return encode_command(Put(b"", 0, key, value))


def delete_entry(key: bytes) -> bytes:
    """The command that takes one away."""
    return encode_command(Delete(b"", 0, key))
