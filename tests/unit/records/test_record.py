"""Records as values: read, validated, built, sealed; with the vectors of Lace-010."""

import tracemalloc
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin import profile
from bobbin.errors import UsageError
from bobbin.records import b64a, record, tai
from bobbin.records.canonical import MARKLINE_SIZE, markline
from bobbin.records.coordinate import Coordinate
from bobbin.records.ids import HashText, Kind
from bobbin.records.reasons import InvalidRecord, Reason
from bobbin.records.record import Blob, MalformedField, Plex, Seal, build_blob, build_plex, read_trusted, seal, validate
from bobbin.records.signing import SigningKey
from tests.properties.effort import scaled
from tests.unit.records import forge
from tests.unit.records.faults import FAULTS, UNFINISHED, Fault, broken
from tests.unit.records.forge import APP, GROUP, NAME, PLEX, SEAL, TAI
from tests.unit.records.refusals import CASES
from tests.vectors.load import load, load_record

VECTORS = load("records.json")["records"]
INSTANT = 1_640_995_200 * 10**9
KEY = SigningKey.from_secret(forge.SECRET)


# ---- vectors ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", VECTORS, ids=lambda case: Path(case["file"]).stem)
def test_vectors(case: dict[str, Any]) -> None:
    raw = load_record(case["file"])
    found = validate(raw, requested=HashText(case["hash"]))
    assert found.raw == raw
    assert found.hash == case["hash"]
    assert len(found.raw) == int(case["size"])
    assert found.kind.letter == case["kind"]
    assert found.data == case["data"].encode()
    assert found.data_length == len(found.data)
    assert raw[: found.data_offset].endswith(b"\n\n")
    if not isinstance(found, Blob):
        assert (found.group, found.app, found.name, found.tai_text) == tuple(
            case[key] for key in ("group", "app", "name", "tai")
        )
        assert found.tai == tai.parse(case["tai"])
        assert [list(extra) for extra in found.extras] == case["extras"]
        assert found.coordinate == Coordinate(group=case["group"], app=case["app"], name=case["name"])
    if isinstance(found, Seal):
        assert found.verifier == case["signed_by"]
        assert b64a.encode(found.signature) == load("signing.json")["signatures"][0]["text"]
    assert read_trusted(raw) == found


def test_the_vectors_are_built_from_their_fields() -> None:
    blob = build_blob(b"hello")
    plex = build_plex(group="u", app="ding", name="links/1", tai_ns=INSTANT, data=b"hello")
    sealed = seal(plex, KEY, auxiliary=b"\x01" * 32)
    extras = [("X-Custom", "header value"), ("+Link", f"source {build_blob(b'').hash}")]
    second = build_plex(group="u", app="ding", name="links/1", tai_ns=INSTANT, data=b"hello", extras=extras)
    built = [build_blob(b""), blob, plex, second, sealed]
    assert [made.raw for made in built] == [load_record(case["file"]) for case in VECTORS]
    assert [made.hash for made in built] == [case["hash"] for case in VECTORS]


def test_inner_records() -> None:
    sealed = validate(load_record("seal-1.record"))
    assert isinstance(sealed, Seal)
    plex = sealed.inner()
    assert plex == validate(load_record("plex-1.record"))
    assert sealed.plex_hash == plex.hash
    assert plex.inner() == validate(load_record("blob-hello.record"))
    assert plex.blob_hash == sealed.blob_hash == plex.inner().hash


# ---- refusals -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [*FAULTS, UNFINISHED], ids=str)
def test_each_reason(fault: Fault) -> None:
    with pytest.raises(InvalidRecord) as caught:
        validate(broken(fault))
    assert caught.value.reason == fault.reason


@pytest.mark.parametrize(("raw", "reason"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_refusals(raw: bytes, reason: Reason) -> None:
    with pytest.raises(InvalidRecord) as caught:
        validate(raw)
    assert caught.value.reason == reason


def test_another_record_than_the_requested_one() -> None:
    requested = HashText(VECTORS[0]["hash"])
    with pytest.raises(InvalidRecord) as caught:
        validate(PLEX.raw, requested=requested)
    assert caught.value.reason == Reason.NOT_REQUESTED
    with pytest.raises(InvalidRecord) as caught:
        validate(SEAL.raw, requested=validate(PLEX.raw).hash)
    assert caught.value.reason == Reason.NOT_REQUESTED
    with pytest.raises(InvalidRecord) as caught:
        validate(SEAL.raw[:-1], requested=requested)
    assert caught.value.reason == Reason.EXACT_LENGTH, "the request is checked last"


def test_read_trusted_skips_digests_and_signature_only() -> None:
    changed = SEAL.raw.replace(b"hello", b"hallo")
    assert read_trusted(changed).data == b"hallo"
    for raw in (b"", SEAL.raw[:-1], SEAL.raw + b"x", SEAL.raw.replace(b"ding", b"di/")):
        with pytest.raises(InvalidRecord):
            read_trusted(raw)


@pytest.mark.parametrize("symbols", [b"q8.H3\n", b"z80.H3\n", b"t_t.H3\n"])
def test_read_trusted_refuses_a_hash_that_is_not_canonical(symbols: bytes) -> None:
    assert SEAL.raw.count(symbols) == 1
    with pytest.raises(InvalidRecord) as caught:
        read_trusted(SEAL.raw.replace(symbols, symbols[:-5] + b"1.H3\n"))
    assert caught.value.reason == Reason.MALFORMED_HASH


# ---- limits -------------------------------------------------------------------------------------------------------

AT_THE_LIMIT = [
    ("a line of 1024 bytes", PLEX.but(extras=(b"A: " + b"x" * 1021,))),
    ("512 extras", PLEX.but(extras=(b"A: x",) * 512)),
    ("512 extras of 1024 bytes", SEAL.but(extras=(b"A: " + b"x" * 1021,) * 512)),
    ("a group of 255 bytes", PLEX.but(required=(b"Group: " + b"g" * 255, APP, NAME, TAI))),
    ("an app of 255 bytes", PLEX.but(required=(GROUP, b"App: " + b"a/" * 127 + b"a", NAME, TAI))),
    ("a name of 1018 bytes", PLEX.but(required=(GROUP, APP, b"Name: " + b"n/" * 508 + b"nn", TAI))),
    ("a segment of 255 bytes", PLEX.but(required=(GROUP, APP, b"Name: " + b"n" * 255 + b"/n", TAI))),
    ("a name of colons and spaces", PLEX.but(required=(GROUP, APP, b"Name: a: b /  c:", TAI))),
    ("values that look like other lines", PLEX.but(extras=(b"A: Group: u", b"B: Data-Length: 5", b"C: " + forge.MARK))),
    ("a value of spaces at its end", PLEX.but(extras=(b"A: x   ",))),
    ("names of all kinds", PLEX.but(extras=(b"!: x", b"+Link: x", b"-: -", b"a=b;c: x", "é: x".encode()))),
    ("equal names in any order of values", PLEX.but(extras=(b"A: 2", b"A: 1", b"A: 2", b"a: 1"))),
    ("data that looks like a record", SEAL.but(data=SEAL.raw)),
    ("data that begins with line feeds", SEAL.but(data=b"\n\n\n")),
    ("zero bytes of data", SEAL.but(data=b"")),
    ("the largest TAI", PLEX.but(required=(GROUP, APP, NAME, b"TAI: 9999999999:999999999"))),
]


@pytest.mark.parametrize("parts", [case[1] for case in AT_THE_LIMIT], ids=[case[0] for case in AT_THE_LIMIT])
def test_at_the_limit_but_valid(parts: forge.Parts) -> None:
    found = validate(parts.raw)
    assert found.data == parts.data
    assert not isinstance(found, Blob)
    assert [f"{name}: {value}".encode() for name, value in found.extras] == list(parts.extras)


def test_the_largest_record() -> None:
    largest = PLEX.but(data=bytes(profile.DATA_BYTES_MAX), extras=(b"A: " + b"x" * 1021,) * 512).raw
    assert validate(largest).data_length == profile.DATA_BYTES_MAX
    assert len(largest) < profile.RECORD_BYTES_MAX
    with pytest.raises(InvalidRecord) as caught:
        validate(PLEX.but(data=bytes(profile.DATA_BYTES_MAX + 1)).raw)
    assert caught.value.reason == Reason.DATA_LENGTH


@pytest.mark.parametrize(
    "extras",
    [b"a: b\n" * 2_000_000, b"a: " + b"b" * 10_000_000 + b"\n", b"a: x" + "\u0300".encode() * 5_000_000 + b"\n"],
    ids=["millions of lines", "a long line", "a long line of marks to compose"],
)
def test_hostile_headers_cost_little(extras: bytes) -> None:
    payload = b"\n".join((GROUP, APP, NAME, TAI, b"")) + extras + forge.BLOB.raw
    raw = forge.markline(b"P", payload) + payload
    tracemalloc.start()
    with pytest.raises(InvalidRecord) as caught:
        validate(raw)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000, "ten million bytes are refused within one million"
    assert caught.value.reason in (Reason.EXTRA_COUNT, Reason.HEADER_LENGTH)


# ---- building -----------------------------------------------------------------------------------------------------


def plex_of(**changes: object) -> Plex:
    fields: dict[str, object] = {"group": "u", "app": "a", "name": "n", "tai_ns": 0, "data": b"", **changes}
    return build_plex(**fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"group": ""}, Reason.HEADER_SYNTAX),
        ({"group": " u"}, Reason.HEADER_SYNTAX),
        ({"group": "u\nApp: b"}, Reason.HEADER_CONTROL),
        ({"group": "u\r"}, Reason.HEADER_CONTROL),
        ({"group": "a//b"}, Reason.MALFORMED_COORDINATE),
        ({"app": "\ud800"}, Reason.HEADER_ENCODING),
        ({"name": "cafe\u0301"}, Reason.HEADER_NORMALIZATION),
        ({"name": "n/" * 600 + "n"}, Reason.HEADER_LENGTH),
        ({"extras": [("A", "x\n🖧: B.x")]}, Reason.HEADER_CONTROL),
        ({"extras": [("A: x\nB", "y")]}, Reason.HEADER_CONTROL),
        ({"extras": [("A: B", "y")]}, Reason.HEADER_SYNTAX),
        ({"extras": [("A", "")]}, Reason.HEADER_SYNTAX),
        ({"extras": [("", "x")]}, Reason.HEADER_SYNTAX),
        ({"extras": [("A B", "x")]}, Reason.HEADER_SYNTAX),
        ({"extras": [("Type", "x")]}, Reason.EXTRA_RESERVED),
        ({"extras": [("TAI", "x")]}, Reason.REQUIRED_HEADERS),
        ({"extras": [("🖧", "B.x.H3")]}, Reason.MALFORMED_HASH),
        ({"extras": [("🖧", VECTORS[0]["hash"])]}, Reason.REQUIRED_HEADERS),
        ({"extras": [("A", "\udcff")]}, Reason.HEADER_ENCODING),
        ({"extras": [("A", "x")] * 513}, Reason.EXTRA_COUNT),
        ({"data": bytes(profile.DATA_BYTES_MAX + 1)}, Reason.DATA_LENGTH),
    ],
    ids=lambda value: value if isinstance(value, str) else ",".join(value),
)
def test_fields_that_make_no_record(changes: dict[str, object], reason: Reason) -> None:
    with pytest.raises(MalformedField) as caught:
        plex_of(**changes)
    assert caught.value.reason == reason
    assert isinstance(caught.value, UsageError), "whoever builds a record is the caller"


@pytest.mark.parametrize("tai_ns", [-1, tai.TAI_MAX + 1])
def test_instants_out_of_range(tai_ns: int) -> None:
    with pytest.raises(tai.TaiError):
        plex_of(tai_ns=tai_ns)


def test_too_much_data_for_a_blob() -> None:
    with pytest.raises(MalformedField):
        build_blob(bytes(profile.DATA_BYTES_MAX + 1))


def test_extra_headers_are_sorted_and_keep_their_order_within_a_name() -> None:
    made = plex_of(extras=[("b", "2"), ("a", "1"), ("b", "1")])
    assert made.extras == (("a", "1"), ("b", "2"), ("b", "1"))


NAMES = st.text(st.characters(codec="utf-8", exclude_characters=":"), min_size=1, max_size=8)
TEXTS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)


@given(st.lists(TEXTS, min_size=3, max_size=3), st.lists(st.tuples(NAMES, TEXTS), max_size=4), st.binary(max_size=40))
def test_what_is_built_says_what_was_given_or_nothing_is_built(
    place: list[str], extras: list[tuple[str, str]], data: bytes
) -> None:
    try:
        made = build_plex(group=place[0], app=place[1], name=place[2], tai_ns=7, data=data, extras=extras)
    except MalformedField:
        return
    assert [made.group, made.app, made.name, made.tai, made.data] == [*place, 7, data]
    assert sorted(made.extras) == sorted(extras)
    assert validate(made.raw) == made


@scaled(0.2)
@given(st.binary(min_size=32, max_size=32), st.binary(max_size=50), st.binary(min_size=32, max_size=32).filter(any))
def test_sealing(secret: bytes, data: bytes, auxiliary: bytes) -> None:
    key = SigningKey.from_secret(secret)
    plex = build_plex(group="u", app="a", name="n", tai_ns=1, data=data, extras=[("A", "x")])
    sealed = seal(plex, key, auxiliary=auxiliary)
    assert sealed.inner() == plex
    assert sealed.verifier == key.verifier
    assert validate(sealed.raw) == sealed
    assert sealed.kind is Kind.SEAL


def test_records_are_values_that_travel() -> None:
    for made in (build_blob(b"x"), plex_of(), seal(plex_of(), KEY, auxiliary=b"\x01" * 32)):
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(made), type=record.Record) == made
        with pytest.raises(AttributeError):
            made.raw = b""  # type: ignore[misc]


def test_a_run_ends_where_no_valid_record_follows() -> None:
    blob, plex = build_blob(b"one"), build_plex(group="u", app="a", name="n", tai_ns=1, data=b"two")
    records = [blob, plex, blob]
    raw = b"".join(one.raw for one in records)
    assert record.recognise_run(memoryview(raw)) == (records, len(raw))
    assert record.recognise_run(memoryview(raw[:-1])) == ([blob, plex], len(blob.raw + plex.raw))
    assert record.recognise_run(memoryview(b"?" + raw)) == ([], 0)
    assert record.recognise_run(memoryview(b"")) == ([], 0)


@pytest.mark.parametrize("line", [b"Signed-By: V.", b"Signature: "])
@pytest.mark.parametrize("symbol", [b"+", b"=", b"\n", b"\xff", b"-", b"\0"])
def test_a_byte_that_is_no_symbol_is_refused(line: bytes, symbol: bytes) -> None:
    sealed = load_record("seal-1.record")
    at = sealed.index(line) + len(line) + 5
    payload = sealed[MARKLINE_SIZE:at] + symbol + sealed[at + 1 :]
    with pytest.raises(InvalidRecord):
        validate(markline(Kind.SEAL, payload) + payload)


@pytest.mark.parametrize("group", [b".", b"a/..", b" a", b"a//b", b"a\x7f", b"e\xcc\x81", b"\xff", b"a" * 256, b"a|b"])
def test_a_group_that_is_no_path_is_refused_every_time(group: bytes) -> None:
    blob = build_blob(b"data").raw
    payload = b"Group: %b\nApp: a\nName: n\nTAI: 0000000001:000000000\n%b" % (group, blob)
    for _ in range(2):
        with pytest.raises(InvalidRecord):
            validate(markline(Kind.PLEX, payload) + payload)
