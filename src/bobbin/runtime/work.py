"""What a worker process does: validate records, verify signatures; one batch in, one batch of answers out.

The same functions run in the caller's process when it asks for no workers, so both ways give one answer. A worker is
a process that runs ``main``: it reads frames from its standard input and writes one frame of answers for each, in
order, until the input ends. It holds nothing between two frames, so it may be killed at any moment, and it ends by
itself when the process that feeds it does, however that one died: then its input ends.

A frame is a length (four bytes, big-endian) and that many bytes of MessagePack. A valid record travels back without
its bytes, since whoever sent them still has them; ``restore`` puts them in again.
"""

import fcntl
import os
from collections.abc import Sequence
from struct import Struct as Layout
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import force_setattr

from bobbin.records import signing
from bobbin.records.reasons import InvalidRecord, Reason
from bobbin.records.record import Record, recognise_run, validate


class Invalid(Struct, frozen=True, array_like=True, tag="invalid"):
    """Bytes that are not a record, and why: what ``InvalidRecord`` says, as a value that travels."""

    raw: bytes
    reason: Reason
    detail: str
    offset: int
    """Where in the bytes the failed check looked."""


Validated: TypeAlias = Record | Invalid

SignatureItem: TypeAlias = tuple[bytes, bytes, bytes]
"""The x-coordinate of a verifier, a 32-byte message, a signature."""


class Validate(Struct, frozen=True, array_like=True, tag="validate"):
    """A batch of bytes that may be records."""

    raws: list[bytes]

    @property
    def size(self) -> int:
        """How many bytes the batch has, for whoever bounds a queue."""
        return sum(map(len, self.raws))


class Recognise(Struct, frozen=True, array_like=True, tag="recognise"):
    """A stretch of a bundle that may be valid records, one right after the other."""

    raw: bytes

    @property
    def size(self) -> int:
        """How many bytes the stretch has, for whoever bounds a queue."""
        return len(self.raw)


class Verify(Struct, frozen=True, array_like=True, tag="verify"):
    """A batch of signatures."""

    items: list[SignatureItem]

    @property
    def size(self) -> int:
        """How many bytes the batch has, for whoever bounds a queue."""
        return sum(len(part) for item in self.items for part in item)


_HEADER: Final = Layout("!I")
FRAME_BYTES_MAX: Final = 2**32 - 1
_encoder: Final = msgspec.msgpack.Encoder()
_request_decoder: Final = msgspec.msgpack.Decoder(Validate | Recognise | Verify)
_validated_decoder: Final = msgspec.msgpack.Decoder(list[Validated])
_recognised_decoder: Final = msgspec.msgpack.Decoder(tuple[list[int], list[Record]])
_verdict_decoder: Final = msgspec.msgpack.Decoder(list[bool])


# ---- the work -----------------------------------------------------------------------------------------------------


def validate_batch(raws: Sequence[bytes]) -> list[Validated]:
    """For each item the record it is, or why it is none."""
    answers: list[Validated] = []
    for raw in raws:
        try:
            answers.append(validate(raw))
        except InvalidRecord as failure:
            answers.append(Invalid(raw, failure.reason, failure.detail, failure.offset))
    return answers


def recognise(raw: bytes) -> list[Record]:
    """The valid records at the front of a stretch; what follows them, if anything does, is none."""
    with memoryview(raw) as buffer:
        return recognise_run(buffer)[0]


def verify_batch(items: Sequence[SignatureItem]) -> list[bool]:
    """For each item whether its signature is valid."""
    return [signing.is_valid(public_x, message, signature) for public_x, message, signature in items]


# ---- frames -------------------------------------------------------------------------------------------------------


def encode_request(request: Validate | Recognise | Verify) -> bytes:
    """The bytes of a request, without the frame's length."""
    return _encoder.encode(request)


def decode_verdicts(reply: bytes | bytearray) -> list[bool]:
    """The answers to a ``Verify``."""
    return _verdict_decoder.decode(reply)


def restore(reply: bytes | bytearray, raws: Sequence[bytes]) -> list[Validated]:
    """The answers to a ``Validate``, each with the bytes that were asked about."""
    answers = _validated_decoder.decode(reply)
    for answer, raw in zip(answers, raws, strict=True):
        # Each value was made two lines above and nobody has seen it yet, so that it is frozen harms no one.
        force_setattr(answer, "raw", raw)
    return answers


def restore_run(reply: bytes | bytearray, raw: bytes) -> list[Record]:
    """The answer to a ``Recognise``, each record with its part of the bytes that were asked about."""
    sizes, records = _recognised_decoder.decode(reply)
    begin = 0
    for record, size in zip(records, sizes, strict=True):
        force_setattr(record, "raw", raw[begin : begin + size])
        begin += size
    return records


def write_frame(descriptor: int, body: bytes) -> None:
    """Write one frame whole. Blocks while the pipe is full."""
    assert len(body) <= FRAME_BYTES_MAX, "batches are bounded far below the longest frame"
    for part in (_HEADER.pack(len(body)), body):
        view = memoryview(part)
        while view:
            view = view[os.write(descriptor, view) :]


def read_frame(descriptor: int) -> bytearray | None:
    """Read one frame whole, or None where the stream has ended. A frame that is cut off counts as an end."""
    header = _read_exactly(descriptor, _HEADER.size)
    return header and _read_exactly(descriptor, _HEADER.unpack(header)[0])


def _read_exactly(descriptor: int, size: int) -> bytearray | None:
    buffer = bytearray(size)
    view = memoryview(buffer)
    while view:
        count = os.readv(descriptor, [view])
        if count == 0:
            return None
        view = view[count:]
    return buffer


# ---- the process --------------------------------------------------------------------------------------------------


def answer(request: Validate | Recognise | Verify) -> bytes:
    """The bytes of the answers to a request, without the frame's length."""
    if isinstance(request, Verify):
        return _encoder.encode(verify_batch(request.items))
    if isinstance(request, Recognise):
        records = recognise(request.raw)
        sizes = [len(record.raw) for record in records]
        for record in records:
            force_setattr(record, "raw", b"")
        return _encoder.encode((sizes, records))
    answers = validate_batch(request.raws)
    for answer in answers:
        force_setattr(answer, "raw", b"")
    return _encoder.encode(answers)


def _answer(body: bytearray) -> bytes:
    return answer(_request_decoder.decode(body))


def serve(source: int, sink: int) -> None:
    """Answer frames until the source ends or nobody reads the answers."""
    try:
        while (body := read_frame(source)) is not None:
            write_frame(sink, _answer(body))
    except BrokenPipeError:
        return


def main() -> None:
    """Be a worker, on standard input and output."""
    # Nothing but frames may reach the pipe: what some library prints goes nowhere. The number is kept above those of
    # the standard streams, of which the caller may have closed some.
    answers_to = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, 3)
    nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    os.dup2(nowhere, 1)
    serve(0, answers_to)
