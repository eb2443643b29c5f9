"""The tangles that are in use, in memory: their structure, who is proven in them, and what they read of the store.

A tangle is loaded when it is first asked for, by one walk over its messages. From then on what comes is added to it, so
that every later question costs what is new. What another process has added is added in the same way (``refresh``). Only
when another process has erased, deleted or promoted something is all of it forgotten and loaded again.

A commit that is being decided is carried out here first, message by message, so that each is judged with those before
it in sight. When it cannot be written, everything is forgotten (``forget``), and the store is the truth again.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Final

import orjson

from bobbin.store.base import DamagedStore
from bobbin.store.tangles import Level, StoredMessage, TangleState, TangleTables, TangleView
from bobbin.tangles.accounts import Accounts, account_of
from bobbin.tangles.errors import InvalidMessage
from bobbin.tangles.exchange import Credential
from bobbin.tangles.ghosts import Ghosts
from bobbin.tangles.goals import Goal, parse_goal
from bobbin.tangles.judgement import FULL, Judgement, Mark, Spot, Standing
from bobbin.tangles.message import ANY, SELF, Message, MessageId, Place, decode
from bobbin.tangles.tangle import Tangle
from bobbin.tangles.validation import check_data

MESSAGES_KEPT_MAX: Final = 8_192
"""Messages that are kept as they were read, besides those of a commit under way."""
LOADED_MAX: Final = 1_000_000
"""Messages of loaded tangles, above which everything is forgotten when the store is next looked at."""


class _Part:
    """The structure of a tangle without some of its messages, made when it is first asked for and kept up from then on.

    Whoever changes the structure says so here as well.
    """

    def __init__(self, structure: Tangle) -> None:
        self._structure: Final = structure
        self._without: Final[set[MessageId]] = set()
        self._made: Tangle | None = None

    def put(self, id: MessageId, *, out: bool) -> None:
        """Leave a message out, or no longer."""
        if (id in self._without) is out:
            return
        (self._without.add if out else self._without.discard)(id)
        if not self._without:
            self._made = None
        elif self._made is not None:
            if out:
                self._made.discard(id)
            else:
                self._copy(self._made, id)

    def add(self, message: Message) -> None:
        """A message has come into the structure, or its data."""
        if self._made is not None and message.id not in self._without:
            self._made.add(message)

    def erase(self, id: MessageId) -> None:
        """The data of a message has gone."""
        if self._made is not None:
            self._made.erase(id)

    def discard(self, id: MessageId) -> None:
        """A message has gone."""
        if self._made is not None:
            self._made.discard(id)
        self.put(id, out=False)

    def get(self) -> Tangle:
        """The structure without those messages; itself, if there are none."""
        if not self._without:
            return self._structure
        if self._made is None:
            self._made = Tangle(self._structure.id)
            for id in self._structure:
                if id not in self._without:
                    self._copy(self._made, id)
        return self._made

    def _copy(self, made: Tangle, id: MessageId) -> None:
        structure = self._structure
        depth = structure.depth(id)
        if id == structure.id and structure.root is not None:
            made.add(structure.root)
        elif depth is not None:
            made.place(id, Place(depth=depth, prev=structure.prev(id)), has_data=structure.has_data(id))


class _Loaded:
    """One tangle in memory."""

    def __init__(self, root: MessageId) -> None:
        self.structure: Final = Tangle(root)
        self.proven: Final = _Part(self.structure)
        """Without what is not proven in it."""
        self.sound: Final = _Part(self.structure)
        """Without what nobody takes by the rules of the modern mode; what waits to be proven is in it."""

    def note(self, id: MessageId, judgement: Judgement) -> None:
        """How a message counts in it."""
        self.proven.put(id, out=judgement.mark is not Mark.FULL)
        self.sound.put(id, out=not judgement.is_offered)

    def add(self, message: Message) -> None:
        """A message comes into it, or its data."""
        self.structure.add(message)
        self.proven.add(message)
        self.sound.add(message)

    def erase(self, id: MessageId) -> None:
        """The data of a message goes."""
        self.structure.erase(id)
        self.proven.erase(id)
        self.sound.erase(id)

    def leave(self, id: MessageId) -> None:
        """A message is not in it any more."""
        self.structure.discard(id)
        self.proven.discard(id)
        self.sound.discard(id)


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
        self.unwritten: Final[set[Spot]] = set()
        """What was found to be proven when it was read, though the store says that it is marked."""
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

    @property
    def loaded(self) -> int:
        """How many tangles are in memory."""
        return len(self._loaded)

    def refresh(self) -> tuple[MessageId, ...]:
        """Catch up with the store; gives the messages that other processes have added meanwhile."""
        with self._tables.reading() as view:
            now = view.state()
            known = self._state
            is_too_much = len(self._credentials) > LOADED_MAX
            if known is not None and known.version == now.version and not is_too_much:
                self._state = now
                return ()
            self._absent.clear()
            # What is of the first reading is no news.
            fresh = view.after(self._last_number) if known is not None or self._last_number else ()
            if known is None or known.rewrites != now.rewrites or is_too_much:
                came = [row.id for row in fresh]
                self.forget()
            else:
                came = [self._take(view, row) for row in fresh]
            self._last_number = max(self._last_number, now.messages_highest)
            self._goals = {root: parse_goal(text) for root, text in view.goals().items()}
            self._ghosts = {root: Ghosts.decode(text) for root, text in view.ghosts().items()}
            self._state = now
            return tuple(came)

    def forget(self) -> None:
        """Keep nothing but how far the store was read: it is read again when something is asked for."""
        self._state = None
        self._loaded.clear()
        self._credentials.clear()
        self._messages.clear()
        self._drafts.clear()
        self._absent.clear()
        self._roots.clear()
        self.provisional.clear()
        self.unwritten.clear()
        self._begin_anew()

    def settle(self, state: TangleState) -> None:
        """What was carried out here is written, and the store is in this state now."""
        self._messages.update((id, message) for id, message in self._drafts.items() if message is not None)
        self._drafts.clear()
        self._absent.clear()
        self._roots.clear()
        self._trim()
        self.unwritten.clear()
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
        return self._look_at(id).structure

    def proven(self, id: MessageId) -> Tangle:
        """The structure of a tangle with those messages alone that are proven in it."""
        loaded = self._look_at(id)
        return loaded.proven.get()

    def sound(self, id: MessageId) -> Tangle:
        """The structure of a tangle without those messages that break a rule of the modern mode."""
        loaded = self._look_at(id)
        return loaded.sound.get()

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

    def named(self, ids: Collection[MessageId]) -> frozenset[MessageId]:
        """Those of these ids that are tangles in which somebody stands, or that have a goal or ghosts."""
        with self._tables.reading() as view:
            return view.named(ids) | self._roots.intersection(ids)

    def is_stored(self, id: MessageId) -> bool:
        """Whether the store has a message, whatever the commit under way does with it."""
        with self._tables.reading() as view:
            return bool(view.find((id,)))

    def hold(self, message: Message) -> list[tuple[Spot, Mark]]:
        """A message has been admitted, or its data; gives what is judged otherwise than before, others included."""
        self._drafts[message.id] = message
        self._roots.update(message.places)
        for root in self._standing_in(message):
            self._enter_structure(self._load(root), message)
        changed = self.standing.came(message)
        for spot, judgement in changed:
            if spot.tangle in self._loaded:
                self._loaded[spot.tangle].note(spot.message, judgement)
        return [(spot, judgement.mark) for spot, judgement in changed]

    def erase(self, message: Message) -> Message:
        """The data of a held message goes; gives what is left."""
        left = message.erased()
        self._drafts[message.id] = left
        for root in _roots(message):
            if root in self._loaded:
                self._loaded[root].erase(message.id)
        return left

    def drop(self, message: Message) -> None:
        """A held message goes."""
        self._drafts[message.id] = None
        self._messages.pop(message.id, None)
        self._credentials.pop(message.id, None)
        self.provisional.discard(message.id)
        self.unwritten.difference_update([Spot(root, message.id) for root in _roots(message)])
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

    def _look_at(self, root: MessageId) -> _Loaded:
        """A tangle to be read. One of which nothing is held is not remembered: anybody may ask for any id."""
        loaded = self._load(root)
        if not len(loaded.structure):
            del self._loaded[root]
        return loaded

    def _load(self, root: MessageId) -> _Loaded:
        found = self._loaded.get(root)
        if found is not None:
            return found
        before = set(self._loaded)
        try:
            self._judge(self._open(root))
        except BaseException:
            # What is read and not judged is not to be relied on.
            for opened in self._loaded.keys() - before:
                del self._loaded[opened]
            raise
        return self._loaded[root]

    def _open(self, root: MessageId) -> list[Spot]:
        """Read a tangle; gives the messages of it that are marked, by depth, and are to be judged."""
        loaded = self._loaded[root] = _Loaded(root)
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
                judgement = self.standing.judgement(root, draft.id)
                if judgement is not None:
                    loaded.note(draft.id, judgement)
        marked.sort(key=lambda id: loaded.structure.depth(id) or 0)
        return [Spot(root, id) for id in marked]

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
            raise _damaged(row.id, repr(error)) from error
        loaded.structure.place(row.id, place, has_data=has_data)

    def _enter(self, loaded: _Loaded, message: Message, level: Level) -> None:
        """A message that another process has added."""
        self._enter_structure(loaded, message)
        if level is Level.MODERN:
            self.standing.restore(Spot(loaded.structure.id, message.id), FULL)
            loaded.note(message.id, FULL)
        else:
            self._judge([Spot(loaded.structure.id, message.id)])

    def _enter_structure(self, loaded: _Loaded, message: Message) -> None:
        loaded.add(message)
        self._credentials[message.id] = _credential(message)

    def _judge(self, marked: Sequence[Spot]) -> None:
        """Find out again why some messages are not proven; it is not kept.

        One may hang on tangles that are not read yet, and those on others, as deep as somebody likes. So first all of
        them are read, and then all that is marked in them is judged.
        """
        spots: list[Spot] = []
        rounds = [marked]
        while rounds:
            fresh = rounds.pop()
            spots += fresh
            for spot, message in zip(fresh, self.messages([spot.message for spot in fresh]), strict=True):
                if message is None:
                    continue
                account = account_of(message)
                # It is proven as a root where it is proven in what it stands in.
                needed = [*message.places] if message.id == spot.tangle else []
                if account is not None:
                    needed.append(account)
                rounds += [self._open(root) for root in dict.fromkeys(needed) if root not in self._loaded]
        for spot, judgement in self.standing.judge_again(reversed(spots)):
            loaded = self._loaded.get(spot.tangle)
            if loaded is not None:
                loaded.note(spot.message, judgement)
            if judgement.mark is Mark.FULL and spot.message not in self._drafts:
                self.unwritten.add(spot)

    def _note_provisional(self, row: StoredMessage) -> None:
        if row.is_provisional:
            self.provisional.add(row.id)

    def _read(self, row: StoredMessage) -> Message:
        self._note_provisional(row)
        return read_message(row)

    def _trim(self) -> None:
        for id in list(self._messages)[: max(0, len(self._messages) - MESSAGES_KEPT_MAX)]:
            del self._messages[id]
        if len(self._absent) > MESSAGES_KEPT_MAX and not self._drafts:
            self._absent.clear()


def read_message(row: StoredMessage) -> Message:
    """A message as it is kept, and proof that it is the one of this id: its hashes cover what it says.

    Raises ``DamagedStore``. Its signature is not checked again; ``Store.check`` does that.
    """
    try:
        message = decode(row.raw)
        check_data(message)
    except InvalidMessage as error:
        raise _damaged(row.id, str(error)) from error
    if message.id != row.id:
        raise _damaged(row.id, f"its bytes are the message {message.id}")
    return message


def _damaged(id: MessageId, why: str) -> DamagedStore:
    return DamagedStore(
        f"the store is damaged: the message {id} is not what was stored ({why}); run `bobbin fsck` on this lace"
    )


def _begins_nothing(id: MessageId, structure: Tangle) -> bool:
    """Whether a message, however proven where it stands, is no root: a later message of an account."""
    root = structure.root
    return id == structure.id and root is not None and root.is_account and not root.is_root


def _roots(message: Message) -> tuple[MessageId, ...]:
    """Every tangle that a message stands in, its own included."""
    return (message.id, *message.places)


def _credential(message: Message | None) -> Credential:
    return Credential("", None) if message is None else _credential_of(message.account, message.account_tips)


def _credential_of(account: str, tips: Iterable[MessageId] | None) -> Credential:
    return Credential(account, None if tips is None or account in (SELF, ANY) else tuple(tips))
