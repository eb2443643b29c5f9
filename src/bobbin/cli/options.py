"""Arguments and options that several commands share, and how their texts become values."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal, assert_never

import typer

from bobbin.errors import UsageError
from bobbin.records import coordinate, ids
from bobbin.records.coordinate import Address, Coordinate, CoordinateError, Prefix
from bobbin.records.ids import HashText, IdentifierError

LaceFolder = Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the lace.", show_default=False)]

AsJson = Annotated[bool, typer.Option("--json", metavar="", help="Answer in JSON, for programs.", show_default=False)]

Limit = Annotated[
    int | None, typer.Option("--limit", "-n", min=0, metavar="N", help="Stop after N.", show_default=False)
]

Workers = Annotated[
    int | None,
    typer.Option(
        "--workers", min=0, metavar="N", help="Processes that check signatures; 0: only this one. Default: one a core."
    ),
]


class FormChoice(StrEnum):
    """How a file of records is written, as the user says it."""

    AUTO = "auto"
    BUNDLE = "bundle"
    JSONL = "jsonl"


Form = Annotated[
    FormChoice,
    typer.Option("--form", help="bundle: records one after the other. jsonl: one line of JSON for each."),
]


def chosen_form(choice: FormChoice) -> Literal["bundle", "jsonl"] | None:
    """The form that the user named; None where the file itself shall say."""
    match choice:
        case FormChoice.AUTO:
            return None
        case FormChoice.BUNDLE:
            return "bundle"
        case FormChoice.JSONL:
            return "jsonl"
        case _:
            assert_never(choice)


def parse_hash(text: str) -> HashText:
    """A hash text, bare or as an address (``////P.….H3``)."""
    bare = text.removeprefix("////")
    try:
        ids.parse_hash(bare)
    except IdentifierError as error:
        raise UsageError(str(error)) from error
    return HashText(bare)


def parse_wanted(text: str) -> Address | Coordinate:
    """What ``get`` takes: a hash text, an address or a coordinate."""
    if not text.startswith("//"):
        try:
            return Address(hash=parse_hash(text))
        except UsageError as error:
            raise UsageError(
                f"neither a coordinate (//group//app//name) nor a record hash (P.<43 symbols>.H3): {text!r}"
            ) from error
    match parsed := coordinate.parse(text):
        case Address() | Coordinate():
            return parsed
        case Prefix():
            raise UsageError(f"{text} is a prefix and names many records; `bobbin list` shows them")
        case _:
            assert_never(parsed)


def parse_place(text: str) -> Coordinate | Prefix:
    """What ``list`` takes: a coordinate or a prefix."""
    parsed = coordinate.parse(text)
    if isinstance(parsed, Address):
        raise CoordinateError(f"{text} names one record; `bobbin show` shows it")
    return parsed


def parse_header(text: str) -> tuple[str, str]:
    """An extra header as it is typed: ``Name: value``."""
    name, separator, value = text.partition(": ")
    if not separator or not name or not value:
        raise UsageError(f"a header is 'Name: value', with a colon and one space: {text!r}")
    return name, value
