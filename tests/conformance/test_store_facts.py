"""Facts: exactly what extraction says about the stored records, for every way of asking."""

from itertools import product

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bobbin.errors import UsageError
from bobbin.facts.extract import extract
from bobbin.facts.relations import ARITY, FIELD, HAVE, PLEX_HASH, RECORD_LINK, Pattern, Tuple, agrees
from bobbin.records.record import Record
from bobbin.store.base import Store
from tests.conformance.conftest import Kit
from tests.conformance.samples import EMPTY_BLOB, KEYS, plex, records, sealed


def expected_facts(stored: list[Record]) -> dict[str, set[Tuple]]:
    facts: dict[str, set[Tuple]] = {predicate: set() for predicate in ARITY}
    for record in stored:
        for predicate, values in extract(record):
            facts[predicate].add(values)
    return facts


@pytest.mark.reading
@pytest.mark.slow
@given(batch=st.lists(records(), max_size=8), removed=st.integers(0, 3))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_enumeration_is_extraction(kit: Kit, batch: list[Record], removed: int) -> None:
    with kit.create_another() as store:
        store.put_records(batch)
        gone = {record.hash for record in batch[:removed]} if kit.removes else set()
        for name in gone:
            store.remove(name, reason="test")
        expected = expected_facts([record for record in batch if record.hash not in gone])
        for predicate in ARITY:
            found = list(store.facts.enumerate(predicate))
            assert len(found) == len(set(found)), "no tuple comes twice"
            assert set(found) == expected[predicate]


@st.composite
def patterns(draw: st.DrawFn, facts: dict[str, set[Tuple]]) -> tuple[str, Pattern]:
    """A pattern with the values of some fact (or of two, or strange ones) at some places."""
    predicate = draw(st.sampled_from(sorted(ARITY)))
    known = sorted(facts[predicate]) or [("x",) * ARITY[predicate]]
    one, other = draw(st.sampled_from(known)), draw(st.sampled_from(known))
    strange = st.sampled_from(["", "0", "1", "\ud800", "Type", "Group", "nonsense", EMPTY_BLOB.hash, "00", "-1", "u"])
    places = [
        draw(st.one_of(st.none(), st.just(one[place]), st.just(one[place]), st.just(other[place]), strange))
        for place in range(ARITY[predicate])
    ]
    return predicate, tuple(places)


@pytest.mark.reading
@pytest.mark.slow
@given(data=st.data(), batch=st.lists(records(), max_size=8))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_bound_pattern_is_a_filter(kit: Kit, data: st.DataObject, batch: list[Record]) -> None:
    facts = expected_facts(batch)
    asked = data.draw(st.lists(patterns(facts), min_size=1, max_size=12))
    with kit.create_another() as store:
        store.put_records(batch)
        with store.snapshot() as snapshot:
            for predicate, pattern in asked:
                found = list(snapshot.facts.match(predicate, pattern))
                assert len(found) == len(set(found)), "no tuple comes twice"
                assert set(found) == {values for values in facts[predicate] if agrees(values, pattern)}


@pytest.mark.reading
def test_every_combination_of_bound_places_is_answered(store: Store) -> None:
    extras = [("+Link", f"source {EMPTY_BLOB.hash}"), ("+Link", f"other {EMPTY_BLOB.hash}"), ("X-Custom", "u")]
    stored: list[Record] = [plex(1, extras=extras), plex(2), sealed(1, extras=extras), sealed(3, signer=1), EMPTY_BLOB]
    store.put_records(stored)
    facts = expected_facts(stored)
    with store.snapshot() as snapshot:
        for predicate, tuples in facts.items():
            assert tuples
            for values in tuples:
                for mask in product((False, True), repeat=len(values)):
                    pattern = tuple(value if bound else None for value, bound in zip(values, mask, strict=True))
                    expected = {other for other in tuples if agrees(other, pattern)}
                    found = list(snapshot.facts.match(predicate, pattern))
                    assert (set(found), len(found)) == (expected, len(expected)), (predicate, pattern)


@pytest.mark.reading
def test_a_seal_speaks_for_its_plex_but_only_the_seal_is_there(store: Store) -> None:
    record = sealed(1)
    store.put_records([record])
    assert list(store.facts.enumerate(HAVE)) == [(record.hash,)]
    assert list(store.facts.match(FIELD, (None, "Signed-By", None, KEYS[0].verifier))) == [
        (record.hash, "Signed-By", "0", KEYS[0].verifier)
    ]
    assert list(store.facts.match(FIELD, (record.hash, "Type", None, None))) == [(record.hash, "Type", "0", "S")]
    assert list(store.facts.match(PLEX_HASH, (None, record.plex_hash))) == [(record.hash, record.plex_hash)]


@pytest.mark.reading
def test_repeated_headers_are_counted_from_zero(store: Store) -> None:
    record = plex(extras=[("X", "b"), ("X", "a"), ("X", "b"), ("Y", "b")])
    store.put_records([record])
    assert set(store.facts.match(FIELD, (record.hash, "X", None, None))) == {
        (record.hash, "X", "0", "b"),
        (record.hash, "X", "1", "a"),
        (record.hash, "X", "2", "b"),
    }
    assert set(store.facts.match(FIELD, (None, None, "0", "b"))) == {
        (record.hash, "X", "0", "b"),
        (record.hash, "Y", "0", "b"),
    }


@pytest.mark.reading
def test_only_a_well_formed_link_is_a_link(store: Store) -> None:
    extras = [("+Link", "no target"), ("+Link", f"two words {EMPTY_BLOB.hash}"), ("+Link", "x P.zz.K9")]
    record = plex(extras=extras)
    store.put_records([record])
    assert set(store.facts.enumerate(RECORD_LINK)) == {
        (record.hash, "+Link", "1", "two words", EMPTY_BLOB.hash),
        (record.hash, "+Link", "2", "x", "P.zz.K9"),
    }
    assert set(store.facts.match(RECORD_LINK, (None, None, None, None, "P.zz.K9"))) == {
        (record.hash, "+Link", "2", "x", "P.zz.K9")
    }


def test_removal_takes_the_facts_with_it(store: Store) -> None:
    record = plex(extras=[("+Link", f"source {EMPTY_BLOB.hash}")])
    store.put_records([record])
    store.remove(record.hash, reason="test")
    assert [list(store.facts.enumerate(predicate)) for predicate in ARITY] == [[]] * len(ARITY)
    store.lift(record.hash)
    store.put_records([record])
    assert {values for predicate in ARITY for values in store.facts.enumerate(predicate)} == {
        values for _, values in extract(record)
    }


@pytest.mark.reading
def test_a_predicate_or_arity_that_does_not_exist_is_refused(store: Store) -> None:
    with pytest.raises(UsageError):
        store.facts.enumerate("Nonsense")
    with pytest.raises(UsageError):
        store.facts.match(FIELD, (None,))
    with store.snapshot() as snapshot, pytest.raises(UsageError):
        snapshot.facts.match("Nonsense", ())
