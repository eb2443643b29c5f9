"""Frames of a cluster: the same whole and byte by byte, or refused with a known code; nothing too long is kept."""

from bobbin.wire.cluster.faults import MessageRefused, Refusal
from bobbin.wire.cluster.frame import HEAD_SIZE, Deframer, frame

_BOUND = 4096


def one_input(data: bytes) -> None:
    payloads, refusal = _split([data])
    assert _split([data[at : at + 1] for at in range(len(data))]) == (payloads, refusal)
    assert all(0 < len(payload) <= _BOUND for payload in payloads)
    said = b"".join(frame(payload) for payload in payloads)
    assert data.startswith(said)
    assert refusal is not None or said == data


def _split(parts: list[bytes]) -> tuple[list[bytes], Refusal | None]:
    deframer = Deframer(payload_bytes_max=_BOUND)
    found: list[bytes] = []
    try:
        for part in parts:
            deframer.feed(part)
            found += deframer.drain()
            assert deframer.buffered < _BOUND + HEAD_SIZE or len(parts) == 1
        found += deframer.drain()
        deframer.finish()
    except MessageRefused as refused:
        return found, Refusal(refused.code)
    return found, None
