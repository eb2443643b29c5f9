"""The parts that sources are read in, and whether the parts of one bundle join.

A part is what one task reads: a range of bytes of a bundle or of a file of lines, or a range of positions of a lace.
Small files are read whole, many in one task. Parts of lines join by themselves, since every line feed ends a line.
Parts of bundles begin at guesses, and ``judge`` says from how they ended which of them count (``bundle_part``).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from bobbin.pipeline.reading.sources import Form, Source

PART_BYTES_MIN: Final = 4 << 20
PART_BYTES_MAX: Final = 128 << 20
PARTS_PER_CORE: Final = 4
"""More parts than cores, so that no core waits long for the last part of another."""

TASK_FILES_MAX: Final = 4096
"""Opening a file takes time too: so many at most are one task, however small they are."""


class Part(Struct, frozen=True, kw_only=True):
    """One range of one source."""

    number: int
    """No other part of the run has it, also not one that replaces this one."""
    source: int
    """Which of the sources."""
    begin: int
    end: int
    """The part has what begins in this range. A record across the end belongs to it."""
    joins: bool = False
    """Whether it is one of several of a bundle, so that where it ends says whether the next one counts."""
    spent: int = 0
    """What was spent on failed proofs before, in a bundle; 0 where nobody knows."""


class Tally(Struct, frozen=True, kw_only=True):
    """What one part held, as its worker counted it; or several that need not join, together."""

    part: int
    """Its number; ``SEVERAL`` for all parts of a task that need not join."""
    parts: int = 1
    records: int
    rejected: int
    record_bytes: int = 0
    rejected_bytes: int = 0
    largest: int = 0
    """The bytes of the largest of either."""
    reasons: dict[str, int] = field(default_factory=dict)
    """How many were rejected for each."""
    kinds: dict[str, int] = field(default_factory=dict)
    """How many records have names that begin with each letter."""
    end: int = 0
    """This and the next two are the ``Joint`` of a part of a bundle."""
    spent: int = 0
    slack: int = 0


SEVERAL: Final = -2
UNREAD: Final = -1
"""The number of a part that is still to be read, and gets its own then."""


def part_bytes(total: int, cores: int) -> int:
    """How large parts are where there is so much to read."""
    return max(PART_BYTES_MIN, min(PART_BYTES_MAX, -(-total // (PARTS_PER_CORE * cores))))


def cut(source: Source, size: int) -> list[tuple[int, int]]:
    """The ranges of a source that are about so large. Nothing says yet where in them the first record begins."""
    if source.form is Form.LACE:
        # Positions instead of bytes: so many of them as have about the size, if records are alike.
        size = max(1, source.positions * size // max(1, source.size))
    total = source.positions if source.form is Form.LACE else source.size
    return [(begin, min(begin + size, total)) for begin in range(0, total, size)]


def tasks(parts: Sequence[Part], size: int) -> Iterator[tuple[Part, ...]]:
    """Parts in groups of about one part's size, in order: what one task reads."""
    group: list[Part] = []
    held = 0
    for part in parts:
        if group and (held + part.end - part.begin > size or len(group) == TASK_FILES_MAX):
            yield tuple(group)
            group, held = [], 0
        group.append(part)
        held += part.end - part.begin
    if group:
        yield tuple(group)


def judge(parts: Sequence[Part], tallies: Mapping[int, Tally]) -> list[Part]:
    """Walk along the parts of one bundle: each must begin where the one before has ended, the first where it does.

    Returns the parts that shall be there, in order: those that fit as they are, and ``UNREAD`` in place of those that
    do not. A part that lies whole inside the one before is gone. If nothing is unread, the pieces of these parts are
    those of the whole. Else read those, and ask again; every time at least the first of them is settled. What is said
    about the others is a good guess: a part ends where it ended before, unless the damage at its begin reaches so far.
    """
    judged: list[Part] = []
    at, spent = (parts[0].begin, parts[0].spent) if parts else (0, 0)
    is_settled = True
    for part in parts:
        tally = tallies[part.number]
        if part.begin == at and 0 <= spent - part.spent <= tally.slack:
            judged.append(part)
        elif at < part.end:
            judged.append(replace(part, number=UNREAD, begin=at, spent=spent))
            is_settled = False
        else:
            if not is_settled:
                judged.append(part)
            continue
        at, spent = max(at, tally.end), spent + tally.spent
    return judged
