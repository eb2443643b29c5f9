"""A node of a world of tangles: where its messages rest, who writes there, and a ledger of what it must keep.

The ledger is what was read back after every change that was said to be done. A crash may come at any moment: what is
found afterwards is what the ledger says, or that and all of what was under way, never a part of it.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, NoReturn

from bobbin.simulator.tangle_keepers import SPAN, Keeper
from bobbin.simulator.tangle_people import Person
from bobbin.tangles.ghosts import Ghosts
from bobbin.tangles.goals import Goal
from bobbin.tangles.memory import MemoryStore
from bobbin.tangles.message import Message, MessageId, decode
from bobbin.tangles.session_effects import Commit
from bobbin.tangles.session_events import Committed
from bobbin.tangles.session_memory import perform

_ERASED: Final = b'{"data":null'

Stock = dict[MessageId, bytes]
"""What a node holds: the text of every message, by id."""


class TangleNode:
    """One node."""

    def __init__(
        self,
        name: str,
        keeper: Keeper,
        people: list[Person],
        fail: Callable[[str], NoReturn],
        is_true: Callable[[MessageId], bool] = lambda id: True,  # noqa: ARG005 - in most tests nobody lies
    ) -> None:
        """``is_true``: whether a message can be proven. One that cannot may be let go as soon as that shows."""
        self.name: Final = name
        self.keeper: Final = keeper
        self.people: Final = people
        self.honest = True
        self._fail: Final = fail
        self._is_true: Final = is_true
        self.ledger: Stock = {}
        self.let_go: dict[MessageId, Ghosts] = {}
        """What was let go for good, by tangle: noted here, whatever the keeper remembers of it."""
        self._under_way: Callable[[], Stock | None] | None = None
        """What a change that has begun leads to; None where that is not worked out."""

    def perform(self, commit: Commit) -> Committed:
        """Do what a session wants done."""
        before = self.ledger
        ghosts = self._ghosts_for(commit)
        self._under_way = lambda: None if commit.newest is not None else after_commit(before, ghosts, commit)
        done = self.keeper.perform(commit)
        self._take_stock(may_lose=commit.newest is not None)
        absent = [id for id in done.added if id not in self.ledger and self._is_true(id)]
        if absent and commit.newest is None:
            self._fail(f"{self.name} said that it had stored {absent[0]}, and has not")
        if commit.modern:
            self._expect_needed(commit.tangle, done.added)
        else:
            self._forgive(message for message in commit.messages if message.id in done.added and not message.has_data)
        return done

    def _expect_needed(self, tangle: MessageId, added: tuple[MessageId, ...]) -> None:
        """An account that is new is one that something speaks for, or that is wanted itself."""
        fresh = [id for id in added if id in self.ledger and id != tangle and self.keeper.goal(id) is None]
        roots = {id for id in fresh if (message := decode(self.ledger[id])).is_account and message.is_root}
        idle = roots - {decode(raw).account for raw in self.ledger.values()} if roots else roots
        if idle:
            self._fail(f"{self.name} has stored the account {min(idle)}, and nothing needs it")

    def put(self, message: Message, tangle: MessageId) -> str | None:
        """Store what was written here, or given; gives the reason where it is refused."""
        commit = Commit(token=0, tangle=tangle, messages=(message,), modern=True)
        before, ghosts = self.ledger, self._ghosts_for(commit)
        self._under_way = lambda: after_commit(before, ghosts, commit)
        refused = self.keeper.put(message, tangle)
        self._take_stock()
        return refused

    def set_goal(self, tangle: MessageId, goal: Goal | None) -> None:
        """Want another part of a tangle from now on."""
        self.keeper.set_goal(tangle, goal)
        self._take_stock()

    def collect(self) -> None:
        """Let go what no goal asks for."""
        plan, before = self.keeper.plan(), self.ledger
        gone, thinned = frozenset(plan.deleted), frozenset(plan.erased)
        after = {id: decode(raw).erased().raw if id in thinned else raw for id, raw in before.items() if id not in gone}
        self._under_way = lambda: after
        self.keeper.collect()
        self._take_stock(may_lose=True)
        if self.ledger != after:
            self._fail(f"{self.name} let go something else than it had planned")
        for ghost in plan.ghosts:
            # Far enough below another one it is forgotten at once.
            if ghost.id in self.keeper.ghosts(ghost.tangle):
                self.let_go.setdefault(ghost.tangle, Ghosts()).save(ghost.id, ghost.depth, span=SPAN)

    def recover(self) -> None:
        """The process is gone, and is back: what it had promised is there."""
        self.keeper.restart()
        found = self.keeper.snapshot()
        if found != self.ledger:
            if self._under_way is None:
                self._fail(f"{self.name} came back with another stock: {_difference(self.ledger, found)}")
            other = self._under_way()
            if other is not None and self._outline(found) != self._outline(other):
                self._fail(f"{self.name} came back with a part of a commit: {_difference(other, found)}")
        if self._under_way is not None:
            # It may have made ghosts, or ended some, and whether it was durable is not known.
            self.let_go = {}
        self.ledger = found
        self._under_way = None

    def check(self) -> None:
        """What is held is what the ledger says."""
        found = self.keeper.snapshot()
        if found != self.ledger:
            self._fail(f"{self.name} holds something else than it should: {_difference(self.ledger, found)}")

    def _take_stock(self, *, may_lose: bool = False) -> None:
        """A change is done: what it has led to is promised from now on."""
        found = self.keeper.snapshot()
        if not may_lose:
            before, after = self._outline(self.ledger), self._outline(found)
            lost = [id for id in before if id not in after]
            thinned = [id for id, whole in before.items() if whole and not after.get(id, True)]
            if lost or thinned:
                self._fail(f"{self.name} has lost {[*lost, *thinned][:3]}")
        self.ledger = found
        self._under_way = None

    def _forgive(self, messages: Iterable[Message]) -> None:
        """With real peers, what comes back without its data is a ghost no more."""
        for message in messages:
            for tangle in message.places:
                if tangle in self.let_go:
                    self.let_go[tangle].remove(message.id)

    def _outline(self, stock: Stock) -> dict[MessageId, bool]:
        """What of a stock must stay: the messages that are true, and whether each has its data."""
        return {id: not raw.startswith(_ERASED) for id, raw in stock.items() if self._is_true(id)}

    def _ghosts_for(self, commit: Commit) -> dict[MessageId, Collection[MessageId]]:
        tangles = {commit.tangle, *(tangle for message in commit.messages for tangle in message.places)}
        return {tangle: tuple(ghosts) for tangle in sorted(tangles) if (ghosts := self.keeper.ghosts(tangle))}


def after_commit(before: Stock, ghosts: Mapping[MessageId, Collection[MessageId]], commit: Commit) -> Stock:
    """What a commit leads to, worked out in memory."""
    model = MemoryStore(span=SPAN)
    model.load(decode(raw) for raw in before.values())
    for tangle, ids in ghosts.items():
        for id in ids:
            model.save_ghost(tangle, id, 0)
    perform(model, commit)
    return {message.id: message.raw for message in model}


def _difference(expected: Stock, found: Stock) -> str:
    lost = sorted(expected.keys() - found.keys())[:3]
    more = sorted(found.keys() - expected.keys())[:3]
    other = sorted(id for id in expected.keys() & found.keys() if expected[id] != found[id])[:3]
    return f"lost {lost}, unexpected {more}, otherwise {other}"
