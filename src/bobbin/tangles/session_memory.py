"""A store in memory for either kind of session: it performs their commits and shows the modern mode what it may see.

What another node of the modern mode would refuse is hidden from that (``ModernView``): it neither counts as held, so
that a peer that can prove it sends it again with the proof, nor is it ever offered.
"""

from collections.abc import Sequence
from typing import Final

from bobbin.tangles.accounts import account_of
from bobbin.tangles.admission import Admission
from bobbin.tangles.errors import InvalidMessage
from bobbin.tangles.exchange import Credential
from bobbin.tangles.memory import MemoryStore
from bobbin.tangles.message import Message, MessageId
from bobbin.tangles.modern_index import DepthIndex, StandingIndexes
from bobbin.tangles.ranges import Wish
from bobbin.tangles.session_effects import UNNEEDED, Commit
from bobbin.tangles.session_events import Committed, Refused
from bobbin.tangles.tangle import Tangle


def perform(store: MemoryStore, commit: Commit) -> Committed:
    """Do what a session wants done: validate each message, keep what is valid, and let go what the goal has no use for.

    One message that is not valid does not stop those after it.
    """
    added: list[MessageId] = []
    refused: list[Refused] = []
    for message in commit.messages:
        tangle = _tangle_of(message, commit.tangle)
        try:
            outcome = (store.add_modern if commit.modern else store.add)(message, tangle)
        except InvalidMessage as problem:
            refused.append(Refused(message.id, problem.rule, str(problem)))
            continue
        if outcome is not Admission.KNOWN:
            added.append(message.id)
    for id in _unneeded(store, added, commit.vouched):
        store.delete(id)
        added.remove(id)
        refused.append(Refused(id, None, UNNEEDED))
    if commit.newest is not None:
        store.prune_newest(commit.tangle, commit.newest)
    return Committed(token=commit.token, added=tuple(added), refused=tuple(refused))


def _unneeded(store: MemoryStore, added: list[MessageId], vouched: frozenset[MessageId]) -> list[MessageId]:
    """What was added of accounts for which nothing that is held speaks."""
    idle = vouched - {message.account for message in store} if vouched else vouched
    return [message.id for message in store.messages(added) if message is not None and account_of(message) in idle]


def _tangle_of(message: Message, tangle: MessageId) -> MessageId:
    """The tangle that a message came for: an account message may have come along with messages of another one."""
    if message.id == tangle or tangle in message.places:
        return tangle
    return next(iter(message.places), message.id)


class ModernView:
    """What the modern mode sees of a store in memory."""

    def __init__(self, store: MemoryStore) -> None:
        self._store: Final = store
        self._indexes: Final = StandingIndexes()

    def tangle(self, id: MessageId) -> Tangle:
        """The structure of a tangle, without what is hidden."""
        structure = self._store.tangle(id)
        if all(self._is_seen(id, message) for message in structure):
            return structure
        seen = [message for message in structure if self._is_seen(id, message)]
        return Tangle(id, [message for message in self._store.messages(seen) if message is not None])

    def messages(self, ids: Sequence[MessageId]) -> list[Message | None]:
        """The messages with these ids, in this order."""
        return self._store.messages(ids)

    def credentials(self, ids: Sequence[MessageId]) -> list[Credential]:
        """Which accounts held messages are of."""
        return self._store.credentials(ids)

    def ghosts(self, tangle: MessageId) -> tuple[MessageId, ...]:
        """The ghosts of a tangle."""
        return self._store.ghosts(tangle)

    def wish(self, tangle: MessageId) -> Wish:
        """What the goal of a tangle asks of another side."""
        return self._store.wish(tangle, modern=True)

    def depths(self, tangle: MessageId) -> DepthIndex:
        """The index of a tangle."""
        return self._indexes.of(self.tangle(tangle), self._store.credentials)

    def _is_seen(self, tangle: MessageId, message: MessageId) -> bool:
        judgement = self._store.standing.judgement(tangle, message)
        return judgement is None or judgement.is_offered
