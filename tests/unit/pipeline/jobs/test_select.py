"""The job ``select``: what a node would decide, as a table of the lake."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from msgspec import structs

from bobbin.datalog.compile import compile as compile_program
from bobbin.errors import UsageError
from bobbin.interlace.schema import Schema
from bobbin.pipeline import frames
from bobbin.pipeline.batches.advertise import Form
from bobbin.pipeline.jobs import advertise, facts, select
from bobbin.pipeline.offer import Offer
from bobbin.pipeline.rules.limits import CannotExecute
from bobbin.pipeline.rules.planner import Executor
from bobbin.policy.claims import ClaimedField, Claims
from bobbin.policy.decide import Situation, evaluate
from bobbin.policy.operands import Origin
from bobbin.policy.runtime_facts import RuntimeFacts
from bobbin.policy.views import RecordFacts
from bobbin.records.record import Record
from bobbin.store.lake.lake import Lake
from tests.policy_worlds import ALICE, BOB, EVERYTHING, policy
from tests.support.lakes import some_records, store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROVEN = RuntimeFacts(here=ALICE, peer=BOB, tick_tai="1640995200:000000000")
MINE = (
    "SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'Type',_,'S').\n"
    "SelectHave(P) :- Field(P,'Group',_,'u'), not Field(P,'A',_,'x').\n"
)
THEIRS = "SelectAdvertised(P,S) :- Advertised(P,S).\nSelectHave(P) :- Have(P), Field(P,'Type',_,'P').\n"


def selected(session: "SparkSession", lake: Lake, table: str) -> dict[str, set[str]]:
    rows = frames.read(session, lake, lake.manifest(table)).collect()
    found: dict[str, set[str]] = {}
    for row in rows:
        found.setdefault(row["predicate"], set()).add(row["record"])
    assert sum(map(len, found.values())) == len(rows)
    return found


def told(records: list[Record]) -> Claims:
    """What a peer with these records claims of them."""
    stored = RecordFacts.of_records(records)
    fields: dict[str, list[ClaimedField]] = {record: [] for (record,) in stored.enumerate("Have")}
    for record, *field in stored.enumerate("Field"):
        fields[record].append(ClaimedField(*field))
    return Claims(Origin(BOB), fields)


def test_a_plan_selects_what_a_node_would(spark: "SparkSession", tmp_path: Path) -> None:
    mine, theirs = some_records(40, 1), some_records(15, 2)
    lake, other = Lake.create(tmp_path / "mine"), Lake.create(tmp_path / "theirs")
    store(lake, mine)
    store(other, theirs)
    facts.run(spark, other)
    chosen = policy(MINE, THEIRS)
    report = select.run(spark, lake, chosen, runtime=PROVEN, advertised=select.Advertised(lake=other))
    where = Situation(facts=RecordFacts.of_records(mine), claims=told(theirs), runtime=PROVEN)
    wanted = evaluate(chosen, where)
    (table,) = report.outputs
    found = selected(spark, lake, table)
    assert found["MaySend"] == wanted.decision.may_send
    assert found["MayRequest"] == wanted.decision.may_request
    assert found["SelectHave"] == {record for (record,) in wanted.own.state.tuples("SelectHave")}
    assert all(found.values())
    assert report.counts == {"visible": len(wanted.visible)} | {name: len(found[name]) for name in found}
    assert report.plan == chosen.plan.identifier
    assert report.inputs == {"facts": 40}
    assert any(note.startswith("own-selector: SelectHave: frames") for note in report.notes)
    manifest = lake.manifest(table)
    assert manifest.properties["plan"] == chosen.plan.identifier
    assert manifest.properties["index"] == "1"
    assert manifest.properties["TickTAI"] == PROVEN.tick_tai
    assert manifest.properties["facts"] == str(lake.manifest("facts").number)

    assert manifest.properties["claims"] == other.files.uri("")

    # With nothing claimed it is another question, and has a table of its own.
    alone = select.run(spark, lake, chosen, runtime=PROVEN)
    (apart,) = alone.outputs
    assert apart != table
    assert alone.counts["MayRequest"] == 0
    assert set(selected(spark, lake, apart)) == {"MaySend", "SelectHave"}
    assert lake.manifest(table) == manifest
    # Once more at another time, which no rule looks at: the same table, made anew.
    later = structs.replace(PROVEN, tick_tai="1640995201:000000000")
    assert list(select.run(spark, lake, chosen, runtime=later).outputs) == [apart]
    assert lake.manifest(apart).number == 2


def test_claims_can_be_those_of_an_offer(spark: "SparkSession", tmp_path: Path) -> None:
    lake, other = Lake.create(tmp_path / "mine"), Lake.create(tmp_path / "theirs")
    store(lake, some_records(3, 1))
    theirs = some_records(15, 2)
    store(other, theirs)
    offer = Offer(form=Form(source=Origin(BOB), schema=Schema(names=frozenset({"Group", "A"}))))
    advertise.run(spark, other, offer)
    text = (
        "SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'Group',_,_).\n"
        "SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'A',_,_).\n"
        "SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'Type',_,'B').\n"
    )
    advertised = select.Advertised(lake=other, offer=offer.key)
    report = select.run(spark, lake, policy(text, EVERYTHING), runtime=PROVEN, advertised=advertised)
    (table,) = report.outputs
    # The type is not told, so no Blob is selected by it.
    assert selected(spark, lake, table)["MayRequest"] == {record.hash for record in theirs if record.kind.letter != "B"}
    with pytest.raises(UsageError, match="these are advertisements of V"):
        select.claims_of(spark, advertised, Origin("source:other"))
    with pytest.raises(UsageError, match="has no advertisements 0000000000000000"):
        select.claims_of(spark, select.Advertised(lake=other, offer="0" * 16), Origin(BOB))
    with pytest.raises(UsageError, match="say who the peer is"):
        select.claims_of(spark, advertised, None)
    store(other, some_records(1, 9))
    with pytest.raises(UsageError, match="are behind its records"):
        select.claims_of(spark, advertised, Origin(BOB))


def test_any_program_selects_what_it_derives_of_one_argument(spark: "SparkSession", tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    records = some_records(20, 3)
    store(lake, records)
    text = (
        "Near(P,Q) :- PlexHash(P,Q).\nNear(P,Q) :- Near(P,R), RecordLink(R,_,_,_,Q).\n"
        "Seal(P) :- Near(P,_).\nOther(P) :- Have(P), not Seal(P).\nKind(T) :- Field(_,'Type',_,T).\n"
    )
    program = compile_program(text, select.PROGRAM)
    report = select.run(spark, lake, program, executor=Executor.LOOP)
    seals = {record.hash for record in records if record.kind.letter == "S"}
    (table,) = report.outputs
    others = {record.hash for record in records} - seals
    assert selected(spark, lake, table) == {"Seal": seals, "Other": others, "Kind": {"B", "P", "S"}}
    assert report.counts == {"Kind": 3, "Other": 20 - len(seals), "Seal": len(seals)}
    assert report.plan == program.identifier
    assert any("Near: loop (asked for" in note for note in report.notes)

    only = select.run(spark, lake, program, predicates=["Seal"])
    assert only.counts == {"Seal": len(seals)}
    assert only.outputs.keys() != report.outputs.keys()
    with pytest.raises(UsageError, match="does not define Near with one argument; such are: Kind, Other, Seal"):
        select.run(spark, lake, program, predicates=["Near"])
    with pytest.raises(CannotExecute):
        select.run(spark, lake, program, executor=Executor.FRAMES)
    assert set(lake.tables()) == {"facts", "records", *only.outputs, *report.outputs}


def test_a_program_of_pairs_selects_nothing(spark: "SparkSession", tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    program = compile_program("Pair(P,Q) :- PlexHash(P,Q).\n", select.PROGRAM)
    with pytest.raises(UsageError, match="defines no predicate with one argument"):
        select.run(spark, lake, program)


def test_the_key_follows_from_the_plan_and_the_side() -> None:
    assert select.key_of(policy(MINE, THEIRS)) == select.key_of(policy(MINE, THEIRS))
    assert select.key_of(policy(MINE, THEIRS)) != select.key_of(policy(THEIRS, MINE))
    assert select.key_of(policy(MINE, THEIRS)) != select.key_of(policy(MINE, THEIRS, ""))


def test_the_key_follows_from_the_runtime_facts_that_rules_read() -> None:
    timed = policy(MINE, "SelectHave(P) :- Have(P), TickTAI(_).\nSelectAdvertised(P,S) :- Advertised(P,S).\n")
    secret = compile_program("Sent(P) :- Have(P), TransportEncrypted().\n", select.PROGRAM)
    later = structs.replace(PROVEN, tick_tai="1640995201:000000000")
    encrypted = structs.replace(PROVEN, transport_encrypted=True)
    assert select.key_of(timed, runtime=PROVEN) != select.key_of(timed, runtime=later)
    assert select.key_of(timed, runtime=PROVEN) == select.key_of(timed, runtime=encrypted)
    assert select.key_of(secret, runtime=PROVEN) != select.key_of(secret, runtime=encrypted)
    assert select.key_of(secret, runtime=PROVEN) == select.key_of(secret, runtime=later)
    assert select.properties_of(secret, encrypted)["TransportEncrypted"] == "yes"


def test_the_key_follows_from_whose_claims_are_read(tmp_path: Path) -> None:
    chosen = policy(MINE, THEIRS)
    one, two = (select.Advertised(lake=Lake.create(tmp_path / name)) for name in ("one", "two"))
    some = select.Advertised(lake=one.lake, offer="0" * 16)
    keys = [select.key_of(chosen, advertised=advertised) for advertised in (None, one, two, some)]
    assert len(set(keys)) == len(keys)
    program = compile_program("Claimed(P) :- Advertised(P,_).\n", select.PROGRAM)
    sources = [select.key_of(program, advertised=one, source=Origin(name)) for name in (ALICE, BOB)]
    assert len(set(sources)) == 2
