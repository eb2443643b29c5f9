import msgspec
import pytest

from bobbin.errors import IntegrityError, ResourceError, UsageError
from bobbin.reactive.messages import U64_MAX, BlobRef
from bobbin.wire.lazily import arena_header
from bobbin.wire.lazily.arena_header import (
    CAPACITY_MIN,
    HEADER_BYTES,
    BlobTooLarge,
    CapacityTooSmall,
    ChecksumMismatch,
    DescriptorOutOfBounds,
    GenerationOverflow,
    Header,
    HeaderMismatch,
    Place,
    check,
    check_bounds,
    check_capacity,
    next_generation,
    pack,
    place,
)

_HEADER = Header(generation=1, epoch=9, length=31, checksum=13098019626228322701)
_BLOB = BlobRef(offset=0, length=31, generation=1, epoch=9, checksum=13098019626228322701)


def test_the_forty_bytes() -> None:
    """RX-062, RX-143."""
    raw = pack(_HEADER)
    assert raw == bytes.fromhex(
        "48535a4c 0100 2800 0100000000000000 0900000000000000 1f00000000000000 8d116f2a7483c5b5"
    )
    assert len(raw) == HEADER_BYTES == 40
    assert int.from_bytes(raw[:4], "little").to_bytes(4, "big") == b"LZSH"


def test_a_header_fits_its_descriptor() -> None:
    check(pack(_HEADER), _BLOB)


@pytest.mark.parametrize("field", ["generation", "epoch", "length", "checksum"])
def test_a_descriptor_that_differs_in_one_field_is_refused_by_its_name(field: str) -> None:
    """RX-063, RX-145."""
    with pytest.raises(HeaderMismatch) as refused:
        check(pack(_HEADER), msgspec.structs.replace(_BLOB, **{field: 2}))
    assert refused.value.field == field


@pytest.mark.parametrize(("at", "field"), [(0, "magic"), (3, "magic"), (4, "version"), (6, "header_length")])
def test_what_is_no_header_is_refused(at: int, field: str) -> None:
    raw = bytearray(pack(_HEADER))
    raw[at] ^= 1
    with pytest.raises(HeaderMismatch) as refused:
        check(bytes(raw), _BLOB)
    assert refused.value.field == field


def test_the_smallest_arena_holds_one_byte() -> None:
    """RX-144."""
    check_capacity(CAPACITY_MIN)
    assert CAPACITY_MIN == 41
    assert place(0, 1, CAPACITY_MIN) == Place(offset=0, end=41, cursor=0)
    for capacity in (40, 0, -1):
        with pytest.raises(CapacityTooSmall):
            check_capacity(capacity)


@pytest.mark.parametrize(
    ("cursor", "length", "expected"),
    [
        (0, 20, Place(offset=0, end=60, cursor=60)),
        (60, 60, Place(offset=60, end=160, cursor=160)),
        (160, 0, Place(offset=160, end=200, cursor=0)),
        (160, 1, Place(offset=0, end=41, cursor=41)),
        (60, 160, Place(offset=0, end=200, cursor=0)),
        (0, 160, Place(offset=0, end=200, cursor=0)),
    ],
)
def test_where_blobs_go(cursor: int, length: int, expected: Place) -> None:
    """RX-144: to the start when there is no room before the end, and after one that ended exactly there."""
    assert place(cursor, length, 200) == expected


def test_a_blob_longer_than_the_arena_is_refused() -> None:
    with pytest.raises(BlobTooLarge):
        place(0, 161, 200)


@pytest.mark.parametrize(("offset", "length"), [(1, 160), (160, 1), (200, 0), (U64_MAX, U64_MAX)])
def test_descriptors_beyond_the_end_are_refused(offset: int, length: int) -> None:
    with pytest.raises(DescriptorOutOfBounds):
        check_bounds(BlobRef(offset, length, 1, 0, 0), 200)


def test_descriptors_up_to_the_end_are_in_bounds() -> None:
    check_bounds(BlobRef(160, 0, 1, 0, 0), 200)
    check_bounds(BlobRef(0, 160, 1, 0, 0), 200)


def test_generations_are_counted_from_one_and_never_wrap() -> None:
    """RX-144."""
    assert next_generation(0) == 1
    assert next_generation(U64_MAX - 1) == U64_MAX
    with pytest.raises(GenerationOverflow) as refused:
        next_generation(U64_MAX)
    assert not refused.value.retry


def test_each_error_has_a_class_of_its_own() -> None:
    """RX-145."""
    families = {
        CapacityTooSmall: UsageError,
        BlobTooLarge: UsageError,
        DescriptorOutOfBounds: IntegrityError,
        HeaderMismatch: IntegrityError,
        ChecksumMismatch: IntegrityError,
        GenerationOverflow: ResourceError,
    }
    named = {value for value in vars(arena_header).values() if isinstance(value, type) and issubclass(value, Exception)}
    assert named - set(families.values()) == set(families)
    for kind, family in families.items():
        assert issubclass(kind, family)
        assert not any(issubclass(kind, other) for other in families if other is not kind)
