"""A keeper of messages in memory, for tests of what moves them: sessions read from it and commit to it."""

from collections.abc import Iterable

from bobbin.tangles.admission import Admission
from bobbin.tangles.errors import InvalidMessage
from bobbin.tangles.goals import parse_goal
from bobbin.tangles.memory import MemoryStore
from bobbin.tangles.message import Message, MessageId
from bobbin.tangles.session_effects import Commit
from bobbin.tangles.session_events import Committed, Refused


class MemoryKeeper:
    """Keeps messages in memory; has nothing for the modern mode."""

    modern_library = None

    def __init__(self, store: MemoryStore | None = None) -> None:
        self.store = MemoryStore() if store is None else store
        self.commits: list[Commit] = []

    @property
    def library(self) -> MemoryStore:
        return self.store

    def commit(self, commit: Commit) -> Committed:
        self.commits.append(commit)
        added: list[MessageId] = []
        refused: list[Refused] = []
        for message in commit.messages:
            try:
                if self.store.add(message, tangle_of(message, commit.tangle)) is not Admission.KNOWN:
                    added.append(message.id)
            except InvalidMessage as error:
                refused.append(Refused(message.id, error.rule, str(error)))
        if commit.newest is not None:
            self.store.prune_newest(commit.tangle, commit.newest)
        return Committed(token=commit.token, added=tuple(added), refused=tuple(refused))

    def add(self, messages: Iterable[Message], tangle: MessageId | None = None) -> tuple[MessageId, ...]:
        """Take messages that are known to be valid, in order."""
        taken = []
        for message in messages:
            self.store.add(message, tangle_of(message, tangle))
            taken.append(message.id)
        return tuple(taken)

    def goal(self, tangle: MessageId, goal: str) -> None:
        """Want so much of a tangle."""
        self.store.set_goal(tangle, parse_goal(goal))

    @property
    def records(self) -> list[tuple[MessageId, str]]:
        """Every message, and whether its data is there, in the words of the recorded sessions."""
        return [(message.id, "dataful" if message.has_data else "dataless") for message in self.store]


def tangle_of(message: Message, tangle: MessageId | None) -> MessageId:
    """The tangle that a message is to stand in, by what it came for."""
    if tangle is not None and (message.id == tangle or tangle in message.places):
        return tangle
    return message.id if message.is_root else next(iter(message.places))
