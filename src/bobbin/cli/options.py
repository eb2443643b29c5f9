"""Arguments and options that several commands share, and how their texts become values."""

import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final, Literal, assert_never

import typer

from bobbin.errors import UsageError
from bobbin.records import b64a, coordinate, ids
from bobbin.records.coordinate import Address, Coordinate, CoordinateError, Prefix
from bobbin.records.ids import HashText, IdentifierError

_KINDS: Final = ("B", "P", "S")
_OTHER_IDENTIFIERS: Final = {
    "V": "a verifier, the name of a signer",
    "R": "the identifier of a policy",
    "&": "a signing secret, which belongs on no command line",
}
_SYMBOLS: Final = b64a.length(ids.DIGEST_SIZE)
_HASH_FORM: Final = f"P.<{_SYMBOLS} symbols>.{ids.SUFFIX}"
_LIKE_A_HASH: Final = re.compile(rf"^(?!//)(?:[A-Za-z&]\.|.{{20,}}\.{ids.SUFFIX}$|[0-9A-Z_a-z~]{{40,}}$)")
"""What somebody who typed it will have meant as a hash."""

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


class LimitsChoice(StrEnum):
    """How much one exchange, and evaluating its rules, may cost."""

    DEFAULT = "default"
    LARGE = "large"


class StrategyChoice(StrEnum):
    """How two sides find out what the other offers."""

    AUTO = "auto"
    SKETCH = "sketch"
    RANGES = "ranges"
    PARTITIONS = "partitions"
    LISTING = "listing"


StrategyOption = Annotated[
    StrategyChoice | None,
    typer.Option(
        "--strategy", help="How the sides find out what the other offers. Default: as noted for the peer, else auto."
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
    """A hash text, bare or as an address (``////P.….H3``). What is wrong with another text is said in full."""
    bare = text.removeprefix("////")
    try:
        ids.parse_hash(bare)
    except IdentifierError as error:
        raise UsageError(f"{text!r} is no record hash: {_hash_fault(bare)}. Expected {_HASH_FORM}") from error
    return HashText(bare)


def _hash_fault(text: str) -> str:
    """What keeps a text from being a record hash."""
    if "…" in text or "..." in text:
        return "it is shortened; the whole hash is needed"
    if text != text.strip():
        return "white space stands before or behind it"
    letter, dot, rest = text.partition(".")
    if not dot:
        return "it has no full stop after the letter of its kind"
    if letter not in _KINDS:
        meaning = _OTHER_IDENTIFIERS.get(letter)
        if meaning is not None:
            return f"it is {meaning}"
        hint = f" (kinds are capitals: {letter.upper()})" if letter.upper() in _KINDS else ""
        return f"it begins with {letter!r}, not with B (Blob), P (Plex) or S (Seal){hint}"
    symbols, dot, suffix = rest.partition(".")
    if wrong := next((symbol for symbol in symbols if symbol not in b64a.ALPHABET), None):
        at = len(letter) + 1 + symbols.index(wrong) + 1
        return f"its character {at} is {wrong!r}; symbols are 0-9, A-Z, _, a-z and ~"
    if len(symbols) != _SYMBOLS:
        amount = "more" if len(symbols) > _SYMBOLS else "fewer"
        return f"it has {len(symbols)} symbols after {letter}. and so {amount} than {_SYMBOLS}"
    if suffix != ids.SUFFIX:
        return f"it ends in {dot + suffix!r}, not in '.{ids.SUFFIX}'"
    return f"its last symbol, {symbols[-1]!r}, ends no hash, so a symbol is wrong"


def parse_wanted(text: str) -> Address | Coordinate:
    """What ``get`` takes: a hash text, an address or a coordinate."""
    if text.startswith("////") or _LIKE_A_HASH.search(text):
        return Address(hash=parse_hash(text))
    if not text.startswith("//"):
        raise UsageError(f"neither a coordinate (//group//app//name) nor a record hash ({_HASH_FORM}): {text!r}")
    match parsed := coordinate.parse(text):
        case Address() | Coordinate():
            return parsed
        case Prefix():
            ending = f"; without the / at its end it is the record {text[:-1]}" if parsed.name else ""
            raise UsageError(f"{text} is a prefix: the records below it, which `bobbin list` shows, not one{ending}")
        case _:
            assert_never(parsed)


def parse_place(text: str) -> Coordinate | Prefix:
    """What ``list`` takes: a coordinate or a prefix."""
    if _LIKE_A_HASH.search(text):
        raise CoordinateError(f"{text} is a hash and names one record; `bobbin show` shows it")
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
