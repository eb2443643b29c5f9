"""The lake that a command names, and how its tables and times are shown."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Final

import typer

from bobbin.cli.pipeline_run import LOCAL, require_extra
from bobbin.cli.text import utc_text
from bobbin.errors import UsageError
from bobbin.records import tai

if TYPE_CHECKING:
    from bobbin.store.lake.files import Files
    from bobbin.store.lake.lake import Lake

LakeArgument = Annotated[
    str,
    typer.Argument(metavar="LAKE", help="Folder of the lake: a path, or any that Hadoop knows.", show_default=False),
]
LakeMaster = Annotated[
    str,
    typer.Option("--master", metavar="URL", help="Where Spark runs, which only a lake elsewhere needs."),
]

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


@contextmanager
def reached(location: str, *, master: str = LOCAL) -> Iterator["Files"]:
    """The files of a lake that the user names. Needs pyarrow; Spark and Java only for an address of Hadoop's."""
    require_extra("pyarrow")
    from bobbin.store.lake import files

    if not files.is_elsewhere(location):
        yield files.local_files(location)
        return
    require_extra()
    from bobbin.pipeline.failures import explained
    from bobbin.pipeline.hadoop_files import files_of
    from bobbin.pipeline.spark import session

    with explained(f"reaching the lake {location}"), session(master=master, application="lake") as opened:
        yield files_of(opened, location)


@contextmanager
def open_lake(location: str, *, master: str = LOCAL) -> Iterator["Lake"]:
    """The lake that the user names, for as long as it can be reached."""
    with reached(location, master=master) as files:
        from bobbin.store.lake.lake import Lake

        yield Lake.open(location, files=files)


def parse_age(text: str) -> float:
    """A length of time as people type it, in seconds: ``90s``, ``15m``, ``12h``, ``7d``, ``2w``, or ``0``."""
    number, unit = (text[:-1], text[-1]) if text and text[-1] in _UNITS else (text, "s" if text == "0" else "")
    if not unit or not (number.isascii() and number.isdecimal()):
        raise UsageError(f"not a length of time: {text!r}. Expected a number and s, m, h, d or w, as in 7d")
    return float(int(number) * _UNITS[unit])


def when(text: str) -> str:
    """A time of the lake, in UTC."""
    return utc_text(tai.parse(text))
