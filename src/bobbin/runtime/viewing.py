"""What a lace shows live: the part of ``Lace`` that makes views."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

from bobbin.errors import UsageError
from bobbin.records.ids import Verifier
from bobbin.records.signing import SigningKey
from bobbin.store.base import Store

if TYPE_CHECKING:
    from bobbin.datalog.compile import Lacegram
    from bobbin.datalog.limits import Limits
    from bobbin.policy.builder import Selection
    from bobbin.policy.modules import Selector
    from bobbin.reactive.graph import Graph
    from bobbin.records.coordinate import Coordinate, Prefix
    from bobbin.runtime.views import View


class Viewing(ABC):
    """Whatever has records and perhaps a key can show them."""

    @property
    @abstractmethod
    def store(self) -> Store: ...

    @abstractmethod
    def key(self, name: str | None = None) -> SigningKey: ...

    def view(
        self,
        what: "str | Selector | Lacegram | Selection | Coordinate | Prefix",
        *,
        graph: "Graph | None" = None,
        limits: "Limits | None" = None,
        clock: Callable[[], int] | None = None,
        follow: bool = True,
    ) -> "View":
        """The stored records that a policy selects, as a live collection: a change costs what it changes, no query.

        ``what`` is a policy (its rules as text, or compiled), a selection of ``policy.builder``, or a place. The view
        is part of ``graph``, or of one of its own. It takes in each commit through this lace, unless ``follow`` is
        False, and everything else with ``refresh``: what other processes have stored, and the time, which ``clock``
        gives in TAI nanoseconds. ``limits`` bound what evaluating the rules may cost. Close it before the lace, or use
        it in a ``with``: then the next process goes on from where it stands. Raises ``LimitExceeded``.
        """
        from bobbin.runtime.clock import tai_now  # noqa: PLC0415 -- many programs never view anything
        from bobbin.runtime.views import LIMITS, View, selector_of  # noqa: PLC0415 -- as above

        return View(
            self.store,
            selector_of(what),
            graph=graph,
            here=self._verifier(),
            limits=LIMITS if limits is None else limits,
            clock=tai_now if clock is None else clock,
            follow=follow,
        )

    def _verifier(self) -> Verifier | None:
        """Who this lace is, if it has its default key."""
        try:
            return self.key().verifier
        except UsageError:
            return None
