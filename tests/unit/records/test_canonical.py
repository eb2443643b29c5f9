"""The byte layouts, against the ones that the tests write out themselves."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin.records import canonical
from bobbin.records.ids import Kind
from tests.unit.records import forge
from tests.vectors.load import load_record

HEADERS = [("Group", "u"), ("App", "ding"), ("Name", "links/1"), ("TAI", "1640995200:000000000")]


def test_the_mark_is_four_bytes() -> None:
    assert bytes.fromhex("f09f96a7") == canonical.MARK


def test_layouts_of_the_vectors() -> None:
    assert canonical.blob_record(b"") == load_record("blob-empty.record")
    blob = canonical.blob_record(b"hello")
    assert blob == load_record("blob-hello.record")
    plex = canonical.plex_record(HEADERS, blob)
    assert plex == load_record("plex-1.record")
    link = ("+Link", "source B.svyLzSM7ffc91i~XDbkMnuOsdjsw_6GrXpTSckqHlpO.H3")
    assert canonical.plex_record([*HEADERS, link, ("X-Custom", "header value")], blob) == load_record("plex-2.record")
    seal = load_record("seal-1.record")
    lines = seal.split(b"\n")
    signature = bytes.fromhex(
        "64589b54e4cb830eb465761072a529fb2acc5084cde8f18ba1ba359ee27b4b1c"
        "685b08c91d606f44fa8c37125e9e2123a6f7a0ee7708fb49f8ac4c7c8e85b646"
    )
    assert canonical.seal_record(lines[1].removeprefix(b"Signed-By: ").decode(), signature, plex) == seal


@given(st.binary(max_size=300))
def test_a_blob_is_written_as_the_protocol_says(data: bytes) -> None:
    assert canonical.blob_record(data) == forge.BLOB.but(data=data).raw


def test_sizes_that_other_code_relies_on() -> None:
    assert len(canonical.markline(Kind.SEAL, b"")) == canonical.MARKLINE_SIZE
    assert load_record("seal-1.record")[canonical.SEAL_HEAD_SIZE :] == load_record("plex-1.record")


def test_extra_headers_sort_by_the_bytes_of_their_names_and_keep_the_authors_order() -> None:
    given_order = [
        ("b", "2"),
        ("a", "z"),
        ("b", "1"),
        ("B", "x"),
        ("é", "1"),
        ("z", "1"),
        ("\U0001f600", "1"),
        ("\uffee", "1"),
    ]
    assert canonical.sorted_headers(given_order) == [
        ("B", "x"),
        ("a", "z"),
        ("b", "2"),
        ("b", "1"),
        ("z", "1"),
        ("é", "1"),
        ("\uffee", "1"),
        ("\U0001f600", "1"),
    ]


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"", True),
        (b"plain", True),
        ("\u00e9".encode(), True),
        ("e\u0301".encode(), False),  # decomposed
        ("\u212b".encode(), False),  # the Angstrom sign, whose canonical form is another letter
        ("a\u0323\u0302".encode(), False),  # composes to one letter
        (b"\xff", False),
        (b"\xed\xa0\x80", False),  # a surrogate
        (b"\xc0\x80", False),  # an overlong zero
        (b"caf\xc3", False),  # cut inside a character
    ],
)
def test_canonical_text(raw: bytes, *, expected: bool) -> None:
    assert canonical.is_canonical_text(raw) is expected
