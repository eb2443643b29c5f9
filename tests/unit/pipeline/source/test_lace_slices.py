"""Slices of laces: the same rows whichever way they are found, of one moment, and fewer where an index helps."""

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import apsw
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin.config.layout import Layout
from bobbin.errors import UsageError
from bobbin.lace import Lace, NoLace
from bobbin.pipeline.source import columns, lace_slices, lace_statement
from bobbin.pipeline.source.conditions import COLUMNS, NUMBERS, Condition, OneOf, StartsWith, Value, Within, meets
from bobbin.pipeline.source.lace_statement import Way
from bobbin.records import tai
from bobbin.records.record import Record
from bobbin.store.base import DamagedStore, StoreError
from bobbin.store.lake.describing import describe as rows_of
from bobbin.store.sqlite.store import SqliteStore
from tests.conformance import samples

Row = dict[str, Any]


def _lace(folder: Path, records: Sequence[Record]) -> Path:
    with Lace.create(folder) as lace:
        lace.store.put_records(records)
    return folder


def _many(number: int) -> list[Record]:
    return [
        samples.plex(one, group=f"g{one % 7}", name=f"n/{one % 50}", tai=one * 1_000_000_007) for one in range(number)
    ]


def _rows(slices: Sequence[lace_slices.LaceSlice], names: Sequence[str] = columns.NAMES) -> list[Row]:
    schema = columns.schema(names)
    return [row for one in slices for made in lace_slices.read(one, schema) for row in made.to_pylist()]


@pytest.fixture(scope="module")
def lace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three thousand records, one of them gone again."""
    folder = _lace(tmp_path_factory.mktemp("laces") / "many.lace", [*_many(3_000), samples.sealed(1, tai=5)])
    with Lace.open(folder) as opened:
        opened.store.remove(samples.plex(7, group="g0", name="n/7", tai=7 * 1_000_000_007).hash, reason="test")
    return folder


# ---- what the rows are --------------------------------------------------------------------------------------------


@given(records=st.lists(samples.records(), max_size=12, unique_by=lambda record: record.hash))
def test_rows_are_what_the_lake_would_say(records: list[Record], tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = _lace(tmp_path_factory.mktemp("laces") / "x.lace", records)
    rows = _rows(lace_slices.plan(folder, records_per_slice=5))
    expected = [
        {
            "id": number,
            "raw": record.raw,
            **{name: value for name, value in facts.items() if name in columns.NAMES},
        }
        for number, (record, facts) in enumerate(zip(records, rows_of(records).to_pylist(), strict=True), 1)
    ]
    assert sorted(rows, key=lambda row: row["id"]) == expected


def test_slices_hold_each_record_once(lace: Path) -> None:
    slices = lace_slices.plan(lace, records_per_slice=400)
    assert len(slices) == 8
    rows = _rows(slices, ("id",))
    assert len(rows) == 3_000
    assert len({row["id"] for row in rows}) == 3_000


def test_slices_can_be_sent(lace: Path) -> None:
    conditions = (OneOf("group", ("g1",)), Within("id", low=5))
    slices = lace_slices.plan(lace, conditions)
    assert pickle.loads(pickle.dumps(slices)) == slices


def test_an_empty_lace_has_no_slice(tmp_path: Path) -> None:
    assert lace_slices.plan(_lace(tmp_path / "x.lace", [])) == []


def test_what_comes_later_is_not_read(tmp_path: Path) -> None:
    folder = _lace(tmp_path / "x.lace", _many(10))
    slices = lace_slices.plan(folder, records_per_slice=3)
    with Lace.open(folder) as opened:
        opened.store.put_records(_many(30))
    assert [row["id"] for row in _rows(slices, ("id",))] == list(range(1, 11))


def test_a_batch_is_bounded_by_its_bytes(tmp_path: Path) -> None:
    folder = _lace(tmp_path / "x.lace", [samples.plex(one, data=bytes(600)) for one in range(9)])
    with patch.object(columns, "BATCH_BYTES_MAX", 2_000):
        sizes = [made.num_rows for made in lace_slices.read(lace_slices.plan(folder)[0], columns.schema(("raw",)))]
    assert sum(sizes) == 9
    assert len(sizes) > 3


def test_the_last_of_so_many(lace: Path) -> None:
    assert lace_slices.last_of(lace, 0, 5) == 5
    assert lace_slices.last_of(lace, 5, 5) == 11, "the eighth record is gone"
    assert lace_slices.last_of(lace, 5, 1_000_000) == 3_001
    assert lace_slices.last_of(lace, 3_001, 5) == 3_001


def test_the_name_at_an_id(lace: Path) -> None:
    assert lace_slices.name_at(lace, 1) == samples.plex(0, group="g0", name="n/0").hash
    assert lace_slices.name_at(lace, 8) is None
    assert lace_slices.name_at(lace, 4_000) is None


# ---- conditions ---------------------------------------------------------------------------------------------------


def _values(column: str) -> st.SearchStrategy[Value]:
    if column == "id":
        return st.integers(-1, 15)
    texts = {
        "group": samples.GROUPS,
        "app": samples.APPS,
        "name": samples.NAMES,
        "tai": tuple(tai.render(time) for time in samples.TIMES),
        "signer": tuple(key.verifier for key in samples.KEYS),
        "record": (*(samples.plex(number).hash for number in range(3)), samples.EMPTY_BLOB.hash),
    }[column]
    whole = st.sampled_from(texts)
    return st.one_of(
        whole, st.tuples(whole, st.integers(0, 20)).map(lambda pair: pair[0][: pair[1]]), st.text(max_size=3)
    )


@st.composite
def _conditions(draw: st.DrawFn) -> Condition:
    column = draw(st.sampled_from(sorted(COLUMNS)))
    kind = draw(st.sampled_from(["one", "within", "starts"]))
    if kind == "one":
        return OneOf(column, tuple(draw(st.lists(_values(column), max_size=3, unique=True))))
    if kind == "starts" and column not in NUMBERS:
        return StartsWith(column, str(draw(_values(column))))
    bounds = st.none() | _values(column)
    return Within(column, draw(bounds), draw(st.booleans()), draw(bounds), draw(st.booleans()))


@given(
    records=st.lists(st.one_of(samples.records(), st.integers(0, 2).map(samples.plex)), max_size=12),
    conditions=st.lists(_conditions(), min_size=1, max_size=3),
)
def test_every_way_finds_what_the_conditions_mean(
    records: list[Record], conditions: list[Condition], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The rows that are read, looked at again as Spark looks at what is not answered fully, are the right ones."""
    folder = _lace(tmp_path_factory.mktemp("laces") / "x.lace", records)
    every = _rows(lace_slices.plan(folder))
    expected = [row for row in every if all(meets(one, row[one.column]) for one in conditions)]
    useful = tuple(one for one in conditions if lace_statement.narrows(one))
    rest = [one for one in conditions if not (lace_statement.is_exact(one) and one in useful)]
    now = lace_slices.moment(folder)
    planned = lace_slices.plan(folder, conditions)
    forced = [
        [
            lace_slices.LaceSlice(
                folder=now.folder, created=now.created, low=0, high=now.high_water, way=way, conditions=useful
            )
        ]
        for way in lace_statement.ways(useful)
    ]
    for slices in [planned, *forced]:
        found = [row for row in _rows(slices) if all(meets(one, row[one.column]) for one in rest)]
        assert sorted(found, key=lambda row: row["id"]) == expected


def test_the_shortest_way_is_taken(lace: Path) -> None:
    cases: list[tuple[list[Condition], Way]] = [
        ([OneOf("group", ("g1",))], Way.PLACES),
        ([OneOf("group", tuple(f"g{one}" for one in range(6)))], Way.IDS),
        ([Within("tai", low=tai.render(2_900 * 1_000_000_007))], Way.TIMES),
        ([OneOf("group", ("g1",)), Within("tai", low=tai.render(2_990 * 1_000_000_007))], Way.TIMES),
        ([StartsWith("signer", "V.")], Way.SIGNERS),
        ([OneOf("record", (samples.plex(9, group="g2", name="n/9", tai=9 * 1_000_000_007).hash,))], Way.RECORDS),
        ([Within("id", low=2_000)], Way.IDS),
    ]
    assert [lace_slices.plan(lace, conditions)[0].way for conditions, _ in cases] == [way for _, way in cases]


def _steps(slices: Sequence[lace_slices.LaceSlice]) -> int:
    """How many steps SQLite takes to answer."""
    taken = 0
    for one in slices:
        with Lace.open(one.folder, read_only=True) as opened:
            store = opened.store
            assert isinstance(store, SqliteStore)
            statement = lace_statement.select(["raw"], one.conditions, one.way, one.low, one.high)

            def count() -> bool:
                nonlocal taken
                taken += 1
                return False

            def walk(connection: apsw.Connection, text: lace_statement.Term = statement) -> Any:  # noqa: ANN401
                connection.set_progress_handler(count, 1)
                yield from connection.execute(text.text, text.bindings)
                connection.set_progress_handler(None)

            list(store.walk(walk))
    return taken


@pytest.mark.parametrize(
    "condition",
    [
        OneOf("record", (samples.plex(9, group="g2", name="n/9", tai=9 * 1_000_000_007).hash,)),
        OneOf("name", ("n/3",)),
        StartsWith("tai", "00000000"),
        StartsWith("signer", "V."),
        Within("id", low=2_990),
    ],
)
def test_a_condition_reads_less(lace: Path, condition: Condition) -> None:
    """Rows that come out and the steps that SQLite takes, both against reading everything."""
    every, some = lace_slices.plan(lace), lace_slices.plan(lace, [condition])
    rows = _rows(some, ("id", condition.column) if condition.column != "id" else ("id",))
    assert 0 < len(rows) < 3_000 / 10
    assert all(meets(condition, row[condition.column]) for row in rows)
    assert _steps(some) * 5 < _steps(every)


def test_few_rows_make_few_slices(lace: Path) -> None:
    assert len(lace_slices.plan(lace, records_per_slice=100)) == 31
    assert len(lace_slices.plan(lace, [OneOf("name", ("n/3",))], records_per_slice=100)) == 1


# ---- bad input ----------------------------------------------------------------------------------------------------


def test_a_folder_that_is_no_lace(tmp_path: Path) -> None:
    with pytest.raises(NoLace):
        lace_slices.plan(tmp_path / "nothing.lace")


def test_a_lace_of_a_newer_version(tmp_path: Path) -> None:
    folder = _lace(tmp_path / "x.lace", _many(3))
    connection = apsw.Connection(str(Layout(folder).records))
    connection.pragma("user_version", 99)
    connection.close()
    with pytest.raises(StoreError, match="newer"):
        lace_slices.plan(folder)


def test_a_lace_that_is_no_database(tmp_path: Path) -> None:
    folder = _lace(tmp_path / "x.lace", _many(3))
    Layout(folder).records.write_bytes(b"not a database" * 1_000)
    with pytest.raises(DamagedStore):
        lace_slices.plan(folder)


def test_a_lace_that_was_replaced_since(tmp_path: Path) -> None:
    folder = _lace(tmp_path / "x.lace", _many(3))
    slices = lace_slices.plan(folder)
    folder.rename(tmp_path / "old.lace")
    _lace(folder, _many(3))
    with pytest.raises(StoreError, match="another lace"):
        _rows(slices)


def _damage(folder: Path) -> None:
    connection = apsw.Connection(str(Layout(folder).records))
    connection.execute("UPDATE record SET raw = CAST(replace(CAST(raw AS TEXT), 'data 1', 'data 2') AS BLOB)")
    connection.close()


def test_damaged_bytes_are_not_handed_on(tmp_path: Path) -> None:
    folder = _lace(tmp_path / "x.lace", _many(3))
    _damage(folder)
    slices = lace_slices.plan(folder)
    with pytest.raises(DamagedStore, match="fsck"):
        _rows(slices)
    unverified = list(lace_slices.read(slices[0], columns.schema(("raw",)), verify=False))
    assert pa.Table.from_batches(unverified).num_rows == 3


def test_a_slice_has_room_for_a_record(lace: Path) -> None:
    with pytest.raises(UsageError):
        lace_slices.plan(lace, records_per_slice=0)


def test_a_lace_that_somebody_writes_to_is_read(tmp_path: Path) -> None:
    folder = _lace(tmp_path / "x.lace", _many(3))
    writer = apsw.Connection(str(Layout(folder).records))
    writer.execute("BEGIN IMMEDIATE")
    try:
        assert len(_rows(lace_slices.plan(folder), ("id",))) == 3
    finally:
        writer.execute("ROLLBACK")
        writer.close()
