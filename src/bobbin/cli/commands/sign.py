"""``bobbin sign``: sign a stored record."""

from typing import Annotated

import typer

from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.missing import record_not_found
from bobbin.cli.one_record import one_record
from bobbin.cli.options import AsJson, LaceFolder, parse_wanted
from bobbin.cli.output import Output
from bobbin.records.ids import Kind


def sign(
    folder: LaceFolder,
    wanted: Annotated[
        str,
        typer.Argument(
            metavar="HASH|COORDINATE",
            help="Hash of a stored Plex, or //group//app//name if it has only one.",
            show_default=False,
        ),
    ],
    key: Annotated[
        str | None, typer.Option("--key", metavar="NAME", help="Key to sign with. Default: the lace's.")
    ] = None,
    as_json: AsJson = False,
) -> ExitCode:
    """Sign a stored record.

    Prints the hash of the Seal, which is stored beside the Plex that it signs. A coordinate must have exactly one Plex;
    Seals do not count.

    Example: bobbin sign notes.lace P.tyYE….H3
    """
    from bobbin.lace import Lace

    out = Output(as_json=as_json)
    what = parse_wanted(wanted)
    with Lace.open(folder) as lace:
        hash_text = one_record(lace, what, kind=Kind.PLEX)
        if hash_text is None or not lace.have(hash_text):
            return record_not_found(out, lace, what)
        verifier = lace.key(key).verifier
        seal = lace.sign(hash_text, key=key)
    out.result({"hash": seal, "plex": hash_text, "signed_by": verifier}, seal)
    return ExitCode.OK
