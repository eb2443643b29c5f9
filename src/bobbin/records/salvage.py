"""How far the damage reaches where no intact record begins in a bundle.

The question matters because the data of a record may hold other records, whole and valid. Whoever looks for the next
mark after a damaged header may find one of those and take it for a member of the bundle. So the end of a damaged
record is, in this order:

1. *proven*: the digest in the inner Blob's markline fits the data up to there. A damaged ``Data-Length`` line is
   guessed (every line that is one edit away, then the next marks) and the guess is proven the same way;
2. *declared and confirmed*: ``Data-Length`` is readable, a mark (or what is left of one) or the end of the input
   stands where it says, and no proven record lies across that place;
3. *where a Seal begins inside the headers*, if all before it is the beginning of a record, line for line, or too
   short to be a header section: the record was cut off there (``prefix``). If not, a header section may be lost in what
   stands before, and the Seal may be data: then it is part of the damage, which ends with it if a mark or the end of
   the input stands there. A Plex or Blob inside the headers always counts as inner;
4. *assumed*: as far as the declared length reaches, or the longest record where none can be read, and on to the end
   of a record that lies across that place.

One changed byte anywhere in a record, and one lost or added in its headers, always ends in 1 or 2, with the right end.
Worse damage errs on the long side: a record that lost some of its data takes the next one along, since nobody can tell
that one from a planted one. Three things this reader does not see. Where the Blob's markline and the length are both
gone, nothing shows where the data began, and the first record after them is taken for all of it: of two records planted
one right after the other, the second then counts as the next member. Where bytes are lost, so that a planted Seal comes
to stand where a record could have been cut off, it looks like the next member. And where so much was added to the data
that a planted record begins after the declared end, that one is taken for the next member.

Everything here looks at one window of fixed size, so the answer does not depend on how the bytes arrived. The work is
bounded by fixed numbers of tries, and over a whole bundle by a ``ProofBudget``, which grows with the bytes before the
place in question and with nothing else. What it cannot pay for is not proven, and rule 4 takes over.
"""

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Final

from blake3 import blake3
from msgspec import Struct

from bobbin import profile
from bobbin.records import b64a
from bobbin.records.canonical import MARK, SEAL_HEAD_SIZE
from bobbin.records.prefix import HEADERS_BYTES_MIN, is_cut_off
from bobbin.records.reasons import Reason

MARK_HEAD: Final = MARK + b": "

HEADER_BYTES_MAX: Final = (profile.EXTRA_HEADERS_MAX + 16) * (profile.HEADER_LINE_BYTES_MAX + 1)
"""More than the header section of any valid record; beyond it a structure counts as unreadable."""

WINDOW_BYTES: Final = profile.RECORD_BYTES_MAX + HEADER_BYTES_MAX + 64
"""How far a decision looks: the longest record, and the headers of one that begins at its end."""

LOOK_BEHIND_BYTES: Final = profile.HEADER_LINE_BYTES_MAX + 2
"""How much before a mark decides whether it is an inner one."""

PROOF_BYTES_RESERVE: Final = 6 * profile.RECORD_BYTES_MAX
"""What may be spent on proofs before anything was read: the longest record can be first, and damaged."""

PROOF_BYTES_PER_BYTE: Final = 6
"""How much more may be spent for each byte of the bundle that is done with."""

_TRIES_MAX: Final = 64
_EFFORT_BYTES_MAX: Final = 4 * 1024 * 1024
_ANCHORS_MAX: Final = 2
"""One damaged byte can make two Blob marklines in a header section; hostile thousands are not tried."""

_LF: Final = 0x0A
_SYMBOLS: Final = b64a.PATTERN + rb"{43}"
_HASH_OF_MARKLINE: Final = re.compile(_SYMBOLS + rb"\.H3\n")
_LENGTH_NAME: Final = b"Data-Length: "
_LENGTH: Final = re.compile(_LENGTH_NAME + rb"([0-9]{1,19})\n\n")
_LENGTH_LINE_BYTES_MAX: Final = len(_LENGTH_NAME) + len(str(profile.DATA_BYTES_MAX)) + 2
_LENGTH_READINGS: Final = tuple(
    re.compile(b"".join(b"[%c?]" % byte for byte in _LENGTH_NAME) + rb"([0-9?]{1,8}%b)[\n?][\n?]" % lazy)
    for lazy in (b"", b"?")
)
"""A ``Data-Length`` line with question marks for unknown bytes: as many digits as possible, and as few."""

_HEADER_LINE: Final = re.compile(rb"[^\x00-\x20\x7f:]+: [^\x00-\x1f\x7f]+")

HEADERS: Final = re.compile(
    MARK_HEAD
    + (rb"(?:S\." + _SYMBOLS + rb"\.H3\nSigned-By: [^\n]+\nSignature: [^\n]+\n" + MARK_HEAD + rb")?")
    + (rb"(?:P\." + _SYMBOLS + rb"\.H3\n(?:(?!" + MARK + rb")[^\n]+\n){4,%d}" % (profile.EXTRA_HEADERS_MAX + 4))
    + (MARK_HEAD + rb")?")
    + (rb"B\.(" + _SYMBOLS + rb")\.H3\nData-Length: (0|[1-9][0-9]{0,7})\n\n")
)
"""The headers of a record as they should be, down to the empty line: (1) the Blob's digest, (2) the length."""

_EVENT: Final = re.compile(
    (rb"(?P<seal>" + MARK_HEAD + rb"S\." + _SYMBOLS + rb"\.H3\nSigned-By: )")
    + (rb"|(?P<blob>" + MARK_HEAD + rb"B\.(?P<symbols>" + _SYMBOLS + rb")\.H3[\x00-\xff])")
    + (rb"|\n(?=(?P<length>" + _LENGTH.pattern + rb"))")
)
"""What a lenient reading of headers looks for, whichever comes first."""


class BundleReason(StrEnum):
    """Why a piece of a bundle is not a record, besides the codes of ``Reason``."""

    NO_RECORD = "no-record-here"
    """No mark stands where a record should begin."""
    UNREADABLE = "unreadable-structure"
    """A mark, but no ``Data-Length`` that can be read."""
    CONTRADICTED = "contradicted-length"
    """The declared length leads to a place where no record begins, and the digest does not say another."""
    TRUNCATED = "truncated"
    """The input ends inside the record."""
    INSIDE = "inside-damaged-extent"
    """Goes on from the piece before, which was too large for one."""


class Verdict(Struct, frozen=True, kw_only=True):
    """Where the piece that begins at a place ends, as an index into the window's buffer, and what it is."""

    end: int
    reason: str | None
    """None for a declared record whose validity is for others to judge."""
    detail: str = ""
    certain: bool = True
    """Whether the next piece begins at ``end``. Otherwise at the first mark from there on that is not inner."""


class ProofBudget:
    """How many bytes may still be read for proofs that fail, over a whole bundle.

    A proof that succeeds in ``bundle`` is not counted: it costs no more than the record that it yields. So all bytes
    that are hashed are at most ``PROOF_BYTES_PER_BYTE + 1`` times the bytes of the bundle, plus the reserve and one
    record.
    """

    def __init__(self) -> None:
        self._left = PROOF_BYTES_RESERVE

    @property
    def is_overdrawn(self) -> bool:
        return self._left < 0

    def replenish(self, size: int) -> None:
        """``size`` more bytes of the bundle are done with."""
        self._left += PROOF_BYTES_PER_BYTE * size

    def can_pay(self, size: int) -> bool:
        return self._left >= size

    def charge(self, size: int) -> None:
        """Take what was spent already, be it more than there is."""
        self._left -= size

    def pay(self, size: int, *, keep: int = 0) -> bool:
        """Take ``size``, if so much is there and ``keep`` is left; whether it was."""
        if self._left - keep < size:
            return False
        self._left -= size
        return True


class _Site(Struct, frozen=True, kw_only=True):
    """The window: ``buffer[start:end]``. ``ended`` says that the input ends at ``end``."""

    buffer: bytearray
    start: int
    end: int
    ended: bool
    budget: ProofBudget

    def is_boundary(self, at: int) -> bool:
        """Whether a record begins at ``at``, be it with a damaged mark, or the input ends there."""
        if self.buffer.startswith(MARK_HEAD, at, self.end) or (self.ended and at == self.end):
            return True
        return _begins_damaged(self.buffer, at, self.end)

    def proves(self, symbols: bytes, data_start: int, length: int, *, guess: bool = False) -> bool:
        """Whether the digest of a Blob markline is that of ``length`` bytes of data from ``data_start``.

        No, where the budget cannot pay for it. A ``guess`` leaves half of the reserve to what is more than a guess.
        """
        if not 0 <= length <= min(profile.DATA_BYTES_MAX, self.end - data_start):
            return False
        if not self.budget.pay(length, keep=PROOF_BYTES_RESERVE // 2 if guess else 0):
            return False
        hasher = blake3(_LENGTH_NAME + b"%d\n\n" % length)
        with memoryview(self.buffer) as whole, whole[data_start : data_start + length] as data:
            hasher.update(data)
        return b64a.encode_bytes(hasher.digest()) == symbols


def settle(buffer: bytearray, start: int, *, at_end: bool, budget: ProofBudget | None = None) -> Verdict:
    """How far the piece reaches that begins at ``start``. Without ``at_end`` the buffer must hold the whole window."""
    available = len(buffer) - start
    assert available >= WINDOW_BYTES or at_end, "a decision waits for its window"
    ended = at_end and available < WINDOW_BYTES
    end = min(len(buffer), start + WINDOW_BYTES)
    site = _Site(buffer=buffer, start=start, end=end, ended=ended, budget=budget or ProofBudget())
    if site.budget.is_overdrawn:
        return _assumed(site, None)
    at, limit, anchors, doubtful = start, min(site.end, start + HEADER_BYTES_MAX), 0, False
    while event := _EVENT.search(buffer, at, limit):
        at = event.end()
        length = _LENGTH.match(buffer, at, site.end)
        if event["seal"]:
            if event.start() > start and not doubtful:
                if _is_cut_at(site, event.start()):
                    return _cut_off(site, event.start())
                doubtful = True  # No later Seal is asked about: with this one inside, nothing reads as a beginning.
        elif not event["blob"]:
            assert length is not None, "the event looked ahead at it"
            return _doubted(site, length) if doubtful else _declared(site, length, None, at)
        else:
            begins_line = event.start() == start or buffer[event.start() - 1] == _LF
            ends_line = buffer[at - 1] == _LF
            if length and (begins_line or ends_line):
                return _doubted(site, length) if doubtful else _declared(site, length, event["symbols"], at)
            if begins_line and anchors < _ANCHORS_MAX and not doubtful:
                anchors += 1
                if verdict := _repaired(site, event["symbols"], at):
                    return verdict
            at -= 1  # The byte in the place of the line feed may belong to what comes next.
    return _assumed(site, None)


def find_outer_mark(buffer: bytearray, start: int, end: int) -> int:
    """The first mark in ``start..end`` that is not an inner one, or -1. A damaged mark counts if a Seal follows it."""
    at = start
    while (at := buffer.find(MARK_HEAD, at, end)) >= 0 and is_inner(buffer, at):
        if at - SEAL_HEAD_SIZE >= start and _begins_damaged(buffer, at - SEAL_HEAD_SIZE, end):
            return at - SEAL_HEAD_SIZE
        at += len(MARK_HEAD)
    return at


def _begins_damaged(buffer: bytearray, at: int, end: int) -> bool:
    """Whether a markline stands at ``at`` of which only the hash is intact."""
    return _HASH_OF_MARKLINE.match(buffer, at + len(MARK_HEAD) + len("S."), end) is not None


def is_inner(buffer: bytearray, mark: int) -> bool:
    """Whether a mark opens a record inside another: a Plex after a signature, a Blob after a header."""
    letter = bytes(buffer[mark + len(MARK_HEAD) : mark + len(MARK_HEAD) + 1])
    if mark == 0 or buffer[mark - 1] != _LF or letter not in (b"P", b"B"):
        return False
    line = buffer[buffer.rfind(b"\n", max(0, mark - LOOK_BEHIND_BYTES), mark - 1) + 1 : mark - 1]
    return line.startswith(b"Signature: ") if letter == b"P" else bool(_HEADER_LINE.fullmatch(line))


# ---- the answers --------------------------------------------------------------------------------------------------


def _whole(site: _Site, end: int) -> Verdict:
    """A piece with a known end: a declared record, or damage where the mark is missing."""
    if site.buffer.startswith(MARK_HEAD, site.start):
        return Verdict(end=end, reason=None)
    return Verdict(end=end, reason=BundleReason.NO_RECORD, detail="no mark where a record should begin")


def _cut_off(site: _Site, end: int) -> Verdict:
    if site.buffer.startswith(MARK_HEAD, site.start):
        return Verdict(end=end, reason=Reason.UNFINISHED_HEADERS, detail="another record begins inside the headers")
    return Verdict(end=end, reason=BundleReason.NO_RECORD, detail="no mark where a record should begin")


def _is_cut_at(site: _Site, seal: int) -> bool:
    """Whether the record was cut off where a Seal begins, so that this one cannot be in its data."""
    return seal - site.start < HEADERS_BYTES_MIN or is_cut_off(bytes(site.buffer[site.start : seal]))


def _doubted(site: _Site, line: re.Match[bytes]) -> Verdict:
    """A readable ``Data-Length``, but of a Seal that may be in the data of the record in question."""
    end = line.end() + int(line[1])
    if end <= min(site.end, site.start + profile.RECORD_BYTES_MAX) and site.is_boundary(end):
        return _whole(site, end)
    return _assumed(site, None)


def _declared(site: _Site, line: re.Match[bytes], symbols: bytes | None, anchor: int) -> Verdict:
    """The header section ends with a readable ``Data-Length``."""
    data_start, length = line.end(), int(line[1])
    end = data_start + length
    if symbols is not None:
        if site.proves(symbols, data_start, length):
            return _whole(site, end)
        if verdict := _repaired_nearby(site, symbols, anchor):
            return verdict
    fits = length <= profile.DATA_BYTES_MAX and end <= site.end
    if fits and site.is_boundary(end) and not _lies_across(site, data_start, end):
        return _whole(site, end)
    if symbols is not None:
        verdict = _repaired_nearby(site, symbols, anchor, anywhere=True)
        if verdict or (verdict := _repaired_by_marks(site, symbols, [data_start])):
            return verdict
    return _assumed(site, (data_start, end))


def _assumed(site: _Site, declared: tuple[int, int] | None) -> Verdict:
    """Nothing certain is known: the piece reaches as far as it may."""
    longest = site.start + profile.RECORD_BYTES_MAX
    data_start, end = declared or (site.start + 1, longest)
    reason, detail = _complaint(site, None if declared is None else end)
    end = min(end, longest)
    if site.ended and end >= site.end:
        return Verdict(end=site.end, reason=reason, detail=detail)
    for crossing, proven in _crossings(site, data_start, end):
        if crossing is None:
            end = longest
            break
        if proven or crossing > site.end or site.is_boundary(crossing):
            end = crossing
            break
    return Verdict(end=end, reason=reason, detail=detail, certain=False)


def _complaint(site: _Site, declared_end: int | None) -> tuple[BundleReason, str]:
    if not site.buffer.startswith(MARK_HEAD, site.start):
        return BundleReason.NO_RECORD, "no mark where a record should begin"
    if declared_end is None:
        if site.ended and site.end - site.start < HEADER_BYTES_MAX:
            return BundleReason.TRUNCATED, "the input ends inside the headers"
        return BundleReason.UNREADABLE, "no Data-Length line that can be read"
    if site.ended and declared_end > site.end:
        return BundleReason.TRUNCATED, f"bytes missing at the end of the input: {declared_end - site.end}"
    return BundleReason.CONTRADICTED, "no record begins where the declared length ends"


def _repair(site: _Site, data_start: int, length: int) -> Verdict:
    sentence = f"the Data-Length line is damaged: by its digest the data has {length} bytes"
    if not site.buffer.startswith(MARK_HEAD, site.start):
        return Verdict(end=data_start + length, reason=BundleReason.NO_RECORD, detail=sentence)
    return Verdict(end=data_start + length, reason=Reason.DATA_LENGTH, detail=sentence)


# ---- proofs -------------------------------------------------------------------------------------------------------


def _repaired(site: _Site, symbols: bytes, anchor: int) -> Verdict | None:
    """The end of a record whose ``Data-Length`` line, expected at ``anchor``, cannot be read."""
    verdict = _repaired_nearby(site, symbols, anchor)
    if verdict or (verdict := _repaired_nearby(site, symbols, anchor, anywhere=True)):
        return verdict
    # The number is gone. Where the data may begin: after both line feeds, or where one of them is lost or changed.
    first = site.buffer.find(b"\n", anchor, min(site.end, anchor + 2 * _LENGTH_LINE_BYTES_MAX))
    if first < 0:
        return None
    starts = [first + 2] if site.buffer.startswith(b"\n", first + 1) else [first + 1, first + 2]
    return _repaired_by_marks(site, symbols, starts)


def _repaired_nearby(site: _Site, symbols: bytes, anchor: int, *, anywhere: bool = False) -> Verdict | None:
    """Try every ``Data-Length`` line that is one edit away from what stands at ``anchor``.

    Only those that lead to a mark; or ``anywhere``, the shortest first, as far as the effort allows.
    """
    candidates = {(length, data_start) for data_start, length in _nearby(site.buffer, anchor)}
    effort = 0
    for length, data_start in sorted(candidates):
        effort += length
        if anywhere and effort > _EFFORT_BYTES_MAX:
            return None
        if (anywhere or site.is_boundary(data_start + length)) and site.proves(
            symbols, data_start, length, guess=anywhere
        ):
            return _repair(site, data_start, length)
    return None


def _nearby(buffer: bytearray, anchor: int) -> Iterator[tuple[int, int]]:
    """(data start, length) for each line that may have stood at ``anchor`` before one byte was changed."""
    text = bytes(buffer[anchor : anchor + _LENGTH_LINE_BYTES_MAX + 1])
    for at in range(_LENGTH_LINE_BYTES_MAX + 1):
        for before, shift in (
            (text[:at] + b"?" + text[at + 1 :], 0),  # another byte stood here
            (text[:at] + b"?" + text[at:], -1),  # a byte is missing here
            (text[:at] + text[at + 1 :], 1),  # this byte was added
        ):
            # The unknown byte may be the last digit or the first line feed; so the longest and the shortest reading.
            for reading in _LENGTH_READINGS:
                if line := reading.match(before):
                    for digit in b"0123456789" if b"?" in line[1] else b"?":
                        yield anchor + line.end() + shift, int(line[1].replace(b"?", bytes([digit])))


def _repaired_by_marks(site: _Site, symbols: bytes, starts: list[int]) -> Verdict | None:
    """Try the end of the input and the next marks as the end of the data."""
    tries = 0
    for end in _ends(site, min(starts, default=site.end)):
        for data_start in starts:
            if tries == _TRIES_MAX:
                return None
            tries += 1
            if site.proves(symbols, data_start, end - data_start, guess=True):
                return _repair(site, data_start, end - data_start)
    return None


def _ends(site: _Site, at: int) -> Iterator[int]:
    longest = site.start + profile.RECORD_BYTES_MAX
    if site.ended and site.end <= longest:
        yield site.end
    while (at := find_outer_mark(site.buffer, at, min(site.end, longest + len(MARK_HEAD)))) >= 0:
        yield at
        at += len(MARK_HEAD)


def _lies_across(site: _Site, data_start: int, end: int) -> bool:
    """Whether the mark at ``end`` is inside another record, so that the declared length cannot be right."""
    if site.buffer.startswith(MARK_HEAD + b"P", end) and is_inner(site.buffer, end):
        return True
    return any(proven for _, proven in _crossings(site, data_start, end))


def _crossings(site: _Site, data_start: int, end: int) -> Iterator[tuple[int | None, bool]]:
    """The records that begin in ``data_start..end`` and go on beyond: (end, whether that is proven).

    (None, True) comes last where the budget is spent: then there may be any.
    """
    at = searched = end
    empty_line = -1
    for _ in range(_TRIES_MAX):
        at = site.buffer.rfind(MARK_HEAD, data_start, min(site.end, at + len(MARK_HEAD) - 1))
        if at < 0:
            return
        # The headers end at the first empty line from here: the one found already, unless there is one before it.
        until = min(site.end, at + HEADER_BYTES_MAX)
        found = site.buffer.find(b"\n\n", at, until if searched == end else min(until, searched + 1))
        empty_line, searched = found if found >= 0 else empty_line, at
        if empty_line < 0 or empty_line + 2 > until:
            continue
        if not site.budget.pay(empty_line + 2 - at):
            yield None, True
            return
        headers = HEADERS.match(site.buffer, at, empty_line + 2)
        if headers is None:
            continue
        length = int(headers[2])
        crossing = headers.end() + length
        if length > profile.DATA_BYTES_MAX or crossing <= end:
            continue
        if crossing <= site.end and not site.budget.can_pay(length):
            yield None, True
            return
        yield crossing, site.proves(headers[1], headers.end(), length)
