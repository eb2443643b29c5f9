"""Fact blocks (Lace-050): control data as text, each line one fact, ``Predicate('constant',…)`` and LF.

A block is UTF-8 in form NFC. It holds no rule, no comment, no blank line and no white space outside constants; no
constant holds LF or CR, escaped or not. Zero bytes are the empty block; otherwise the last line has its LF too. So
every list of facts has exactly one spelling, and ``render(parse(block)) == block``. Order and repetition are data:
what they mean is for the reader of the facts to say.

Blocks come from peers, by the hundred thousand lines. The common line costs one regular expression and one split; the
expression never tries a character twice, so a hostile line costs no more than its length. A block is refused as a
whole, with a ``MalformedBlock`` that names the line, or an ``OversizedBlock``.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Final

from bobbin import profile
from bobbin.errors import PeerError, UsageError
from bobbin.facts.extract import Fact
from bobbin.facts.relations import Tuple
from bobbin.facts.text import CONSTANT, KNOWN_ESCAPES, NAME, UnknownEscape, is_plain, quote, unescape

BLOCK_BYTES_MAX: Final = 64 * 1024 * 1024
"""The default of the protocol page; each exchange may agree on less."""

MALFORMED: Final = "malformed-fact-block"
OVERSIZED: Final = "oversized-fact-block"

_NAME: Final = re.compile(NAME)
_CONSTANT: Final = re.compile(CONSTANT)
_LINE: Final = re.compile(rf"({NAME})\(({CONSTANT}(?:,{CONSTANT})*+)?+\)")
_PLAIN_LINE: Final = re.compile(
    rf"([A-Z][A-Za-z0-9_]{{0,{profile.NAME_CHARACTERS_MAX - 1}}}+)\('([^\\\x00-\x1f\x7f]*)'\)"
)
"""A line without escapes, its quotes not yet checked: what nearly every line is."""

_CHARACTER_BYTES_MAX: Final = 4
_SHORT_LINE: Final = profile.FACT_VALUE_BYTES_MAX // _CHARACTER_BYTES_MAX
"""No value in a line of so few characters can be too long."""


class MalformedBlock(PeerError):
    """A block breaks the rules of the text. ``line`` is the first bad line, counted from 1. Nothing of it was used."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(MALFORMED, f"line {line} of a fact block: {reason}")
        self.line = line
        self.reason = reason


class OversizedBlock(PeerError):
    """A block has more bytes or lines than agreed. It was not parsed any further."""

    def __init__(self, message: str) -> None:
        super().__init__(OVERSIZED, message)


def parse(
    block: bytes, *, bytes_max: int = BLOCK_BYTES_MAX, lines_max: int = profile.FACT_BLOCK_LINES_MAX
) -> list[Fact]:
    """Every fact of a block, in the order of its lines."""
    return list(read(block, bytes_max=bytes_max, lines_max=lines_max))


def read(
    block: bytes, *, bytes_max: int = BLOCK_BYTES_MAX, lines_max: int = profile.FACT_BLOCK_LINES_MAX
) -> Iterator[Fact]:
    """The facts of a block one by one, for a reader that keeps little. It must drop them all if an error follows."""
    text = _decode(block, bytes_max, lines_max)
    names: dict[str, str] = {}
    for number, line in enumerate(text.split("\n")[:-1], start=1):
        plain = _PLAIN_LINE.fullmatch(line)
        if plain is not None and len(line) <= _SHORT_LINE:
            name, constants = plain.groups()
            values: Tuple = tuple(constants.split("','"))
            # When every quote belongs to a separator, no value holds one, and the split was right.
            if constants.count("'") == 2 * len(values) - 2 and len(values) <= profile.FACT_ARGUMENTS_MAX:
                yield names.setdefault(name, name), values
                continue
        name, values = _parse_line(line, number)
        yield names.setdefault(name, name), values


def render(facts: Iterable[Fact]) -> bytes:
    """The block of some facts, in their order. Refuses a fact that no block can hold."""
    text = "".join([f"{render_fact(*fact)}\n" for fact in facts])
    if not unicodedata.is_normalized("NFC", text):
        raise UsageError("a fact is not in form NFC")
    return text.encode()


def render_fact(predicate: str, values: Tuple) -> str:
    """The line of one fact, without its LF. Whether it is in form NFC is for ``render`` to check."""
    if not _NAME.fullmatch(predicate) or len(predicate) > profile.NAME_CHARACTERS_MAX:
        raise UsageError(f"not the name of a predicate: {predicate[:80]!r}")
    if len(values) > profile.FACT_ARGUMENTS_MAX:
        raise UsageError(f"{predicate} has {len(values)} arguments; {profile.FACT_ARGUMENTS_MAX} are the most")
    if not values:
        return f"{predicate}()"
    if is_plain(",".join(values)):
        constants = "','".join(values)
        line = f"{predicate}('{constants}')"
    else:
        line = f"{predicate}({','.join(map(_quote, values))})"
    if len(line) > _SHORT_LINE and any(_is_too_long(value) for value in values):
        raise UsageError(f"a value of {predicate} has more than {profile.FACT_VALUE_BYTES_MAX} bytes")
    return line


def _quote(value: str) -> str:
    if "\n" in value or "\r" in value:
        raise UsageError("a fact block holds no value with a line break")
    return quote(value)


def _decode(block: bytes, bytes_max: int, lines_max: int) -> str:
    """The text of a block, checked for everything but the shape of its lines."""
    if len(block) > bytes_max:
        raise OversizedBlock(f"a fact block has at most {bytes_max} bytes, not {len(block)}")
    lines = block.count(b"\n")
    if lines > lines_max:
        raise OversizedBlock(f"a fact block has at most {lines_max} lines, not {lines}")
    try:
        text = block.decode()
    except UnicodeDecodeError as error:
        raise MalformedBlock(block.count(b"\n", 0, error.start) + 1, "it is not UTF-8") from error
    if not unicodedata.is_normalized("NFC", text):
        bad = (number for number, line in enumerate(text.split("\n"), 1) if not unicodedata.is_normalized("NFC", line))
        raise MalformedBlock(next(bad), "it is not in form NFC")
    if block and not block.endswith(b"\n"):
        raise MalformedBlock(lines + 1, "it does not end with LF")
    return text


def _parse_line(line: str, number: int) -> Fact:
    """The fact of any line; says what is wrong with one that has none."""
    found = _LINE.fullmatch(line)
    if found is None:
        raise MalformedBlock(number, _explain(line))
    name, constants = found.groups()
    if len(name) > profile.NAME_CHARACTERS_MAX:
        raise MalformedBlock(number, f"a name has at most {profile.NAME_CHARACTERS_MAX} characters")
    try:
        values = tuple(unescape(constant[0][1:-1]) for constant in _CONSTANT.finditer(constants or ""))
    except UnknownEscape as error:
        raise MalformedBlock(number, f"{error}; known are {KNOWN_ESCAPES}") from error
    if len(values) > profile.FACT_ARGUMENTS_MAX:
        raise MalformedBlock(number, f"a fact has at most {profile.FACT_ARGUMENTS_MAX} arguments")
    if any(map(_is_too_long, values)):
        raise MalformedBlock(number, f"a value has at most {profile.FACT_VALUE_BYTES_MAX} bytes")
    if any("\n" in value or "\r" in value for value in values):
        raise MalformedBlock(number, "a constant holds a line break")
    return name, values


def _is_too_long(value: str) -> bool:
    limit = profile.FACT_VALUE_BYTES_MAX
    return len(value) > limit or (len(value) * _CHARACTER_BYTES_MAX > limit and len(value.encode()) > limit)


def _explain(line: str) -> str:
    """Why a line is no fact, for a person who looks for the mistake."""
    if not line:
        return "it is blank"
    if "\r" in line:
        return "it holds CR; lines end with LF only"
    if line[0] in "#%":
        return "it is a comment"
    if re.search(r"\) *:-", line):
        return "it is a rule"
    if line.endswith("."):
        return "a full stop stands behind the fact"
    if not _NAME.match(line):
        return "it does not begin with the name of a predicate"
    return "it is not of the form Predicate('constant',…)"
