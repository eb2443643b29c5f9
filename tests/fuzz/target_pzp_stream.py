"""The stream cipher: a genuine stream that was changed anywhere gives a beginning of what was written, and a fault.

The first byte says whether the bytes are a stream, or what a genuine one is changed by.
"""

from bobbin.wire.pzp.faults import Fault, WireFault
from bobbin.wire.pzp.secretstream import Opener, Sealer

_KEY, _HEADER = b"k" * 32, b"h" * 24
_WRITTEN = (b"first", b"second" * 100)


def one_input(data: bytes) -> None:
    choice, raw = (data[0], data[1:]) if data else (0, b"")
    sealer = Sealer(_KEY, header=_HEADER)
    genuine = _HEADER + b"".join(map(sealer.seal, _WRITTEN)) + sealer.finish()
    stream = raw
    if choice & 1:
        stream = bytes(byte ^ change for byte, change in zip(genuine, raw.ljust(len(genuine), b"\0"), strict=False))
    content, fault = _open([stream])
    assert _open([stream[at : at + 1] for at in range(len(stream))]) == (content, fault)
    assert b"".join(_WRITTEN).startswith(content)
    assert bool(fault) == (stream != genuine)


def _open(parts: list[bytes]) -> tuple[bytes, str]:
    opener = Opener(_KEY)
    content = b""
    try:
        for part in parts:
            content += opener.feed(part)
            assert opener.buffered < 512
        opener.finish()
    except WireFault as fault:
        return content, Fault(fault.code).value
    return content, ""
