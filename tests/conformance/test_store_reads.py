"""Reading: by name, in commit order, and by place."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bobbin.errors import IntegrityError, UsageError
from bobbin.records.coordinate import Coordinate, Prefix
from bobbin.records.ids import HashText, Kind, hash_text
from bobbin.records.record import Blob, Plex, Record, Seal, seal
from bobbin.store.base import Listed, Store, StoreRecordId
from tests.conformance.conftest import Kit
from tests.conformance.samples import APPS, EMPTY_BLOB, GROUPS, KEYS, NAMES, plex, records, sealed

pytestmark = pytest.mark.reading

UNKNOWN = hash_text(Kind.PLEX, bytes(32))
WHOLE_GROUP = Prefix(group="u")


def test_what_was_never_put_is_not_there(store: Store) -> None:
    assert store.get(UNKNOWN) is None
    assert not store.have(UNKNOWN)
    store.put_records([plex()])
    assert store.get(UNKNOWN) is None
    assert not store.have(UNKNOWN)


def test_the_kind_is_part_of_the_name(store: Store) -> None:
    record = plex()
    store.put_records([record])
    for kind in (Kind.BLOB, Kind.SEAL):
        other = hash_text(kind, record.digest)
        assert store.get(other) is None
        assert not store.have(other)


@pytest.mark.parametrize("text", ["", "P.", "nonsense", "P.tooshort.H3", f"{UNKNOWN}x", f"V{UNKNOWN[1:]}", "P.é.H3"])
def test_a_text_that_is_no_name_is_an_error(store: Store, text: str) -> None:
    store.put_records([plex()])
    for ask in (store.get, store.have):
        with pytest.raises(IntegrityError):
            ask(HashText(text))


def test_a_name_that_only_begins_like_a_stored_one_is_not_there(store: Store) -> None:
    record = plex()
    store.put_records([record])
    digest = record.digest[:31] + bytes([record.digest[31] ^ 1])
    assert store.get(hash_text(Kind.PLEX, digest)) is None
    assert not store.have(hash_text(Kind.PLEX, digest))


def test_a_scan_goes_in_commit_order_from_a_number_on(store: Store) -> None:
    batch = sorted([plex(number) for number in range(7)], key=lambda record: record.hash)
    ids = [answer.id for answer in store.put_records(batch)]
    lines = list(store.scan())
    assert [(line.id, line.hash, line.raw) for line in lines] == [
        (number, record.hash, record.raw) for number, record in zip(ids, batch, strict=True)
    ]
    assert list(store.scan(after=lines[2].id)) == lines[3:]
    assert list(store.scan(after=lines[2].id, limit=2)) == lines[3:5]
    assert list(store.scan(limit=0)) == []
    assert list(store.scan(after=store.high_water())) == []
    assert list(store.scan(after=StoreRecordId(10**12))) == []


def test_a_negative_limit_is_refused(store: Store) -> None:
    with pytest.raises(UsageError):
        store.scan(limit=-1)
    with pytest.raises(UsageError):
        store.list(WHOLE_GROUP, limit=-1)


def names(store: Store, place: Coordinate | Prefix, *, tips: bool = False, limit: int | None = None) -> list[str]:
    return [f"{line.app}:{line.name}" for line in store.list(place, tips=tips, limit=limit)]


def test_a_line_says_what_the_record_says(store: Store) -> None:
    record = sealed(3, tai=5)
    (answer,) = store.put_records([record])
    assert answer.id is not None
    expected = Listed(
        id=answer.id,
        hash=record.hash,
        group="u",
        app="ding",
        name="links/3",
        tai=5,
        verifier=KEYS[0].verifier,
        data_length=len(b"data 3"),
    )
    assert list(store.list(record.coordinate)) == [expected]
    store.put_records([plex(4)])
    assert [line.verifier for line in store.list(plex(4).coordinate)] == [None]


def test_a_prefix_is_a_prefix_of_whole_segments(store: Store) -> None:
    store.put_records([plex(name=name) for name in ("links", "links0", "links/1", "links/2/3", "linkt/1")])
    assert names(store, Prefix(group="u", app="ding", name="links/")) == ["ding:links/1", "ding:links/2/3"]
    assert names(store, Prefix(group="u", app="ding", name="links/2/")) == ["ding:links/2/3"]
    assert names(store, Prefix(group="u", app="ding", name="none/")) == []
    assert names(store, Coordinate(group="u", app="ding", name="links")) == ["ding:links"]


def test_the_last_character_of_unicode_is_below_its_prefix(store: Store) -> None:
    last = "\U0010ffff"
    store.put_records([plex(name=name) for name in (f"{last}/{last}", f"{last}/a", last)])
    assert names(store, Prefix(group="u", app="ding", name=f"{last}/")) == [f"ding:{last}/a", f"ding:{last}/{last}"]


def test_a_group_is_listed_by_app_then_name_in_byte_order(store: Store) -> None:
    # The apps are stored in another order than the one they sort in, and bytes sort unlike UTF-16.
    apps = ["z", "a/b", "a", "\ue000", "\U00010000", "é", "Z"]
    store.put_records([plex(app=app, name=name) for app in apps for name in ("y", "x/1", "x")])
    expected = [f"{app}:{name}" for app in sorted(apps) for name in ("x", "x/1", "y")]
    assert names(store, WHOLE_GROUP) == expected
    assert names(store, WHOLE_GROUP, limit=4) == expected[:4]
    assert names(store, Prefix(group="u", app="a")) == ["a:x", "a:x/1", "a:y"]


def test_groups_and_apps_are_not_prefixes_of_one_another(store: Store) -> None:
    store.put_records([plex(group="u/v"), plex(app="ding/dong"), plex(group="uu")])
    assert names(store, WHOLE_GROUP) == ["ding/dong:links/0"]
    assert names(store, Prefix(group="u", app="ding")) == []


def test_at_one_coordinate_the_newest_comes_first_then_the_greatest_hash(store: Store) -> None:
    old = plex(name="n", tai=1, data=b"old")
    same_time = [plex(name="n", tai=2, data=bytes([number])) for number in range(6)]
    signed = [seal(record, KEYS[0], auxiliary=b"\x01" * 32) for record in same_time[:2]]
    newest: list[Record] = sorted([*same_time, *signed], key=lambda record: record.hash, reverse=True)
    store.put_records([old, *same_time, *signed])
    place = Coordinate(group="u", app="ding", name="n")
    expected = [record.hash for record in [*newest, old]]
    assert [line.hash for line in store.list(place)] == expected
    assert [line.hash for line in store.list(WHOLE_GROUP)] == expected
    assert [line.hash for line in store.list(place, tips=True)] == expected[:1]
    assert [line.hash for line in store.list(WHOLE_GROUP, tips=True)] == expected[:1]
    assert [line.hash for line in store.list(place, limit=3)] == expected[:3]


def test_tips_are_the_newest_of_each_coordinate_however_many_there_are(store: Store) -> None:
    batch = [plex(name=name, tai=tai) for name in ("a", "b", "c") for tai in range(30)]
    store.put_records([*batch, plex(name="d", tai=3)])
    tips = list(store.list(WHOLE_GROUP, tips=True))
    assert [(tip.name, tip.tai) for tip in tips] == [("a", 29), ("b", 29), ("c", 29), ("d", 3)]
    assert list(store.list(WHOLE_GROUP, tips=True, limit=2)) == tips[:2]


def test_blobs_have_no_place(store: Store) -> None:
    store.put_records([EMPTY_BLOB])
    assert list(store.list(WHOLE_GROUP)) == []


def test_a_place_that_cannot_exist_is_empty(store: Store) -> None:
    store.put_records([plex()])
    assert list(store.list(Coordinate(group="u", app="ding", name="\ud800"))) == []
    assert list(store.list(Prefix(group="\ud800"))) == []


def places() -> st.SearchStrategy[Coordinate | Prefix]:
    group, app, name = st.sampled_from(GROUPS), st.sampled_from(APPS), st.sampled_from(NAMES)
    return st.one_of(
        st.builds(Coordinate, group=group, app=app, name=name),
        st.builds(Prefix, group=group),
        st.builds(Prefix, group=group, app=app),
        st.builds(Prefix, group=group, app=app, name=name.map(lambda path: f"{path}/")),
        st.builds(Prefix, group=group, app=app, name=st.just("links/")),
    )


def covers(place: Coordinate | Prefix, record: Plex | Seal) -> bool:
    if isinstance(place, Coordinate):
        return record.coordinate == place
    same_place = record.group == place.group and place.app in {None, record.app}
    return same_place and record.name.startswith(place.name)


def expected_listing(batch: list[Record], place: Coordinate | Prefix) -> list[Plex | Seal]:
    below = [record for record in set(batch) if not isinstance(record, Blob) and covers(place, record)]
    below.sort(key=lambda record: (record.tai_text, record.hash), reverse=True)
    below.sort(key=lambda record: (record.group.encode(), record.app.encode(), record.name.encode()))
    return below


@pytest.mark.slow
@given(
    batch=st.lists(records(), max_size=25),
    places=st.lists(places(), min_size=1, max_size=5),
    limit=st.none() | st.integers(0, 5),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_listings_follow_from_the_records(
    kit: Kit, batch: list[Record], places: list[Coordinate | Prefix], limit: int | None
) -> None:
    with kit.create_another() as store:
        store.put_records(batch)
        for place in places:
            expected = expected_listing(batch, place)
            newest = {record.coordinate: record.hash for record in reversed(expected)}
            assert [line.hash for line in store.list(place, limit=limit)] == [record.hash for record in expected][
                :limit
            ]
            tips = store.list(place, tips=True, limit=limit)
            assert [line.hash for line in tips] == [newest[coordinate] for coordinate in reversed(newest)][:limit]
