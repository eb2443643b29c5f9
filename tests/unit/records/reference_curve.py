"""secp256k1 and the signature scheme once more, slowly, from the formulas: what the fast code is compared with.

Affine points, one inversion an addition. Not safe for real secrets, and a few hundred operations a second.
"""

from functools import lru_cache

from blake3 import blake3

P = 2**256 - 2**32 - 977
N = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
G = (
    0x79BE667EF9DCBBAC55A06295CE870B07029BFCDB2DCE28D959F2815B16F81798,
    0x483ADA7726A3C4655DA4FBFC0E1108A8FD17B448A68554199C47D08FFB10D4B8,
)

Point = tuple[int, int] | None
"""None is the point at infinity."""


def add(a: Point, b: Point) -> Point:
    if a is None:
        return b
    if b is None:
        return a
    if a[0] == b[0]:
        if (a[1] + b[1]) % P == 0:
            return None
        slope = 3 * a[0] * a[0] * pow(2 * a[1], -1, P)
    else:
        slope = (b[1] - a[1]) * pow(b[0] - a[0], -1, P)
    x = (slope * slope - a[0] - b[0]) % P
    return x, (slope * (a[0] - x) - a[1]) % P


def multiply(scalar: int, point: Point) -> Point:
    total: Point = None
    scalar %= N
    while scalar:
        if scalar & 1:
            total = add(total, point)
        point = add(point, point)
        scalar >>= 1
    return total


def lift(x: int) -> Point:
    """The point of even y with this x, or None where there is none."""
    square = (x * x * x + 7) % P
    y = pow(square, (P + 1) // 4, P)
    if x >= P or y * y % P != square:
        return None
    return x, y if y % 2 == 0 else P - y


def tagged(tag: str, message: bytes) -> bytes:
    return blake3(message, derive_key_context=f"lace-\N{THREE NETWORKED COMPUTERS}/{tag}").digest()


@lru_cache(maxsize=256)
def key(secret: bytes) -> tuple[int, bytes]:
    """The scalar and the public x of a signing secret."""
    output = blake3(secret, derive_key_context="lace-\N{THREE NETWORKED COMPUTERS}/adhoc-key").digest(32 * 8)
    scalar = next(
        value for i in range(0, len(output), 32) if 0 < (value := int.from_bytes(output[i : i + 32], "big")) < N
    )
    return of_scalar(scalar)


def of_scalar(scalar: int) -> tuple[int, bytes]:
    point = multiply(scalar, G)
    assert point is not None
    return (scalar if point[1] % 2 == 0 else N - scalar), point[0].to_bytes(32, "big")


def public_x(secret: bytes) -> bytes:
    return key(secret)[1]


@lru_cache(maxsize=4096)
def sign(secret: bytes, message: bytes, auxiliary: bytes) -> bytes:
    return sign_with(*key(secret), message, auxiliary)


def sign_with(scalar: int, public: bytes, message: bytes, auxiliary: bytes) -> bytes:
    mask = bytes(a ^ b for a, b in zip(tagged("aux", auxiliary), scalar.to_bytes(32, "big"), strict=True))
    nonce = int.from_bytes(tagged("nonce", mask + public + message), "big") % N
    assert nonce
    point = multiply(nonce, G)
    assert point is not None
    nonce = nonce if point[1] % 2 == 0 else N - nonce
    commitment = point[0].to_bytes(32, "big")
    challenge = int.from_bytes(tagged("challenge", commitment + public + message), "big") % N
    return commitment + ((nonce + challenge * scalar) % N).to_bytes(32, "big")


def is_valid(public: bytes, message: bytes, signature: bytes) -> bool:
    if len(signature) != 64:
        return False
    commitment, response = int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:], "big")
    point = lift(int.from_bytes(public, "big"))
    if commitment >= P or response >= N or point is None:
        return False
    challenge = int.from_bytes(tagged("challenge", signature[:32] + public + message), "big") % N
    result = add(multiply(response, G), multiply(N - challenge, point))
    return result is not None and result[1] % 2 == 0 and result[0] == commitment
