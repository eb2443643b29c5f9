"""Receipts and statements as records: what may be said about an exchange, and what is never said (Lace-050, receipts).

A receipt says "I have stored this record, and had it from you"; it is an ordinary Plex that its issuer seals. Nothing
in an exchange needs one. Records about exchanges never breed: none is made about another of them.
"""

from typing import Final

from bobbin.records.ids import HashText, Verifier
from bobbin.records.record import Blob, Plex, Record, build_plex

GROUP: Final = "lace"
RECEIPT_APP: Final = "receipt"
STATEMENT_APP: Final = "statement"
STORED_HASH: Final = "Stored-Hash"
STORED_FROM: Final = "Stored-From"


def is_about_exchange(record: Record) -> bool:
    """Whether a record is a receipt or a statement itself."""
    if isinstance(record, Blob):
        return False
    return record.group == GROUP and record.app in (RECEIPT_APP, STATEMENT_APP)


def build_receipt(stored: Record, *, sender: Verifier, tai_ns: int) -> Plex | None:
    """The receipt for a stored record that came from a proven sender, to be sealed by the receiver.

    None for a record that is about an exchange itself.
    """
    if is_about_exchange(stored):
        return None
    return build_plex(
        group=GROUP,
        app=RECEIPT_APP,
        name=f"store/{stored.hash}",
        tai_ns=tai_ns,
        data=b"",
        extras=((STORED_FROM, sender), (STORED_HASH, HashText(stored.hash))),
    )
