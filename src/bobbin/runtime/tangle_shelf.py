"""The tangles that are in use, in memory: their structure, who is proven in them, and what they read of the store.

A tangle is loaded when it is first asked for, by one walk over its messages. From then on what comes is added to it, so
that every later question costs what is new. What another process has added is added in the same way (``refresh``). Only
when another process has erased, deleted or promoted something is all of it forgotten and loaded again.

A commit that is being decided is carried out here first, message by message, so that each is judged with those before
it in sight. When it cannot be written, everything is forgotten (``forget``), and the store is the truth again.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

import orjson
from msgspec import Struct

from bobbin.store.base import DamagedStore
from bobbin.store.tangles import Level, StoredMessage, TangleState, TangleTables, TangleView
from bobbin.tangles.accounts import Accounts, account_of
from bobbin.tangles.errors import InvalidMessage
from bobbin.tangles.exchange import Credential
from bobbin.tangles.ghosts import Ghosts
from bobbin.tangles.goals import Goal, parse_goal
from bobbin.tangles.judgement import FULL, Mark, Spot, Standing
from bobbin.tangles.message import ANY, SELF, Message, MessageId, Place, decode
from bobbin.tangles.tangle import Tangle

MESSAGES_KEPT_MAX: Final = 8_192
"""Messages that are kept as they were read, besides those of a commit under way."""
LOADED_MAX: Final = 1_000_000
"""Messages of loaded tangles, above which everything is forgotten before the next one is loaded."""


class _Part:
    """The structure of a tangle without some of its messages, made anew when it is asked for after a change."""

    def __init__(self) -> None:
        self.without: Final[set[MessageId]] = set()
        self._made: Tangle | None = None
        self._made_at: tuple[int, int, int] = (-1, -1, -1)
        self._turns = 0

    def put(self, id: MessageId, *, out: bool) -> None:
        """Leave a message out, or no longer."""
        if (id in self.without) is not out:
            self._turns += 1
            (self.without.add if out else self.without.discard)(id)

    def of(self, structure: Tangle) -> Tangle:
        """The structure without those messages; itself, if there are none."""
        if not self.without:
            return structure
        at = id(structure), structure.changes, self._turns
        if self._made is None or self._made_at != at:
            self._made, self._made_at = Tangle(structure.id), at
            for one in structure:
                if one in self.without:
                    continue
                if one == structure.id and structure.root is not None:
                    self._made.add(structure.root)
                else:
                    place = Place(depth=structure.depth(one) or 0, prev=structure.prev(one))
                    self._made.place(one, place, has_data=structure.has_data(one))
        return self._made


class _Loaded(Struct):
    """One tangle in memory."""

    structure: Tangle
    proven: _Part
    """Without what is not proven in it."""
    sound: _Part
    """Without what breaks a rule of the modern mode; what waits to be proven is in it."""

    def note(self, id: MessageId, mark: Mark) -> None:
        """How a message counts in it."""
        self.proven.put(id, out=mark is not Mark.FULL)
        self.sound.put(id, out=mark is Mark.INTEROP)

    def leave(self, id: MessageId) -> None:
        """A message is not in it any more."""
        self.note(id, Mark.FULL)
        self.structure.discard(id)


class Shelf:
    """What is read of the tangles of a store. A ``MessageStore`` for those who validate."""

    def __init__(self, tables: TangleTables) -> None:
        self._tables: Final = tables
        self._state: TangleState | None = None
        self._last_number = 0
        self._loaded: dict[MessageId, _Loaded] = {}
        self._credentials: dict[MessageId, Credential] = {}
        """Of every message of a loaded tangle."""
        self._messages: dict[MessageId, Message] = {}
        self._drafts: dict[MessageId, Message | None] = {}
        """Of a commit under way: messages as they will be kept; None for one that goes."""
        self._absent: set[MessageId] = set()
        """Ids that were looked for in vain since the last change."""
        self._roots: set[MessageId] = set()
        """Ids of messages that other messages are known to name as their tangle."""
        self._goals: dict[MessageId, Goal] = {}
        self._ghosts: dict[MessageId, Ghosts] = {}
        self.provisional: Final[set[MessageId]] = set()
        """Of the messages that were read: those that came by modern rules and wait for their proof."""
        self._begin_anew()

    def _begin_anew(self) -> None:
        self.standing = Standing(self)
        self.accounts = Accounts(self)

    # ---- keeping up ----------------------------------------------------------------------------------------------

    @property
    def state(self) -> TangleState:
        """The state of the store that all of this is of."""
        if self._state is None:
            self.refresh()
        assert self._state is not None, "it has just been read"
        return self._state

    @property
    def version(self) -> int | None:
        """The version that all of this is of; None before anything was read."""
        return None if self._state is None else self._state.version

    def refresh(self) -> tuple[MessageId, ...]:
        """Catch up with the store; gives the messages that other processes have added meanwhile."""
        with self._tables.reading() as view:
            now = view.state()
            known = self._state
            if known is not None and known.version == now.version:
                self._state = now
                return ()
            came: list[MessageId] = []
            self._absent.clear()
            if known is None or known.rewrites != now.rewrites or sum(map(_size, self._loaded.values())) > LOADED_MAX:
                self.forget()
            else:
                came = [self._take(view, row) for row in view.after(self._last_number)]
            self._last_number = max(self._last_number, now.messages_highest)
            self._goals = {root: parse_goal(text) for root, text in view.goals().items()}
            self._ghosts = {root: Ghosts.decode(text) for root, text in view.ghosts().items()}
            self._state = now
            return tuple(came)

    def forget(self) -> None:
        """Keep nothing: the store is read again when something is asked for."""
        self._state = None
        self._last_number = 0
        self._loaded.clear()
        self._credentials.clear()
        self._messages.clear()
        self._drafts.clear()
        self._absent.clear()
        self._roots.clear()
        self.provisional.clear()
        self._begin_anew()

    def settle(self, state: TangleState) -> None:
        """What was carried out here is written, and the store is in this state now."""
        self._messages.update((id, message) for id, message in self._drafts.items() if message is not None)
        self._drafts.clear()
        self._absent.clear()
        self._roots.clear()
        self._trim()
        self._state = state
        self._last_number = state.messages_highest

    def _take(self, view: TangleView, row: StoredMessage) -> MessageId:
        message = self._read(row)
        levels = {place.tangle: place.level for place in view.places(row.number)}
        for root in (message.id, *message.places):
            loaded = self._loaded.get(root)
            if loaded is not None:
                self._enter(loaded, message, levels.get(root, row.level))
        return message.id

    # ---- reading -------------------------------------------------------------------------------------------------

    def message(self, id: MessageId) -> Message | None:
        """A message as it is held, with its data or without; ``None`` if it is not."""
        return self.messages((id,))[0]

    def messages(self, ids: Sequence[MessageId]) -> list[Message | None]:
        """The same for many, in one reading."""
        wanted = [id for id in ids if id not in self._drafts and id not in self._messages and id not in self._absent]
        if wanted:
            self._trim()
            with self._tables.reading() as view:
                self._look_for(view, wanted)
        return [self._drafts[id] if id in self._drafts else self._messages.get(id) for id in ids]

    def tangle(self, id: MessageId) -> Tangle:
        """The structure of a tangle, to be read and not changed; an empty one where nothing of it is held."""
        return self._load(id).structure

    def proven(self, id: MessageId) -> Tangle:
        """The structure of a tangle with those messages alone that are proven in it."""
        loaded = self._load(id)
        return loaded.proven.of(loaded.structure)

    def sound(self, id: MessageId) -> Tangle:
        """The structure of a tangle without those messages that break a rule of the modern mode."""
        loaded = self._load(id)
        return loaded.sound.of(loaded.structure)

    def credentials(self, ids: Sequence[MessageId]) -> list[Credential]:
        """Of each message, which account it is of and how far that is needed."""
        missing = [id for id in ids if id not in self._credentials]
        read = dict(zip(missing, self.messages(missing), strict=True)) if missing else {}
        return [self._credentials[id] if id in self._credentials else _credential(read[id]) for id in ids]

    def ghosts(self, tangle: MessageId) -> Ghosts:
        """The ghosts of a tangle, in the order of their arrival."""
        return self._ghosts.get(tangle) or Ghosts()

    def goal(self, tangle: MessageId) -> Goal | None:
        """The goal of a tangle."""
        return self._goals.get(tangle)

    def goals(self) -> dict[MessageId, Goal]:
        """Every tangle that has a goal."""
        return dict(self._goals)

    # ---- carrying out a commit ------------------------------------------------------------------------------------

    def foresee(self, messages: Iterable[Message]) -> None:
        """Find out in one reading which of these messages, and of what they name, is held, and who waits for them."""
        coming = list(messages)
        ids = {id for message in coming for id in (message.id, message.account, *message.places)}
        wanted = ids - self._drafts.keys() - self._messages.keys() - self._absent
        concerned: set[MessageId] = set()
        with self._tables.reading() as view:
            self._look_for(view, wanted)
            self._roots |= view.named(ids)
            seen: set[MessageId] = set()
            fresh = {message.id for message in coming}
            while fresh:
                # Whoever is proven by what comes may be what others wait for.
                seen |= fresh
                found = view.lacking(fresh)
                concerned.update(*found.values())
                fresh = found.keys() - seen
        for root in concerned:
            self._load(root)

    def _look_for(self, view: TangleView, ids: Collection[MessageId]) -> None:
        found = {id: self._read(row) for id, row in view.find(ids).items()}
        self._messages.update(found)
        self._absent.update(ids)
        self._absent -= found.keys()

    def prepare(self, message: Message, tangle: MessageId) -> None:
        """Have everything at hand that a message is judged by."""
        for root in (*self._standing_in(message), tangle):
            self._load(root)
        account = account_of(message)
        if account is not None:
            self._load(account)

    def is_stored(self, id: MessageId) -> bool:
        """Whether the store has a message, whatever the commit under way does with it."""
        with self._tables.reading() as view:
            return bool(view.find((id,)))

    def hold(self, message: Message) -> list[tuple[Spot, Mark]]:
        """A message has been admitted, or its data; gives what is judged otherwise than before, others included."""
        self._drafts[message.id] = message
        self._roots.update(message.places)
        for root in self._standing_in(message):
            self._enter_structure(self._loaded[root], message)
        changed = self.standing.came(message)
        for spot, judgement in changed:
            if spot.tangle in self._loaded:
                self._loaded[spot.tangle].note(spot.message, judgement.mark)
        return [(spot, judgement.mark) for spot, judgement in changed]

    def erase(self, message: Message) -> Message:
        """The data of a held message goes; gives what is left."""
        left = message.erased()
        self._drafts[message.id] = left
        for root in _roots(message):
            if root in self._loaded:
                self._loaded[root].structure.erase(message.id)
        return left

    def drop(self, message: Message) -> None:
        """A held message goes."""
        self._drafts[message.id] = None
        self._messages.pop(message.id, None)
        self._credentials.pop(message.id, None)
        self.provisional.discard(message.id)
        self.standing.went(message)
        for root in _roots(message):
            if root in self._loaded:
                self._loaded[root].leave(message.id)

    def set_goal(self, tangle: MessageId, goal: Goal | None) -> None:
        """The goal of a tangle is another one now."""
        if goal is None:
            self._goals.pop(tangle, None)
        else:
            self._goals[tangle] = goal

    def set_ghosts(self, tangle: MessageId, ghosts: Ghosts) -> None:
        """The ghosts of a tangle are others now."""
        self._ghosts[tangle] = ghosts

    # ---- inside ----------------------------------------------------------------------------------------------------

    def _standing_in(self, message: Message) -> tuple[MessageId, ...]:
        """The tangles that a message stands in. Its own is one only where it names no other, or somebody names it."""
        if message.is_root or message.id in self._loaded or message.id in self._roots:
            return _roots(message)
        return tuple(message.places)

    def _load(self, root: MessageId) -> _Loaded:
        found = self._loaded.get(root)
        if found is not None:
            return found
        loaded = self._loaded[root] = _Loaded(Tangle(root), _Part(), _Part())
        marked: list[MessageId] = []
        with self._tables.reading() as view:
            for row, level in view.members(root):
                if row.id in self._drafts:
                    continue
                self._place(loaded, row)
                if level is Level.MODERN and not _begins_nothing(row.id, loaded.structure):
                    self.standing.restore(Spot(root, row.id), FULL)
                else:
                    marked.append(row.id)
        for draft in self._drafts.values():
            if draft is not None and draft.depth_in(root) is not None:
                self._enter_structure(loaded, draft)
        self._judge(loaded, marked)
        return loaded

    def _place(self, loaded: _Loaded, row: StoredMessage) -> None:
        """Note where a message stands, without reading more of it than that."""
        root = loaded.structure.id
        self._note_provisional(row)
        if row.id == root:
            self._enter_structure(loaded, self._read(row))
            return
        try:
            value = orjson.loads(row.raw)
            metadata = value["metadata"]
            entry = metadata["tangles"][root]
            place = Place(depth=int(entry["depth"]), prev=tuple(entry["prev"]))
            self._credentials[row.id] = _credential_of(metadata["account"], metadata["accountTips"])
            has_data = value["data"] is not None
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
            raise DamagedStore(f"the store is damaged: the message {row.id} cannot be read ({error!r})") from error
        loaded.structure.place(row.id, place, has_data=has_data)

    def _enter(self, loaded: _Loaded, message: Message, level: Level) -> None:
        """A message that another process has added."""
        self._enter_structure(loaded, message)
        if level is Level.MODERN:
            self.standing.restore(Spot(loaded.structure.id, message.id), FULL)
            loaded.note(message.id, Mark.FULL)
        else:
            self._judge(loaded, [message.id])

    def _enter_structure(self, loaded: _Loaded, message: Message) -> None:
        loaded.structure.add(message)
        self._credentials[message.id] = _credential(message)

    def _judge(self, loaded: _Loaded, marked: Iterable[MessageId]) -> None:
        """Find out again why some messages are not proven; it is not kept."""
        root = loaded.structure.id
        for message in self._by_depth(loaded.structure, marked):
            account = account_of(message)
            if account is not None:
                self._load(account)
            if message.id == root:
                # It is proven as a root where it is proven in what it stands in.
                for other in message.places:
                    self._load(other)
            judgement = self.standing.judge(message, root)
            self.standing.restore(Spot(root, message.id), judgement)
            loaded.note(message.id, judgement.mark)

    def _by_depth(self, structure: Tangle, ids: Iterable[MessageId]) -> Iterator[Message]:
        ordered = sorted(ids, key=lambda id: structure.depth(id) or 0)
        return (message for message in self.messages(ordered) if message is not None)

    def _note_provisional(self, row: StoredMessage) -> None:
        if row.is_provisional:
            self.provisional.add(row.id)

    def _read(self, row: StoredMessage) -> Message:
        self._note_provisional(row)
        try:
            return decode(row.raw)
        except InvalidMessage as error:
            raise DamagedStore(f"the store is damaged: the message {row.id} cannot be read ({error})") from error

    def _trim(self) -> None:
        for id in list(self._messages)[: max(0, len(self._messages) - MESSAGES_KEPT_MAX)]:
            del self._messages[id]


def _begins_nothing(id: MessageId, structure: Tangle) -> bool:
    """Whether a message, however proven where it stands, is no root: a later message of an account."""
    root = structure.root
    return id == structure.id and root is not None and root.is_account and not root.is_root


def _roots(message: Message) -> tuple[MessageId, ...]:
    """Every tangle that a message stands in, its own included."""
    return (message.id, *message.places)


def _size(loaded: _Loaded) -> int:
    return len(loaded.structure)


def _credential(message: Message | None) -> Credential:
    return Credential("", None) if message is None else _credential_of(message.account, message.account_tips)


def _credential_of(account: str, tips: Iterable[MessageId] | None) -> Credential:
    return Credential(account, None if tips is None or account in (SELF, ANY) else tuple(tips))
