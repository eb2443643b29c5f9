"""The facts that only peers with the capability for sketches exchange, in blocks of the advertise phase.

Numbers, ids and symbols are bytes, and bytes are B64A text. A line holds as much as a value may, so what is long takes
several lines of the same fact, one after the other. A block has one part at most; that it makes sense where it stands
is for the machine to say.

======================================  ===============================================================================
``ReconcileStanding(count,root,held)``  a fourth value is a wish, where there is one
``ReconcileProbe(bulk,cuts)``           a cut is a moment and a sum, eight bytes each; without cuts there is one value
``ReconcileSymbols(first,symbols)``     the number of the first symbol of the line
``ReconcileStretch(moment,ids)``        the same moment in every line; without ids there is one value
``ReconcileMore(symbols)``
``ReconcileLacking(ids)``               without ids there is no value
``ReconcileSupplied()``
``ReconcileChanged()``                  with lines of ``ReconcileAdded`` and ``ReconcileRemoved``
``ReconcileCompared()``                 with lines of ``ReconcileRemoved``
``ReconcileAdded(names)``               beginnings of digest texts, of eleven symbols each
``ReconcileRemoved(names)``
``ReconcilePlain(root)``                without a value, unless the root of the standing was not true
``ReconcileFallback(why)``
======================================  ===============================================================================
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, assert_never

from bobbin import profile
from bobbin.errors import IntegrityError
from bobbin.facts.extract import Fact
from bobbin.facts.relations import Tuple
from bobbin.interlace.choice import ID_BYTES, Strategy
from bobbin.interlace.reasons import Abort, Reason
from bobbin.interlace.reconciliation import (
    HELD_BYTES,
    NAME_SYMBOLS,
    Changed,
    Compared,
    Cut,
    Fallback,
    Lacking,
    More,
    Part,
    Plain,
    Probe,
    Ranged,
    Sketched,
    Standing,
    Supplied,
)
from bobbin.reconcile.symbols import SYMBOL_BYTES
from bobbin.records import b64a
from bobbin.wire import texts
from bobbin.wire.predicates import (
    RECONCILE_ADDED,
    RECONCILE_CHANGED,
    RECONCILE_COMPARED,
    RECONCILE_FALLBACK,
    RECONCILE_LACKING,
    RECONCILE_MORE,
    RECONCILE_PLAIN,
    RECONCILE_PROBE,
    RECONCILE_REMOVED,
    RECONCILE_STANDING,
    RECONCILE_STRETCH,
    RECONCILE_SUPPLIED,
    RECONCILE_SYMBOLS,
    refuse,
)

WHY_MAX: Final = 400
"""Characters of a reason."""
CUTS_MAX: Final = 8
"""Moments in one probe."""
_BYTES: Final = profile.FACT_VALUE_BYTES_MAX * 3 // 4
"""What one value can spell."""
_SYMBOLS_IN_LINE: Final = _BYTES // SYMBOL_BYTES
_IDS_IN_LINE: Final = _BYTES // ID_BYTES
_NAMES_IN_LINE: Final = profile.FACT_VALUE_BYTES_MAX // NAME_SYMBOLS
_NAMES: Final = re.compile(rf"(?:{b64a.PATTERN.decode()}{{{NAME_SYMBOLS}}})+")
_NUMBER_BYTES: Final = 8
_CUT_BYTES: Final = 2 * _NUMBER_BYTES
_ALONE: Final[Mapping[str, Part]] = {RECONCILE_SUPPLIED: Supplied(), RECONCILE_PLAIN: Plain()}


# ---- parts to facts -------------------------------------------------------------------------------------------------


def part_facts(part: Part) -> Iterator[Fact]:
    """The lines of a part."""
    match part:
        case Standing():
            yield RECONCILE_STANDING, _standing(part)
        case Probe():
            cuts = b"".join(_number(cut.moment) + _number(cut.sum) for cut in part.cuts)
            yield RECONCILE_PROBE, tuple(b64a.encode(raw) for raw in (part.bulk, cuts) if raw)
        case Sketched() | Ranged() | Lacking():
            yield from _run(part)
        case More():
            yield RECONCILE_MORE, (str(part.symbols),)
        case Changed():
            yield RECONCILE_CHANGED, ()
            yield from _names(RECONCILE_ADDED, part.added)
            yield from _names(RECONCILE_REMOVED, part.removed)
        case Compared():
            yield RECONCILE_COMPARED, ()
            yield from _names(RECONCILE_REMOVED, part.removed)
        case Supplied():
            yield RECONCILE_SUPPLIED, ()
        case Plain():
            yield RECONCILE_PLAIN, () if part.root is None else (b64a.encode(part.root),)
        case Fallback():
            yield RECONCILE_FALLBACK, (part.why[:WHY_MAX],)
        case _:
            assert_never(part)


def _run(part: Sketched | Ranged | Lacking) -> Iterator[Fact]:
    """What may take several lines."""
    match part:
        case Sketched():
            for number, piece in enumerate(_cut(part.raw, _SYMBOLS_IN_LINE * SYMBOL_BYTES)):
                yield RECONCILE_SYMBOLS, (str(part.first + number * _SYMBOLS_IN_LINE), *piece)
        case Ranged():
            for piece in _cut(part.ids, _IDS_IN_LINE * ID_BYTES):
                yield RECONCILE_STRETCH, (str(part.moment), *piece)
        case Lacking():
            for piece in _cut(part.ids, _IDS_IN_LINE * ID_BYTES):
                yield RECONCILE_LACKING, piece
        case _:
            assert_never(part)


def _standing(part: Standing) -> Tuple:
    said = (str(part.count), b64a.encode(part.root), b64a.encode(part.held))
    return said if part.wish is Strategy.AUTO else (*said, part.wish.value)


def _cut(raw: bytes, size: int) -> list[Tuple]:
    """Bytes in pieces, each as the value of a line; of nothing, one line without."""
    return [(b64a.encode(raw[at : at + size]),) for at in range(0, len(raw), size)] or [()]


def _names(predicate: str, names: Sequence[str]) -> Iterator[Fact]:
    for at in range(0, len(names), _NAMES_IN_LINE):
        yield predicate, ("".join(names[at : at + _NAMES_IN_LINE]),)


def _number(number: int) -> bytes:
    return number.to_bytes(_NUMBER_BYTES, "big")


# ---- facts to parts -------------------------------------------------------------------------------------------------


class PartReader:
    """The one part that a block may have, line by line."""

    def __init__(self) -> None:
        self._head: str | None = None
        """The fact that says which part it is."""
        self._whole: Part | None = None
        """A part of one line."""
        self._first = 0
        """Of a stretch of symbols, or the moment of a stretch of ids."""
        self._raw = bytearray()
        self._added: list[str] = []
        self._removed: list[str] = []

    def take(self, line: int, predicate: str, values: Tuple) -> None:
        """A line whose predicate is one of these. Raises ``PeerError``."""
        if predicate in (RECONCILE_ADDED, RECONCILE_REMOVED):
            self._take_names(line, predicate, values)
            return
        again = predicate == self._head and predicate in (RECONCILE_SYMBOLS, RECONCILE_STRETCH, RECONCILE_LACKING)
        if self._head is not None and not (again and self._raw and values):
            raise _malformed(f"{predicate} follows {self._head} in one block")
        self._head = predicate
        match predicate, values:
            case (name, (count, root, held, *wish)) if name == RECONCILE_STANDING and len(wish) <= 1:
                self._whole = _read_standing(count, root, held, wish)
            case (name, (bulk, *cuts)) if name == RECONCILE_PROBE and len(cuts) <= 1:
                self._whole = Probe(bulk=_bytes(bulk), cuts=_read_cuts(cuts))
            case (name, (first, symbols)) if name == RECONCILE_SYMBOLS:
                self._take_run(_decimal(first), _bytes(symbols), SYMBOL_BYTES, follows=True)
            case (name, (moment, *ids)) if name == RECONCILE_STRETCH and len(ids) <= 1:
                self._take_run(_decimal(moment), _bytes(ids[0]) if ids else b"", ID_BYTES, follows=False)
            case (name, ids) if name == RECONCILE_LACKING and len(ids) <= 1:
                self._take_run(0, _bytes(ids[0]) if ids else b"", ID_BYTES, follows=False)
            case (name, (symbols,)) if name == RECONCILE_MORE:
                self._whole = More(symbols=_read_more(symbols))
            case (name, (why,)) if name == RECONCILE_FALLBACK:
                self._whole = Fallback(why=_read_why(why))
            case (name, (root,)) if name == RECONCILE_PLAIN:
                self._whole = Plain(root=_read_root(root))
            case (name, ()) if name in (RECONCILE_CHANGED, RECONCILE_COMPARED, *_ALONE):
                self._whole = _ALONE.get(name)
            case _:
                refuse(line, predicate, values, "advertise")

    def part(self) -> Part | None:
        """What the lines say together; None if there were none."""
        if self._whole is not None or self._head is None:
            return self._whole
        raw = bytes(self._raw)
        match self._head:
            case name if name == RECONCILE_SYMBOLS:
                return Sketched(first=self._first, raw=raw)
            case name if name == RECONCILE_STRETCH:
                return Ranged(moment=self._first, ids=raw)
            case name if name == RECONCILE_LACKING:
                return Lacking(ids=raw)
            case name if name == RECONCILE_CHANGED:
                return Changed(added=tuple(self._added), removed=tuple(self._removed))
            case _:
                return Compared(removed=tuple(self._removed))

    def _take_run(self, first: int, raw: bytes, size: int, *, follows: bool) -> None:
        if len(raw) % size:
            raise _malformed(f"{len(raw)} bytes are no whole number of {size}")
        expected = self._first + (len(self._raw) // size if follows else 0)
        if not self._raw:
            self._first = first
        elif first != expected:
            raise _malformed("the lines of one stretch do not follow one another")
        self._raw += raw

    def _take_names(self, line: int, predicate: str, values: Tuple) -> None:
        is_open = self._head == RECONCILE_CHANGED or (
            self._head == RECONCILE_COMPARED and predicate == RECONCILE_REMOVED
        )
        if not is_open or len(values) != 1:
            refuse(line, predicate, values, "advertise")
        text = values[0]
        if not _NAMES.fullmatch(text):
            raise _malformed("names have eleven symbols each")
        names = self._added if predicate == RECONCILE_ADDED else self._removed
        for at in range(0, len(text), NAME_SYMBOLS):
            name = text[at : at + NAME_SYMBOLS]
            if names and name <= names[-1]:
                raise _malformed("names ascend, each once")
            names.append(name)


def _read_standing(count: str, root: str, held: str, wish: list[str]) -> Standing:
    digest, begun = texts.digest(root), _bytes(held)
    if digest is None or len(begun) != HELD_BYTES:
        raise _malformed("a standing has a root and the beginning of one")
    wishes = {one.value: one for one in Strategy if one.is_negotiated and one is not Strategy.AUTO}
    if wish and wish[0] not in wishes:
        raise _malformed(f"nobody can wish for {wish[0][:80]!r}")
    chosen = wishes[wish[0]] if wish else Strategy.AUTO
    return Standing(count=_decimal(count), root=digest, held=begun, wish=chosen)


def _read_root(text: str) -> bytes:
    root = texts.digest(text)
    if root is None:
        raise _malformed("a root has 32 bytes")
    return root


def _read_cuts(said: list[str]) -> tuple[Cut, ...]:
    raw = _bytes(said[0]) if said else b""
    if len(raw) % _CUT_BYTES or len(raw) > CUTS_MAX * _CUT_BYTES:
        raise _malformed("a cut has sixteen bytes, and there are not many")
    numbers = [int.from_bytes(raw[at : at + _NUMBER_BYTES], "big") for at in range(0, len(raw), _NUMBER_BYTES)]
    moments = numbers[::2]
    if any(one >= other for one, other in pairwise(moments)):
        raise _malformed("cuts ascend, each once")
    return tuple(Cut(moment=moment, sum=total) for moment, total in zip(moments, numbers[1::2], strict=True))


def _read_more(text: str) -> int:
    number = _decimal(text)
    if not number:
        raise _malformed("no symbols are asked for")
    return number


def _read_why(text: str) -> str:
    if len(text) > WHY_MAX or not text.isprintable():
        raise _malformed("a reason is a short printable text")
    return text


def _decimal(text: str) -> int:
    number = texts.decimal(text)
    if number is None:
        raise _malformed(f"not a decimal below 2^64: {text[:80]!r}")
    return number


def _bytes(text: str) -> bytes:
    try:
        raw = b64a.decode(text)
    except IntegrityError as error:
        raise _malformed(str(error)) from error
    if not raw:
        raise _malformed("an empty value")
    return raw


def _malformed(detail: str) -> Abort:
    return Abort(Reason.MALFORMED_SKETCH, detail)
