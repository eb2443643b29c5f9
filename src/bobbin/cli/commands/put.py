"""``bobbin put``: store one record."""

from typing import TYPE_CHECKING, Annotated

import typer

from bobbin import profile
from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.options import AsJson, LaceFolder, parse_header
from bobbin.cli.output import Output, refused
from bobbin.cli.sources import read_whole
from bobbin.cli.text import utc_text
from bobbin.cli.times import FORMS, parse_time

if TYPE_CHECKING:
    from bobbin.records.record import Plex, Seal


def put(
    folder: LaceFolder,
    file: Annotated[str, typer.Argument(metavar="FILE", help="What to store; - for stdin.", show_default=False)],
    group: Annotated[str, typer.Option("--group", "-g", metavar="G", help="Group of the record.", show_default=False)],
    app: Annotated[str, typer.Option("--app", "-a", metavar="A", help="App of the record.", show_default=False)],
    name: Annotated[str, typer.Option("--name", "-N", metavar="N", help="Name of the record.", show_default=False)],
    tai: Annotated[str | None, typer.Option(metavar="T", help=f"Time of the record: {FORMS}. Default: now.")] = None,
    header: Annotated[
        list[str] | None, typer.Option("--header", "-H", metavar="'K: V'", help="Extra header. May be repeated.")
    ] = None,
    sign: Annotated[bool, typer.Option("--sign", "-s", metavar="", help="Sign with the default key.")] = False,
    key: Annotated[str | None, typer.Option("--key", metavar="NAME", help="Sign with this key.")] = None,
    as_json: AsJson = False,
) -> ExitCode:
    """Store a record and print its hash.

    The hash is its name for ever. The record is on disk when the command ends. Storing the same record again
    changes nothing. Ends with 1 if the record was removed earlier and is refused. Where it ends before anybody knows
    whether the record is stored, stderr names the record, and says how to store it once.

    Example: echo hello | bobbin put notes.lace --group u --app ding --name links/1 --sign -
    """
    from bobbin.errors import ResourceError
    from bobbin.lace import Lace
    from bobbin.records import link
    from bobbin.store.base import Outcome

    out = Output(as_json=as_json)
    headers = [parse_header(text) for text in header or ()]
    instant = None if tai is None else parse_time(tai)
    data = read_whole(file, bytes_max=profile.DATA_BYTES_MAX, what="the data of one record")
    with Lace.open(folder) as lace:
        record = lace.build(
            data, group=group, app=app, name=name, tai=instant, headers=headers, sign=sign if key is None else key
        )
        try:
            (answer,) = lace.store.put_records([record])
        except (ResourceError, KeyboardInterrupt) as error:
            if _may_be_stored(error):
                _say_how_to_store_once(out, record, is_timed=tai is not None)
            raise
    if answer.outcome is Outcome.REFUSED:
        why = answer.reason or "no reason given"
        return refused(out, f"{record.hash} was removed on purpose ({why}); `bobbin lift` ends the refusal")
    out.result(
        {
            "hash": record.hash,
            "outcome": answer.outcome.value,
            "coordinate": str(record.coordinate),
            "tai": record.tai_text,
            "utc": utc_text(record.tai),
            "data_length": record.data_length,
            "signed_by": getattr(record, "verifier", None),
        },
        record.hash,
    )
    for label, value in headers:
        if label.endswith(link.NAME_SUFFIX) and link.parse(label, value) is None:
            out.warn(
                f"the header '{label}: {value}' makes no link: its value is words, a space and the hash of a record. "
                "It was stored as an ordinary header"
            )
    if answer.outcome is Outcome.DUPLICATE:
        out.note("already stored; nothing was changed")
    return ExitCode.OK


def _may_be_stored(error: BaseException) -> bool:
    from bobbin.runtime.cluster_client import OutcomeUnknown
    from bobbin.runtime.replicated_proposing import NotHereYet

    return isinstance(error, OutcomeUnknown | NotHereYet | KeyboardInterrupt)


def _say_how_to_store_once(out: Output, record: "Plex | Seal", *, is_timed: bool) -> None:
    """The next attempt would be another record, by its time or its signature. This one may be stored after all."""
    from bobbin.records.record import Seal

    if isinstance(record, Seal):
        out.warn(f"the record is {record.hash}; look for it before you try again: signed once more, it is another one")
    elif not is_timed:
        out.warn(f"the record is {record.hash}; try again with --tai {record.tai_text}, and it is stored once")
