"""``bobbin verify``: the same checks as an import, and no trace of it."""

from pathlib import Path

from tests.unit.cli.command_line import PLEX_1, Cli
from tests.unit.cli.damaged import write_damaged


def _state(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_file_is_checked_without_any_lace(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "x.bundle"
    damaged = write_damaged(path, good=20, bad=5)
    before = _state(tmp_path)
    answer = cli("verify", path, "--json")
    *rows, summary = answer.rows
    assert answer.code == 1
    assert [(row["offset"], row["reason"]) for row in rows] == damaged.bad
    assert summary == {
        "event": "summary",
        "target": str(path),
        "valid": 20,
        "rejected": 5,
        "signatures": 20,
        "kinds": {"blob": 0, "plex": 0, "seal": 20},
        "bytes_read": path.stat().st_size,
    }
    assert _state(tmp_path) == before


def test_a_good_file_is_code_0(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "x.bundle"
    write_damaged(path, good=3, bad=0)
    answer = cli("verify", path)
    assert answer.code == 0
    assert answer.text.startswith("3 valid, 3 signatures checked · 0 not valid")
    assert cli("verify", "-", stdin=path.read_bytes()).code == 0


def test_a_lace_is_checked_record_by_record(filled: Path, cli: Cli) -> None:
    answer = cli("verify", filled, "--json")
    assert answer.code == 0
    assert answer.json["kinds"] == {"blob": 0, "plex": 1, "seal": 0}
    assert answer.json["signatures"] == 0
    cli("sign", filled, PLEX_1)
    assert cli("verify", filled, "--json").json["signatures"] == 1


def test_what_is_not_there(cli: Cli, tmp_path: Path) -> None:
    assert cli("verify", tmp_path / "nothing").code == 4
    assert cli("verify", tmp_path).code == 2, "a folder that is no lace"


def test_a_file_of_a_lace_is_not_a_file_of_records(filled: Path, cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "soft").symlink_to(filled / "records.db")
    for file in (filled / "records.db", tmp_path / "soft"):
        answer = cli("verify", file)
        assert answer.code == 2
        assert "inside the lace" in answer.err
