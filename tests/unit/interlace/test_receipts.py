"""Receipts: what one says, and what none is made about."""

from bobbin.interlace.receipts import RECEIPT_APP, STATEMENT_APP, build_receipt, is_about_exchange
from bobbin.records.record import build_blob, build_plex, seal, validate
from tests.local_exchanges import APP, SERVER, START_NS, plex, sealed


def test_a_receipt_is_a_valid_record_that_names_what_was_stored_and_from_whom() -> None:
    """IL-253, IL-254: the form of the page, sealed by the receiver."""
    stored = plex("links/1")
    receipt = build_receipt(stored, sender=SERVER.verifier, tai_ns=START_NS)
    assert receipt is not None
    assert (receipt.group, receipt.app, receipt.name) == ("lace", "receipt", f"store/{stored.hash}")
    assert receipt.tai == START_NS
    assert set(receipt.extras) == {("Stored-Hash", stored.hash), ("Stored-From", SERVER.verifier)}
    read = validate(seal(receipt, APP, auxiliary=b"\x07" * 32).raw)
    assert getattr(read, "verifier", None) == APP.verifier


def test_nothing_is_receipted_about_receipts_and_statements() -> None:
    """ILC-148: records about exchanges never breed."""
    receipt = build_receipt(sealed("links/1"), sender=SERVER.verifier, tai_ns=START_NS)
    assert receipt is not None
    for about in (
        receipt,
        seal(receipt, APP, auxiliary=b"\x07" * 32),
        plex("interlace/x", group="lace", app=STATEMENT_APP),
    ):
        assert is_about_exchange(about)
        assert build_receipt(about, sender=SERVER.verifier, tai_ns=START_NS) is None


def test_other_records_are_ordinary() -> None:
    for record in (
        build_blob(b"x"),
        plex("store/x", app=RECEIPT_APP),
        build_plex(group="lace", app="notes", name="x", tai_ns=START_NS, data=b""),
    ):
        assert not is_about_exchange(record)
        assert build_receipt(record, sender=SERVER.verifier, tai_ns=START_NS) is not None
