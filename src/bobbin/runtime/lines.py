"""A stream of JSON lines, cut into the same pieces as a bundle.

An ``Extent`` holds the record's bytes, made from its line; a ``Damage`` holds the line itself, which says no record.
The offset is always the line's. Lines of white space only are passed over. A line that is longer than any record could
make it comes out as damage, in pieces no larger than a record may be, so memory is bounded by the longest line.
"""

from bobbin import profile
from bobbin.records import jsonl
from bobbin.records.bundle import Damage, Extent, Piece
from bobbin.records.jsonl import InvalidLine, LineReason


class LineReader:
    """Cuts a stream of bytes into pieces. Feed it chunk by chunk, then finish it once."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._offset = 0
        """Where in the stream the buffer begins."""
        self._searched = 0
        """How far into the buffer there is no line feed, seen already."""
        self._too_long = False
        """Whether the buffer begins inside a line whose first piece was too long for any record."""

    @property
    def position(self) -> int:
        """Where in the stream the first line begins that is not complete yet."""
        return self._offset

    def feed(self, chunk: bytes) -> list[Piece]:
        """Take more bytes; the pieces of the lines that are complete now."""
        self._buffer += chunk
        pieces: list[Piece] = []
        begin = 0
        while (end := self._buffer.find(b"\n", max(begin, self._searched))) >= 0:
            pieces += self._read_line(begin, end)
            begin = end + 1
        while len(self._buffer) - begin > jsonl.LINE_BYTES_MAX:
            pieces.append(self._damage(begin, begin + profile.RECORD_BYTES_MAX))
            begin += profile.RECORD_BYTES_MAX
            self._too_long = True
        del self._buffer[:begin]
        self._offset += begin
        self._searched = len(self._buffer)
        return pieces

    def finish(self) -> list[Piece]:
        """The input has ended; the piece of the last line, where no line feed ends it."""
        return self._read_line(0, len(self._buffer))

    def _read_line(self, begin: int, end: int) -> list[Piece]:
        too_long, self._too_long = self._too_long or end - begin > jsonl.LINE_BYTES_MAX, False
        if too_long:
            size = profile.RECORD_BYTES_MAX
            return [self._damage(at, min(end, at + size)) for at in range(begin, end, size)]
        line = bytes(self._buffer[begin:end])
        if not line or line.isspace():
            return []
        offset = self._offset + begin
        try:
            return [Extent(raw=jsonl.decode(line), offset=offset)]
        except InvalidLine as failure:
            return [Damage(raw=line, offset=offset, reason=failure.reason, detail=failure.detail)]

    def _damage(self, begin: int, end: int) -> Damage:
        return Damage(
            raw=bytes(self._buffer[begin:end]),
            offset=self._offset + begin,
            reason=LineReason.TOO_LONG,
            detail=f"part of a line of more than {jsonl.LINE_BYTES_MAX} bytes",
        )
