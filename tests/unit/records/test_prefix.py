"""What reads as the beginning of a record, cut off inside its headers."""

import pytest

from bobbin.records.prefix import HEADERS_BYTES_MIN, is_cut_off
from tests.unit.records import forge
from tests.unit.records.bundles import make_plex, make_seal

EXTRAS = (("A", "x"), ("A", "y"), ("B\u00e9", "\u00fc z"))
RECORDS = [make_seal("n", b"data", *EXTRAS), make_plex("n", b"data", *EXTRAS), forge.BLOB.raw]
SEAL = RECORDS[0]
BEFORE_BLOB = SEAL[: SEAL.index(forge.MARK + b": B.")]


@pytest.mark.parametrize("record", RECORDS, ids=["Seal", "Plex", "Blob"])
def test_every_beginning_before_the_length_line_is_whole(record: bytes) -> None:
    line_end = record.index(b"\n\n")
    for end in range(line_end + 1):
        assert is_cut_off(record[:end]), end
    for end in range(line_end + 1, len(record)):
        assert not is_cut_off(record[:end]), end


@pytest.mark.parametrize("byte", [b"\x00", b"\x7f", b"\xff", b"\t"])
def test_no_byte_that_headers_cannot_hold(byte: bytes) -> None:
    for end in range(7, SEAL.index(b"\n\n"), 3):
        for at in (end - 1, end // 2):
            assert not is_cut_off(SEAL[:at] + byte + SEAL[at + 1 : end]), (end, at)


@pytest.mark.parametrize(
    "head",
    [
        b"x",
        b"\n",
        b"Signed-By: ",
        SEAL.replace(b"Signed-By", b"Signature", 1)[:200],
        SEAL.replace(b"Group: u\n", b"")[:300],
        SEAL.replace(b"TAI: 1", b"TAI: x")[:350],
        BEFORE_BLOB + b"A: after B\n",
        BEFORE_BLOB + b"Type: x\n",
        BEFORE_BLOB + b"no header\n",
        BEFORE_BLOB + b"Z: " + b"x" * 1022 + b"\n",
        BEFORE_BLOB + "Z: cafe\u0301\n".encode(),
        BEFORE_BLOB + b"\n",
        BEFORE_BLOB + b"Z: z\n" * 513,
        BEFORE_BLOB + forge.MARK + b": S.",
        BEFORE_BLOB + b"x" * HEADERS_BYTES_MIN,
    ],
    ids=lambda head: repr(head[-40:]),
)
def test_what_no_record_begins_with(head: bytes) -> None:
    assert not is_cut_off(head)


def test_the_last_line_may_be_any_short_text() -> None:
    assert is_cut_off(BEFORE_BLOB + b"x" * (HEADERS_BYTES_MIN - 1))
    assert is_cut_off(BEFORE_BLOB + b"Z: z\n" * 509 + b"Z")
