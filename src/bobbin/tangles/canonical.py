"""JSON as JavaScript reads and writes it, and the one canonical text of each value (RFC 8785).

Two texts matter. The *plain* text is what a JavaScript peer would send: keys in the order in which they came, but keys
that are array indices first, ascending. The *canonical* text is what is hashed and signed: keys sorted by UTF-16 code
unit. In both, a number is a double in its shortest JavaScript form, so a whole number beyond 2^53 is rounded first.

Most values need none of that care, and the fast encoder writes them as it should; only a value with a fraction, a large
number or an unusual key is written piece by piece. The two ways never differ.
"""

from math import isfinite
from typing import Final, TypeAlias

import orjson

from bobbin.tangles.errors import MalformedText

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

SAFE_INTEGER_MAX: Final = 2**53 - 1
NESTING_MAX: Final = 200
"""How deep a value may be nested. JavaScript has no such bound; no message that anybody writes comes near it."""

_INDEX_MAX: Final = 2**32 - 2


def parse(raw: bytes | str) -> Json:
    """The value of a JSON text. Raises ``MalformedText``."""
    try:
        value: Json = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise MalformedText(f"not JSON: {error}") from None
    return value


def canonical(value: Json) -> bytes:
    """The canonical text of a value, in UTF-8. Raises ``MalformedText`` for one that has none."""
    return _written(value, by_code_unit=True)


def plain(value: Json) -> bytes:
    """The text that JavaScript writes for a value, in UTF-8. Raises ``MalformedText`` as ``canonical`` does."""
    return _written(value, by_code_unit=False)


def number_text(number: float) -> str:
    """A double as JavaScript writes it."""
    if not isfinite(number):
        raise MalformedText("a number is not finite")
    if number == 0:
        return "0"
    sign = "-" if number < 0 else ""
    mantissa, _, exponent_text = repr(abs(number)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    if fraction == "0":
        fraction = ""
    digits = (whole + fraction).lstrip("0")
    # The value is 0.digits times ten to the power of point.
    point = int(exponent_text or 0) + len(whole) - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    count = len(digits)
    if count <= point <= 21:
        return sign + digits + "0" * (point - count)
    if 0 < point <= 21:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    power = f"e{'+' if point > 0 else '-'}{abs(point - 1)}"
    return sign + (digits if count == 1 else f"{digits[0]}.{digits[1:]}") + power


def _written(value: Json, *, by_code_unit: bool) -> bytes:
    try:
        if _is_ordinary(value, by_code_unit, 0):
            return orjson.dumps(value, option=orjson.OPT_SORT_KEYS if by_code_unit else 0)
        pieces: list[str] = []
        _write(value, pieces, by_code_unit, 0)
        return "".join(pieces).encode()
    except (TypeError, UnicodeEncodeError):
        raise MalformedText("a text contains half of a surrogate pair") from None


def _is_ordinary(value: Json, by_code_unit: bool, depth: int) -> bool:  # noqa: FBT001 -- called for every node
    """Whether the fast encoder writes this value as JavaScript does."""
    kind = type(value)
    if kind is str or value is None or kind is bool:
        return True
    if isinstance(value, int):
        return -SAFE_INTEGER_MAX <= value <= SAFE_INTEGER_MAX
    if kind is float:
        return False
    if depth == NESTING_MAX:
        raise MalformedText(f"nested more than {NESTING_MAX} deep")
    depth += 1
    if isinstance(value, dict):
        for key, item in value.items():
            # Code points and code units sort alike in ASCII; digits may be an array index.
            if not key.isascii() or (not by_code_unit and key.isdigit()) or not _is_ordinary(item, by_code_unit, depth):
                return False
        return True
    return isinstance(value, list) and all(_is_ordinary(item, by_code_unit, depth) for item in value)


def _write(value: Json, pieces: list[str], by_code_unit: bool, depth: int) -> None:  # noqa: FBT001 -- as above
    if value is None or isinstance(value, (bool, str)):
        pieces.append(orjson.dumps(value).decode())
    elif isinstance(value, int):
        pieces.append(str(value) if abs(value) <= SAFE_INTEGER_MAX else number_text(_double(value)))
    elif isinstance(value, float):
        pieces.append(number_text(value))
    elif depth == NESTING_MAX:
        raise MalformedText(f"nested more than {NESTING_MAX} deep")
    elif isinstance(value, list):
        mark = "["
        for item in value:
            pieces.append(mark)
            _write(item, pieces, by_code_unit, depth + 1)
            mark = ","
        pieces.append("]" if value else "[]")
    else:
        mark = "{"
        for key in _sorted_by_code_unit(value) if by_code_unit else _in_property_order(value):
            pieces += (mark, orjson.dumps(key).decode(), ":")
            _write(value[key], pieces, by_code_unit, depth + 1)
            mark = ","
        pieces.append("}" if value else "{}")


def _double(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        raise MalformedText("a number is larger than any double") from None


def _sorted_by_code_unit(value: dict[str, Json]) -> list[str]:
    return sorted(value, key=lambda key: key.encode("utf-16-be"))


def _in_property_order(value: dict[str, Json]) -> list[str]:
    """Keys as JavaScript keeps them: array indices first, ascending, and then the others as they came."""
    indices = [key for key in value if key.isascii() and key.isdigit() and _is_index(key)]
    if not indices:
        return list(value)
    known = set(indices)
    return sorted(indices, key=int) + [key for key in value if key not in known]


def _is_index(key: str) -> bool:
    return len(key) <= 10 and (key == "0" or key[0] != "0") and int(key) <= _INDEX_MAX
