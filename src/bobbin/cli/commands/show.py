"""``bobbin show``: everything one record says, readable."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.freshness import freshen
from bobbin.cli.message_records import warn_unaccepted
from bobbin.cli.missing import record_not_found
from bobbin.cli.options import AsJson, LaceFolder, parse_wanted
from bobbin.cli.output import Json, Output
from bobbin.cli.text import preview, size_text, utc_text

if TYPE_CHECKING:
    from bobbin.records.record import Record


def show(
    folder: LaceFolder,
    wanted: Annotated[
        str,
        typer.Argument(
            metavar="HASH|COORDINATE", help="A hash, or //group//app//name (its newest).", show_default=False
        ),
    ],
    as_json: AsJson = False,
) -> ExitCode:
    """Show everything that a record says.

    Its fields, who signed it, its links, the records inside it, and the start of its data. Every check is run again
    on the stored bytes, the signature included. Nothing that a record holds can act on your terminal: what is not
    plainly visible is shown as an escape.

    Example: bobbin show notes.lace //u//ding//links/1
    """
    from bobbin.lace import Lace
    from bobbin.records.record import validate

    out = Output(as_json=as_json)
    what = parse_wanted(wanted)
    freshen(out, folder)
    with Lace.open(folder, read_only=True) as lace:
        record = lace.get(what)
        if record is None:
            return record_not_found(out, lace, what)
        warn_unaccepted(out, lace, what, record)
    validate(record.raw, requested=record.hash)
    if as_json:
        out.result(_value(record))
    else:
        out.result(None, *_lines(out, record))
    return ExitCode.OK


def _value(record: "Record") -> dict[str, Json]:
    from bobbin.facts.extract import fields, index_headers
    from bobbin.records.record import Blob, Seal

    value: dict[str, Json] = {
        "hash": record.hash,
        "kind": record.kind.name.lower(),
        "size": len(record.raw),
        "fields": [{"name": name, "value": text} for name, text in fields(record)],
        "data_length": record.data_length,
        "data_preview": preview(record.data),
    }
    if not isinstance(record, Blob):
        value["coordinate"] = str(record.coordinate)
        value["tai"] = record.tai_text
        value["utc"] = utc_text(record.tai)
        value["signed_by"] = record.verifier if isinstance(record, Seal) else None
        value["signature"] = "valid" if isinstance(record, Seal) else None
        value["plex"] = record.plex_hash if isinstance(record, Seal) else None
        value["blob"] = record.blob_hash
        value["links"] = [
            {"name": header.name, "index": header.index, "data": header.link.data, "target": header.link.target}
            for header in index_headers(record.extras)
            if header.link is not None
        ]
    return value


def _lines(out: Output, record: "Record") -> Iterator[str]:
    from bobbin.facts.extract import index_headers
    from bobbin.records.record import Blob, Seal

    def row(label: str, text: str, *, remark: str = "", fg: str | None = None) -> str:
        shown = out.style(text, fg=fg) + (f"  {out.style(remark, dim=True)}" if remark else "")
        return f"{out.style(f'{label:<10}', dim=True)} {shown}"

    yield row(record.kind.name.capitalize(), record.hash, remark=size_text(len(record.raw)))
    if not isinstance(record, Blob):
        if isinstance(record, Seal):
            yield row("signed by", record.verifier)
            yield row("signature", "valid", fg="green")
            yield row("Plex", record.plex_hash, remark="inside")
        yield row("Blob", record.blob_hash, remark="inside")
        yield row("place", str(record.coordinate))
        yield row("TAI", record.tai_text, remark=utc_text(record.tai))
        headers = list(index_headers(record.extras))
        for header in headers:
            if header.link is None:
                yield row("header", f"{header.name}: {header.value}")
        for header in headers:
            if header.link is not None:
                yield row("link", f"{header.name}: {header.link.data} → {header.link.target}")
    yield row("data", size_text(record.data_length))
    for line in preview(record.data):
        yield f"  {line}"
