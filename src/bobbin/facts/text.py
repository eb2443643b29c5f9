"""How a value is written: in quotes, with five escapes (Lace-030). Rules and fact blocks share this one spelling.

Every value that can be written has exactly one spelling. Control characters other than LF, CR and tab have none, nor
have surrogates: no valid record or program holds such a value.
"""

import re
from typing import Final

from bobbin import profile
from bobbin.errors import UsageError

NAME: Final = r"[A-Z][A-Za-z0-9_]*+"
"""A regular expression for the name of a predicate or variable, its length left open."""

CONSTANT: Final = r"'(?:[^'\\\x00-\x1f\x7f]++|\\[^\x00-\x1f\x7f])*+'"
"""A regular expression for a constant, whether or not its escapes exist. It never looks at a character twice."""

_SPECIAL: Final = re.compile(r"['\\\x00-\x1f\x7f\ud800-\udfff]")
_UNSPEAKABLE: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
_ESCAPE: Final = re.compile(r"\\(.?)", re.DOTALL)
_TABLE: Final = str.maketrans(dict(profile.CONSTANT_ESCAPES))
_VALUES: Final = {spelled[1:]: value for value, spelled in profile.CONSTANT_ESCAPES.items()}

KNOWN_ESCAPES: Final = " ".join(profile.CONSTANT_ESCAPES.values())


class UnknownEscape(ValueError):
    """A backslash stands before something that is no escape. ``escape`` is what was found."""

    def __init__(self, escape: str) -> None:
        super().__init__(f"no escape is spelled {escape}")
        self.escape = escape


def is_plain(text: str) -> bool:
    """Whether a text stands in quotes as it is, without escapes."""
    return _SPECIAL.search(text) is None


def quote(value: str) -> str:
    """The constant that stands for a value. Refuses a value that has no spelling."""
    if is_plain(value):
        return f"'{value}'"
    if unspeakable := _UNSPEAKABLE.search(value):
        raise UsageError(f"a value with the character U+{ord(unspeakable[0]):04X} cannot be written")
    return f"'{value.translate(_TABLE)}'"


def unescape(spelled: str) -> str:
    """The value of what stands between the quotes of a constant, or ``UnknownEscape``."""
    return _ESCAPE.sub(_unescape_one, spelled) if "\\" in spelled else spelled


def _unescape_one(escape: re.Match[str]) -> str:
    value = _VALUES.get(escape[1])
    if value is None:
        raise UnknownEscape(escape[0])
    return value
