"""``bobbin facts``: what the stored records say, as relations."""

from typing import Annotated

import typer

from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.options import AsJson, LaceFolder, Limit
from bobbin.cli.output import Output
from bobbin.cli.text import printable

_ANY = "_"


def facts(
    folder: LaceFolder,
    predicate: Annotated[
        str,
        typer.Argument(metavar="PREDICATE", help="Have, Field, RecordLink, BlobHash or PlexHash.", show_default=False),
    ],
    values: Annotated[
        list[str] | None, typer.Argument(metavar="ARG", help="One value per argument; _ for any.", show_default=False)
    ] = None,
    limit: Limit = None,
    as_json: AsJson = False,
) -> ExitCode:
    """List facts: what the stored records say.

    All of a predicate, or those that agree with a pattern.

    Have(P) · Field(P, Name, Index, Value) · RecordLink(P, Name, Index, Data, Target) · BlobHash(P, H) · PlexHash(P,
    H)

    Example: bobbin facts notes.lace Field _ Name _ links/1
    """
    from bobbin.facts.relations import check_pattern
    from bobbin.facts.text import quote
    from bobbin.lace import Lace

    out = Output(as_json=as_json)
    pattern = tuple(None if value == _ANY else value for value in values or ())
    count = 0
    with Lace.open(folder, read_only=True) as lace:
        if pattern:
            check_pattern(predicate, pattern)
            found = lace.facts.match(predicate, pattern)
        else:
            found = lace.facts.enumerate(predicate)
        for fact in found:
            if count == limit:
                break
            count += 1
            out.row({"predicate": predicate, "values": fact}, printable(f"{predicate}({','.join(map(quote, fact))})"))
    if count == 0 and limit != 0:
        out.note("no such fact")
    return ExitCode.OK
