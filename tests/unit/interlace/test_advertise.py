"""Canonical advertisement records: exact bytes, exact digests."""

import unicodedata

import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from bobbin.errors import UsageError
from bobbin.facts import block
from bobbin.interlace import merkle
from bobbin.interlace.advertise import (
    Renderer,
    advertisement,
    canonical_fields,
    claim_digest,
    claim_digests,
    digested,
    record_digest,
    render,
)
from bobbin.interlace.messages import Advertisement
from bobbin.interlace.partitions import payload
from bobbin.policy.claims import ClaimedField
from bobbin.policy.operands import Origin
from bobbin.policy.vocabulary import ADVERTISED, ADVERTISED_FIELD
from bobbin.records import b64a
from tests.policy_worlds import ALICE, plex

_PLEX_1 = "P.tyYEj0zIBrq7IDVBPzaErPIq5p03OhpTTm14ePsSz80.H3"
_SOURCE = Origin(ALICE)
_FIELDS = (
    ClaimedField("Type", "0", "P"),
    ClaimedField("Group", "0", "u"),
    ClaimedField("App", "0", "ding"),
    ClaimedField("Name", "0", "links/1"),
)
_CANONICAL = (
    f"Advertised('{_PLEX_1}','{ALICE}')\n"
    f"AdvertisedField('{_PLEX_1}','{ALICE}','App','0','ding')\n"
    f"AdvertisedField('{_PLEX_1}','{ALICE}','Group','0','u')\n"
    f"AdvertisedField('{_PLEX_1}','{ALICE}','Name','0','links/1')\n"
    f"AdvertisedField('{_PLEX_1}','{ALICE}','Type','0','P')\n"
).encode()


def test_the_example_of_the_protocol_page_in_canonical_order() -> None:
    """IL-099."""
    assert render(_PLEX_1, _SOURCE, canonical_fields(_FIELDS)) == _CANONICAL


def test_the_published_advertisement() -> None:
    """ILC-106."""
    made = advertisement(_PLEX_1, _SOURCE, _FIELDS)
    assert b64a.encode(made.digest) == "mj5ZQyphg472Zi6kk~4sXinPl6uH6V9R2lb_iPlrRnh"
    assert b64a.encode(merkle.leaf(made.digest)) == "Czk8BxPUxrafFseZusyZgyDs9CeuALpgpWAcuKiv0k8"
    assert payload(_PLEX_1)[:2] == "ty"
    assert (made.record, made.fields) == (_PLEX_1, canonical_fields(_FIELDS))


def test_a_digest_begins_with_its_domain() -> None:
    """IL-105."""
    assert record_digest(_CANONICAL) == blake3(b"lace-advertisement-record/v1" + _CANONICAL).digest()


def test_every_line_is_about_the_one_record_and_source() -> None:
    """IL-101."""
    facts = block.parse(render(_PLEX_1, _SOURCE, _FIELDS))
    assert {values[:2] for _, values in facts} == {(_PLEX_1, ALICE)}


def test_advertised_comes_first_and_every_line_ends() -> None:
    """IL-102: a field name below every other does not come before it."""
    canonical = render(_PLEX_1, _SOURCE, (ClaimedField("!", "0", "x"),))
    assert canonical.startswith(b"Advertised('")
    assert canonical.endswith(b"\n")
    assert advertisement(_PLEX_1, _SOURCE, ()).digest != record_digest(render(_PLEX_1, _SOURCE, ())[:-1])


def test_il_103_names_go_by_their_bytes() -> None:
    """IL-103: neither case nor locale nor UTF-16 decides."""
    names = ["a", "Z", "zz", "é", "Group", "group", "\uff5e", "\U00010000", "A-1", "A"]
    ordered = canonical_fields([ClaimedField(name, "0", "x") for name in names])
    assert [field.name for field in ordered] == sorted(names, key=lambda name: name.encode())


def test_il_104_indexes_go_by_number() -> None:
    """IL-104."""
    ordered = canonical_fields([ClaimedField("A", index, "x") for index in ("10", "2", "0", "9", "100")])
    assert [field.index for field in ordered] == ["0", "2", "9", "10", "100"]


def test_il_075_a_repeated_name_keeps_every_occurrence() -> None:
    """IL-075."""
    fields = [ClaimedField("To", "1", "b"), ClaimedField("To", "0", "a"), ClaimedField("To", "2", "b")]
    facts = block.parse(render(_PLEX_1, _SOURCE, canonical_fields(fields)))
    assert [values[2:] for _, values in facts[1:]] == [("To", "0", "a"), ("To", "1", "b"), ("To", "2", "b")]


def test_il_158_a_record_without_fields_is_advertised() -> None:
    """IL-158."""
    assert render(_PLEX_1, _SOURCE, ()) == f"Advertised('{_PLEX_1}','{ALICE}')\n".encode()


def test_the_source_is_part_of_the_digest() -> None:
    assert advertisement(_PLEX_1, _SOURCE, ()).digest != advertisement(_PLEX_1, Origin("source:0"), ()).digest


def test_values_are_escaped_like_in_every_block() -> None:
    canonical = render(plex(1), Origin("source:it's"), (ClaimedField("A", "0", "a\\b\tc"),))
    line = rf"AdvertisedField('{plex(1)}','source:it\'s','A','0','a\\b\tc')"
    assert canonical.decode().splitlines()[1] == line


@pytest.mark.parametrize("value", ["a\nb", "a\rb", "a\x00b", "e\u0301", "x" * 4097, "é" * 2049])
def test_a_value_that_no_block_can_hold_is_refused(value: str) -> None:
    with pytest.raises(UsageError):
        render(plex(1), _SOURCE, (ClaimedField("A", "0", value),))


def test_long_values_are_rendered_whole() -> None:
    fields = tuple(ClaimedField("A", str(index), "x" * 4096) for index in range(3))
    assert [values[4] for _, values in block.parse(render(plex(1), _SOURCE, fields))[1:]] == ["x" * 4096] * 3


_TEXT = st.text(st.characters(exclude_categories=("Cc", "Cs")), min_size=1, max_size=8).map(
    lambda text: unicodedata.normalize("NFC", text)
)


@given(
    st.lists(
        st.builds(ClaimedField, _TEXT, st.integers(0, 200).map(str), _TEXT | st.sampled_from(["'", "\\", "\t"])),
        unique_by=lambda field: (field.name, field.index),
        max_size=6,
    )
)
def test_the_bytes_are_those_of_the_fact_block(fields: list[ClaimedField]) -> None:
    """The short way and the one that every block takes give the same bytes, and the order is by bytes and number."""
    ordered = sorted(fields, key=lambda field: (field.name.encode(), int(field.index)))
    facts = [("Advertised", (plex(7), "source:0"))]
    rows = [("AdvertisedField", (plex(7), "source:0", field.name, field.index, field.value)) for field in ordered]
    made = advertisement(plex(7), Origin("source:0"), fields)
    assert list(made.fields) == ordered
    assert render(plex(7), Origin("source:0"), made.fields) == block.render([*facts, *rows])
    assert made.digest == record_digest(block.render([*facts, *rows]))


def test_a_digest_that_comes_later_changes_nothing_else() -> None:
    whole = advertisement(plex(1), Origin("source:0"), [ClaimedField("App", "0", "x")])
    bare = Advertisement(record=whole.record, fields=whole.fields)
    assert digested(bare, Origin("source:0")) == whole
    assert digested(whole, Origin("source:1")) is whole


_PARTS = st.text(alphabet="aé'\\\\Z0", max_size=3)


@given(
    st.lists(st.tuples(st.sampled_from([_PLEX_1, "P.x.K9", "it's", "é", "a" * 4097]), st.integers(0, 2))),
    st.lists(st.lists(st.tuples(_PARTS, _PARTS), max_size=3), min_size=3, max_size=3),
)
def test_one_renderer_for_many_records_says_what_one_for_each_would(
    asked: list[tuple[str, int]], said: list[list[tuple[str, str]]]
) -> None:
    choices = [tuple(ClaimedField(name, "0", value) for name, value in some) for some in said]
    renderer = Renderer(_SOURCE)
    for record, number in asked:
        claims = [(ADVERTISED_FIELD, (record, ALICE, one.name, one.index, one.value)) for one in choices[number]]
        try:
            expected = block.render([(ADVERTISED, (record, ALICE)), *claims])
        except UsageError:
            with pytest.raises(UsageError):
                renderer.render(record, choices[number])
            continue
        assert renderer.render(record, choices[number]) == expected
        assert renderer.digest(record, choices[number]) == record_digest(expected)


def test_a_renderer_does_not_keep_all_that_was_ever_said() -> None:
    renderer = Renderer(_SOURCE)
    for number in range(1000):
        fields = (ClaimedField("Name", "0", str(number)),)
        assert renderer.render(_PLEX_1, fields) == render(_PLEX_1, _SOURCE, fields)
    assert len(renderer._known) <= 256


def test_the_digest_of_a_claim_is_that_of_the_record_without_its_source() -> None:
    canonical = _CANONICAL.replace(ALICE.encode(), b"")
    expected = blake3(b"bobbin-claim/v1" + canonical).digest()
    assert claim_digest(_PLEX_1, canonical_fields(_FIELDS)) == expected
    assert expected.hex() == "d524952fea253e9bda382724741d93dd44830fad9e54a6843f9b1ee24abc8aaf"


@given(
    st.lists(
        st.tuples(
            st.sampled_from([_PLEX_1, "P.x.K9", "é"]),
            st.lists(st.tuples(_PARTS, _PARTS), max_size=3).map(
                lambda some: tuple(ClaimedField(name, "0", value) for name, value in some)
            ),
        )
    )
)
def test_many_claims_have_the_digests_that_each_has_alone(claims: list[tuple[str, tuple[ClaimedField, ...]]]) -> None:
    made = claim_digests(claims)
    assert made == [claim_digest(record, fields) for record, fields in claims]
    for digest, (record, fields) in zip(made, claims, strict=True):
        lines = [(ADVERTISED_FIELD, (record, "", one.name, one.index, one.value)) for one in fields]
        assert digest == blake3(b"bobbin-claim/v1" + block.render([(ADVERTISED, (record, "")), *lines])).digest()
