"""Text that is safe to show: what a record says may have been written by anyone.

A terminal obeys control characters, and some characters reorder or hide their neighbours. ``printable`` writes every
character that is not plainly visible as an escape, so the screen shows what the bytes are and nothing else happens.
"""

import codecs
from datetime import UTC, datetime
from typing import Final

from bobbin.records import tai

_PREVIEW_LINES_MAX: Final = 20
_PREVIEW_BYTES_MAX: Final = 1024
_HEX_COLUMNS: Final = 16
_TEXT_SHARE_MIN: Final = 0.9
"""The share of visible characters from which a preview counts as text."""


def printable(text: str, *, keep: str = "") -> str:
    """``text`` with everything that a terminal could obey or hide as an escape; characters in ``keep`` stay."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in keep else _escape(char) for char in text)


def _escape(char: str) -> str:
    code = ord(char)
    if char == "\n":
        return "\\n"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{{{code:04x}}}"


def escape_json(text: str) -> str:
    """Compact JSON with every such character as an escape. It means the same: they stand in strings only."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escape_json(char) for char in text)


def _escape_json(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def is_plain_text(data: bytes) -> bool:
    """Whether bytes are UTF-8 that a terminal shows as it stands: visible characters, line feeds and tabs."""
    text = _decode(data, whole=True)
    return text is not None and _share_visible(text) == 1.0


def preview(data: bytes) -> list[str]:
    """The first lines of some data, as text where it is text and as a hex dump where it is not; never raw."""
    head = data[:_PREVIEW_BYTES_MAX]
    text = _decode(head, whole=len(head) == len(data))
    if text is None or _share_visible(text) < _TEXT_SHARE_MIN:
        head = head[: _HEX_COLUMNS * _PREVIEW_LINES_MAX]
        lines = [_hex_row(at, head[at : at + _HEX_COLUMNS]) for at in range(0, len(head), _HEX_COLUMNS)]
    else:
        lines = [printable(line) for line in text.removesuffix("\n").split("\n")] if text else []
    is_cut = len(head) < len(data) or len(lines) > _PREVIEW_LINES_MAX
    return [*lines[:_PREVIEW_LINES_MAX], *([f"… {size_text(len(data))} in all"] if is_cut else [])]


def _decode(data: bytes, *, whole: bool) -> str | None:
    """UTF-8 as text, or None. Where more follows, the last character may be cut off."""
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(data, final=whole)
    except UnicodeDecodeError:
        return None


def _share_visible(text: str) -> float:
    return sum(char.isprintable() or char in "\n\t" for char in text) / len(text) if text else 1.0


def _hex_row(at: int, row: bytes) -> str:
    left, right = row[:8].hex(" "), row[8:].hex(" ")
    shown = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in row)
    return f"{at:06x}  {left:<23}  {right:<23}  {shown}"


def size_text(size: int) -> str:
    """A number of bytes, short: ``5 B``, ``1.5 kB``, ``32.0 MB``."""
    if size < 1000:
        return f"{size} B"
    value = float(size)
    for unit in ("kB", "MB", "GB", "TB"):
        value /= 1000
        if value < 999.95:
            return f"{value:.1f} {unit}"
    return f"{value / 1000:.1f} PB"


def count_text(count: int, one: str, many: str | None = None) -> str:
    """A number with its noun: ``1 record``, ``12,000 records``."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def utc_text(tai_ns: int) -> str:
    """An instant in UTC, to the second. What no calendar can say stays TAI."""
    try:
        moment = datetime.fromtimestamp(tai.to_utc(tai_ns) // tai.NANOSECONDS, UTC)
    except (ValueError, OverflowError, OSError):
        return tai.render(tai_ns)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
