"""Why an exchange ends early: the rows of the error table of Lace-050, and the few that this project adds.

A ``PeerError`` with one of these codes is the peer's doing and aborts the round. Ends that are nobody's fault (a limit,
a cancellation, a lost link) are values of the same enumeration, reported in the result and never raised.
"""

from enum import StrEnum

from bobbin.errors import PeerError


class Reason(StrEnum):
    """Every way to end other than the fixed point."""

    PEER_VERIFIER_MISMATCH = "peer-verifier-mismatch"
    PLAN_MISMATCH = "exchange-plan-identifier-mismatch"
    UNSUPPORTED_FORMAT = "unsupported-record-format"
    UNSUPPORTED_SCHEMA = "unsupported-advertisement-field-schema"
    MALFORMED_BLOCK = "malformed-fact-block"
    MALFORMED_MODULE = "malformed-exchange-module"
    PLAN_COMPILATION = "exchange-plan-compilation-failure"
    MALFORMED_PREPARED_POLICY = "malformed-prepared-policy"
    """In the table of the protocol; there is no prepared route here, so nothing ever raises it."""
    MALFORMED_SUMMARY = "malformed-partition-summary"
    ROOT_MISMATCH = "advertisement-list-root-mismatch"
    PHASE_TIMEOUT = "phase-timeout"
    OVERSIZED_BLOCK = "oversized-fact-block"
    TRANSFER_LIMIT = "transfer-limit-exceeded"
    UNREQUESTED_RECORD = "record-response-without-request"

    # ---- ours: named where the protocol only says "abort" or "negotiation failure"
    OUT_OF_PHASE = "out-of-phase-message"
    NEGOTIATION = "negotiation-failure"
    CLOCK_SKEW = "clock-skew-too-large"
    FOREIGN_SOURCE = "foreign-advertisement-source"
    LISTING_LIMIT = "advertisement-listing-limit"
    SUMMARY_LIMIT = "partition-summary-limit"
    NARROWING_LIMIT = "narrowing-depth-limit"
    MALFORMED_SKETCH = "malformed-sketch"
    INCONSISTENT_SKETCH = "inconsistent-sketch"
    """Never the end of an exchange: both sides go on without sketches."""
    LOOP_LIMIT = "loop-iteration-limit"
    EVALUATION = "policy-evaluation-error"
    STORE = "store-failure"
    PEER_STORE = "peer-store-failure"
    """The peer has said, as its last word, that its store has failed."""
    CANCELLED = "cancelled"
    LINK_LOST = "link-lost"


class Abort(PeerError):
    """The peer broke the protocol. The round ends here; valid records that are stored stay stored."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(reason.value, detail)
        self.reason = reason


class LimitReached(PeerError):
    """Going on would exceed a configured limit. The round ends with a partial result that names the limit."""

    def __init__(self, reason: Reason, limit: str, detail: str) -> None:
        super().__init__(reason.value, detail)
        self.reason = reason
        self.limit = limit
