"""secp256k1, as few operations as Bobbin needs, over the C library that ``coincurve`` ships.

Scalars and coordinates are 32 bytes, big-endian. What touches a secret runs inside libsecp256k1, which takes the same
time for every secret; Python only hands the bytes over. Nothing here knows about messages or hashes: that is
``signing``'s part.

The interface is small on purpose, so that another library can take this one's place.
"""

from typing import Final

from coincurve._libsecp256k1 import ffi, lib
from coincurve.context import GLOBAL_CONTEXT

FIELD_PRIME: Final = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEFFFFFC2F
ORDER: Final = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141

_COMPRESSED: Final = 258  # SECP256K1_EC_COMPRESSED
_EVEN: Final = b"\x02"

_context: Final = GLOBAL_CONTEXT.ctx
_parse_signature: Final = lib.secp256k1_ecdsa_recoverable_signature_parse_compact
_recover: Final = lib.secp256k1_ecdsa_recover
_serialize: Final = lib.secp256k1_ec_pubkey_serialize


def is_scalar(value: bytes) -> bool:
    """Whether 0 < value < n."""
    return bool(lib.secp256k1_ec_seckey_verify(_context, value))


def multiply_generator(scalar: bytes) -> tuple[bytes, int]:
    """``scalar * G`` as (x-coordinate, 1 if y is odd else 0)."""
    point = ffi.new("secp256k1_pubkey *")
    done = lib.secp256k1_ec_pubkey_create(_context, point, scalar)
    assert done, "the caller hands over a valid scalar"
    compressed = _compress(point)
    return compressed[1:], compressed[0] & 1


def negate(scalar: bytes) -> bytes:
    """``-scalar`` modulo the order."""
    result = ffi.new("unsigned char[32]", scalar)
    done = lib.secp256k1_ec_seckey_negate(_context, result)
    assert done, "the caller hands over a valid scalar"
    return bytes(ffi.buffer(result))


def multiply_add(first: bytes, second: bytes, addend: bytes) -> bytes:
    """``first * second + addend`` modulo the order; the result must not be zero."""
    result = ffi.new("unsigned char[32]", first)
    done = lib.secp256k1_ec_seckey_tweak_mul(_context, result, second)
    done = done and lib.secp256k1_ec_seckey_tweak_add(_context, result, addend)
    assert done, "the caller hands over valid scalars, and a zero sum has no preimage anyone can find"
    return bytes(ffi.buffer(result))


def recover(x: bytes, scalar: bytes, message: bytes) -> bytes | None:
    """ECDSA public-key recovery with r = ``x`` (taken with even y), s = ``scalar`` and this message digest.

    The compressed point, or None where there is no such point. Needs 0 < x < n.
    """
    signature = ffi.new("secp256k1_ecdsa_recoverable_signature *")
    if not _parse_signature(_context, signature, x + scalar, 0):
        return None
    point = ffi.new("secp256k1_pubkey *")
    if not _recover(_context, point, signature, message):
        return None
    return _compress(point)


def combine(generator_scalar: int, x: bytes, point_scalar: int) -> bytes | None:
    """``generator_scalar * G + point_scalar * P`` where P has this ``x`` and even y, the plain way.

    The compressed point, or None for infinity or where no P has that x.
    """
    terms = []
    point = ffi.new("secp256k1_pubkey *")
    if not lib.secp256k1_ec_pubkey_parse(_context, point, _EVEN + x, 33):
        return None
    if point_scalar % ORDER:
        done = lib.secp256k1_ec_pubkey_tweak_mul(_context, point, (point_scalar % ORDER).to_bytes(32, "big"))
        assert done, "a non-zero scalar times a point is a point"
        terms.append(point)
    if generator_scalar % ORDER:
        base = ffi.new("secp256k1_pubkey *")
        done = lib.secp256k1_ec_pubkey_create(_context, base, (generator_scalar % ORDER).to_bytes(32, "big"))
        assert done, "a non-zero scalar times the generator is a point"
        terms.append(base)
    if not terms:
        return None
    total = ffi.new("secp256k1_pubkey *")
    if not lib.secp256k1_ec_pubkey_combine(_context, total, terms, len(terms)):
        return None
    return _compress(total)


def _compress(point: object) -> bytes:
    output = ffi.new("unsigned char[33]")
    size = ffi.new("size_t *", 33)
    _serialize(_context, output, size, point, _COMPRESSED)
    return bytes(ffi.buffer(output))
