"""``bobbin init``."""

from pathlib import Path

import pytest
from msgspec import structs

from bobbin.cli.cluster_token import Invitation, read_token, write_token
from bobbin.cluster.identity import Identity
from bobbin.records import tai
from bobbin.records.record import Blob
from bobbin.runtime.cluster_certificate import make
from bobbin.store.lake.lake import Lake
from tests.support.lake_tables import ingest, make_facts
from tests.support.lakes import some_records
from tests.unit.cli.command_line import Cli

RECORDS = some_records(30, 3)


TABLE_TOKEN = write_token(
    Invitation(bytes(16), bytes(32), make(Identity(bytes([1]) * 32)).certificate, "tls:127.0.0.1:4795", has_lace=False)
)


def test_a_new_lace_has_its_files_and_no_key(tmp_path: Path, cli: Cli) -> None:
    answer = cli("init", tmp_path / "x.lace")
    assert answer.code == 0
    assert "x.lace" in answer.text
    assert "bobbin key new" in answer.err
    assert {"lace.toml", "records.db", "keys"} <= {entry.name for entry in (tmp_path / "x.lace").iterdir()}
    assert list((tmp_path / "x.lace" / "keys").iterdir()) == []


def test_json(tmp_path: Path, cli: Cli) -> None:
    answer = cli("init", tmp_path / "x.lace", "--json")
    value = answer.json
    tai.parse(value.pop("created"))
    assert value == {"lace": str(tmp_path / "x.lace"), "format": 1, "default_key": "main"}
    assert answer.err == ""


def test_an_existing_lace_is_left_alone(folder: Path, cli: Cli) -> None:
    before = (folder / "lace.toml").read_bytes()
    answer = cli("init", folder)
    assert (answer.code, answer.out) == (2, b"")
    assert "already" in answer.err
    assert (folder / "lace.toml").read_bytes() == before


def test_a_folder_with_something_in_it_is_refused_and_left_alone(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "thesis.txt").write_text("precious")
    answer = cli("init", tmp_path)
    assert answer.code == 2
    assert "thesis.txt" in answer.err
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.txt"]


def test_an_empty_folder_and_the_current_one_will_do(tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli("init", ".").code == 0
    assert cli("stat", tmp_path).code == 0


def test_a_killed_init_does_not_stand_in_the_way_of_the_next(tmp_path: Path, cli: Cli) -> None:
    folder = tmp_path / "x.lace"
    (folder / "keys").mkdir(parents=True)
    for name in (".records.db.0123456789ab.tmp", ".records.db.0123456789ab.tmp-journal", ".lace.toml.0123456789ab.tmp"):
        (folder / name).write_bytes(b"half")
    assert cli("init", folder).code == 0
    assert sorted(entry.name for entry in folder.iterdir()) == ["keys", "lace.toml", "records.db"]
    assert cli("fsck", folder).code == 0


@pytest.fixture
def over_lake(tmp_path: Path, cli: Cli) -> Path:
    """A lace over a lake of 30 records."""
    lake = Lake.create(tmp_path / "a.lake")
    ingest(lake, RECORDS[:20])
    make_facts(lake, RECORDS[:20])
    ingest(lake, RECORDS[20:])
    value = cli("init", tmp_path / "a.lace", "--lake", tmp_path / "a.lake", "--json").json
    assert value["lake"] == str(tmp_path / "a.lake")
    return tmp_path / "a.lace"


def test_over_a_lake_the_commands_that_read_work(over_lake: Path, tmp_path: Path, ding: Path, cli: Cli) -> None:
    placed = [record for record in RECORDS if not isinstance(record, Blob)]
    counts = cli("stat", over_lake, "--json").json
    assert (counts["records"], counts["lake"]) == (30, str(tmp_path / "a.lake"))
    assert str(tmp_path / "a.lake") in cli("stat", over_lake).lines[1]
    assert len(cli("list", over_lake, "//u//", "--json").rows) == len(placed)
    assert cli("get", over_lake, placed[0].hash).out == placed[0].data
    assert cli("show", over_lake, RECORDS[25].hash).code == 0
    derived = cli("policy", "eval", over_lake, ding, "--predicate", "SelectHave", "--json")
    assert derived.code == 0
    assert len(cli("facts", over_lake, "Have", "--json").rows) == 30
    assert cli("fsck", over_lake).code == 0
    assert cli("export", over_lake, tmp_path / "all.bundle").code == 0
    assert cli("verify", tmp_path / "all.bundle").code == 0


def test_over_a_lake_the_commands_that_write_say_what_to_do(over_lake: Path, tmp_path: Path, cli: Cli) -> None:
    for arguments in (
        ("put", over_lake, "-g", "u", "-a", "a", "-N", "n", "-"),
        ("remove", over_lake, RECORDS[0].hash, "--reason", "x"),
        ("lift", over_lake, RECORDS[0].hash),
        ("backup", over_lake, tmp_path / "b.lace"),
        ("compact", over_lake),
        ("quarantine", "release", over_lake, "1"),
    ):
        answer = cli(*arguments)
        assert answer.code == 2, arguments
        assert "is only read here" in answer.err


def test_over_a_lake_that_is_not_there(tmp_path: Path, cli: Cli) -> None:
    answer = cli("init", tmp_path / "a.lace", "--lake", tmp_path / "nowhere")
    assert answer.code == 2
    assert "there is no lake" in answer.err


def test_a_replicated_lace_on_one_machine(tmp_path: Path, cli: Cli) -> None:
    answer = cli("init", tmp_path / "x", "--cluster", "--nodes", "2", "--listen", "tls:127.0.0.1:5000", "--json")
    value = answer.json
    assert [node["address"] for node in value["nodes"]] == ["tls:127.0.0.1:5000", "tls:127.0.0.1:5001"]
    for name in ("n1", "n2"):
        assert cli("key", "show", tmp_path / "x" / name).text.strip() == value["verifier"]
        assert {"lace.toml", "records.db", "keys", "cluster"} <= {one.name for one in (tmp_path / "x" / name).iterdir()}
    assert "2 nodes tolerate no more failures" in cli("init", tmp_path / "y", "--cluster", "--nodes", "2").err
    again = cli("init", tmp_path / "x", "--cluster", "--nodes", "2")
    assert (again.code, "already a lace" in again.err) == (2, True)


def test_the_node_of_a_replicated_lace_is_not_served_without_it(tmp_path: Path, cli: Cli) -> None:
    """It would vote and take snapshots, and know nothing of records."""
    assert cli("init", tmp_path / "x", "--cluster").code == 0
    served = cli("cluster", "serve", tmp_path / "x" / "cluster")
    assert (served.code, f"bobbin serve {tmp_path / 'x'}" in served.err) == (2, True)
    status = cli("cluster", "status", tmp_path / "x")
    assert (status.code, f"there is {tmp_path / 'x' / 'cluster'}" in status.err) == (2, True)
    lace_token = write_token(structs.replace(read_token(TABLE_TOKEN), has_lace=True))
    joined = cli("cluster", "join", tmp_path / "y", "--token", lace_token)
    assert (joined.code, "bobbin init" in joined.err, (tmp_path / "y").exists()) == (2, True, False)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--nodes", "3"], "--cluster"),
        (["--listen", "tls:127.0.0.1:5000"], "--cluster"),
        (["--cluster", "--lake", "somewhere"], "nothing to replicate"),
        (["--cluster", "--nodes", "3", "--join", "x"], "a new cluster is made"),
        (["--cluster", "--join", "no token"], "token"),
        (["--cluster", "--join", TABLE_TOKEN], "bobbin cluster join"),
        (["--cluster", "--learner"], "--join"),
        (["--learner"], "--cluster"),
        (["--cluster", "--preset", "moon"], "preset"),
        (["--cluster", "--listen", "tcp:127.0.0.1:5000"], "TLS"),
        (["--cluster", "--nodes", "3", "--preset", "moon"], "preset"),
        (["--cluster", "--nodes", "3", "--listen", "tcp:127.0.0.1:5000"], "TLS"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, cli: Cli, options: list[str], why: str) -> None:
    answer = cli("init", tmp_path / "x", *options)
    assert answer.code == 2
    assert why in answer.err
    assert not (tmp_path / "x").exists()
