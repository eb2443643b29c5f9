"""Records as lines of JSON: the exact bytes come back, and a line that says something else is refused."""

import base64
import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin import profile
from bobbin.errors import IntegrityError
from bobbin.records import jsonl
from bobbin.records.jsonl import InvalidLine, LineReason, decode, encode
from bobbin.records.record import Record, build_blob, build_plex, validate
from tests.properties.strategies import records
from tests.unit.records import forge
from tests.vectors.load import load, load_record

VECTORS = load("records.json")["records"]
SEAL = validate(load_record("seal-1.record"))
SEAL_LINE: dict[str, Any] = json.loads(encode(SEAL))


def line_of(changes: dict[str, Any], *, without: str = "") -> bytes:
    """The line of Seal 1 with some keys changed."""
    fields = {key: value for key, value in {**SEAL_LINE, **changes}.items() if key != without}
    return json.dumps(fields).encode()


def refusal(line: bytes) -> LineReason:
    with pytest.raises(InvalidLine) as caught:
        decode(line)
    assert str(caught.value).startswith(caught.value.reason)
    return caught.value.reason


# ---- there and back -----------------------------------------------------------------------------------------------


@given(records())
def test_every_record_comes_back(record: Record) -> None:
    line = encode(record)
    assert b"\n" not in line
    assert b"\r" not in line
    assert decode(line) == record.raw
    fields = json.loads(line)
    assert fields["hash"] == record.hash
    assert ("text" in fields) != ("data" in fields)
    assert len(line) <= 2 * len(record.raw) + 200


def test_the_keys_of_a_seal() -> None:
    case = VECTORS[4]
    fields = dict(SEAL_LINE)
    assert fields == {
        "kind": "seal",
        "hash": case["hash"],
        "group": "u",
        "app": "ding",
        "name": "links/1",
        "tai": "1640995200:000000000",
        "headers": [],
        "signed_by": case["signed_by"],
        "signature": load("signing.json")["signatures"][0]["text"],
        "text": "hello",
    }


def test_the_keys_of_a_plex_and_of_a_blob() -> None:
    plex = json.loads(encode(validate(load_record("plex-2.record"))))
    assert plex == {
        "kind": "plex",
        "hash": VECTORS[3]["hash"],
        "group": "u",
        "app": "ding",
        "name": "links/1",
        "tai": "1640995200:000000000",
        "headers": VECTORS[3]["extras"],
        "text": "hello",
    }
    assert json.loads(encode(build_blob(b""))) == {"kind": "blob", "hash": VECTORS[0]["hash"], "text": ""}


@pytest.mark.parametrize(
    ("data", "key"),
    [
        (b"", "text"),
        (b"hello", "text"),
        (b"two\nlines\r\n\tand a tab", "text"),
        (b'"quotes" and \\', "text"),
        ("é \u2028 \U0001f5a7 \ufeff \uffff".encode(), "text"),
        (b"\x00", "data"),
        (b"a\x1b[0m", "data"),
        (b"a\x7f", "data"),
        (b"\xff", "data"),
        (b"\xed\xa0\x80", "data"),
        (b"caf\xc3", "data"),
    ],
)
def test_text_or_data(data: bytes, key: str) -> None:
    blob = build_blob(data)
    fields = json.loads(encode(blob))
    assert set(fields) == {"kind", "hash", key}
    assert decode(encode(blob)) == blob.raw
    if key == "data":
        assert base64.b64decode(fields["data"]) == data
    else:
        assert fields["text"].encode() == data


def test_a_reader_takes_either_form_for_any_data() -> None:
    text = {"kind": "blob", "hash": VECTORS[1]["hash"], "data": base64.b64encode(b"hello").decode()}
    assert decode(json.dumps(text).encode()) == load_record("blob-hello.record")
    zero = build_blob(b"\x00")
    assert decode(json.dumps({"kind": "blob", "hash": zero.hash, "text": "\x00"}).encode()) == zero.raw


def test_other_writers_may_space_order_and_escape_as_they_like() -> None:
    plex = build_plex(group="é", app="\U0001f5a7", name="n", tai_ns=0, data="ü\n".encode())
    fields = json.loads(encode(plex))
    turned = dict(reversed(fields.items()))
    assert decode(json.dumps(turned, ensure_ascii=True, indent=None, separators=(" , ", " : ")).encode()) == plex.raw
    assert decode(b" \t" + encode(plex) + b" \r\n") == plex.raw


def test_the_signature_is_not_verified_here() -> None:
    forged = forge.SEAL.but(signature_line=b"Signature: " + b"0" * 86).raw
    outer = forged.splitlines()[0].decode().partition(": ")[2]
    assert decode(line_of({"signature": "0" * 86, "hash": outer})) == forged


def test_the_largest_record_fits() -> None:
    blob = build_blob(b'"' * profile.DATA_BYTES_MAX)
    line = encode(blob)
    assert len(line) <= jsonl.LINE_BYTES_MAX
    assert decode(line) == blob.raw


# ---- refusals -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"null",
        b"[]",
        b'"seal"',
        b"{}",
        b'{"kind": "blob"}',
        b'{"kind": "plex"}',
        b'{"kind": "record", "hash": "x", "text": ""}',
        b'{"hash": "x", "text": ""}',
        b'{"kind": 1, "hash": "x", "text": ""}',
        b"{" * 10_000,
        b'{"hash": ' + b"[" * 100_000,
        b'{"headers": ' + b'[["a", ' * 50_000,
        b'{"kind": "blob", "hash": "x", "text": "\xff"}',
        b'{"kind": "blob", "hash": "x", "text": "\\ud800"}',
        b'{"kind": "blob", "hash": "x", "text": "\\ud800 "}',
        b'{"kind": "blob", "hash": "x", "text": "\x01"}',
        b'{"kind": "blob", "hash": "x", "text": ""} {}',
        b'{"kind": "blob", "hash": "x", "text": ""',
        b'{"kind": "blob", "hash": "x"}',
        b'{"kind": "blob", "hash": "x", "text": "", "data": ""}',
        b'{"kind": "blob", "hash": "x", "text": null}',
        b'{"kind": "blob", "hash": "x", "text": 5}',
        b'{"kind": "blob", "hash": "x", "text": "", "group": "u"}',
        b'{"kind": "blob", "hash": "x", "text": "", "Text": ""}',
        line_of({"unknown": 1}),
        line_of({"headers": None}),
        line_of({"headers": [["a"]]}),
        line_of({"headers": [["a", "b", "c"]]}),
        line_of({"headers": {"a": "b"}}),
        line_of({"headers": [["a", 1]]}),
        line_of({"tai": 1640995200}),
        line_of({"kind": "plex"}),
        *(line_of({}, without=key) for key in SEAL_LINE),
    ],
    ids=lambda line: line[:40].decode("latin-1"),
)
def test_lines_of_another_shape(line: bytes) -> None:
    assert refusal(line) == LineReason.MALFORMED


@pytest.mark.parametrize(
    "changes",
    [
        {"group": "u\nApp: x"},
        {"name": "n\n"},
        {"tai": "\n"},
        {"signed_by": "V\nSignature: x"},
        {"headers": [["A", "x\ny"]]},
        {"headers": [["A\nB", "x"]]},
        {"headers": [["A: x", "y"]]},
        {"headers": [["A:B", "y"]]},
        {"signature": "!"},
        {"signature": "é"},
        {"signature": "01"},
    ],
    ids=str,
)
def test_fields_that_no_record_can_hold(changes: dict[str, Any]) -> None:
    assert refusal(line_of(changes)) == LineReason.MALFORMED_FIELD


@pytest.mark.parametrize("data", ["aGVsbG8", "aGVsbG8=\n", "aGVs bG8=", "=", "aGVsbG8==", "aGVsbG_=", "é"])
def test_bad_base_64(data: str) -> None:
    line = json.dumps({"kind": "blob", "hash": VECTORS[1]["hash"], "data": data}).encode()
    assert refusal(line) == LineReason.MALFORMED_FIELD


@pytest.mark.parametrize(
    "changes",
    [
        {"text": "hallo"},
        {"group": "v"},
        {"name": ""},
        {"tai": "1640995200:000000001"},
        {"headers": [["A", "x"]]},
        {"signed_by": VECTORS[2]["hash"]},
        {"signature": "0" * 86},
        {"hash": ""},
        {"hash": VECTORS[2]["hash"]},
        {"hash": VECTORS[4]["hash"] + " "},
        {"hash": "x" * 10_000},
    ],
    ids=str,
)
def test_a_hash_that_disagrees(changes: dict[str, Any]) -> None:
    assert refusal(line_of(changes)) == LineReason.HASH


def test_headers_are_not_put_in_order_for_the_writer() -> None:
    plex = build_plex(group="u", app="a", name="n", tai_ns=0, data=b"", extras=[("A", "1"), ("B", "2")])
    fields = json.loads(encode(plex))
    fields["headers"].reverse()
    assert refusal(json.dumps(fields).encode()) == LineReason.HASH


def test_a_line_that_is_too_long_is_not_even_read(monkeypatch: pytest.MonkeyPatch) -> None:
    line = encode(SEAL)
    monkeypatch.setattr(jsonl, "LINE_BYTES_MAX", len(line) - 1)
    assert refusal(line) == LineReason.TOO_LONG
    monkeypatch.setattr(jsonl, "LINE_BYTES_MAX", len(line))
    assert decode(line) == SEAL.raw


def test_the_error_is_about_the_bytes() -> None:
    error = InvalidLine(LineReason.HASH, "another record")
    assert isinstance(error, IntegrityError)
    assert (error.reason, error.detail, str(error)) == (
        "hash-mismatch",
        "another record",
        "hash-mismatch: another record",
    )


@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_noise_is_refused(noise: bytes) -> None:
    assert refusal(noise) in LineReason


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from(list(SEAL_LINE)), JSON_VALUES, min_size=1, max_size=3))
def test_any_values_under_the_right_keys(changes: dict[str, Any]) -> None:
    line = line_of(changes)
    if {**SEAL_LINE, **changes} == SEAL_LINE:
        assert decode(line) == SEAL.raw
    else:
        assert refusal(line) in LineReason


# ---- bounds -------------------------------------------------------------------------------------------------------


def peak_of(line: bytes) -> int:
    tracemalloc.start()
    try:
        with pytest.raises(InvalidLine):
            decode(line)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_flood_of_headers_makes_no_objects() -> None:
    flood = b"[" + b'["",""],' * 1_000_000 + b'["",""]]'
    line = line_of({"headers": 0}).replace(b'"headers": 0', b'"headers": ' + flood)
    assert refusal(line) == LineReason.MALFORMED_FIELD
    assert peak_of(line) < 1_000_000
    twice = line.replace(b'"headers": ', b'"headers": ' + flood + b', "headers": ', 1)
    assert peak_of(twice) < 1_000_000


def test_the_number_of_headers() -> None:
    extras = [("A", str(i)) for i in range(profile.EXTRA_HEADERS_MAX)]
    plex = build_plex(group="u", app="a", name="n", tai_ns=0, data=b"", extras=extras)
    assert decode(encode(plex)) == plex.raw
    assert refusal(line_of({"headers": [*extras, ("A", "x")]})) == LineReason.MALFORMED


@pytest.mark.parametrize("key", [key for key in SEAL_LINE if key not in ("kind", "headers", "text")])
def test_a_field_longer_than_any_header(key: str) -> None:
    line = line_of({key: "x" * 5_000_000})
    assert refusal(line) == LineReason.MALFORMED_FIELD
    assert peak_of(line) < 1_000_000


def test_data_beyond_the_limit_is_refused_before_a_record_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profile, "DATA_BYTES_MAX", 4)
    assert refusal(line_of({})) == LineReason.MALFORMED_FIELD
    assert refusal(line_of({"data": base64.b64encode(b"hello").decode()}, without="text")) == LineReason.MALFORMED_FIELD


def test_the_longest_line_of_another_writer_fits() -> None:
    blob = build_blob("é".encode() * (profile.DATA_BYTES_MAX // 2))
    line = json.dumps({"kind": "blob", "hash": blob.hash, "text": blob.data.decode()}).encode()
    assert decode(line) == blob.raw
