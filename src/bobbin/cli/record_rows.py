"""One record on one line: what ``list`` shows of a stored one and ``follow`` of one that came."""

from typing import TYPE_CHECKING

from bobbin.cli.output import Json, Output
from bobbin.cli.text import size_text, utc_text
from bobbin.records import tai

if TYPE_CHECKING:
    from bobbin.records.ids import HashText
    from bobbin.records.record import Plex, Record, Seal
    from bobbin.store.base import Listed


def placed_row(out: Output, one: "Listed | Plex | Seal") -> None:
    """A record with a place."""
    if out.as_json:
        out.row(
            {
                "hash": one.hash,
                "group": one.group,
                "app": one.app,
                "name": one.name,
                "tai": tai.render(one.tai),
                "utc": utc_text(one.tai),
                "signed_by": getattr(one, "verifier", None),
                "data_length": one.data_length,
            }
        )
        return
    place = f"//{one.group}//{one.app}//{one.name}"
    when = out.style(utc_text(one.tai), dim=True)
    out.row(None, f"{one.hash}  {when}  {size_text(one.data_length):>8}  {out.style(place, bold=True)}")


def blob_row(out: Output, blob: "HashText", data_length: int) -> None:
    """A record without a place."""
    nowhere: dict[str, Json] = dict.fromkeys(("group", "app", "name", "tai", "utc", "signed_by"))
    when = " " * len(utc_text(0))
    out.row(
        {"hash": blob, **nowhere, "data_length": data_length},
        f"{blob}  {when}  {size_text(data_length):>8}  (no place)",
    )


def record_row(out: Output, record: "Record") -> None:
    """A record in hand."""
    from bobbin.records.record import Blob

    if isinstance(record, Blob):
        blob_row(out, record.hash, record.data_length)
    else:
        placed_row(out, record)
