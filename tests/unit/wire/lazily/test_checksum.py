import random

import pytest

from bobbin.wire.lazily.checksum import BASIS, PRIME, fnv1a64


def _by_the_definition(data: bytes) -> int:
    found = BASIS
    for byte in data:
        found = (found ^ byte) * PRIME % 2**64
    return found


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0xCBF29CE484222325),
        (b"a", 0xAF63DC4C8601EC8C),
        (b"foobar", 0x85944171F73967E8),
        (b"lazily shared-memory blob arena", 13098019626228322701),
    ],
)
def test_known_values(data: bytes, expected: int) -> None:
    """RX-143: exclusive or first, product second."""
    assert fnv1a64(data) == expected


@pytest.mark.parametrize("size", [1, 255, 1023, 1024, 1025, 4_097, 65_535, 65_536, 65_537, 131_073])
def test_long_inputs_are_what_the_definition_says(size: int) -> None:
    data = random.Random(size).randbytes(size)
    assert fnv1a64(data) == _by_the_definition(data)


@pytest.mark.parametrize("byte", [0, 0x25, 0x7F, 0x80, 0xFF])
def test_runs_of_one_byte(byte: int) -> None:
    data = bytes([byte]) * 3_000
    assert fnv1a64(data) == _by_the_definition(data)


def test_any_buffer_of_bytes_will_do() -> None:
    data = random.Random(0).randbytes(2_000)
    assert fnv1a64(bytearray(data)) == fnv1a64(memoryview(data)) == fnv1a64(data)
    assert fnv1a64(memoryview(data)[500:]) == fnv1a64(data[500:])
