"""Why a record was refused: one code per check, in the order in which the checks run.

Validation stops at the first check that fails, so of two implementations that follow the order both name the same
reason. The codes are stable text: they stand in quarantine tables, reports and JSON output.
"""

from enum import StrEnum

from bobbin.errors import IntegrityError


class Reason(StrEnum):
    """The codes, in the order of the checks."""

    TOO_LARGE = "too-large"
    NO_MARK = "no-mark"
    MALFORMED_HASH = "malformed-hash"
    UNSUPPORTED_SUFFIX = "unsupported-suffix"
    UNFINISHED_HEADERS = "unfinished-headers"
    HEADER_LENGTH = "header-length"
    HEADER_CONTROL = "header-control"
    HEADER_ENCODING = "header-encoding"
    HEADER_NORMALIZATION = "header-normalization"
    HEADER_SYNTAX = "header-syntax"
    REQUIRED_HEADERS = "required-headers"
    MALFORMED_COORDINATE = "malformed-coordinate"
    MALFORMED_TAI = "malformed-tai"
    EXTRA_COUNT = "extra-header-count"
    EXTRA_RESERVED = "extra-header-reserved"
    EXTRA_ORDER = "extra-header-order"
    DATA_LENGTH = "data-length"
    EXACT_LENGTH = "exact-length"
    BLOB_DIGEST = "blob-digest"
    PLEX_DIGEST = "plex-digest"
    MALFORMED_VERIFIER = "malformed-verifier"
    MALFORMED_SIGNATURE = "malformed-signature"
    SEAL_DIGEST = "seal-digest"
    INVALID_SIGNATURE = "invalid-signature"
    NOT_REQUESTED = "not-requested"


class InvalidRecord(IntegrityError):
    """Bytes are not a valid record. ``reason`` says which check failed, ``offset`` where in the bytes."""

    def __init__(self, reason: Reason, message: str, *, offset: int = 0) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason
        self.detail = message
        self.offset = offset
