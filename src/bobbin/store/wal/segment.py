"""One file of a log: a header, then groups of records, each made durable by one sync.

The payload of each of its records begins with a *place*: eight bytes that were drawn by chance for this file, the
offset of the record in the file, and the length of the payload once more; and ends with a byte that is not zero. So
bytes of another file, or of another place in this one, never pass for a record here, nor does anything that a client
has put into a command; and the places of later records can be found past a record that is broken.

**A torn tail or damage?** One group is one record, written after the sync of the one before has returned. Whatever a
power cut leaves of the last write, therefore, it is one broken record with nothing valid behind it, and it was never
acknowledged: a torn tail. A broken record is *damage*, and acknowledged records are missing, when

* the next file says that it counts, or it was made durable together with the file's header; or
* a valid record stands behind it; or
* it is all there, by either of its lengths, and no sector of it is missing. A write that was cut short leaves a file
  that ends early or has holes, which read as zeros; a flipped bit leaves neither.

What cannot be told apart: the last record, damaged, where it holds a whole sector of zeros of its own; and a file whose
end somebody has cut off.
"""

import re
from collections.abc import Iterator
from struct import Struct
from typing import Final, Self

from bobbin.cluster.raft.effects import DurableRecord
from bobbin.errors import IntegrityError
from bobbin.store.wal.files import Files, Reader
from bobbin.store.wal.record import HEAD, PAYLOAD_BYTES_MAX, frame, payload_at
from bobbin.wire.cluster.durable import Header, decode_group, decode_header, encode_whole

SALT_BYTES: Final = 8
SECTOR: Final = 512
"""The least that a disk writes whole."""

_PLACE: Final = Struct(f"<{SALT_BYTES}sQI")
_END: Final = b"\xa5"
_AROUND: Final = _PLACE.size + len(_END)
BODY_BYTES_MAX: Final = PAYLOAD_BYTES_MAX - _AROUND
_WINDOW: Final = 4 * 1_048_576
_NAME: Final = re.compile(r"log-(\d{20})")


def segment_name(number: int) -> str:
    """The file with this number."""
    return f"log-{number:020d}"


def segment_numbers(names: list[str]) -> list[int]:
    """Of the files of a log among these, ascending."""
    return sorted(int(match[1]) for name in names if (match := _NAME.fullmatch(name)))


def placed(salt: bytes, offset: int, body: bytes) -> bytes:
    """A record for this place."""
    return frame(_PLACE.pack(salt, offset, _AROUND + len(body)), body, _END)


def framed_size(body: bytes) -> int:
    """Bytes of the record that ``placed`` makes."""
    return HEAD.size + _AROUND + len(body)


def segment_start(salt: bytes, header: Header, bodies: list[bytes]) -> list[bytes]:
    """The first bytes of a file, in pieces: its header, and what is made durable with it."""
    assert header.filled == sum(map(framed_size, bodies)), header
    pieces = [placed(salt, 0, encode_whole(header))]
    offset = len(pieces[0])
    for body in bodies:
        pieces.append(placed(salt, offset, body))
        offset += len(pieces[-1])
    return pieces


class Segment:
    """A file of a log, open for reading. Close it, or use it in a ``with`` statement."""

    def __init__(self, files: Files, number: int) -> None:
        self.name: Final = segment_name(number)
        self._reader: Final[Reader] = files.open(self.name)
        try:
            self.size: Final = self._reader.size()
            payload = self._payload_at(0)
            if payload is None or len(payload) < _AROUND:
                raise self._damage(0, "the header is broken")
            self.salt: Final = payload[:SALT_BYTES]
            self.header: Final = self._header(payload, number)
        except BaseException:
            self._reader.close()
            raise
        self.start: Final = HEAD.size + len(payload)
        """Of the records after the header."""
        self.filled_end: Final = self.start + self.header.filled

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.close()

    def _header(self, payload: bytes, number: int) -> Header:
        body = self._body(payload, 0)
        if body is None:
            raise self._damage(0, "the header is not of this place")
        try:
            header = decode_header(body)
        except IntegrityError as error:
            raise self._damage(0, str(error)) from error
        if header.number != number:
            raise self._damage(0, f"the header is of file number {header.number}")
        return header

    def groups(self, end: int | None = None) -> Iterator[tuple[int, int, list[DurableRecord]]]:
        """Where each group begins and ends, and its records, up to ``end`` or the tail.

        With an ``end`` the file is sealed: everything before it must be there. Without one the tail may be torn, which
        is no error: the groups simply stop. Anything else is an ``IntegrityError`` that names file and offset.
        """
        limit = self.size if end is None else end
        if limit > self.size or self.filled_end > limit:
            raise self._damage(self.size, f"{max(limit, self.filled_end)} bytes of it count, but there it ends")
        at = self.start
        window, base = b"", at
        while at < limit:
            payload = payload_at(window, at - base)
            if payload is None:
                window, base = self._reader.read(at, self._needed(at, limit)), at
                payload = payload_at(window, 0)
            body = None if payload is None else self._body(payload, at)
            if payload is None or body is None:
                if end is None and at >= self.filled_end and self._is_torn(at):
                    return
                raise self._damage(at, "a record that counts is broken")
            try:
                records = decode_group(body)
            except IntegrityError as error:
                raise self._damage(at, str(error)) from error
            following = at + HEAD.size + len(payload)
            yield at, following, records
            at = following

    def body_between(self, start: int, end: int) -> bytes:
        """The body of a group that ``groups`` has named."""
        payload = payload_at(self._reader.read(start, end - start), 0)
        body = None if payload is None else self._body(payload, start)
        if body is None:
            raise self._damage(start, "a record reads otherwise than a moment ago")
        return body

    def _needed(self, at: int, limit: int) -> int:
        """How much to read from there: many records, or the one that begins there if it is larger."""
        head = self._reader.read(at, HEAD.size)
        length = HEAD.unpack(head)[0] if len(head) == HEAD.size else 0
        wanted = HEAD.size + length if length <= PAYLOAD_BYTES_MAX else 0
        return min(max(_WINDOW, wanted), limit - at)

    def _payload_at(self, offset: int) -> bytes | None:
        return payload_at(self._reader.read(offset, self._needed(offset, self.size)), 0)

    def _body(self, payload: bytes, offset: int) -> bytes | None:
        """What a payload holds, if it was written for this place."""
        if len(payload) < _AROUND or payload[-1:] != _END:
            return None
        if _PLACE.unpack_from(payload) != (self.salt, offset, len(payload)):
            return None
        return payload[_PLACE.size : -len(_END)]

    def _is_torn(self, offset: int) -> bool:
        """Whether a broken record at the tail is what a power cut may leave of a write."""
        if self._valid_after(offset):
            return False
        head = self._reader.read(offset, HEAD.size + _PLACE.size)
        if len(head) < HEAD.size + _PLACE.size:
            return True
        outer: int = HEAD.unpack_from(head)[0]
        salt, place, inner = _PLACE.unpack_from(head, HEAD.size)
        available = self.size - offset - HEAD.size
        is_inner_sound = (salt, place) == (self.salt, offset) and inner >= _AROUND
        is_whole = _AROUND <= outer <= available or (is_inner_sound and inner <= available)
        return not is_whole or self._has_hole(offset)

    def _valid_after(self, offset: int) -> bool:
        """Whether any later bytes are a record of this file."""
        at = offset + 1
        while at < self.size:
            window = self._reader.read(at, _WINDOW)
            found = window.find(self.salt)
            while found >= 0:
                place = at + found - HEAD.size
                if place > offset and (payload := self._payload_at(place)) and self._body(payload, place) is not None:
                    return True
                found = window.find(self.salt, found + 1)
            at += max(len(window) - SALT_BYTES + 1, 1)
        return False

    def _has_hole(self, offset: int) -> bool:
        """Whether a sector, or what of one lies behind ``offset``, is nothing but zeros."""
        at = offset
        while at < self.size:
            window = self._reader.read(at, _WINDOW - at % SECTOR)
            if not window:
                return False
            first = SECTOR - at % SECTOR
            for start in (0, *range(first, len(window), SECTOR)):
                sector = window[start : start + SECTOR] if start else window[:first]
                if not sector.strip(b"\0"):
                    return True
            at += len(window)
        return False

    def _damage(self, offset: int, reason: str) -> IntegrityError:
        return IntegrityError(f"{self.name} is damaged at offset {offset}: {reason}")
