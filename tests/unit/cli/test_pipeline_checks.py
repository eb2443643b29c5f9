"""Simple mistakes, for every job: said before a session is opened, and nothing is made."""

from pathlib import Path
from typing import NoReturn

import pytest

from bobbin.cli.pipeline_checks import check_lake, check_place, check_selection, check_target
from bobbin.cli.sources import MissingFile
from bobbin.errors import UsageError
from bobbin.lace import Lace
from bobbin.pipeline.offer import StaleSelection
from bobbin.store.lake.errors import NoLake
from bobbin.store.lake.lake import Lake
from tests.conformance import samples
from tests.support.described import KEY, describe_all, select_some, stale_lake
from tests.support.lakes import some_records, store
from tests.unit.cli.command_line import Cli

OTHER_KEY = "f" * 16
POLICY = "SelectHave(P) :- Have(P).\nSelectAdvertised(P,S) :- Advertised(P,S).\n"
RECURSIVE = "Near(P,Q) :- PlexHash(P,Q).\nNear(P,Q) :- Near(P,R), PlexHash(R,Q).\nFar(P) :- Near(P,_).\n"
PAIRS = "Near(P,Q) :- PlexHash(P,Q).\n"


def _no_session(**_: object) -> NoReturn:
    raise AssertionError("Spark was started")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one of everything. No test changes it."""
    path = tmp_path_factory.mktemp("made")
    records = some_records(4, 1)
    lake = Lake.create(path / "x.lake")
    store(lake, records)
    describe_all(lake)
    select_some(lake, {"MaySend": [records[0].hash]})
    stale_lake(path / "stale.lake")
    with Lace.create(path / "x.lace") as lace:
        lace.store.put_records([samples.plex(1)])
    (path / "x.bundle").write_bytes(samples.plex(1).raw)
    (path / "text").write_text("no record at all")
    (path / "own.policy").write_text(POLICY)
    (path / "recursive").write_text(RECURSIVE)
    (path / "pairs").write_text(PAIRS)
    (path / "folder").mkdir()
    (path / "folder" / "something").write_text("of somebody")
    return path


@pytest.fixture
def place(made: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same, as the folder in which commands are given, where no session can be opened."""
    monkeypatch.chdir(made)
    monkeypatch.setattr("bobbin.pipeline.spark.session", _no_session)
    return made


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("ingest folder x.bundle", 2, "folder is not empty; a lake begins in a folder of its own"),
        ("ingest x.bundle x.bundle", 2, "x.bundle is no folder, and a lake is one"),
        ("ingest x.bundle/below x.bundle", 2, "x.bundle is no folder, and a lake is one"),
        ("ingest new.lake nothing", 4, "there is no source nothing"),
        ("ingest new.lake x.bundle --form csv", 2, "Invalid value for '--form'"),
        ("load folder x.bundle", 2, "folder is not empty"),
        ("load new.lake nothing", 4, "there is no source nothing"),
        ("load new.lake text", 2, "no bundle"),
        ("load x.lake x.lake", 2, "is the lake itself"),
        ("follow folder x.lace", 2, "folder is not empty"),
        ("follow new.lake nothing", 2, "there is nothing at"),
        ("follow new.lake x.bundle", 2, "x.bundle is a bundle; only a lace can be followed"),
        ("follow new.lake x.lace --every 0", 2, "--every is a number"),
        ("facts nowhere", 2, "there is no lake at nowhere"),
        ("facts x.bundle", 2, "there is no lake at x.bundle"),
        ("report nowhere", 2, "there is no lake at nowhere"),
        ("report folder", 2, "there is no lake at folder"),
        ("report x.lake --html nowhere/page.html", 4, "there is no folder"),
        ("report x.lake --html x.lake/page.html", 2, "is inside the lake"),
        ("report x.lake --html folder", 2, "is a folder"),
        ("advertise nowhere", 2, "there is no lake at nowhere"),
        (f"advertise x.lake --selection {OTHER_KEY}", 2, f"has no selection {OTHER_KEY}"),
        ("advertise x.lake --selection mine", 2, "16 hex digits"),
        (f"advertise stale.lake --selection {KEY}", 2, "say --allow-stale"),
        ("reconcile nowhere x.lake", 2, "there is no lake at nowhere"),
        ("reconcile x.lake folder", 2, "neither a lake nor a lace"),
        ("reconcile x.lake x.lace --bundle out --wanted out", 2, "name one file"),
        (f"reconcile x.lake x.lace --selection {OTHER_KEY}", 2, f"has no selection {OTHER_KEY}"),
        (f"reconcile x.lake stale.lake --other-selection {KEY}", 2, "say --allow-stale"),
        ("reconcile x.lake hdfs://node/lace --link L.1", 2, "--link is about a lace on this machine"),
        ("export nowhere --to out", 2, "there is no lake at nowhere"),
        ("export x.lake --to nowhere/out", 2, "there is no folder"),
        ("export x.lake --to x.lake/out", 2, "is inside the lake"),
        ("export x.lake --to x.lace/out", 2, "is inside the lace"),
        ("export x.lake --to folder", 2, "is no file; a bundle is one"),
        (f"export x.lake --to out --selection {OTHER_KEY}", 2, f"has no selection {OTHER_KEY}"),
        ("export x.lake --to out --plan nobody", 2, "no selection by the plan"),
        (f"export stale.lake --to out --selection {KEY}", 2, "say --allow-stale"),
        ("select nowhere --policy own.policy --peer source:x", 2, "there is no lake at nowhere"),
        ("select x.lake --policy missing.policy --peer source:x", 4, "there is no file missing.policy"),
        ("select x.lake --policy own.policy --peer source:x --peer-lake nowhere", 2, "there is no lake at nowhere"),
        ("select x.lake --policy own.policy --peer source:x --peer-lake stale.lake", 2, "`bobbin pipeline facts`"),
        ("select x.lake --policy own.policy --peer source:x --peer-lake x.lake --offer 1", 2, "16 hex digits"),
        (
            f"select x.lake --policy own.policy --peer source:x --peer-lake x.lake --offer {OTHER_KEY}",
            2,
            f"has no advertisements {OTHER_KEY}",
        ),
        ("select x.lake --program recursive --peer-lake x.lake", 2, "say who the peer is"),
        ("select x.lake --program recursive --predicate Nobody", 2, "does not define Nobody"),
        ("select x.lake --program recursive --executor frames", 2, "are recursive"),
        ("select x.lake --program pairs", 2, "no predicate with one argument"),
    ],
)
def test_mistakes_are_said_before_spark_starts(cli: Cli, place: Path, line: str, code: int, said: str) -> None:
    before = {path: path.stat().st_mtime_ns for path in place.rglob("*")}
    answer = cli("pipeline", *line.split())
    assert (answer.code, said in answer.err) == (code, True), answer.err
    assert answer.out == b""
    assert {path: path.stat().st_mtime_ns for path in place.rglob("*")} == before


@pytest.mark.parametrize(
    "line",
    [
        "ingest new.lake x.bundle",
        "load x.lake x.bundle",
        "follow new.lake x.lace",
        "facts x.lake",
        "report x.lake --html page.html",
        f"advertise x.lake --selection {KEY}",
        f"reconcile x.lake x.lace --selection {KEY}",
        f"export x.lake --to out --selection {KEY}",
        "select x.lake --program recursive",
    ],
)
def test_without_a_mistake_spark_would_be_started(cli: Cli, place: Path, line: str) -> None:
    answer = cli("pipeline", *line.split())
    assert (answer.code, "AssertionError: Spark was started" in answer.err) == (70, True), place


def test_a_folder_that_is_no_lake_is_found_out_at_once(tmp_path: Path) -> None:
    Lake.create(tmp_path / "lake")
    check_lake(str(tmp_path / "lake"))
    check_lake("hdfs://somewhere/lake")
    with pytest.raises(NoLake):
        check_lake(str(tmp_path / "nowhere"))


def test_files_that_must_not_be_written(tmp_path: Path) -> None:
    Lake.create(tmp_path / "lake")
    Lace.create(tmp_path / "x.lace").close()
    check_target(tmp_path / "out.bundle", str(tmp_path / "lake"))
    with pytest.raises(UsageError, match="inside the lake"):
        check_target(tmp_path / "lake" / "out.bundle", str(tmp_path / "lake"))
    with pytest.raises(UsageError, match="inside the lake"):
        check_target(tmp_path / "lake" / "out.bundle", (tmp_path / "lake").as_uri())
    check_target(tmp_path / "out.bundle", "hdfs://somewhere/lake")
    with pytest.raises(UsageError, match="inside the lace"):
        check_target(tmp_path / "x.lace" / "out.bundle", str(tmp_path / "lake"))
    with pytest.raises(UsageError, match="is a folder"):
        check_target(tmp_path, str(tmp_path / "lake"))
    with pytest.raises(MissingFile):
        check_target(tmp_path / "nowhere" / "out.bundle", str(tmp_path / "lake"))


def test_a_place_for_a_lake(tmp_path: Path) -> None:
    check_place("hdfs://somewhere/lake")
    check_place(str(tmp_path / "new"))
    check_place(str(tmp_path))
    assert not (tmp_path / "lake.json").exists()
    Lake.create(tmp_path / "lake")
    check_place(str(tmp_path / "lake"))
    with pytest.raises(UsageError, match="not empty"):
        check_place(str(tmp_path))


def test_a_selection_must_be_there_and_fresh_and_have_an_answer(tmp_path: Path) -> None:
    stale_lake(tmp_path / "lake")
    lake = Lake.open(tmp_path / "lake")
    check_selection(lake, None, "MaySend", allow_stale=False)
    check_selection(None, KEY, "MaySend", allow_stale=False)
    check_selection(lake, KEY, "MaySend", allow_stale=True)
    with pytest.raises(StaleSelection):
        check_selection(lake, KEY, "MaySend", allow_stale=False)
    with pytest.raises(UsageError, match="no selection"):
        check_selection(lake, OTHER_KEY, "MaySend", allow_stale=True)
    with pytest.raises(UsageError, match=f"selections/{KEY} says nothing of Send; it has MaySend"):
        check_selection(lake, KEY, "Send", allow_stale=True)
