"""Digests, counts and roots of the job are those of the interlace machine, on random lakes, schemas and selections."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bobbin.errors import UsageError
from bobbin.facts import relations
from bobbin.facts.extract import extract
from bobbin.interlace.advertise import advertisement
from bobbin.interlace.messages import Advertisement
from bobbin.interlace.offers import Offers
from bobbin.interlace.schema import Schema
from bobbin.pipeline import frames
from bobbin.pipeline.batches.advertise import Form
from bobbin.pipeline.jobs import advertise, facts
from bobbin.pipeline.offer import Offer, StaleSelection
from bobbin.policy.claims import ClaimedField
from bobbin.policy.operands import label_origin
from bobbin.records.record import Record
from bobbin.store.lake.lake import Lake
from tests.support.described import KEY, describe_all, select_some
from tests.support.lakes import some_records, store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVERYTHING = Offer(form=Form(source=label_origin("lake"), schema=Schema(all=True)))


def told(record: Record, form: Form) -> Advertisement:
    """A record as a side of an exchange advertises it."""
    fields = [values for name, values in extract(record) if name == relations.FIELD]
    return advertisement(
        record.hash, form.source, [ClaimedField(*field) for _, *field in fields if field[0] in form.schema]
    )


def check(session: "SparkSession", lake: Lake, offer: Offer, records: Sequence[Record], lengths: Sequence[int]) -> None:
    """The tables of an offer hold what the machine says of these records."""
    expected = [told(record, offer.form) for record in records]
    made = frames.read(session, lake, lake.manifest(offer.advertisements)).collect()
    assert {row["record"]: bytes(row["digest"]) for row in made} == {one.record: one.digest for one in expected}
    assert len(made) == len(records)
    found = frames.read(session, lake, lake.manifest(offer.partitions)).collect()
    assert {row["k"] for row in found} == (set(lengths) if records else set())
    for length in lengths:
        machine = Offers(length, offer.form.source)
        machine.update(expected, ())
        summaries = {one.prefix: (one.count, one.root) for one in machine.summary()}
        rows = {row["prefix"]: (row["count"], bytes(row["root"])) for row in found if row["k"] == length}
        assert rows == summaries


@pytest.mark.parametrize("seed", range(4))
def test_a_random_lake_advertises_what_the_machine_would(spark: "SparkSession", tmp_path: Path, seed: int) -> None:
    source = random.Random(seed)
    lake = Lake.create(tmp_path / "lake")
    records = some_records(source.randrange(1, 400), seed)
    half = len(records) // 2
    store(lake, records[: half + 1])
    if records[half + 1 :]:
        store(lake, records[half + 1 :])
    names = source.sample(["Type", "Group", "App", "Name", "TAI", "Data-Length", "Signed-By", "A", "+Link"], 4)
    form = Form(
        source=label_origin(source.choice(["lake", "it's here"])),
        schema=source.choice([Schema(all=True), Schema(), Schema(names=frozenset(names))]),
    )
    chosen = [record for record in records if source.random() < 0.6]
    facts.run(spark, lake)
    select_some(lake, {"MaySend": [*(one.hash for one in chosen), "S.elsewhere.H3"], "SelectHave": [records[0].hash]})
    lengths = sorted(source.sample(range(1, 8), source.randrange(1, 4)))
    everything, selected = Offer(form=form), Offer(form=form, selection=KEY)
    advertise.run(spark, lake, everything, lengths=lengths)
    check(spark, lake, everything, records, lengths)
    report = advertise.run(spark, lake, selected, lengths=lengths)
    check(spark, lake, selected, chosen, lengths)
    assert report is not None
    assert report.outputs["advertisements"] == len(chosen)
    assert (report.counts["selected"], report.counts["absent"]) == (len(chosen) + 1, 1)
    assert advertise.run(spark, lake, selected, lengths=lengths) is None


def test_a_stale_selection_is_advertised_only_if_asked_for(spark: "SparkSession", tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    records = some_records(6, 1)
    store(lake, records[:5])
    describe_all(lake)
    select_some(lake, {"MaySend": [records[0].hash]})
    offer = Offer(form=EVERYTHING.form, selection=KEY)
    store(lake, records[5:])  # a revocation, for all that the selection knows
    describe_all(lake)
    with pytest.raises(StaleSelection):
        advertise.run(spark, lake, offer)
    assert lake.manifest(offer.advertisements).number == 0
    report = advertise.run(spark, lake, offer, allow_stale=True)
    assert report is not None
    assert "is stale, and was used" in report.notes[0]
    assert lake.manifest(offer.advertisements).properties["selected_facts"] == "1"
    check(spark, lake, offer, records[:1], [2])
    with pytest.raises(StaleSelection):
        advertise.run(spark, lake, offer)


def test_new_records_and_new_lengths_are_added(spark: "SparkSession", tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    records = some_records(60, 9)
    store(lake, records[:40])
    advertise.run(spark, lake, EVERYTHING)
    check(spark, lake, EVERYTHING, records[:40], [2])
    before = lake.manifest(EVERYTHING.advertisements)
    assert advertise.run(spark, lake, EVERYTHING, lengths=[1]) is not None
    assert lake.manifest(EVERYTHING.advertisements) == before
    check(spark, lake, EVERYTHING, records[:40], [1, 2])
    store(lake, records[40:])
    advertise.run(spark, lake, EVERYTHING, lengths=[3])
    check(spark, lake, EVERYTHING, records, [3])


def test_a_lake_without_records(spark: "SparkSession", tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    advertise.run(spark, lake, EVERYTHING, lengths=[1, 2])
    check(spark, lake, EVERYTHING, [], [1, 2])
    assert advertise.run(spark, lake, EVERYTHING, lengths=[1, 2]) is None


def test_what_cannot_be_asked_for_changes_nothing(spark: "SparkSession", tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    with pytest.raises(UsageError):
        advertise.run(spark, lake, EVERYTHING, lengths=[0])
    with pytest.raises(UsageError):
        advertise.run(spark, lake, Offer(form=EVERYTHING.form, selection=KEY))
    assert lake.tables() == ()


def test_lengths_far_apart_are_made_in_passes_of_their_own() -> None:
    assert advertise._together([1, 2, 3, 4, 7, 43]) == [[1, 2, 3], [4], [7], [43]]
