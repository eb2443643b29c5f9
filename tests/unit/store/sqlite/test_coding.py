"""Spelling values in columns."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin.errors import IntegrityError
from bobbin.records import b64a, ids
from bobbin.records.ids import Kind
from bobbin.records.record import Record
from bobbin.records.tai import TAI_MAX
from bobbin.store.base import StoreError
from bobbin.store.sqlite import coding
from tests.conformance.samples import records

DIGESTS = st.binary(min_size=32, max_size=32)


@given(digest=DIGESTS, kind=st.sampled_from(Kind))
def test_a_name_and_its_digest_have_one_key(digest: bytes, kind: Kind) -> None:
    key = int.from_bytes(digest[:8], signed=True)
    assert coding.key_of(digest) == key
    assert coding.key_of_hash(ids.hash_text(kind, digest)) == key


@given(digests=st.lists(DIGESTS, max_size=5))
def test_the_keys_of_many_are_those_of_each(digests: list[bytes]) -> None:
    assert list(coding.keys_of(digests)) == [coding.key_of(digest) for digest in digests]


@given(text=st.text(max_size=60) | st.text(alphabet=b64a.ALPHABET + ".PH3=+/", max_size=60))
def test_a_text_that_is_no_name_has_some_key_or_is_refused(text: str) -> None:
    try:
        key = coding.key_of_hash(text)
    except IntegrityError:
        with pytest.raises(IntegrityError):
            ids.parse_hash(text)
    else:
        assert -(2**63) <= key < 2**63


@given(one=st.integers(0, TAI_MAX), other=st.integers(0, TAI_MAX))
def test_times_keep_their_order_and_fit(one: int, other: int) -> None:
    columns = coding.tai_column(one), coding.tai_column(other)
    assert all(-(2**63) <= column < 2**63 for column in columns)
    assert (columns[0] < columns[1]) == (one < other)
    assert coding.tai_of_column(columns[0]) == one


def test_a_column_beyond_the_end_of_time_is_damage() -> None:
    with pytest.raises(StoreError, match="damaged"):
        coding.tai_of_column(coding.tai_column(TAI_MAX) + 1)


@given(digest=DIGESTS, kind=st.sampled_from(Kind))
def test_a_name_from_columns_is_the_name(digest: bytes, kind: Kind) -> None:
    assert coding.hash_text(int(kind), digest) == ids.hash_text(kind, digest)


@pytest.mark.parametrize(("kind", "digest"), [(4, bytes(32)), (None, bytes(32)), (1, None)])
def test_columns_that_name_no_record_are_damage(kind: int, digest: bytes) -> None:
    with pytest.raises(StoreError, match="damaged"):
        coding.hash_text(kind, digest)


@given(record=records())
def test_a_record_opens_with_its_name(record: Record) -> None:
    assert coding.hash_of_raw(record.raw) == record.hash


def test_bytes_without_a_name_are_damage() -> None:
    with pytest.raises(StoreError, match="damaged"):
        coding.hash_of_raw(b"\xff" * 60)


@given(
    prefix=st.text(st.characters(exclude_categories=["Cs"]), min_size=1),
    text=st.text(st.characters(exclude_categories=["Cs"])),
)
def test_a_text_is_in_the_range_of_a_prefix_if_it_has_the_prefix(prefix: str, text: str) -> None:
    upper = coding.after_prefix(prefix)
    for candidate in (text, prefix + text):
        in_range = prefix.encode() <= candidate.encode() < upper
        assert in_range == candidate.startswith(prefix)


def test_the_last_character_of_unicode_has_a_successor() -> None:
    assert coding.after_prefix("\U0010ffff") == b"\xf4\x8f\xbf\xc0"


@given(text=st.text() | st.text(st.characters(categories=["Cs"]), min_size=1))
def test_every_text_has_a_storable_spelling(text: str) -> None:
    spelled = coding.storable(text)
    spelled.encode()
    assert (spelled == text) == coding.can_be_stored(text)
