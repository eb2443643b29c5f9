"""Messages kept in memory: the plainest store that does everything right, for tests, models and simulated peers.

It answers what the machines ask (``MessageStore`` and the library of a session), lets messages in by the rules of
either level, and keeps track of how each counts in the modern mode. Every change is one call that happens or does not.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from bobbin.tangles.accounts import Accounts
from bobbin.tangles.admission import Admission, admit
from bobbin.tangles.canonical import Json
from bobbin.tangles.errors import UnknownMessage
from bobbin.tangles.exchange import Credential
from bobbin.tangles.ghosts import Ghosts
from bobbin.tangles.goals import Goal, wish
from bobbin.tangles.judgement import Mark, Standing
from bobbin.tangles.message import ANY, SELF, Message, MessageId
from bobbin.tangles.ranges import Wish
from bobbin.tangles.structures import SPAN_DEFAULT
from bobbin.tangles.tangle import Tangle
from bobbin.tangles.upkeep import Sweep, prune_newest, sweep


class MemoryStore:
    """All messages of one peer, in the order in which they came."""

    def __init__(self, *, span: int = SPAN_DEFAULT) -> None:
        self._span: Final = span
        self._messages: dict[MessageId, Message] = {}
        self._tangles: dict[MessageId, Tangle] = {}
        self._ghosts: dict[MessageId, Ghosts] = {}
        self._goals: dict[MessageId, Goal] = {}
        self._unproven: set[MessageId] = set()
        """What came from modern peers and still waits for its proof."""
        self._accounts: Final = Accounts(self)
        self.standing: Final = Standing(self)

    # ---- what is asked -------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._messages)

    def __iter__(self) -> Iterator[Message]:
        """The messages in the order in which they came; one whose data came later counts from then on."""
        return iter(self._messages.values())

    def message(self, id: MessageId) -> Message | None:
        """A message as it is held; ``None`` if it is not."""
        return self._messages.get(id)

    def messages(self, ids: Sequence[MessageId]) -> list[Message | None]:
        """The messages with these ids, in this order."""
        return [self._messages.get(id) for id in ids]

    def credentials(self, ids: Sequence[MessageId]) -> list[Credential]:
        """Which accounts held messages are of, and up to which tips."""
        found: list[Credential] = []
        for id in ids:
            message = self._held(id)
            speaks = message.account not in (SELF, ANY)
            found.append(Credential(message.account, message.account_tips if speaks else None))
        return found

    def tangle(self, id: MessageId) -> Tangle:
        """The structure of a tangle; an empty one where nothing of it is held."""
        found = self._tangles.get(id)
        if found is None:
            root = self._messages.get(id)
            found = Tangle(id, () if root is None else (root,))
            if root is not None:
                self._tangles[id] = found
        return found

    def ghosts(self, tangle: MessageId) -> tuple[MessageId, ...]:
        """The ghosts of a tangle, in the order in which they were made."""
        registry = self._ghosts.get(tangle)
        return () if registry is None else tuple(registry.depths)

    def goal(self, tangle: MessageId) -> Goal | None:
        """What is wanted of a tangle."""
        return self._goals.get(tangle)

    def wish(self, tangle: MessageId, *, modern: bool = False) -> Wish:
        """What the goal of a tangle asks of another side."""
        return wish(self._goals.get(tangle), self.tangle(tangle), self.data, span=self._span, modern=modern)

    def data(self, id: MessageId) -> Json:
        """The data of a held message."""
        return self._held(id).data

    # ---- what is done --------------------------------------------------------------------------------------------

    def set_goal(self, tangle: MessageId, goal: Goal | None) -> None:
        """Want so much of a tangle from now on."""
        if goal is None:
            self._goals.pop(tangle, None)
        else:
            self._goals[tangle] = goal

    def add(self, message: Message, tangle: MessageId) -> Admission:
        """Take a message that a real peer would take. Raises ``InvalidMessage``."""
        admission = admit(self, self._accounts, message, tangle)
        if admission is Admission.KNOWN:
            return self._compare(message, tangle)
        self._unproven.discard(message.id)
        self._store(message)
        # As with real peers. In the modern mode a ghost stays one, though it be held without its data.
        registry = self._ghosts.get(tangle)
        if registry is not None:
            registry.remove(message.id)
        return admission

    def add_modern(self, message: Message, tangle: MessageId) -> Admission:
        """Take a message that the modern mode takes: a full one, or one that waits. Raises ``InvalidMessage``.

        One that has waited and turns out to be wrong is let go again.
        """
        held = self._messages.get(message.id)
        if held is not None and (held.has_data or not message.has_data):
            return self._compare(message, tangle)
        if self.standing.admit(message, tangle).mark is Mark.WAITING and held is None:
            self._unproven.add(message.id)
        self._store(message)
        return Admission.ADDED if held is None else Admission.FILLED

    def _compare(self, message: Message, tangle: MessageId) -> Admission:
        """A copy of a held message has come. It takes the place of the held one where only the new one is proven."""
        if not self.standing.replaces(message, self._held(message.id), tangle):
            return Admission.KNOWN
        self.delete(message.id)
        self._store(message)
        return Admission.REPLACED

    def load(self, messages: Iterable[Message]) -> None:
        """Take messages that are known to be valid, in the order in which they once came."""
        for message in messages:
            held = self._messages.get(message.id)
            if held is None or (message.has_data and not held.has_data):
                self._store(message)
            else:
                self._compare(message, next(iter(message.places), message.id))

    def delete(self, id: MessageId) -> None:
        """Forget a message."""
        message = self._held(id)
        del self._messages[id]
        for tangle in (id, *message.places):
            structure = self._tangles.get(tangle)
            if structure is not None:
                structure.discard(id)
                if not structure:
                    del self._tangles[tangle]
        self._unproven.discard(id)
        self.standing.went(message)

    def erase(self, id: MessageId) -> None:
        """Forget the data of a message."""
        message = self._held(id)
        self._messages[id] = message.erased()
        for tangle in (id, *message.places):
            structure = self._tangles.get(tangle)
            if structure is not None:
                structure.erase(id)

    def save_ghost(self, tangle: MessageId, id: MessageId, depth: int) -> None:
        """Remember a deleted message, so that it does not come back."""
        self._ghosts.setdefault(tangle, Ghosts()).save(id, depth, span=self._span)

    def prune_newest(self, tangle: MessageId, count: int) -> None:
        """Keep the newest messages of a tangle and their trail.

        An account is kept whole, and so is what another tangle may need: what stands in one, or is the root of one.
        """
        removable = prune_newest(self.tangle(tangle), count)
        roots = {root for message in self for root in message.places} | self._goals.keys()

        def is_alone(id: MessageId) -> bool:
            message = self._held(id)
            is_root_of_another = id != tangle and id in roots
            return not message.is_account and message.places.keys() <= {tangle} and not is_root_of_another

        for id in filter(is_alone, removable.deletables):
            self.delete(id)
        for id in filter(is_alone, removable.erasables):
            self.erase(id)

    def sweep(self) -> Sweep:
        """Let go what no goal asks for."""
        result = sweep(self, self, self._goals, span=self._span)
        for id in result.deleted:
            self.delete(id)
        for id in result.erased:
            self.erase(id)
        for ghost in result.ghosts:
            self.save_ghost(ghost.tangle, ghost.id, ghost.depth)
        return result

    def _store(self, message: Message) -> None:
        held = self._messages.pop(message.id, None)
        if held is not None and any(self.standing.is_full(root, held.id) for root in (held.id, *held.places)):
            # Only its data is new. Who has signed is proven already, and a copy need not be signed by the same.
            message = held.filled(message.data) if message.has_data else held
        self._messages[message.id] = message
        if message.id in self._tangles:
            self._tangles[message.id].add(message)
        for tangle_id in message.places:
            structure = self.tangle(tangle_id)
            structure.add(message)
            self._tangles[tangle_id] = structure
        for spot, judgement in self.standing.came(message):
            if spot.message in self._unproven and judgement.mark is not Mark.WAITING:
                self._settle(spot.message)

    def _settle(self, id: MessageId) -> None:
        """What waited is judged in one of its tangles. Where it is wrong in all of them, it goes."""
        message = self._held(id)
        found = [self.standing.judgement(tangle, id) for tangle in message.places or (id,)]
        if any(one is not None and one.mark is Mark.FULL for one in found):
            self._unproven.discard(id)
        elif all(one is not None and one.mark is Mark.INTEROP for one in found):
            self.delete(id)

    def _held(self, id: MessageId) -> Message:
        message = self._messages.get(id)
        if message is None:
            raise UnknownMessage(f"the message {id} is not held")
        return message
