"""Tables that ``advertise`` has built, as an exchange over the lake finds them: used, or passed over with a reason."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec import structs

from bobbin.interlace import advertise, merkle
from bobbin.interlace.advertise import Renderer
from bobbin.interlace.built import SAMPLE, Built
from bobbin.interlace.choice import Strategy
from bobbin.interlace.messages import Message
from bobbin.interlace.schema import Schema
from bobbin.interlace.setup import Party
from bobbin.pipeline.batches.advertise import Form
from bobbin.policy.claims import ClaimedField
from bobbin.policy.executables import LocalPolicy
from bobbin.policy.operands import label_origin
from bobbin.records.record import Record
from bobbin.runtime.decisions import Decisions
from bobbin.runtime.holdings import StoreHoldings
from bobbin.store.lake import built
from bobbin.store.lake.compact import compact
from bobbin.store.lake.lake import Lake
from bobbin.store.lake.store import open_lake_store
from bobbin.store.lake.tables import PARTITIONS
from bobbin.store.lake.writing import PartWriter
from tests.policy_worlds import ALICE, BOB
from tests.support.described import KEY, advertise_all
from tests.support.exchanges import BY_GROUP, Meeting, Watched, config, records
from tests.support.lake_tables import batch, ingest, make_facts

COUNT = 200
OTHER = "fedcba9876543210"


@dataclass(repr=False)
class Said:
    """One exchange of a lake with a peer, as both have seen it."""

    messages: list[tuple[str, Message]]
    claimed: list[str]
    built: str
    policy: LocalPolicy
    schema: Schema
    digests: int
    """How many digests of advertisements were computed, on both sides."""
    roots: int


@pytest.fixture(scope="module")
def made() -> list[Record]:
    return list(records(COUNT))


@pytest.fixture
def lake(tmp_path: Path, made: list[Record]) -> Lake:
    lake = Lake.create(tmp_path / "a.lake")
    ingest(lake, made[: COUNT // 2])
    ingest(lake, made[COUNT // 2 :])
    make_facts(lake, made)
    return lake


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How often a digest of an advertisement, and a root, were computed inside."""
    calls = [0, 0]

    def counting(at: int, function: Callable[..., bytes]) -> Callable[..., bytes]:
        def call(*arguments: object) -> bytes:
            calls[at] += 1
            return function(*arguments)

        return call

    with monkeypatch.context() as patched:
        patched.setattr(advertise, "record_digest", counting(0, advertise.record_digest))
        patched.setattr(merkle, "root", counting(1, merkle.root))
        yield calls


def exchange(lake: Lake, monkeypatch: pytest.MonkeyPatch, *, checking: bool = False) -> Said:
    """The lake offers all of its group to a peer that has nothing, and tells it by partitions."""
    with open_lake_store(lake.location) as store, counted(monkeypatch) as calls:
        alice, bob = Party(verifier=ALICE), Party(verifier=BOB)
        ours = config(BY_GROUP, own=alice, peer=bob, strategy=Strategy.PARTITIONS)
        theirs = config(BY_GROUP, own=bob, peer=alice, strategy=Strategy.PARTITIONS, initiator=False)
        holdings = StoreHoldings(Decisions(store))
        meeting = Meeting(
            structs.replace(ours, checking=checking),
            structs.replace(theirs, checking=checking),
            holdings,  # type: ignore[arg-type]
            Watched(),
        )
        assert meeting.run()[0].fixed_point
        here, peer = meeting.left.machine.epoch, meeting.right.machine.epoch
        assert here is not None
        assert peer is not None
        claimed = sorted(one.record for one in peer.learned.advertisements())
        return Said(meeting.said, claimed, here.built or "", here.agreement.policy, here.terms.schema, *calls)


def said_equal(one: Said, other: Said) -> bool:
    """Whether two exchanges went the same, message by message. Without this a failure would print all of them."""
    return one.messages == other.messages and one.claimed == other.claimed


def find(lake: Lake, policy: LocalPolicy, schema: Schema, made: list[Record], length: int = 2) -> Built:
    return built.find(lake, policy, schema, [one.hash for one in made], length)


@pytest.fixture
def plain(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Said:
    """An exchange over a lake that has no tables yet."""
    return exchange(lake, monkeypatch)


def form(plain: Said) -> Form:
    return Form(source=plain.policy.own_origin, schema=plain.schema)


def of_plan(policy: LocalPolicy, **changes: str) -> dict[str, str]:
    """What the table of a selection under a plan says."""
    said = {"plan": policy.plan.identifier, "index": str(policy.index), "query": policy.query.identifier}
    return {**said, "selection": OTHER, "predicate": "MaySend", **changes}


# ---- used ------------------------------------------------------------------------------------------------------------


def test_an_exchange_says_the_same_with_the_tables_and_without(
    lake: Lake, plain: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert plain.built == f"computed: the lake has no advertisements of {plain.policy.own_origin} with these fields"
    advertise_all(lake, form(plain))
    found = exchange(lake, monkeypatch, checking=True)
    assert found.built == f"advertisements/{KEY}, manifest 1, and partitions/{KEY}, manifest 1"
    assert said_equal(found, plain)
    assert len(found.claimed) == COUNT


def test_nothing_is_computed_but_a_sample(lake: Lake, plain: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    advertise_all(lake, form(plain))
    monkeypatch.setattr(built, "_SAMPLE_ROWS", 20)
    found = exchange(lake, monkeypatch)
    assert said_equal(found, plain)
    step = COUNT // SAMPLE + 1
    assert plain.digests - found.digests == COUNT - COUNT // step
    assert plain.roots - found.roots > 100, "of the partitions, nearly all of which have one record"


def test_a_table_of_the_plan_goes_before_one_of_all_records(lake: Lake, plain: Said, made: list[Record]) -> None:
    advertise_all(lake, form(plain))
    advertise_all(lake, form(plain), key=OTHER, properties=of_plan(plain.policy))
    found = find(lake, plain.policy, plain.schema, made)
    assert found.said.startswith(f"advertisements/{OTHER}, manifest 1")
    renderer = Renderer(plain.policy.own_origin)
    told = {one.hash: (ClaimedField("Group", "0", "u"),) for one in made}
    assert found.digests == {record: renderer.digest(record, fields) for record, fields in told.items()}
    assert sum(one.count for one in found.partitions) == COUNT


def test_compaction_changes_nothing(lake: Lake, plain: Said, made: list[Record]) -> None:
    advertise_all(lake, form(plain))
    compact(lake)
    assert lake.manifest("records").number > 2
    assert len(find(lake, plain.policy, plain.schema, made).digests) == COUNT


def test_other_lengths_cost_only_the_roots(lake: Lake, plain: Said, made: list[Record]) -> None:
    advertise_all(lake, form(plain), lengths=(1, 3))
    found = find(lake, plain.policy, plain.schema, made)
    assert found.said.endswith(f"; roots computed, since partitions/{KEY} has none of 2 symbols for these records")
    assert (len(found.digests), found.partitions) == (COUNT, ())
    assert len(find(lake, plain.policy, plain.schema, made, 1).partitions) <= 64


# ---- passed over -----------------------------------------------------------------------------------------------------


def test_a_stale_table_is_passed_over(lake: Lake, plain: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    advertise_all(lake, form(plain))
    more = records(1, first=COUNT)
    ingest(lake, list(more))
    found = exchange(lake, monkeypatch)
    assert found.built == f"computed: advertisements/{KEY} was made from manifest 2 of records, and 3 is current"
    assert len(found.claimed) == COUNT + 1


@pytest.mark.parametrize("name", ["plan", "index", "query", "predicate"])
def test_a_table_of_another_plan_is_passed_over(
    lake: Lake, plain: Said, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    advertise_all(lake, form(plain), properties=of_plan(plain.policy, **{name: "another"}))
    found = exchange(lake, monkeypatch)
    assert found.built == f"computed: advertisements/{KEY} is of another {name}"
    assert said_equal(found, plain)


def test_another_label_and_other_fields_are_not_looked_at(lake: Lake, plain: Said, made: list[Record]) -> None:
    advertise_all(lake, Form(source=label_origin("other"), schema=plain.schema))
    advertise_all(lake, Form(source=plain.policy.own_origin, schema=Schema(all=True)), key=OTHER)
    assert find(lake, plain.policy, plain.schema, made).said.startswith("computed: the lake has no advertisements of ")


@pytest.mark.parametrize("table", ["advertisements", "partitions"])
def test_a_damaged_table_is_passed_over(
    lake: Lake, plain: Said, table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    advertise_all(lake, form(plain))
    (path,) = (tmp_path / "a.lake" / table).rglob("*.parquet")
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 3] ^= 1
    path.write_bytes(raw)
    found = exchange(lake, monkeypatch)
    assert found.built.startswith(f"computed: advertisements/{KEY} cannot be used: {table}/{KEY}/data/")
    assert found.built.endswith(".parquet has changed since it was written")
    assert said_equal(found, plain)


def test_a_lost_file_is_passed_over(lake: Lake, plain: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    advertise_all(lake, form(plain))
    (path,) = (tmp_path / "a.lake" / "advertisements").rglob("*.parquet")
    path.unlink()
    found = exchange(lake, monkeypatch)
    assert found.built.startswith(f"computed: advertisements/{KEY} cannot be used: reading advertisements/{KEY}/data/")
    assert said_equal(found, plain)


def test_a_manifest_that_is_none_is_passed_over(
    lake: Lake, plain: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    advertise_all(lake, form(plain))
    (tmp_path / "a.lake" / "advertisements" / KEY / "manifest.json").write_text("{}")
    found = exchange(lake, monkeypatch)
    assert found.built.startswith(f"computed: advertisements/{KEY}/manifest.json")
    assert said_equal(found, plain)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"root": b"\0" * 32}, "is not that of its digests"),
        ({"root": b"short"}, f"partitions/{KEY} has digests of another size than 32 bytes"),
        ({"count": 7}, f"its partitions count other records than the {COUNT} that it has"),
    ],
    ids=["root", "size", "count"],
)
def test_partitions_that_are_not_those_of_the_table_are_noticed(
    lake: Lake, plain: Said, made: list[Record], change: dict[str, object], reason: str
) -> None:
    advertise_all(lake, form(plain))
    name = f"partitions/{KEY}"
    true = find(lake, plain.policy, plain.schema, made).partitions
    rows = [{"k": 2, "prefix": one.prefix, "count": one.count, "root": one.root} for one in true]
    rows[0] |= change
    with lake.begin("advertise") as run:
        with PartWriter(lake.files, PARTITIONS, run.path(name)) as writer:
            writer.write(batch(PARTITIONS, rows))
        run.replace(name, properties=lake.manifest(name).properties)
        run.commit()
    found = find(lake, plain.policy, plain.schema, made)
    assert found.said.startswith(f"computed: advertisements/{KEY} cannot be used: ")
    assert found.said.endswith(reason)
    assert found.digests == {}


def test_digests_that_are_not_those_of_the_records_are_noticed(
    lake: Lake, plain: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table says that it is of these fields, and was made of others."""
    wrong = Form(source=plain.policy.own_origin, schema=Schema(names=frozenset({"Name"})))
    advertise_all(lake, wrong, properties={"fields": built.spell_fields(plain.schema)})
    found = exchange(lake, monkeypatch)
    assert found.built.startswith(
        f"computed: advertisements/{KEY}, manifest 1, and partitions/{KEY}, manifest 1, where"
    )
    assert said_equal(found, plain)


def test_for_a_few_records_nothing_is_read(lake: Lake, plain: Said, made: list[Record]) -> None:
    advertise_all(lake, form(plain))
    found = find(lake, plain.policy, plain.schema, made[:5])
    assert found.said == f"computed: advertisements/{KEY} has {COUNT} rows, and 5 are wanted"


def test_more_partitions_than_anybody_tells_are_not_held(
    lake: Lake, plain: Said, made: list[Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    advertise_all(lake, form(plain))
    monkeypatch.setattr(built, "_PARTITIONS_MAX", 10)
    found = find(lake, plain.policy, plain.schema, made)
    assert found.said.endswith(f"; roots computed, since partitions/{KEY} has more than 10 of 2 symbols")
    assert (len(found.digests), found.partitions) == (COUNT, ())
