"""A bundle: records one after the other, read from a stream that may be damaged.

``BundleReader`` takes the bytes as they come and cuts them into pieces: an ``Extent`` is one declared record, not
validated yet; a ``Damage`` is what cannot be one, with the reason. Writing a bundle needs no code: it is the records'
bytes, joined.

What always holds:

* the pieces tile the input: their bytes, joined, are the input, whatever it was and however it was cut into chunks;
* what begins inside a damaged record is part of that damage: a record inside another, planted or inner, does not come
  out as a member of the bundle. ``salvage`` says how far a damaged record reaches, and how sure that is;
* a damaged record is one piece, unless the damage is longer than any record may be;
* memory is bounded by the longest record, its headers and one chunk; time is linear in the input.
"""

from typing import Final, TypeAlias

from blake3 import blake3
from msgspec import Struct

from bobbin import profile
from bobbin.errors import UsageError
from bobbin.records import b64a
from bobbin.records.canonical import SEAL_HEAD_SIZE
from bobbin.records.record import Record, recognise_run
from bobbin.records.salvage import (
    HEADER_BYTES_MAX,
    HEADERS,
    LOOK_BEHIND_BYTES,
    MARK_HEAD,
    WINDOW_BYTES,
    BundleReason,
    ProofBudget,
    find_outer_mark,
    settle,
)

_COMPACT_BYTES: Final = 64 * 1024
_LENGTH_DIGITS_MAX: Final = len(str(profile.DATA_BYTES_MAX))
_AFTER_SYMBOLS: Final = len(".H3\n")
_LOOK_AHEAD_BYTES: Final = SEAL_HEAD_SIZE + len(MARK_HEAD) + 1
"""What must be there before it can be said that no record begins at a place: a Seal's head, whose own mark may be
damaged, the mark behind it, and that one's letter."""


class Extent(Struct, frozen=True, kw_only=True):
    """One declared record. ``record.validate`` says whether it is a valid one."""

    raw: bytes
    offset: int
    """Where it begins in the bundle."""


class Run(Struct, frozen=True, kw_only=True):
    """Valid records, one right after the other."""

    records: list[Record]
    """At least one."""
    offset: int
    """Where the first begins in the bundle."""
    size: int
    """How many bytes they have together."""

    @property
    def raw(self) -> bytes:
        """Their bytes, as they stand in the bundle."""
        return b"".join(record.raw for record in self.records)


class Damage(Struct, frozen=True, kw_only=True):
    """Bytes of the bundle that are no record."""

    raw: bytes
    offset: int
    """Where they begin in the bundle."""
    reason: str
    """A ``BundleReason`` or a ``Reason``."""
    detail: str


Piece: TypeAlias = Extent | Damage | Run


class _Open(Struct, kw_only=True):
    """Damage whose end is still to be found: at the first outer mark ``reach`` bytes or more from here."""

    reach: int
    reason: str
    detail: str
    searched: int = 0
    """How far from here there is no such mark, seen already."""


class BundleReader:
    """Cuts a stream of bytes into pieces. Feed it chunk by chunk, then finish it once.

    With ``recognises`` it validates as it goes, in the pass that finds where a record ends, and valid records come
    out as values, in runs. Besides that, the pieces are the same.
    """

    def __init__(self, *, recognises: bool = False) -> None:
        self._recognises: Final = recognises
        self._tried = -1
        """Where in the input no record was recognised: each place is tried once, so that time stays linear."""
        self._buffer = bytearray()
        self._dropped = 0
        """Bytes of the input that stood before the buffer's first one."""
        self._at = 0
        """Where in the buffer the next piece begins. Some bytes before it are kept for looking behind."""
        self._searched = 0
        """Where in the buffer the search for the end of the headers goes on."""
        self._needed = 0
        """How many bytes from ``_at`` must be there before another look makes sense."""
        self._irregular = False
        """Whether no intact record begins at ``_at``, so that a decision waits for its window."""
        self._open: _Open | None = None
        self._budget = ProofBudget()
        """Replenished by pieces, so that it does not depend on how the bytes arrive."""
        self._finished = False

    @property
    def position(self) -> int:
        """Where in the input the next piece begins."""
        return self._dropped + self._at

    def feed(self, chunk: bytes) -> list[Piece]:
        """Take more bytes; the pieces that are complete now."""
        if self._finished:
            raise UsageError("the bundle is finished; read another one with another reader")
        self._buffer += chunk
        return self._drain(at_end=False)

    def pass_over(self, records: bytes) -> None:
        """Take whole records that were recognised elsewhere, where a piece begins and no bytes are left from before."""
        assert self._at == len(self._buffer), "nothing stands before them that is not cut yet"
        assert self._open is None, "nor is there damage that they could belong to"
        self._buffer += records
        self._advance(len(records))
        self._compact()

    def finish(self) -> list[Piece]:
        """The input has ended; the pieces that remain."""
        self._finished = True
        return self._drain(at_end=True)

    def _drain(self, *, at_end: bool) -> list[Piece]:
        pieces: list[Piece] = []
        while True:
            if self._recognises and (run := self._recognised()):
                pieces.append(run)
            piece = self._next(at_end=at_end)
            if piece is None:
                break
            pieces.append(piece)
        self._compact()
        return pieces

    def _compact(self) -> None:
        """Forget the bytes that are done with, but for those that a look behind may need."""
        if self._at > LOOK_BEHIND_BYTES + _COMPACT_BYTES:
            surplus = self._at - LOOK_BEHIND_BYTES
            del self._buffer[:surplus]
            self._dropped += surplus
            self._at -= surplus
            self._searched -= surplus

    def _recognised(self) -> Run | None:
        """The records that follow and are valid as they stand: what ``_next`` would cut, one by one."""
        start = self._dropped + self._at
        if self._open is not None or self._tried >= start:
            return None
        with memoryview(self._buffer) as whole, whole[self._at :] as buffer:
            records, size = recognise_run(buffer)
        self._tried = start + size
        if not records:
            return None
        self._advance(size)
        return Run(records=records, offset=start, size=size)

    def _next(self, *, at_end: bool) -> Piece | None:
        """The next piece, or None where it takes more bytes to say."""
        available = len(self._buffer) - self._at
        if available == 0 or (available < self._needed and not at_end):
            return None
        if self._open is not None:
            return self._read_damage(self._open, at_end=at_end)
        if not self._irregular and (extent := self._read_intact(at_end=at_end)):
            return extent
        if not self._irregular:
            return None
        if available < WINDOW_BYTES and not at_end:
            self._needed = WINDOW_BYTES
            return None
        verdict = settle(self._buffer, self._at, at_end=at_end, budget=self._budget)
        if verdict.reason is None:
            return Extent(offset=self._dropped + self._at, raw=self._take(verdict.end - self._at))
        if verdict.certain:
            return self._take_damage(verdict.end - self._at, verdict.reason, verdict.detail)
        self._needed = 0
        self._open = _Open(reach=verdict.end - self._at, reason=verdict.reason, detail=verdict.detail)
        return self._read_damage(self._open, at_end=at_end)

    def _read_intact(self, *, at_end: bool) -> Extent | None:
        """The record at ``_at``, if its headers are in order and the Blob's digest proves where it ends.

        None where more bytes are needed, or else after setting ``_irregular``.
        """
        buffer, at = self._buffer, self._at
        empty_line = buffer.find(b"\n\n", self._searched, at + HEADER_BYTES_MAX)
        if empty_line < 0:
            self._searched = max(at, min(len(buffer), at + HEADER_BYTES_MAX) - 1)
            self._irregular = at_end or len(buffer) - at >= HEADER_BYTES_MAX
            return None
        self._searched = empty_line
        headers = HEADERS.match(buffer, at, empty_line + 2)
        length = int(headers[2]) if headers else 0
        if headers is None or length > profile.DATA_BYTES_MAX:
            self._irregular = True
            return None
        size = headers.end() + length - at
        if len(buffer) - at < size:
            self._needed = size
            self._irregular = at_end
            return None
        raw = bytes(buffer[at : at + size])
        digest = blake3(memoryview(raw)[headers.end(1) + _AFTER_SYMBOLS - at :]).digest()
        if b64a.encode_bytes(digest) != headers[1]:
            self._budget.charge(size)
            self._irregular = True
            return None
        self._advance(size)
        return Extent(raw=raw, offset=self._dropped + at)

    def _read_damage(self, damage: _Open, *, at_end: bool) -> Damage | None:
        """Damage up to the next outer mark, in pieces no larger than a record may be."""
        available = len(self._buffer) - self._at
        longest = profile.RECORD_BYTES_MAX
        end = self._find_end(damage, at_end=at_end)
        if end is not None and end <= longest:
            self._open = None
            return self._take_damage(end, damage.reason, damage.detail)
        if end is None and available < longest + _LOOK_AHEAD_BYTES:
            self._needed = max(available + 1, min(damage.reach, longest) + _LOOK_AHEAD_BYTES)
            return None
        piece = self._take_damage(longest, damage.reason, damage.detail)
        damage.reach = max(0, damage.reach - longest)
        damage.searched = max(0, damage.searched - longest)
        damage.reason, damage.detail = BundleReason.INSIDE, "goes on from the piece before"
        return piece

    def _find_end(self, damage: _Open, *, at_end: bool) -> int | None:
        """How many bytes the open damage has left, or None while that cannot be known."""
        available = len(self._buffer) - self._at
        judged = available if at_end else available - _LOOK_AHEAD_BYTES
        begin = max(damage.reach, damage.searched)
        if begin <= judged:
            mark = find_outer_mark(self._buffer, self._at + begin, len(self._buffer))
            if self._at <= mark <= self._at + judged:
                damage.searched = mark - self._at
                return damage.searched
            damage.searched = judged + 1
        return available if at_end else None

    def _take_damage(self, size: int, reason: str, detail: str) -> Damage:
        offset = self._dropped + self._at
        raw = self._take(size)
        marks = raw.count(MARK_HEAD) - raw.startswith(MARK_HEAD)
        if marks:
            detail += f"; record marks inside: {marks}"
        return Damage(raw=raw, offset=offset, reason=reason, detail=detail)

    def _take(self, size: int) -> bytes:
        raw = bytes(self._buffer[self._at : self._at + size])
        self._advance(size)
        return raw

    def _advance(self, size: int) -> None:
        """The next piece begins ``size`` bytes further on, and nothing is known about it but where no headers end."""
        self._at += size
        self._budget.replenish(size)
        self._searched = max(self._at, self._searched)
        self._needed = 0
        self._irregular = False


def skim(buffer: bytes | bytearray) -> int:
    """Where the last of the records ends that seem to stand one after the other at the front; 0 if there is none.

    A guess from what the headers declare, in a fifth of the time that knowing takes. Whoever uses it has it proven:
    the guess is right where ``recognise_run`` reaches it.
    """
    at = 0
    while (empty_line := buffer.find(b"\n\n", at, at + HEADER_BYTES_MAX)) >= 0:
        begin = buffer.rfind(b" ", at, empty_line) + 1
        length = buffer[begin:empty_line]
        if not (length.isdigit() and len(length) <= _LENGTH_DIGITS_MAX):
            break
        end = empty_line + 2 + int(length)
        if end > len(buffer):
            break
        at = end
    return at
