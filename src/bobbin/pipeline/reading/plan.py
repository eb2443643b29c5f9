"""Which parts the sources of a job are read in."""

from collections.abc import Sequence

from bobbin.pipeline.reading.parts import Part, cut
from bobbin.pipeline.reading.read_parts import find_begin
from bobbin.pipeline.reading.sources import Form, Source


def plan_parts(sources: Sequence[Source], size: int) -> list[Part]:
    """Parts of about this size, in the order of their sources. What Spark reads itself has none."""
    parts: list[Part] = []
    for number, source in enumerate(sources):
        if source.form is Form.PARQUET:
            continue
        ranges = cut(source, size)
        if source.form is Form.BUNDLE:
            ranges = _guessed(source, ranges)
        joins = source.form is Form.BUNDLE and len(ranges) > 1
        for begin, end in ranges:
            parts.append(Part(number=len(parts), source=number, begin=begin, end=end, joins=joins))
    return parts


def _guessed(source: Source, ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same ranges of a bundle, each from the first place in it where a record seems to begin to the next such."""
    if not ranges:
        return []
    begins = [0]
    for begin, end in ranges[1:]:
        found = find_begin(source, begin, end)
        if found is not None:
            begins.append(found)
    return list(zip(begins, [*begins[1:], source.size], strict=True))
