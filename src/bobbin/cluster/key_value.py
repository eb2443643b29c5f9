"""A replicated table of keys and values: the state machine to try a cluster on.

Whatever a command leads to follows from the commands before it and their places in the log. The limits below are
therefore constants and not settings: nodes that differed in them would drift apart.

**Once only.** A client numbers its writes from 1 and repeats one, under the same number, until an answer comes. The
table remembers the answers to the newest numbers of each client, so a repetition is answered and not done again. They
may come in any order; one that is too far behind the newest is refused, for nobody knows any more whether it was done.

There is room for so many clients; whoever has been quiet longest makes way. A client that was put out could come back
and be taken for a new one, so an id tells when it was made up: it begins with the index of some entry that had been
applied by then. The table knows the last index at which any client that was put out was active (``horizon``). An
unknown id from that index or later is new, because all that a client does comes after its id was made up; an older one
may have been put out, and is refused. It makes itself a new id and goes on.

**The hash.** Two states have one root exactly when their snapshots have the same entries: all keys with values and
versions, all clients with their numbers and answers, and the horizon. It is brought up to date when somebody asks, and
every 4,096 changed keys, so that nobody waits long for it.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator
from enum import IntEnum
from hashlib import sha256
from itertools import islice
from typing import Final, Protocol, TypeAlias

from msgspec import Struct

from bobbin.cluster.content_tree import ContentTree
from bobbin.cluster.names import Index, Term
from bobbin.cluster.sorted_keys import SortedKeys
from bobbin.errors import IntegrityError, PeerError, UsageError

KEY_BYTES_MAX: Final = 4_096
VALUE_BYTES_MAX: Final = 1_048_576
CLIENT_BYTES: Final = 16
"""Eight for the index at which an id was made up, most significant first, and eight by chance."""
SEQUENCE_MAX: Final = 2**63 - 1
SESSIONS_MAX: Final = 1_024
SESSION_WINDOW: Final = 1_024
"""Answers remembered for one client, which may have as many writes under way."""
SNAPSHOT_FORMAT: Final = 1
UNSETTLED_MAX: Final = 4_096
"""Changed keys that the root, and new or deleted ones that the order, may not know of yet."""
SCAN_ITEMS_MAX: Final = 1_000
_ROOT: Final = b"bobbin-cluster-key-value-root/v1"


class Put(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=1):
    """Set a key."""

    client: bytes
    """Empty for a write that may be done twice when it is repeated."""
    sequence: int
    """From 1; 0 without a client."""
    key: bytes
    value: bytes


class Delete(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=2):
    """Take a key away."""

    client: bytes
    sequence: int
    key: bytes


class CompareAndSwap(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=3):
    """Set a key, or take it away, if it has a certain value. None stands for no value."""

    client: bytes
    sequence: int
    key: bytes
    expected: bytes | None
    value: bytes | None


Command: TypeAlias = Put | Delete | CompareAndSwap


class Kind(IntEnum):
    """What came of a command. From 16 on: nothing was done."""

    WRITTEN = 1
    DELETED = 2
    ABSENT = 3
    """There was nothing to delete."""
    DIFFERENT = 4
    """The key had another value than the one expected; nothing was changed."""
    NO_COMMAND = 16
    """The bytes are no command."""
    WRONG_KEY = 17
    """Empty, or too long."""
    WRONG_VALUE = 18
    """Too long."""
    WRONG_CLIENT = 19
    """Not an id and a number of the right form, or an id of the future."""
    FORGOTTEN = 20
    """The number is too far behind the newest; whether it was done is not known any more."""
    EXPIRED = 21
    """The client may have been put out. ``version`` has the index from which a new id must be."""

    @property
    def is_refusal(self) -> bool:
        return self >= Kind.NO_COMMAND


class Outcome(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The answer to a command."""

    kind: Kind
    version: int
    """The index of the key's last write as of now; 0 for an absent key."""


class Item(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False, tag=1):
    """A key and what it holds; also an entry of a snapshot."""

    key: bytes
    value: bytes
    version: int
    """The index of the entry that wrote it."""


class SessionEntry(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=2):
    """What a snapshot has of a client."""

    client: bytes
    active: int
    """The index of its last command."""
    newest: int
    """The highest number done."""
    answers: tuple[tuple[int, bytes], ...]
    """By number, ascending."""


class Head(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=0):
    """The first entry of a snapshot."""

    format: int
    horizon: int
    items: int
    sessions: int


SnapshotEntry: TypeAlias = Head | Item | SessionEntry


class Codec(Protocol):
    """The bytes of what the table takes, gives and stores. What cannot be read raises ``PeerError``."""

    def read_command(self, raw: bytes) -> Command: ...
    def outcome(self, outcome: Outcome) -> bytes: ...
    def entry(self, entry: SnapshotEntry) -> bytes: ...
    def read_entry(self, raw: bytes) -> SnapshotEntry: ...


def client_id(since: Index, chance: bytes) -> bytes:
    """The id of a new client that knows of an applied index; ``chance`` is eight bytes that nobody else draws."""
    if len(chance) != CLIENT_BYTES - 8:
        raise UsageError(f"an id takes {CLIENT_BYTES - 8} bytes of chance, not {len(chance)}")
    return since.to_bytes(8, "big") + chance


def why_invalid(command: Command) -> Kind | None:
    """What is wrong with a command whatever the state is; ask before it is proposed."""
    if not 0 < len(command.key) <= KEY_BYTES_MAX:
        return Kind.WRONG_KEY
    # Not a match statement: this is done for every command, and the test of the exact class costs a third.
    longest = 0
    if type(command) is Put:
        longest = len(command.value)
    elif type(command) is CompareAndSwap:
        longest = max(len(command.expected or b""), len(command.value or b""))
    if longest > VALUE_BYTES_MAX:
        return Kind.WRONG_VALUE
    if command.client:
        if len(command.client) != CLIENT_BYTES or not 0 < command.sequence <= SEQUENCE_MAX:
            return Kind.WRONG_CLIENT
    elif command.sequence:
        return Kind.WRONG_CLIENT
    return None


class _Session:
    """The answers that a client may still ask for again."""

    __slots__ = ("active", "answers", "newest")

    def __init__(self, active: int, newest: int, answers: dict[int, bytes]) -> None:
        self.active = active
        self.newest = newest
        self.answers = answers
        """By number; all above ``newest - SESSION_WINDOW``."""

    def remember(self, sequence: int, answer: bytes) -> None:
        self.answers[sequence] = answer
        step = sequence - self.newest
        if step <= 0:
            return
        self.newest = sequence
        if step == 1:
            self.answers.pop(sequence - SESSION_WINDOW, None)
        else:
            floor = sequence - SESSION_WINDOW
            self.answers = {number: known for number, known in self.answers.items() if number > floor}

    def entry(self, client: bytes) -> SessionEntry:
        return SessionEntry(client, self.active, self.newest, tuple(sorted(self.answers.items())))


class KeyValue:
    """The table. A ``StateMachine``."""

    def __init__(self, codec: Codec, *, sessions_max: int = SESSIONS_MAX) -> None:
        self.refusals: Counter[Kind] = Counter()
        """Commands refused since this object was made; for people, not part of the state."""
        self.horizon = 0
        """The last index at which a client that was put out had been active."""
        self._codec = codec
        self._sessions_max = sessions_max
        self._items: dict[bytes, Item] = {}
        self._sessions: OrderedDict[bytes, _Session] = OrderedDict()
        """By id, the one that has been quiet longest first."""
        self._order = SortedKeys()
        """All of ``_items`` but those in ``_new``, and those in ``_gone``, which are not among them any more."""
        self._new: set[bytes] = set()
        self._gone: set[bytes] = set()
        self._item_tree = ContentTree()
        self._session_tree = ContentTree()
        self._changed_keys: set[bytes] = set()
        """What the trees do not know of yet, like the set below."""
        self._changed_clients: set[bytes] = set()

    def __len__(self) -> int:
        return len(self._items)

    # ---- commands --------------------------------------------------------------------------------------------------

    def apply(self, index: Index, term: Term, command: bytes) -> bytes:  # noqa: ARG002 -- other machines may need it
        """Do a command, or answer it again."""
        try:
            asked = self._codec.read_command(command)
        except PeerError:
            return self._refuse(Kind.NO_COMMAND)
        wrong = why_invalid(asked)
        if wrong is not None:
            return self._refuse(wrong)
        client = asked.client
        if not client:
            return self._codec.outcome(self._do(index, asked))
        session = self._sessions.get(client)
        if session is None:
            since = int.from_bytes(client[:8], "big")
            if since >= index:
                return self._refuse(Kind.WRONG_CLIENT)
            if since < self.horizon:
                return self._refuse(Kind.EXPIRED, self.horizon)
            session = self._open(client)
        else:
            self._sessions.move_to_end(client)
        session.active = index
        self._changed_clients.add(client)
        sequence = asked.sequence
        known = session.answers.get(sequence)
        if known is not None:
            return known
        if sequence <= session.newest - SESSION_WINDOW:
            return self._refuse(Kind.FORGOTTEN)
        answer = self._codec.outcome(self._do(index, asked))
        session.remember(sequence, answer)
        return answer

    def _do(self, index: Index, asked: Command) -> Outcome:
        if type(asked) is Put:
            self._put(index, asked.key, asked.value)
            return Outcome(Kind.WRITTEN, index)
        present = self._items.get(asked.key)
        if type(asked) is CompareAndSwap:
            if asked.expected != (None if present is None else present.value):
                return Outcome(Kind.DIFFERENT, 0 if present is None else present.version)
            if asked.value is not None:
                self._put(index, asked.key, asked.value)
                return Outcome(Kind.WRITTEN, index)
        if present is None:
            return Outcome(Kind.ABSENT, 0)
        del self._items[asked.key]
        self._come_or_go(asked.key, self._gone, self._new)
        self._change(asked.key)
        return Outcome(Kind.DELETED, 0)

    def _put(self, index: Index, key: bytes, value: bytes) -> None:
        if key not in self._items:
            self._come_or_go(key, self._new, self._gone)
        self._items[key] = Item(key, value, index)
        self._change(key)

    def _come_or_go(self, key: bytes, these: set[bytes], others: set[bytes]) -> None:
        """Note it for the order; a key that comes back, or goes again, before that is brought up to date is no news."""
        if key in others:
            others.discard(key)
            return
        these.add(key)
        if len(these) >= UNSETTLED_MAX:
            self._settle_order()

    def _change(self, key: bytes) -> None:
        self._changed_keys.add(key)
        if len(self._changed_keys) >= UNSETTLED_MAX:
            self._settle_items()

    def _open(self, client: bytes) -> _Session:
        while len(self._sessions) >= self._sessions_max:
            quiet, put_out = self._sessions.popitem(last=False)
            self.horizon = put_out.active
            if quiet in self._session_tree:
                self._changed_clients.add(quiet)
            else:
                self._changed_clients.discard(quiet)
        session = self._sessions[client] = _Session(0, 0, {})
        return session

    def _refuse(self, kind: Kind, version: int = 0) -> bytes:
        self.refusals[kind] += 1
        return self._codec.outcome(Outcome(kind, version))

    # ---- reads -----------------------------------------------------------------------------------------------------

    def get(self, key: bytes) -> Item | None:
        return self._items.get(key)

    def scan(self, first: bytes = b"", *, end: bytes | None = None, limit: int = SCAN_ITEMS_MAX) -> list[Item]:
        """Items from a key on, ascending, up to but without ``end``; at most ``limit``, which is at most 1,000."""
        if not 0 < limit <= SCAN_ITEMS_MAX:
            raise UsageError(f"a scan gives 1 to {SCAN_ITEMS_MAX} items, not {limit}")
        self._settle_order()
        found = []
        for key in islice(self._order.since(first), limit):
            if end is not None and key >= end:
                break
            found.append(self._items[key])
        return found

    def _settle_order(self) -> None:
        """A bounded number of keys, each at a cost that does not grow with the table: nobody waits long for a scan."""
        for key in self._gone:
            self._order.remove(key)
        # In order, for neighbours are found faster.
        for key in sorted(self._new):
            self._order.add(key)
        self._gone.clear()
        self._new.clear()

    # ---- the root --------------------------------------------------------------------------------------------------

    @property
    def root(self) -> bytes:
        """Over all that a snapshot would hold."""
        self._settle_items()
        self._settle_sessions()
        return sha256(_ROOT + self._item_tree.top + self._session_tree.top + self.horizon.to_bytes(8, "big")).digest()

    def _settle_items(self) -> None:
        entry, items = self._codec.entry, self._items
        self._item_tree.update([(key, entry(items[key]) if key in items else None) for key in self._changed_keys])
        self._changed_keys = set()

    def _settle_sessions(self) -> None:
        entry, sessions = self._codec.entry, self._sessions
        self._session_tree.update(
            [
                (client, entry(sessions[client].entry(client)) if client in sessions else None)
                for client in self._changed_clients
            ]
        )
        self._changed_clients = set()

    # ---- snapshots -------------------------------------------------------------------------------------------------

    def snapshot(self) -> "KeyValueCapture":
        """Items are values that never change, so this copies references to them and no more."""
        sessions = [(client, one.active, one.newest, one.answers.copy()) for client, one in self._sessions.items()]
        self._settle_order()
        return KeyValueCapture(self._codec, self.horizon, list(self._order), self._items.copy(), sessions)

    def restore(self, entries: Iterable[bytes]) -> None:
        """Become what a capture wrote down, or raise ``IntegrityError`` and stay as it was."""
        found = _Found()
        try:
            for raw in entries:
                found.add(self._codec.read_entry(raw))
        except PeerError as error:
            raise IntegrityError(f"an entry of the snapshot cannot be read: {error}") from error
        head = found.check()
        self.horizon = head.horizon
        self._items = found.items
        self._sessions = OrderedDict(found.sessions)
        self._order, self._new, self._gone = SortedKeys(found.items), set(), set()
        self._item_tree, self._session_tree = ContentTree(), ContentTree()
        self._changed_keys, self._changed_clients = set(found.items), set(found.sessions)
        self._settle_items()


class KeyValueCapture:
    """The table as it was. Iterating writes; it touches nothing that the table still changes."""

    def __init__(
        self,
        codec: Codec,
        horizon: int,
        keys: list[bytes],
        items: dict[bytes, Item],
        sessions: list[tuple[bytes, int, int, dict[int, bytes]]],
    ) -> None:
        self._codec = codec
        self._horizon = horizon
        self._keys = keys
        """Ascending."""
        self._items = items
        self._sessions = sessions

    def __len__(self) -> int:
        return 1 + len(self._items) + len(self._sessions)

    def __iter__(self) -> Iterator[bytes]:
        entry = self._codec.entry
        yield entry(Head(SNAPSHOT_FORMAT, self._horizon, len(self._items), len(self._sessions)))
        for key in self._keys:
            yield entry(self._items[key])
        for client, active, newest, answers in self._sessions:
            yield entry(_Session(active, newest, answers).entry(client))


class _Found:
    """What a snapshot holds, as far as it was read."""

    def __init__(self) -> None:
        self.head: Head | None = None
        self.items: dict[bytes, Item] = {}
        self.sessions: dict[bytes, _Session] = {}
        self._last_key = b""
        self._last_active = 0

    def add(self, entry: SnapshotEntry) -> None:
        if isinstance(entry, Head):
            if self.head is not None or self.items or self.sessions:
                raise IntegrityError("a snapshot has one head, before everything else")
            if entry.format != SNAPSHOT_FORMAT:
                raise IntegrityError(f"a snapshot of format {entry.format}; {SNAPSHOT_FORMAT} is known")
            if entry.horizon < 0:
                raise IntegrityError(f"a snapshot with horizon {entry.horizon}")
            self.head = entry
        elif isinstance(entry, Item):
            if not self._last_key < entry.key or self.sessions:
                raise IntegrityError("the keys of a snapshot ascend, and come before its clients")
            self._last_key = entry.key
            self.items[entry.key] = entry
        else:
            if entry.client in self.sessions or entry.active <= self._last_active:
                raise IntegrityError("the clients of a snapshot come once each, the quietest first")
            self._last_active = entry.active
            self.sessions[entry.client] = _Session(entry.active, entry.newest, dict(entry.answers))

    def check(self) -> Head:
        if self.head is None:
            raise IntegrityError("a snapshot without a head")
        if (self.head.items, self.head.sessions) != (len(self.items), len(self.sessions)):
            raise IntegrityError("a snapshot has other numbers of entries than its head says")
        return self.head
