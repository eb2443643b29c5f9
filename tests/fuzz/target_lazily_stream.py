"""Streams of frames and messages in pieces: the same whole and byte by byte, or refused with a known fault."""

from bobbin.wire.lazily.faults import Fault, FrameFault
from bobbin.wire.lazily.fragments import HEAD_SIZE, Assembler, is_fragment, split
from bobbin.wire.lazily.framing import Deframer, frame

_BOUND = 4096


def one_input(data: bytes) -> None:
    frames, fault = _deframe([data])
    assert _deframe([data[at : at + 1] for at in range(len(data))]) == (frames, fault)
    assert _deframe([frame(raw, frame_bytes_max=_BOUND) for raw in frames]) == (frames, "")
    _assemble(frames)
    _assemble([data])
    if data and not is_fragment(data):
        assembler = Assembler(message_bytes_max=1 << 20)
        pieces = split(data, frame_bytes_max=HEAD_SIZE + 7, number=3)
        assert [assembler.take(piece) for piece in pieces][-1] == data


def _deframe(parts: list[bytes]) -> tuple[list[bytes], str]:
    deframer = Deframer(frame_bytes_max=_BOUND)
    found: list[bytes] = []
    try:
        for part in parts:
            deframer.feed(part)
            while (raw := deframer.next()) is not None:
                assert 0 < len(raw) <= _BOUND
                found.append(raw)
        deframer.finish()
    except FrameFault as fault:
        return found, Fault(fault.code).value
    return found, ""


def _assemble(frames: list[bytes]) -> None:
    assembler = Assembler(message_bytes_max=_BOUND)
    for raw in frames:
        try:
            message = assembler.take(raw)
        except FrameFault as fault:
            message, known = b"", Fault(fault.code)
            if known not in (Fault.FRAGMENT, Fault.OVERSIZED):
                raise
        assert (message is None) is assembler.waits
        if is_fragment(raw) and message is not None:
            assert len(message) <= _BOUND
