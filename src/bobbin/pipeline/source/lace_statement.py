"""One query over the tables of a lace's store: the columns that are wanted, the rows that conditions leave.

Rows are found in one of five ways, and every other condition is looked at for each row that is found:

============  ====================================================================================================
``IDS``       along the ids, in order: everything in a range of ``StoreRecordId``
``RECORDS``   by the keys of records: names that are given, or a range of keys for the beginning of a name
``PLACES``    along the index of places and names
``TIMES``     along the index of times
``SIGNERS``   along the index of signers
============  ====================================================================================================

SQLite is told which way to go, since without statistics it would guess. Which way is best is found by counting
(``lace_slices``). A time is a number in the store and a text in a row; texts of times sort like the times, so a bound
on one is a bound on the other, also where the text is only the beginning of a time.
"""

import re
from array import array
from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypeAlias

import apsw
from msgspec import Struct

from bobbin.errors import UsageError
from bobbin.pipeline.source.conditions import Condition, OneOf, StartsWith, Within
from bobbin.records import b64a, ids, tai
from bobbin.records.ids import IdentifierError, Kind
from bobbin.store.sqlite import coding

if TYPE_CHECKING:
    from apsw import CArrayBinding

Binding: TypeAlias = "int | str | bytes | CArrayBinding"

_TIME: Final = "0000000000:000000000"
_TIME_BEGIN: Final = re.compile(r"[0-9]{0,10}|[0-9]{10}:[0-9]{0,9}", re.ASCII)
_NAME_BEGIN: Final = re.compile(r"([BPS])\.([0-9A-Z_a-z~]+)(?:\.H?3?)?", re.ASCII)
_KEY_SYMBOLS: Final = 10
"""As many whole symbols as a key of 64 bits covers."""


class Way(StrEnum):
    """How rows are found."""

    IDS = "ids"
    RECORDS = "records"
    PLACES = "places"
    TIMES = "times"
    SIGNERS = "signers"


_FROM: Final = {
    Way.IDS: "fact f NOT INDEXED",
    Way.RECORDS: "record k INDEXED BY record_by_key CROSS JOIN fact f ON f.id = k.id",
    Way.PLACES: "fact f INDEXED BY fact_by_place",
    Way.TIMES: "fact f INDEXED BY fact_by_tai",
    Way.SIGNERS: "fact f INDEXED BY fact_by_signer",
}
_OF_COLUMN: Final = {
    "record": Way.RECORDS,
    "group": Way.PLACES,
    "app": Way.PLACES,
    "name": Way.PLACES,
    "tai": Way.TIMES,
    "signer": Way.SIGNERS,
}
_SOURCE: Final = {
    "group": ("p.group_path", "LEFT JOIN place p ON p.id = f.place"),
    "app": ("p.app", "LEFT JOIN place p ON p.id = f.place"),
    "name": ("f.name", ""),
    "tai": ("f.tai", ""),
    "signer": ("t.value", "LEFT JOIN text t ON t.id = f.signer"),
    "data_length": ("f.data_length", ""),
    "raw": ("r.raw", "CROSS JOIN record r ON r.id = f.id"),
}
"""Where the columns come from that are not in every answer, and what must be joined for each."""

OPTIONAL: Final = tuple(_SOURCE)
"""The columns that a query may name besides."""

FIXED: Final = ("f.id", "f.kind", "f.digest")
"""What every answer begins with."""


class Term(Struct, frozen=True):
    """A piece of a WHERE clause and what is bound in it."""

    text: str
    bindings: tuple[Binding, ...] = ()


_ALWAYS: Final = Term("1")


def is_exact(condition: Condition) -> bool:
    """Whether the store answers a condition fully. What it finds by keys of records must be looked at again."""
    if condition.column == "record":
        return False
    if isinstance(condition, Within) and condition.column == "tai":
        bounds = (condition.low, condition.high)
        return all(bound is None or _TIME_BEGIN.fullmatch(str(bound)) is not None for bound in bounds)
    return True


def narrows(condition: Condition) -> bool:
    """Whether a condition helps to read less."""
    match condition:
        case Within(column="record"):
            return False
        case StartsWith(column="record", prefix=prefix):
            return _NAME_BEGIN.fullmatch(prefix) is not None
        case Within(column="tai"):
            return is_exact(condition)
        case _:
            return True


def ways(conditions: Sequence[Condition]) -> tuple[Way, ...]:
    """The ways that these conditions open, besides that along the ids. Names that are given are always the shortest."""
    open_ = {_OF_COLUMN[condition.column] for condition in conditions if condition.column in _OF_COLUMN}
    return (Way.RECORDS,) if Way.RECORDS in open_ else tuple(way for way in Way if way in open_)


def select(columns: Sequence[str], conditions: Sequence[Condition], way: Way, low: int, high: int) -> Term:
    """The query for records with low < id <= high: id, kind and digest, then the columns that are named."""
    expressions = ", ".join((*FIXED, *(_SOURCE[column][0] for column in columns)))
    joins = " ".join(dict.fromkeys(_SOURCE[column][1] for column in columns))
    where = _where(conditions, way, low, high)
    return Term(f"SELECT {expressions} FROM {_FROM[way]} {joins} WHERE {where.text}", where.bindings)  # noqa: S608


def count(conditions: Sequence[Condition], way: Way, low: int, high: int, *, limit: int) -> Term:
    """The query that counts what a way would find, as far as the limit: its cost is what it counts.

    Only the conditions of the way itself are looked at: they say how many rows are touched.
    """
    own = [condition for condition in conditions if _OF_COLUMN.get(condition.column) is way]
    where = _where(own, way, low, high)
    inner = f"SELECT 1 FROM {_FROM[way]} WHERE {where.text} LIMIT ?"  # noqa: S608 - our own words only
    return Term(f"SELECT count(*) FROM ({inner})", (*where.bindings, limit))  # noqa: S608


def _where(conditions: Sequence[Condition], way: Way, low: int, high: int) -> Term:
    terms = [Term("f.id > ? AND f.id <= ?", (low, high))]
    if way is Way.PLACES:
        terms.append(_places(conditions))
    terms += [
        _term(condition)
        for condition in conditions
        if way is not Way.PLACES or condition.column not in ("group", "app")
    ]
    if way is Way.TIMES:
        terms.append(Term("f.tai IS NOT NULL"))
    if way is Way.SIGNERS:
        terms.append(Term("f.signer IS NOT NULL"))
    bindings = tuple(binding for term in terms for binding in term.bindings)
    return Term(" AND ".join(f"({term.text})" for term in terms), bindings)


def _places(conditions: Sequence[Condition]) -> Term:
    """All conditions on group and app at once, so that the index is walked place by place."""
    inner = [_text_term(_PLACE_COLUMN[one.column], one) for one in conditions if one.column in _PLACE_COLUMN]
    where = " AND ".join(f"({term.text})" for term in inner) or "1"
    bindings = tuple(binding for term in inner for binding in term.bindings)
    text = f"f.place IS NOT NULL AND f.place IN (SELECT id FROM place WHERE {where})"  # noqa: S608
    return Term(text, bindings)


_PLACE_COLUMN: Final = {"group": "group_path", "app": "app"}


def _term(condition: Condition) -> Term:
    match condition.column:
        case "id":
            return _number_term("f.id", condition)
        case "record":
            return _record_term(condition)
        case "group" | "app":
            inner = _text_term(_PLACE_COLUMN[condition.column], condition)
            return Term(f"f.place IN (SELECT id FROM place WHERE {inner.text})", inner.bindings)  # noqa: S608
        case "name":
            return _text_term("f.name", condition)
        case "tai":
            return _time_term(condition)
        case "signer":
            inner = _text_term("value", condition)
            return Term(f"f.signer IN (SELECT id FROM text WHERE {inner.text})", inner.bindings)  # noqa: S608
        case _:
            raise UsageError(f"a lace has no index for the column {condition.column!r}")


def _never(column: str) -> Term:
    """What no row meets. A plain 0 would make SQLite look for another way than the one it was told."""
    return Term(f"{column} <> {column}")


def _text_term(column: str, condition: Condition) -> Term:
    match condition:
        case OneOf(values=values):
            # No stored text has a zero in it, and such a text would be cut there.
            texts = tuple(str(value) for value in values if "\0" not in str(value))
            return Term(f"{column} IN carray(?)", (apsw.carray(texts),)) if texts else _never(column)
        case StartsWith(prefix=""):
            return Term(f"{column} IS NOT NULL")
        case StartsWith(prefix=prefix):
            return Term(f"{column} >= ? AND {column} < CAST(? AS TEXT)", (prefix, coding.after_prefix(prefix)))
        case Within():
            return _bounds_term(column, condition)


def _number_term(column: str, condition: Condition) -> Term:
    match condition:
        case OneOf(values=values):
            return (
                Term(f"{column} IN carray(?)", (apsw.carray(array("q", map(int, values))),))
                if values
                else _never(column)
            )
        case Within():
            return _bounds_term(column, condition)
        case StartsWith():
            raise UsageError("a number does not begin with a text")


def _bounds_term(column: str, condition: Within) -> Term:
    parts: list[str] = []
    bindings: list[Binding] = []
    if condition.low is not None:
        parts.append(f"{column} {'>=' if condition.low_included else '>'} ?")
        bindings.append(condition.low)
    if condition.high is not None:
        parts.append(f"{column} {'<=' if condition.high_included else '<'} ?")
        bindings.append(condition.high)
    return Term(" AND ".join(parts) or f"{column} IS NOT NULL", tuple(bindings))


# ---- names of records ---------------------------------------------------------------------------------------------


def _record_term(condition: Condition) -> Term:
    match condition:
        case OneOf(values=values):
            digests = _digests(values)
            if not digests:
                return _never("k.key")
            keys = apsw.carray(coding.keys_of([digest for _, digest in digests]))
            # Keys may collide, so the digests are compared.
            names = apsw.carray(tuple(digest for _, digest in digests))
            return Term("k.key IN carray(?) AND f.digest IN carray(?)", (keys, names))
        case StartsWith(prefix=prefix):
            bounds = _key_bounds(prefix)
            return _ALWAYS if bounds is None else Term("k.key BETWEEN ? AND ? AND f.kind = ?", bounds)
        case Within():
            return _ALWAYS


def _digests(values: Sequence[str | int]) -> list[tuple[Kind, bytes]]:
    """The records that are named; a text that is no name names none."""
    found: list[tuple[Kind, bytes]] = []
    for value in values:
        try:
            found.append(ids.parse_hash(str(value)))
        except IdentifierError:
            continue
    return found


def _key_bounds(prefix: str) -> tuple[int, int, int] | None:
    """The least and the greatest key of records whose names begin so, and their kind.

    The first symbol says whether a key is negative, so one range covers them.
    """
    match = _NAME_BEGIN.fullmatch(prefix)
    if match is None:
        return None
    symbols = match[2][:_KEY_SYMBOLS]
    value = 0
    for symbol in symbols:
        value = value * len(b64a.ALPHABET) + b64a.ALPHABET.index(symbol)
    width = 64 - 6 * len(symbols)
    low = value << width
    high = low + (1 << width) - 1
    shift = 1 << 64 if low >= 1 << 63 else 0
    return low - shift, high - shift, int(Kind.of_letter(match[1]))


# ---- times --------------------------------------------------------------------------------------------------------


def _time_term(condition: Condition) -> Term:
    column = "f.tai"
    match condition:
        case OneOf(values=values):
            times = [time for value in values if (time := _time(str(value))) is not None]
            return Term(f"{column} IN carray(?)", (apsw.carray(array("q", times)),)) if times else _never(column)
        case StartsWith(prefix=prefix):
            if not _TIME_BEGIN.fullmatch(prefix):
                return _never(column)
            last = prefix + _TIME[len(prefix) :].replace("0", "9")
            return Term(f"{column} BETWEEN ? AND ?", (_filled(prefix), coding.tai_column(tai.parse(last))))
        case Within():
            return _time_bounds(column, condition)


def _time_bounds(column: str, condition: Within) -> Term:
    """Bounds that are whole times, or the beginning of one: no time equals a beginning, so it is never included."""
    if not is_exact(condition):
        return _ALWAYS
    parts: list[str] = [f"{column} IS NOT NULL"]
    bindings: list[Binding] = []
    if condition.low is not None:
        text = str(condition.low)
        is_included = condition.low_included or len(text) < len(_TIME)
        parts.append(f"{column} {'>=' if is_included else '>'} ?")
        bindings.append(_filled(text))
    if condition.high is not None:
        text = str(condition.high)
        is_included = condition.high_included and len(text) == len(_TIME)
        parts.append(f"{column} {'<=' if is_included else '<'} ?")
        bindings.append(_filled(text))
    return Term(" AND ".join(parts), tuple(bindings))


def _filled(begin: str) -> int:
    """The first time whose text begins so, as the store has it."""
    return coding.tai_column(tai.parse(begin + _TIME[len(begin) :]))


def _time(text: str) -> int | None:
    try:
        return coding.tai_column(tai.parse(text))
    except tai.TaiError:
        return None
