"""The elements of the stream: what a peer's bytes fall into, told by the first bytes of each.

===========  ===========  =========================================================================================
element      first bytes  form
===========  ===========  =========================================================================================
preface      ``🪢``       ``🪢: lace/1 <43 symbols>`` LF, once, and first
fact line    ``A``-``Z``  up to LF; lines that follow one another come out as one ``Facts``
resource     ``🧩``       ``🧩: <R.… or E.…>`` LF ``Data-Length: <n>`` LF LF, then n bytes that have that identifier
record       ``🖧``       a record; its ``Data-Length`` line, the last before the first empty one, says where it ends
compressed   ``🗜``       ``🗜: <n>`` LF, then n bytes of compressed fact lines, where both sides know how
comment      ``#``        up to LF; dropped, but for a last word (``parting``)
phase end    LF           an empty line
===========  ===========  =========================================================================================

This is our own stream form; it is not claimed to be the published one.

What always holds:

* the elements, and the error if there is one, do not depend on how the bytes were cut into chunks;
* a kind that is not admitted at the moment is refused at its first bytes, before the rest of it is read;
* memory is one element and what was fed beyond it; every element has a bound, and fact lines are counted from one
  phase end to the next, as they come in;
* after an error nothing more is read: the same error comes again.

Whether a record is valid is not asked here. Only its extent must be readable: where that is not so, nobody can say
where the next element begins.
"""

import re
from enum import StrEnum
from typing import Final, TypeAlias

from msgspec import Struct

from bobbin import profile
from bobbin.datalog.limits import DEFAULT as PROGRAM_LIMITS
from bobbin.errors import PeerError
from bobbin.facts.block import BLOCK_BYTES_MAX, OversizedBlock
from bobbin.interlace.reasons import Abort, Reason
from bobbin.policy.modules import check_identity
from bobbin.policy.plan import IDENTIFIER_MISMATCH, MalformedPlan, plan_identifier
from bobbin.records import b64a
from bobbin.records.canonical import MARK
from bobbin.records.salvage import HEADER_BYTES_MAX
from bobbin.wire import compressed, parting
from bobbin.wire.compressed import COMPRESSED_MARK

PREFACE_MARK: Final = "🪢".encode()
RESOURCE_MARK: Final = "🧩".encode()
PHASE_END: Final = b"\n"

NONCE_SIZE: Final = 32
COMMENT_BYTES_MAX: Final = 1024
RESOURCE_BYTES_MAX: Final = PROGRAM_LIMITS.program_bytes_max
"""A module is the largest resource there is."""

_PREFACE: Final = PREFACE_MARK + b": lace/1 "
_PREFACE_SIZE: Final = len(_PREFACE) + b64a.length(NONCE_SIZE) + 1
_RESOURCE_HEAD: Final = re.compile(
    RESOURCE_MARK + rb": ([RE]\." + b64a.PATTERN + rb"{43})\nData-Length: (0|[1-9][0-9]{0,7})\n\n"
)
_RESOURCE_HEAD_BYTES_MAX: Final = len(RESOURCE_MARK) + len(": R.\nData-Length: 99999999\n\n") + 43
_RECORD_NAME: Final = re.compile(MARK + rb": ([BPS]\." + b64a.PATTERN + rb"{1,512}\.[A-Z][A-Z0-9]{0,15})\n")
_RECORD_LENGTH: Final = re.compile(rb"\nData-Length: (0|[1-9][0-9]{0,7})\n\n")
_FACTS_END: Final = re.compile(rb"\n(?=[^A-Z])")
_EMPTY_LINE: Final = b"\n\n"
_LF, _HASH, _MARK_BYTE = b"\n#\xf0"
_LETTERS: Final = range(ord("A"), ord("Z") + 1)
_COMPACT_BYTES: Final = 64 * 1024


class Truncated(Abort):
    """The stream ended inside an element or a phase. What was complete before is not affected."""

    def __init__(self, detail: str) -> None:
        super().__init__(Reason.LINK_LOST, f"truncated: {detail}")


class Kind(StrEnum):
    """The kinds of element that may be refused in a phase. Comments and phase ends stand anywhere."""

    FACTS = "fact line"
    RESOURCE = "resource"
    RECORD = "record"
    COMPRESSED = "compressed fact block"


class Preface(Struct, frozen=True):
    """The beginning of a stream."""

    nonce: bytes


class Facts(Struct, frozen=True):
    """Fact lines that follow one another, each with its LF. Not parsed yet."""

    block: bytes


class Resource(Struct, frozen=True, kw_only=True):
    """The canonical bytes of a module or a plan. The identifier is theirs; whether they are valid is not known yet."""

    identifier: str
    raw: bytes


class RecordBytes(Struct, frozen=True, kw_only=True):
    """Bytes with the extent of a record, under the hash text of their own markline. Not validated yet."""

    record: str
    raw: bytes


class Compressed(Struct, frozen=True):
    """A piece of compressed fact lines. Whether it can be read is not known yet."""

    piece: bytes


class PhaseEnd(Struct, frozen=True):
    """An empty line."""


Element: TypeAlias = Preface | Facts | Resource | RecordBytes | Compressed | PhaseEnd


class Elements:
    """Splits a stream. ``feed`` it bytes as they come, and take elements by ``next`` until there is none."""

    def __init__(
        self,
        *,
        fact_bytes_max: int = BLOCK_BYTES_MAX,
        resource_bytes_max: int = RESOURCE_BYTES_MAX,
        record_bytes_max: int = profile.RECORD_BYTES_MAX,
        comment_bytes_max: int = COMMENT_BYTES_MAX,
        has_preface: bool = True,
    ) -> None:
        """Without ``has_preface`` the stream begins with its first phase: for links that need no proof."""
        self.fact_bytes_max = fact_bytes_max
        """Of the fact lines between two phase ends, and of compressed pieces. May be changed at a phase end."""
        self.admits: frozenset[Kind] = frozenset(Kind)
        self._resource_bytes_max: Final = resource_bytes_max
        self._record_bytes_max: Final = record_bytes_max
        self._comment_bytes_max: Final = comment_bytes_max
        self._awaits_preface = has_preface
        self._buffer = bytearray()
        self._at = 0
        """Where the next element begins."""
        self._searched = 0
        """How far its end has been looked for."""
        self._fact_bytes = 0
        """Of fact lines since the last phase end, without those that are still in the buffer."""
        self._in_phase = False
        self._failure: PeerError | None = None
        """Never raised itself: see ``again``."""
        self.parting: Reason | None = None
        """What the peer has said of its end, where nothing has come behind it so far."""

    @property
    def buffered(self) -> int:
        """How many bytes wait."""
        return len(self._buffer) - self._at

    @property
    def waiting_parting(self) -> Reason | None:
        """A last word that waits, where nothing else does. It stays there."""
        return parting.read(bytes(self._buffer[self._at :])) if self.buffered <= self._comment_bytes_max else None

    def feed(self, data: bytes) -> None:
        """Take more bytes."""
        self._buffer += data

    def next(self) -> Element | None:
        """The next element, or None where it takes more bytes to say."""
        if self._failure is not None:
            raise again(self._failure)
        try:
            return self._next()
        except PeerError as failure:
            self._failure = again(failure)
        raise again(self._failure)

    def records(self) -> list[tuple[str, bytes]]:
        """The records that come next, as far as they are complete and within their bounds, each with its name.

        The same as ``next`` would give, in less time. Whatever else comes next is for ``next``.
        """
        found: list[tuple[str, bytes]] = []
        if self._failure is not None or self._awaits_preface or Kind.RECORD not in self.admits:
            return found
        buffer, at = self._buffer, self._at
        while name := _RECORD_NAME.match(buffer, at):
            empty = buffer.find(_EMPTY_LINE, name.end() - 1, at + HEADER_BYTES_MAX)
            line = buffer.rfind(b"\n", at, empty) if empty >= 0 else -1
            length = _RECORD_LENGTH.fullmatch(buffer, line, empty + len(_EMPTY_LINE)) if line >= 0 else None
            if length is None:
                break
            end = length.end() + int(length[1])
            if end > len(buffer) or end - at > self._record_bytes_max:
                break
            found.append((name[1].decode("ascii"), bytes(buffer[at:end])))
            at = end
        if found:
            self._in_phase = True
            self._advance(at - self._at)
        return found

    def finish(self) -> None:
        """The stream has ended. Raises ``Truncated`` unless that was at the end of a phase."""
        if self._failure is None and (self._awaits_preface or self._in_phase or self.buffered):
            self._failure = Truncated(f"the stream ends inside a phase; {self.buffered} bytes wait for the rest")
        if self._failure is not None:
            raise again(self._failure)

    def drop(self) -> None:
        """Let go of what waits: nothing more will be read. A link that is over may be held on to for a while."""
        self._buffer = bytearray()
        self._at = self._searched = 0

    def _next(self) -> Element | None:
        while self.buffered:
            first = self._buffer[self._at]
            if self._awaits_preface:
                return self._read_preface()
            if first == _LF:
                self._advance(1)
                self._fact_bytes = 0
                self._in_phase = False
                return PhaseEnd()
            if first == _HASH:
                if not self._skip_comment():
                    return None
                continue
            self._in_phase = True
            if first in _LETTERS:
                return self._read_facts()
            if first == _MARK_BYTE:
                return self._read_marked()
            raise _malformed(f"no element begins with the byte {first:02x}")
        return None

    def _read_preface(self) -> Preface | None:
        head = self._buffer[self._at : self._at + len(_PREFACE)]
        if not _PREFACE.startswith(head):
            raise Abort(Reason.OUT_OF_PHASE, "the stream does not begin with the preface of lace/1")
        if self.buffered < _PREFACE_SIZE:
            return None
        line = bytes(self._buffer[self._at : self._at + _PREFACE_SIZE])
        try:
            nonce = b64a.decode(line[len(_PREFACE) : -1])
        except b64a.B64aError as error:
            raise _malformed(f"the nonce of the preface: {error}") from error
        if line[-1] != _LF:
            raise _malformed("the preface does not end after its nonce")
        self._awaits_preface = False
        self._in_phase = True
        self._advance(_PREFACE_SIZE)
        return Preface(nonce)

    def _skip_comment(self) -> bool:
        end = self._buffer.find(b"\n", max(self._searched, self._at))
        size = (end if end >= 0 else len(self._buffer)) - self._at
        if size > self._comment_bytes_max:
            raise OversizedBlock(f"a comment has at most {self._comment_bytes_max} bytes")
        if end < 0:
            self._searched = len(self._buffer)
            return False
        self.parting = parting.read(self._take(size + 1))
        return True

    def _read_facts(self) -> Facts | None:
        self._check_admitted(Kind.FACTS)
        found = _FACTS_END.search(self._buffer, max(self._searched, self._at))
        size = (found.end() if found else len(self._buffer)) - self._at
        if self._fact_bytes + size > self.fact_bytes_max:
            raise OversizedBlock(f"a fact block has at most {self.fact_bytes_max} bytes")
        if found is None:
            self._searched = len(self._buffer) - 1
            return None
        self._fact_bytes += size
        return Facts(self._take(size))

    def _read_marked(self) -> Element | None:
        mark = bytes(self._buffer[self._at : self._at + len(MARK)])
        if mark == MARK:
            return self._read_record()
        if mark == RESOURCE_MARK:
            return self._read_resource()
        if mark == PREFACE_MARK:
            raise Abort(Reason.OUT_OF_PHASE, "a second preface")
        # Who has not agreed on it has never heard of it.
        knows_compressed = Kind.COMPRESSED in self.admits
        if mark == COMPRESSED_MARK and knows_compressed:
            return self._read_compressed()
        marks = (MARK, RESOURCE_MARK, PREFACE_MARK, *([COMPRESSED_MARK] if knows_compressed else []))
        if not any(known.startswith(mark) for known in marks):
            raise _malformed(f"no element begins with the bytes {mark.hex()}")
        return None

    def _read_resource(self) -> Resource | None:
        self._check_admitted(Kind.RESOURCE)
        end = self._find_empty_line(_RESOURCE_HEAD_BYTES_MAX, "a resource")
        if end is None:
            return None
        head = _RESOURCE_HEAD.fullmatch(self._buffer, self._at, end)
        if head is None:
            raise _malformed("a resource has an identifier and a Data-Length, and nothing else, before its bytes")
        length = int(head[2])
        if length > self._resource_bytes_max:
            raise OversizedBlock(f"a resource has at most {self._resource_bytes_max} bytes, not {length}")
        if self.buffered < end - self._at + length:
            return None
        identifier = head[1].decode("ascii")
        raw = bytes(self._buffer[end : end + length])
        self._check_resource(identifier, raw)
        self._advance(end - self._at + length)
        return Resource(identifier=identifier, raw=raw)

    @staticmethod
    def _check_resource(identifier: str, raw: bytes) -> None:
        if identifier.startswith("R."):
            check_identity(raw, identifier)
        elif (actual := plan_identifier(raw)) != identifier:
            raise MalformedPlan(f"the bytes sent for plan {identifier} are those of {actual}", IDENTIFIER_MISMATCH)

    def _read_record(self) -> RecordBytes | None:
        self._check_admitted(Kind.RECORD)
        end = self._find_empty_line(HEADER_BYTES_MAX, "a record")
        if end is None:
            return None
        name = _RECORD_NAME.match(self._buffer, self._at, end)
        line = self._buffer.rfind(b"\n", self._at, end - len(_EMPTY_LINE))
        length = _RECORD_LENGTH.fullmatch(self._buffer, line, end) if line >= 0 else None
        if name is None or length is None:
            raise _malformed("a record whose markline or Data-Length cannot be read")
        size = end - self._at + int(length[1])
        if size > self._record_bytes_max:
            raise OversizedBlock(f"a record has at most {self._record_bytes_max} bytes, not {size}")
        if self.buffered < size:
            return None
        return RecordBytes(record=name[1].decode("ascii"), raw=self._take(size))

    def _read_compressed(self) -> Compressed | None:
        end = self._buffer.find(b"\n", self._at, self._at + compressed.HEAD_BYTES_MAX)
        if end < 0 and self.buffered < compressed.HEAD_BYTES_MAX:
            return None
        head = compressed.HEAD.fullmatch(self._buffer, self._at, end + 1) if end >= 0 else None
        length = int(head[1]) if head else 0
        if not 1 <= length <= compressed.PIECE_BYTES_MAX:
            raise _malformed(f"a compressed piece has from 1 to {compressed.PIECE_BYTES_MAX} bytes, and says how many")
        size = end + 1 - self._at + length
        if self._fact_bytes + size > self.fact_bytes_max:
            raise OversizedBlock(f"a fact block has at most {self.fact_bytes_max} bytes, compressed or not")
        if self.buffered < size:
            return None
        self._fact_bytes += size
        return Compressed(self._take(size)[-length:])

    def _find_empty_line(self, bytes_max: int, what: str) -> int | None:
        """Where the headers that begin here end, their empty line included; None while that is not known."""
        found = self._buffer.find(_EMPTY_LINE, max(self._searched, self._at), self._at + bytes_max)
        if found >= 0:
            self._searched = found
            return found + len(_EMPTY_LINE)
        if self.buffered >= bytes_max:
            raise _malformed(f"the headers of {what} do not end")
        self._searched = len(self._buffer) - 1
        return None

    def _check_admitted(self, kind: Kind) -> None:
        if kind not in self.admits:
            raise Abort(Reason.OUT_OF_PHASE, f"a {kind.value} in a phase that has none")

    def _take(self, size: int) -> bytes:
        raw = bytes(self._buffer[self._at : self._at + size])
        self._advance(size)
        return raw

    def _advance(self, size: int) -> None:
        self._at += size
        self.parting = None
        self._searched = self._at
        if self._at > _COMPACT_BYTES or self._at == len(self._buffer):
            del self._buffer[: self._at]
            self._at = self._searched = 0


def again(failure: PeerError) -> PeerError:
    """The same error, without the way that it came.

    An error that is raised knows every frame that it passed, and these hold the refused block and what was made of it;
    its cause may hold the bytes too. What keeps an error, or is passed by one that is kept, would keep all of that.
    """
    kind = type(failure)
    made = kind.__new__(kind, *failure.args)
    vars(made).update(vars(failure))
    return made


def preface(nonce: bytes) -> bytes:
    """The preface with this nonce: 32 random bytes, fresh for each stream."""
    assert len(nonce) == NONCE_SIZE
    return _PREFACE + b64a.encode_bytes(nonce) + b"\n"


def resource(identifier: str, raw: bytes) -> bytes:
    """The resource of these bytes, which have this identifier."""
    return b"%b: %b\nData-Length: %d\n\n%b" % (RESOURCE_MARK, identifier.encode("ascii"), len(raw), raw)


def _malformed(detail: str) -> Abort:
    return Abort(Reason.MALFORMED_BLOCK, detail)
