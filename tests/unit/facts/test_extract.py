"""Facts per record kind: exactly those of the table in Lace-020, no more."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin.facts import relations
from bobbin.facts.extract import Fact, IndexedHeader, extract, fields, index_headers
from bobbin.records.link import Link
from bobbin.records.record import Seal, build_blob, build_plex, seal, validate
from bobbin.records.signing import SigningKey
from tests.vectors.load import load_record

EMPTY = "B.svyLzSM7ffc91i~XDbkMnuOsdjsw_6GrXpTSckqHlpO.H3"
HELLO = "B.kQIYZC1_~Q_ji4~Twe2_7m9Zn2scg_Cu9zNTkbk9zq8.H3"
PLEX_1 = "P.tyYEj0zIBrq7IDVBPzaErPIq5p03OhpTTm14ePsSz80.H3"
PLEX_2 = "P.xKg5NakC1rz5iHE12kzRq0YrJoCM3XlMecvIZvYqKuW.H3"
SEAL_1 = "S.fGrYXb9MJ8qV1QGPHOE0RWiPJJdl3EAtodLNz8Pst_t.H3"
PLACE = [
    ("Group", "0", "u"),
    ("App", "0", "ding"),
    ("Name", "0", "links/1"),
    ("TAI", "0", "1640995200:000000000"),
    ("Data-Length", "0", "5"),
]


def facts_of(name: str) -> list[Fact]:
    return sorted(extract(validate(load_record(name))))


def field_facts(own: str, *rows: tuple[str, str, str]) -> list[Fact]:
    return [("Field", (own, *row)) for row in rows]


def test_a_blob() -> None:
    expected = [("Have", (HELLO,)), *field_facts(HELLO, ("Type", "0", "B"), ("Data-Length", "0", "5"))]
    assert facts_of("blob-hello.record") == sorted(expected)


def test_an_empty_blob() -> None:
    expected = [("Have", (EMPTY,)), *field_facts(EMPTY, ("Type", "0", "B"), ("Data-Length", "0", "0"))]
    assert facts_of("blob-empty.record") == sorted(expected)


def test_a_plex() -> None:
    expected = [
        ("Have", (PLEX_1,)),
        ("BlobHash", (PLEX_1, HELLO)),
        *field_facts(PLEX_1, ("Type", "0", "P"), *PLACE),
    ]
    assert facts_of("plex-1.record") == sorted(expected)


def test_a_plex_with_a_link() -> None:
    extras = [("+Link", "0", f"source {EMPTY}"), ("X-Custom", "0", "header value")]
    expected = [
        ("Have", (PLEX_2,)),
        ("BlobHash", (PLEX_2, HELLO)),
        ("RecordLink", (PLEX_2, "+Link", "0", "source", EMPTY)),
        *field_facts(PLEX_2, ("Type", "0", "P"), *PLACE, *extras),
    ]
    assert facts_of("plex-2.record") == sorted(expected)


def test_a_seal_speaks_for_its_plex_but_does_not_have_it() -> None:
    sealed = validate(load_record("seal-1.record"))
    assert isinstance(sealed, Seal)
    signature = "P5YRLEJBWlvpPNOGSfKezngCK8JDvF6BdRdqcj9wImmdMlZ97M1kHFfCDm9UcY4ZekUWwcS8zpctg4mxZdMrHW"
    own = [("Type", "0", "S"), ("Signed-By", "0", sealed.verifier), ("Signature", "0", signature)]
    expected = [("Have", (SEAL_1,)), ("PlexHash", (SEAL_1, PLEX_1)), *field_facts(SEAL_1, *own, *PLACE)]
    assert facts_of("seal-1.record") == sorted(expected)


def test_a_seal_has_the_links_of_its_plex() -> None:
    plex = build_plex(group="u", app="a", name="n", tai_ns=0, data=b"", extras=[("+Link", f"x {EMPTY}")])
    sealed = seal(plex, SigningKey.from_secret(b"k" * 32), auxiliary=b"\x01" * 32)
    links = [values for predicate, values in extract(sealed) if predicate == relations.RECORD_LINK]
    assert links == [(sealed.hash, "+Link", "0", "x", EMPTY)]


def test_the_index_counts_equal_names() -> None:
    headers = (("A", "x"), ("A", "x"), ("B", "y"), ("Chunk+Link", "nonsense"), ("Chunk+Link", f"0..4 {EMPTY}"))
    plex = build_plex(group="u", app="a", name="n", tai_ns=0, data=b"", extras=headers)
    assert list(index_headers(plex.extras)) == [
        IndexedHeader("A", 0, "x", None),
        IndexedHeader("A", 1, "x", None),
        IndexedHeader("B", 0, "y", None),
        IndexedHeader("Chunk+Link", 0, "nonsense", None),
        IndexedHeader("Chunk+Link", 1, f"0..4 {EMPTY}", Link(data="0..4", target=EMPTY)),
    ]
    found = set(extract(plex))
    assert {values[1:] for predicate, values in found if predicate == "Field" and values[1] in ("A", "B")} == {
        ("A", "0", "x"),
        ("A", "1", "x"),
        ("B", "0", "y"),
    }
    assert [values[1:] for predicate, values in found if predicate == "RecordLink"] == [
        ("Chunk+Link", "1", "0..4", EMPTY)
    ]


def test_links_to_formats_of_others_are_facts_too() -> None:
    plex = build_plex(group="u", app="a", name="n", tai_ns=0, data=b"", extras=[("+Link", "x P.zz.H9")])
    assert ("RecordLink", (plex.hash, "+Link", "0", "x", "P.zz.H9")) in set(extract(plex))


def test_fields_come_in_record_order() -> None:
    sealed = validate(load_record("seal-1.record"))
    names = [name for name, _ in fields(sealed)]
    assert names == ["Type", "Signed-By", "Signature", "Group", "App", "Name", "TAI", "Data-Length"]


NAMES = st.sampled_from(["+Link", "A", "B", "Chunk+Link"])


@given(st.lists(st.tuples(NAMES, st.sampled_from(["x", f"y {EMPTY}", "z P.0.X"])), max_size=8), st.binary(max_size=20))
def test_every_fact_is_about_the_record_and_comes_once(extras: list[tuple[str, str]], data: bytes) -> None:
    plex = build_plex(group="u", app="a", name="n", tai_ns=0, data=data, extras=extras)
    facts = list(extract(plex))
    assert len(facts) == len(set(facts))
    for predicate, values in facts:
        assert len(values) == relations.ARITY[predicate]
        assert values[0] == plex.hash
        assert all(len(value.encode()) <= 4096 for value in values)
    assert sum(predicate == "Field" for predicate, _ in facts) == 6 + len(extras)
    links = sum(name.endswith("+Link") and value != "x" for name, value in extras)
    assert sum(predicate == "RecordLink" for predicate, _ in facts) == links
    for name in {name for name, _ in extras}:
        indexes = [values[2] for predicate, values in facts if predicate == "Field" and values[1] == name]
        assert sorted(indexes, key=int) == [str(i) for i in range(len(indexes))]


@pytest.mark.parametrize("size", [0, 9, 10, 1000])
def test_data_length_is_decimal(size: int) -> None:
    blob = build_blob(bytes(size))
    assert ("Field", (blob.hash, "Data-Length", "0", str(size))) in set(extract(blob))
