"""``Interlace-Result``: what an exchange moved, and why it ended."""

from msgspec import Struct, structs

from bobbin.interlace.reasons import Reason


class Result(Struct, frozen=True, kw_only=True):
    """What became of one exchange, or of one round of an open one."""

    link: str | None
    """The verifier-bound name of the link; None where a side has proven nothing."""
    plan: str | None
    """None when no plan was agreed."""
    peer: str | None
    """The proven verifier of the peer."""
    received: frozenset[str] = frozenset()
    rejected: dict[str, str] = {}
    """With the reason code."""
    not_available: frozenset[str] = frozenset()
    deferred: frozenset[str] = frozenset()
    """Requested, and neither sent nor refused before the end."""
    sent: frozenset[str] = frozenset()
    bytes_received: int = 0
    """Record bytes."""
    bytes_sent: int = 0
    iterations: int = 0
    strategies: tuple[str, ...] = ()
    """How each advertise phase in which the peer had something to tell found out what it offers."""
    fallbacks: tuple[str, ...] = ()
    """Why what was told of all claims together was of no use, and the peer told them plainly instead, each time."""
    cursor_updated: bool = False
    """Whether a cursor was saved. The machine hands one over; a driver that cannot keep it says so here."""
    fixed_point: bool = False
    """Whether the last evaluation of both sides left nothing to request. Never true after a limit or an abort."""
    reason: Reason | None = None
    """Why it ended otherwise."""
    detail: str = ""
    limit: str | None = None
    """The limit that was reached, by name."""

    def with_cursor(self, *, kept: bool) -> "Result":
        """The same, as a driver tells it that knows whether the cursor could be kept."""
        return self if kept or not self.cursor_updated else structs.replace(self, cursor_updated=False)
