"""Claims as columns."""

from bobbin.datalog.local.conjunction import Source
from bobbin.datalog.local.relation import Relation
from bobbin.datalog.local.values import Values
from bobbin.policy.claim_columns import ClaimColumns
from bobbin.policy.claims import ClaimedField

APP = ClaimedField("App", "0", "ding")
LINK = ClaimedField("+Link", "1", "ding")
SOURCES = [Source("Advertised"), Source("AdvertisedField"), Source("AdvertisedField", "App")]


def _texts(table: Relation, values: Values) -> list[tuple[str, ...]]:
    return sorted(map(values.decode_row, table.rows))


def test_every_reader_gets_relations_of_its_own() -> None:
    values = Values()
    claims = ClaimColumns({"a": (APP, LINK), "b": (), "c": (APP,)}, "source", values)
    first, second = claims.relations(SOURCES), claims.relations([*SOURCES, Source("AdvertisedField", "Group")])
    assert _texts(first[SOURCES[0]], values) == [("a", "source"), ("b", "source"), ("c", "source")]
    assert _texts(first[SOURCES[1]], values) == [
        ("a", "source", "+Link", "1", "ding"),
        ("a", "source", "App", "0", "ding"),
        ("c", "source", "App", "0", "ding"),
    ]
    assert _texts(first[SOURCES[2]], values) == [("a", "source", "0", "ding"), ("c", "source", "0", "ding")]
    assert _texts(second[Source("AdvertisedField", "Group")], values) == []
    second[SOURCES[0]].discard(list(second[SOURCES[0]].rows))
    assert len(first[SOURCES[0]]) == 3
    assert [values.texts[number] for number in claims.records.tolist()] == ["a", "b", "c"]


def test_a_field_that_is_claimed_twice_is_one_fact() -> None:
    values = Values()
    claims = ClaimColumns({"a": (APP, APP), "b": (APP,)}, "source", values)
    assert len(claims.relations(SOURCES)[SOURCES[1]]) == 2


def test_nothing_claimed() -> None:
    relations = ClaimColumns({}, "source", Values()).relations(SOURCES)
    assert [len(table) for table in relations.values()] == [0, 0, 0]


def test_what_many_records_say_alike_is_said_of_each() -> None:
    values = Values()
    both, turned = (APP, LINK), (LINK, APP)
    claims = {"a": both, "b": (APP,), "c": both, "d": (), "e": turned, "f": both}
    rows = _texts(ClaimColumns(claims, "source", values).relations(SOURCES)[SOURCES[1]], values)
    assert rows == sorted(
        (record, "source", one.name, one.index, one.value) for record, fields in claims.items() for one in fields
    )
