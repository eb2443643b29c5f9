"""What one side can say about a tangle out of what it holds: the questions that the nine phases ask, answered.

Each answer is computed from the library as it is at that moment. All of them are what a pzp peer computes, in its
order: account messages first, then the messages of the tangle by depth.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple, Protocol

from msgspec import Struct

from bobbin.tangles.bloom import Bloom, items_of
from bobbin.tangles.errors import InvalidMessage
from bobbin.tangles.message import Message, MessageId, decode
from bobbin.tangles.ranges import EMPTY, Range, Wish, estimate, want_range
from bobbin.tangles.session_events import Refused
from bobbin.tangles.tangle import Tangle

_ESTIMATE_OF_NOTHING: Final = 2
"""What a filter over an empty range is made for, besides the ids that were promised."""


class Credential(NamedTuple):
    """Which account a message is of, and how far that account's tangle is needed to check it."""

    account: str
    tips: tuple[MessageId, ...] | None
    """None: nothing of the account is needed."""


class Library(Protocol):
    """What a session reads. Nothing here writes, and an answer holds until the driver says that something came."""

    def tangle(self, id: MessageId, /) -> Tangle | None:
        """The structure of a tangle, to be read and not changed; empty, or None, where nothing of it is held."""
        ...

    def messages(self, ids: Sequence[MessageId], /) -> Sequence[Message | None]:
        """The messages with these ids, in this order; None for one that is not held."""
        ...

    def credentials(self, ids: Sequence[MessageId], /) -> Sequence[Credential]:
        """The same for held messages, without reading the messages where that can be avoided."""
        ...

    def wish(self, tangle: MessageId, /) -> Wish:
        """What this side's goal for a tangle asks for at this moment; None without a goal."""
        ...

    def ghosts(self, tangle: MessageId, /) -> Collection[MessageId]:
        """What was deleted from a tangle on purpose and must not come back."""
        ...


class Accepted(Struct, frozen=True, kw_only=True):
    """What a received array comes down to."""

    messages: tuple[Message, ...]
    """In the order in which they can be stored: account messages, then by depth."""
    refused: tuple[Refused, ...]


class Exchange:
    """Questions about the own library."""

    def __init__(self, library: Library, *, size_by_count: bool = False) -> None:
        """``size_by_count`` makes filters for as many messages as there are; a pzp peer goes by depth alone."""
        self._library: Final = library
        self._size_by_count: Final = size_by_count
        self._credentials: dict[MessageId, Credential] = {}

    def structure(self, tangle: MessageId) -> Tangle | None:
        """The structure of a tangle whose root is held; without it, nothing is known about the tangle."""
        structure = self._library.tangle(tangle)
        return None if structure is None or structure.root is None else structure

    def have(self, tangle: MessageId) -> Range:
        """The depths of the messages that are held with their data, the root's among them."""
        structure = self.structure(tangle)
        return EMPTY if structure is None else Range(0, structure.max_depth_with_data())

    def want(self, tangle: MessageId, local: Range, remote: Range) -> Range:
        """The depths that are wanted of what the other side has."""
        return want_range(local, remote, self._library.wish(tangle))

    def in_range(self, tangle: MessageId, depths: Range) -> list[MessageId]:
        """The messages of a range. The root comes first, and once more in its place, where the range begins with it."""
        structure = self.structure(tangle)
        if structure is None:
            return []
        ids = structure.between(depths.low, depths.high)
        return [tangle, *ids] if depths.low == 0 else ids

    def account_messages_for(self, ids: Iterable[MessageId]) -> list[MessageId]:
        """For each account that these messages are of, its tangle up to the tips that they name."""
        return self.account_messages_of(self.credentials(list(ids)))

    def account_messages_of(self, credentials: Iterable[Credential]) -> list[MessageId]:
        """The same, going by what is known of the messages."""
        tips: dict[str, dict[MessageId, None]] = {}
        for credential in dict.fromkeys(credentials):
            if credential.tips is not None:
                tips.setdefault(credential.account, {}).update(dict.fromkeys(credential.tips))
        found: dict[MessageId, None] = {}
        for account, ends in tips.items():
            structure = self.structure(account)
            if structure is not None:
                found.update(dict.fromkeys(piece.id for piece in structure.slice((), ends)))
        return list(found)

    def filter_for(
        self, tangle: MessageId, round_number: int, depths: Range, promised: Collection[MessageId] = ()
    ) -> Bloom:
        """A filter of what is held in a range, what must not come back, and what has been promised."""
        ids: list[MessageId] = []
        count = _ESTIMATE_OF_NOTHING
        if not depths.is_empty:
            ids = self.in_range(tangle, depths)
            ids = self.account_messages_for(ids) + ids
            count = estimate(depths)
        ids += self._library.ghosts(tangle)
        if self._size_by_count:
            count = max(count, len(set(ids)))
        ids += promised
        return Bloom.create(2 * (count + len(promised)), items_of(round_number, ids))

    def missing(self, tangle: MessageId, round_number: int, depths: Range, bloom: Bloom) -> list[MessageId]:
        """What the other side wants and does not seem to have."""
        if depths.is_empty:
            return []
        ids = self.in_range(tangle, depths)
        ids = self.account_messages_for(ids) + ids
        present = bloom.has(items_of(round_number, ids))
        return [message for message, has in zip(ids, present, strict=True) if not has]

    def everything_in(self, tangle: MessageId, depths: Range) -> list[bytes]:
        """All messages of a range with what they need, for a side that has nothing of the tangle."""
        if depths.is_empty:
            return []
        ids = self.in_range(tangle, depths)
        return self._texts(self.account_messages_for(ids)) + self.slice_of(tangle, ids)

    def parcel(self, tangle: MessageId, ids: Collection[MessageId]) -> list[bytes]:
        """The account messages among some ids, then the slice of the tangle that they ask for."""
        held = self._held(ids)
        return [message.raw for message in held if message.is_account] + self.slice_of(tangle, ids)

    def slice_of(self, tangle: MessageId, ids: Collection[MessageId]) -> list[bytes]:
        """The messages of a slice; nothing where no id is of the tangle."""
        structure = self.structure(tangle)
        if structure is None or not any(id in structure for id in ids):
            return []
        pieces = structure.slice(ids)
        messages = self._library.messages([piece.id for piece in pieces])
        return [
            (message.erased() if piece.erased else message).raw
            for piece, message in zip(pieces, messages, strict=True)
            if message is not None
        ]

    def accept(self, tangle: MessageId, texts: Iterable[bytes], want: Range) -> Accepted:
        """Of a received array, what was asked for, in the order in which it can be stored.

        Account messages and trails always pass; data only from the lower end of the wanted range on. A text that is no
        message is left out, and the others stay.
        """
        kept: list[Message] = []
        refused: list[Refused] = []
        for text in texts:
            try:
                message = decode(text)
            except InvalidMessage as error:
                refused.append(Refused("", error.rule, str(error)))
                continue
            depth = message.depth_in(tangle) or 0
            asked_for = depth >= want.low or not message.has_data if depth else message.id == tangle
            if message.is_account or asked_for:
                kept.append(message)
            else:
                refused.append(Refused(message.id, None, "outside of what was wanted"))
        kept.sort(key=lambda message: (not message.is_account, message.depth_in(tangle) or 0))
        return Accepted(messages=tuple(kept), refused=tuple(refused))

    def message(self, id: MessageId) -> Message | None:
        """One message, if it is held."""
        return self._library.messages([id])[0]

    def wish(self, tangle: MessageId) -> Wish:
        """What the own goal asks for."""
        return self._library.wish(tangle)

    def _held(self, ids: Iterable[MessageId]) -> list[Message]:
        return [message for message in self._library.messages(list(ids)) if message is not None]

    def _texts(self, ids: Iterable[MessageId]) -> list[bytes]:
        return [message.raw for message in self._held(ids)]

    def credentials(self, ids: list[MessageId]) -> list[Credential]:
        """The credentials of held messages."""
        unknown = [id for id in dict.fromkeys(ids) if id not in self._credentials]
        if unknown:
            self._credentials.update(zip(unknown, self._library.credentials(unknown), strict=True))
        return [self._credentials[id] for id in ids]
