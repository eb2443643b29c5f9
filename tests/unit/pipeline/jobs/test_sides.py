"""A side of a comparison has the same digests wherever its records rest."""

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from bobbin.errors import UsageError
from bobbin.facts import relations
from bobbin.facts.extract import extract
from bobbin.interlace.advertise import advertisement
from bobbin.interlace.cursor import Cursor
from bobbin.interlace.messages import Advertisement
from bobbin.interlace.schema import Schema
from bobbin.lace import Lace
from bobbin.pipeline import advertisement_file
from bobbin.pipeline.advertisement_file import DamagedFile
from bobbin.pipeline.batches.advertise import Form
from bobbin.pipeline.jobs import advertise, facts, sides
from bobbin.pipeline.jobs.sides import Side
from bobbin.pipeline.offer import Offer, StaleSelection
from bobbin.pipeline.reading.sources import MissingSource
from bobbin.policy.claims import ClaimedField
from bobbin.policy.operands import label_origin
from bobbin.records.record import Record
from bobbin.runtime.decisions import Decisions
from bobbin.store.lake.lake import Lake
from tests.support.described import KEY, describe_all, select_some
from tests.support.lakes import some_records, store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDS = some_records(30, 5)
FORM = Form(source=label_origin("lab"), schema=Schema(names=frozenset({"Name", "A"})))


def told(record: Record, form: Form = FORM) -> Advertisement:
    fields = [values for name, values in extract(record) if name == relations.FIELD]
    return advertisement(
        record.hash, form.source, [ClaimedField(*field) for _, *field in fields if field[0] in form.schema]
    )


EXPECTED = {record.hash: told(record).digest for record in RECORDS}


def digests(side: Side) -> dict[str, bytes]:
    return {row["record"]: bytes(row["digest"]) for row in side.advertisements.collect()}


def put_cursor(folder: Path, link: str, advertised: list[Advertisement]) -> None:
    """What an exchange leaves behind when it ends: claims without digests."""
    bare = tuple(Advertisement(record=one.record, fields=one.fields) for one in advertised)
    cursor = Cursor(key=link, plan="plan", source=FORM.source, schema=FORM.schema, advertisements=bare)
    with Lace.open(folder) as lace:
        assert Decisions(lace.store).cursors.put(FORM.source, link, msgspec.msgpack.encode(cursor))


def test_a_lake_with_and_without_its_tables(spark: "SparkSession", tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    store(lake, RECORDS)
    offer = Offer(form=FORM)
    bare = sides.side_of_lake(spark, lake, offer)
    assert (digests(bare), bare.partitions, bare.lengths) == (EXPECTED, None, ())
    facts.run(spark, lake)
    assert digests(sides.side_of_lake(spark, lake, offer)) == EXPECTED
    advertise.run(spark, lake, offer, lengths=[1, 2])
    whole = sides.side_of_lake(spark, lake, offer)
    assert (digests(whole), whole.lengths) == (EXPECTED, (1, 2))
    assert whole.partitions is not None
    store(lake, some_records(1, 6))
    assert sides.side_of_lake(spark, lake, offer).partitions is None

    target = tmp_path / "an offer%20[1].parquet"
    advertisement_file.write(lake, lake.manifest(offer.advertisements), target)
    found = sides.find_other(str(target))
    assert sides.form_of_other(found) == FORM
    assert digests(sides.side_of(spark, found, offer)) == EXPECTED
    other = sides.find_other(str(tmp_path / "lake"))
    assert sides.form_of_other(other) is None
    assert len(digests(sides.side_of(spark, other, offer))) == len(RECORDS) + 1


def test_a_stale_selection_is_no_side(spark: "SparkSession", tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    store(lake, RECORDS[:3])
    describe_all(lake)
    select_some(lake, {"MaySend": [RECORDS[0].hash]})
    offer = Offer(form=FORM, selection=KEY)
    assert digests(sides.side_of_lake(spark, lake, offer)).keys() == {RECORDS[0].hash}
    store(lake, RECORDS[3:])
    with pytest.raises(StaleSelection):
        sides.side_of_lake(spark, lake, offer)
    with pytest.raises(StaleSelection):
        sides.side_of(spark, sides.find_other(lake.location), offer)
    allowed = sides.side_of_lake(spark, lake, offer, allow_stale=True)
    assert digests(allowed).keys() == {RECORDS[0].hash}
    assert "is stale" in allowed.notes[0]


def test_a_lace_and_what_it_remembers_of_a_peer(spark: "SparkSession", tmp_path: Path) -> None:
    with Lace.create(tmp_path / "a.lace") as lace:
        lace.store.put_many([record.raw for record in RECORDS])
    other = sides.find_other(str(tmp_path / "a.lace"))
    assert digests(sides.side_of(spark, other, Offer(form=FORM))) == EXPECTED
    put_cursor(tmp_path / "a.lace", "L.1", [told(record) for record in RECORDS[:7]])
    claimed = sides.read_claims(tmp_path / "a.lace", "L.1")
    assert claimed.form == FORM
    claims = sides.side_of(spark, claimed, Offer(form=FORM))
    assert digests(claims) == {record.hash: EXPECTED[record.hash] for record in RECORDS[:7]}


def test_a_link_that_is_not_remembered(tmp_path: Path) -> None:
    Lace.create(tmp_path / "a.lace").close()
    with pytest.raises(UsageError, match="no exchange of it"):
        sides.read_claims(tmp_path / "a.lace", "L.1")
    put_cursor(tmp_path / "a.lace", "L.2", [])
    with pytest.raises(UsageError, match=r"there are: L\.2"):
        sides.read_claims(tmp_path / "a.lace", "L.1")
    assert sides.read_claims(tmp_path / "a.lace", "L.2").advertisements.num_rows == 0


def test_what_another_version_remembers(tmp_path: Path) -> None:
    Lace.create(tmp_path / "a.lace").close()
    with Lace.open(tmp_path / "a.lace") as lace:
        Decisions(lace.store).cursors.put(FORM.source, "L.1", b"\xc1")
    with pytest.raises(UsageError, match="another version"):
        sides.read_claims(tmp_path / "a.lace", "L.1")


def test_places_with_nothing_to_compare(tmp_path: Path) -> None:
    with pytest.raises(MissingSource, match="there is no lake, lace or file"):
        sides.find_other(str(tmp_path / "nowhere"))
    with pytest.raises(UsageError, match="neither a lake nor a lace"):
        sides.find_other(str(tmp_path))
    (tmp_path / "text").write_text("no advertisements")
    with pytest.raises(DamagedFile):
        sides.find_other(str(tmp_path / "text"))
    with pytest.raises(UsageError, match="a lace on this machine"):
        sides.find_other("hdfs://node/x.lace", link="L.1")


def test_paths_and_addresses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Lace.create(tmp_path / "a b:c.lace").close()
    monkeypatch.chdir(tmp_path)
    assert sides.find_other("a b:c.lace") == sides.AtLace(Path("a b:c.lace"))
    assert sides.find_other((tmp_path / "a b:c.lace").as_uri()) == sides.AtLace(tmp_path / "a b:c.lace")
    assert sides.find_other("hdfs://node/lake") == sides.AtLake("hdfs://node/lake")
