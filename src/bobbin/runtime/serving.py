"""What the links of a node have in common: the store and the decisions over it, the thread, the books, the voice."""

from time import monotonic_ns
from typing import Final, TypeAlias

from structlog.typing import FilteringBoundLogger

from bobbin.interlace.limits import PROFILES, Service
from bobbin.policy.executables import BUDGETS, PolicyCache
from bobbin.records.signing import SigningKey
from bobbin.runtime.decisions import Decisions
from bobbin.runtime.local_peer import now
from bobbin.runtime.metrics import Meter
from bobbin.runtime.node_settings import LinkBounds
from bobbin.runtime.pace import Pace
from bobbin.runtime.pair import Clock
from bobbin.runtime.roster import KnownPeer, Roster
from bobbin.runtime.steps import Steps
from bobbin.runtime.tangle_arrivals import TangleArrivals
from bobbin.runtime.tracing import NoTracing, Tracing
from bobbin.runtime.wakes import Wakes
from bobbin.runtime.workers import Validators
from bobbin.store.base import Store

_Terms: TypeAlias = tuple[str | None, str]
"""The query module, and the profile of limits."""


class Serving:
    """The shared part of one node."""

    def __init__(
        self,
        store: Store,
        key: SigningKey | None,
        *,
        log: FilteringBoundLogger,
        tracing: Tracing | None = None,
        service: Service = Service(),  # noqa: B008 (a frozen value)
        clock: Clock = now,
        validators: Validators | None = None,
    ) -> None:
        """``validators``: worker processes that check what arrives; without, it is checked in this one."""
        self.store: Final = store
        self.key: Final = key
        self.log: Final = log
        self.tracing: Final[Tracing] = NoTracing() if tracing is None else tracing
        self.service: Final = service
        self.clock: Final = clock
        self.validators: Final = validators
        self.meter: Final = Meter()
        self.steps: Final = Steps(timed=self.meter.step_seconds.observe)
        self.wakes: Final = Wakes(store, self.steps)
        self._arrivals: Final = TangleArrivals(store, self.steps, self.wakes, self.meter, log=log)
        self._decisions: Final[dict[_Terms, Decisions]] = {}
        self._paces: Final[dict[str, Pace]] = {}

    async def start(self) -> None:
        """Notice changes of the store from now on."""
        await self.wakes.start()
        await self._arrivals.start()

    async def stop(self) -> None:
        """Notice nothing any more."""
        await self._arrivals.stop()
        await self.wakes.stop()

    def decisions(self, known: KnownPeer) -> Decisions:
        """What is decided under the query policy of a peer and its budgets, kept for all links that have the same."""
        terms = _terms(known)
        found = self._decisions.get(terms)
        if found is None:
            policies = PolicyCache(budgets=BUDGETS[terms[1]])
            found = self._decisions[terms] = Decisions(self.store, query=known.query, policies=policies)
        return found

    def pace(self, known: KnownPeer, bounds: LinkBounds) -> Pace:
        """The account of a peer, the same for all its links."""
        found = self._paces.get(known.name)
        if found is None:
            found = self._paces[known.name] = Pace(bounds, monotonic_ns())
        return found

    def forget_but(self, roster: Roster) -> None:
        """Other peers, and other bounds, hold from now on. What links have in hand stays theirs."""
        self._paces.clear()
        peers = [*roster, *([] if roster.anonymous is None else [roster.anonymous])]
        for terms in self._decisions.keys() - set(map(_terms, peers)):
            del self._decisions[terms]

    def flush(self) -> None:
        """Write down what saves the next process work. For the thread of the steps."""
        for decisions in list(self._decisions.values()):
            decisions.flush(everything=True)


def _terms(known: KnownPeer) -> _Terms:
    """What a decision depends on besides its plan. Rules may cost more for a peer that has the large limits."""
    profile = next((name for name, limits in PROFILES.items() if limits == known.limits), "default")
    return None if known.query is None else known.query.identifier, profile
