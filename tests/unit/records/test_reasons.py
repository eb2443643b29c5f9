"""The reason codes: stable texts, in the order of the checks."""

from bobbin.errors import IntegrityError
from bobbin.records.reasons import InvalidRecord, Reason


def test_the_codes_are_stable() -> None:
    # They stand in quarantine tables and in the output of commands: a change here is a change of the product.
    assert [str(reason) for reason in Reason] == [
        "too-large",
        "no-mark",
        "malformed-hash",
        "unsupported-suffix",
        "unfinished-headers",
        "header-length",
        "header-control",
        "header-encoding",
        "header-normalization",
        "header-syntax",
        "required-headers",
        "malformed-coordinate",
        "malformed-tai",
        "extra-header-count",
        "extra-header-reserved",
        "extra-header-order",
        "data-length",
        "exact-length",
        "blob-digest",
        "plex-digest",
        "malformed-verifier",
        "malformed-signature",
        "seal-digest",
        "invalid-signature",
        "not-requested",
    ]


def test_a_failure_says_what_and_where() -> None:
    failure = InvalidRecord(Reason.BLOB_DIGEST, "the bytes differ", offset=7)
    assert isinstance(failure, IntegrityError)
    assert (failure.reason, failure.detail, failure.offset) == (Reason.BLOB_DIGEST, "the bytes differ", 7)
    assert str(failure) == "blob-digest: the bytes differ"
