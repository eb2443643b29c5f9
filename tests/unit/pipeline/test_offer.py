"""What an offer is called, and what its tables say of themselves."""

from pathlib import Path

import pyarrow as pa
import pytest

from bobbin.errors import UsageError
from bobbin.interlace.schema import Schema
from bobbin.pipeline import offer as offers
from bobbin.pipeline.batches.advertise import Form
from bobbin.pipeline.offer import Offer, StaleSelection
from bobbin.policy.operands import label_origin
from bobbin.store.lake.built import spell_fields
from bobbin.store.lake.compact import compact
from bobbin.store.lake.lake import Lake
from bobbin.store.lake.tables import SELECTIONS
from bobbin.store.lake.writing import PartWriter
from tests.support.described import describe_all, select_some
from tests.support.lakes import some_records, store

ALL = Form(source=label_origin("lab"), schema=Schema(all=True))
SOME = Form(source=label_origin("lab"), schema=Schema(names=frozenset({"TAI", "Name"})))
KEY = "0123456789abcdef"


def select(lake: Lake) -> None:
    table = f"selections/{KEY}"
    with lake.begin("select", plan="a plan") as run:
        with PartWriter(lake.files, SELECTIONS, run.path(table)) as writer:
            writer.write(pa.RecordBatch.from_pydict({"record": ["x"], "predicate": ["MaySend"]}))
        run.replace(table, properties={"plan": "a plan", "index": "1", "query": "q", "other": "o", "facts": "0"})
        run.commit()


def test_a_key_follows_from_everything_that_an_offer_says() -> None:
    elsewhere = Form(source=label_origin("elsewhere"), schema=ALL.schema)
    different = [
        Offer(form=ALL),
        Offer(form=SOME),
        Offer(form=elsewhere),
        Offer(form=ALL, selection=KEY),
        Offer(form=ALL, selection=KEY, predicate="SelectHave"),
    ]
    assert len({offer.key for offer in different}) == len(different)
    assert Offer(form=ALL, predicate="SelectHave").key == Offer(form=ALL).key
    assert Offer(form=ALL).advertisements == f"advertisements/{Offer(form=ALL).key}"
    assert Offer(form=ALL).partitions == f"partitions/{Offer(form=ALL).key}"


def test_properties_say_the_offer_and_what_it_was_made_from(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    select(lake)
    offer = Offer(form=SOME, selection=KEY)
    chosen = offers.selection_of(lake, offer)
    properties = offers.properties_of(offer, facts=lake.manifest("facts"), selection=chosen)
    assert properties == {
        "source": "source:lab",
        "fields": '["Name","TAI"]',
        "records": "0",
        "facts": "0",
        "plan": "a plan",
        "index": "1",
        "query": "q",
        "selection": KEY,
        "predicate": "MaySend",
        "selected": "1",
        "selected_facts": "0",
    }
    assert offers.form_of(properties) == SOME
    assert not offers.is_of(lake, lake.manifest(offer.advertisements), properties)


@pytest.mark.parametrize("schema", [Schema(all=True), Schema(), Schema(names=frozenset({"all", "é", 'a"b'}))])
def test_a_schema_is_read_as_it_was_written(schema: Schema) -> None:
    assert offers.parse_fields(spell_fields(schema)) == schema


@pytest.mark.parametrize("text", ["", "none", "[1]", '{"a": 1}'])
def test_other_texts_spell_no_schema(text: str) -> None:
    with pytest.raises(UsageError, match="spells no field schema"):
        offers.parse_fields(text)


def test_advertisements_that_do_not_say_whose_they_are() -> None:
    with pytest.raises(UsageError, match="must say their source"):
        offers.form_of({"fields": "all"})


def test_a_selection_must_be_there(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    assert offers.selection_of(lake, Offer(form=ALL)) is None
    with pytest.raises(UsageError, match="there are: none"):
        offers.selection_of(lake, Offer(form=ALL, selection=KEY))
    with pytest.raises(UsageError, match="16 hex digits"):
        offers.selection_of(lake, Offer(form=ALL, selection="../records"))


def selected_lake(folder: Path) -> tuple[Lake, str]:
    """A lake with two files of records, their facts, and a selection of one."""
    lake = Lake.create(folder)
    records = some_records(6, 1)
    store(lake, records[:3])
    store(lake, records[3:])
    describe_all(lake)
    return lake, select_some(lake, {"MaySend": [records[0].hash]})


def test_a_selection_is_stale_when_its_rules_have_not_seen_a_record(tmp_path: Path) -> None:
    lake, table = selected_lake(tmp_path / "lake")
    assert offers.stale_notes(lake, lake.manifest(table), allowed=False) == ()
    store(lake, some_records(1, 2))
    with pytest.raises(StaleSelection, match="records came after manifest 2"):
        offers.stale_notes(lake, lake.manifest(table), allowed=False)
    describe_all(lake)
    with pytest.raises(StaleSelection, match="made from manifest 1 of facts, and 2 is current"):
        offers.stale_notes(lake, lake.manifest(table), allowed=False)
    (note,) = offers.stale_notes(lake, lake.manifest(table), allowed=True)
    assert "is stale, and was used because --allow-stale was given" in note
    select_some(lake, {})
    assert offers.stale_notes(lake, lake.manifest(table), allowed=False) == ()
    assert offers.stale_notes(lake, None, allowed=False) == ()


def test_a_selection_that_does_not_say_what_it_was_made_from_is_stale(tmp_path: Path) -> None:
    lake, table = selected_lake(tmp_path / "lake")
    with lake.begin("select") as run:
        run.replace(table, properties={"plan": "x"})
        run.commit()
    with pytest.raises(StaleSelection, match="none that it names"):
        offers.stale_notes(lake, lake.manifest(table), allowed=False)


def test_compaction_makes_nothing_stale(tmp_path: Path) -> None:
    lake, table = selected_lake(tmp_path / "lake")
    offer = Offer(form=ALL, selection=table.partition("/")[2])
    before = offers.properties_of(offer, facts=lake.manifest("facts"), selection=lake.manifest(table))
    with lake.begin("advertise") as run:
        run.replace(offer.advertisements, properties=before)
        run.commit()
    compact(lake, ("records", "facts"), force=True)
    assert (lake.manifest("records").number, lake.manifest("facts").number) == (3, 2)
    assert offers.stale_notes(lake, lake.manifest(table), allowed=False) == ()
    after = offers.properties_of(offer, facts=lake.manifest("facts"), selection=lake.manifest(table))
    assert after["facts"] != before["facts"]
    assert offers.is_of(lake, lake.manifest(offer.advertisements), after)
    store(lake, some_records(1, 2))
    describe_all(lake)
    newer = offers.properties_of(offer, facts=lake.manifest("facts"), selection=lake.manifest(table))
    assert not offers.is_of(lake, lake.manifest(offer.advertisements), newer)


@pytest.mark.parametrize("lengths", [(), (0,), (2, 44)])
def test_lengths_that_no_prefix_has(lengths: tuple[int, ...]) -> None:
    with pytest.raises(UsageError):
        offers.check_lengths(lengths)


def test_lengths_of_a_table_that_was_never_written(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    assert offers.lengths_of(lake.manifest(Offer(form=ALL).partitions)) == ()
