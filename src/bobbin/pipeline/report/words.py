"""Numbers with their units, times, and texts of others, in the form in which a page shows them."""

import html
from datetime import UTC, datetime

from bobbin.records import tai

_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_SHORT = (("", 1), ("k", 10**3), ("M", 10**6), ("G", 10**9), ("T", 10**12))


def escaped(text: str) -> str:
    """Text for a page, whoever wrote it: no markup, and nothing that hides or reorders what stands beside it."""
    visible = "".join(char if char.isprintable() else _ESCAPES.get(char, f"\\u{{{ord(char):04x}}}") for char in text)
    return html.escape(visible, quote=True)


def count(number: int) -> str:
    """A whole number: ``12,345``."""
    return f"{number:,}"


def counted(number: int, one: str, many: str | None = None) -> str:
    """A number with its noun: ``1 record``, ``12,345 records``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def short(number: float) -> str:
    """A number for an axis: ``950``, ``1.5k``, ``20M``."""
    for unit, factor in reversed(_SHORT):
        if abs(number) >= factor:
            return f"{number / factor:.3g}{unit}"
    return f"{number:.3g}"


def mean(number: float) -> str:
    """A mean: ``0.0123``, ``1.02``, ``244.1``."""
    return f"{number:,.1f}" if number >= 10 else f"{number:.3g}"


def size(number: float) -> str:
    """A number of bytes: ``5 B``, ``1.5 kB``, ``32.0 MB``."""
    if number < 1000:
        return f"{number:.0f} B"
    for unit in ("kB", "MB", "GB", "TB"):
        number /= 1000
        if number < 999.95:
            return f"{number:.1f} {unit}"
    return f"{number / 1000:.1f} PB"


def power(number: int) -> str:
    """A power of two as a number of bytes: ``512 B``, ``4 KiB``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if number < 1024:
            return f"{number} {unit}"
        number //= 1024
    return f"{number} TiB"


def share(part: int, whole: int) -> str:
    """A part of a whole in per cent; what is there never shows as nothing, and what lacks something never as all."""
    if not whole or not part:
        return "0 %"
    if part == whole:
        return "100 %"
    value = 100 * part / whole
    if value < 0.1:
        return "< 0.1 %"
    return "> 99.9 %" if value > 99.9 else f"{value:.1f} %"


def seconds(number: float) -> str:
    """A duration: ``0.4 s``, ``3 min 20 s``, ``2 h 5 min``."""
    if number < 60:
        return f"{number:.1f} s"
    minutes, rest = divmod(round(number), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def width(number: int) -> str:
    """How long a bucket of time is, as an adjective: ``day``, ``6-hour``, ``28-day``."""
    for unit, factor in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if number % factor == 0:
            return unit if number == factor else f"{number // factor}-{unit}"
    return f"{number}-second"


def moment(second: int, bucket: int = 1) -> str:
    """A Unix second by the calendar, in UTC, as exactly as a bucket of that many seconds deserves."""
    try:
        when = datetime.fromtimestamp(second, UTC)
    except (OverflowError, OSError, ValueError):
        return f"{second} s"
    return when.strftime("%Y-%m-%d" if bucket % 86400 == 0 else "%Y-%m-%d %H:%M" if bucket > 1 else "%Y-%m-%d %H:%M:%S")


def instant(text: str) -> str:
    """A TAI text in UTC, to the second; as it is where it is no time."""
    try:
        second = tai.to_utc(tai.parse(text)) // tai.NANOSECONDS
        return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (tai.TaiError, OverflowError, OSError, ValueError):
        return text
