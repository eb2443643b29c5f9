"""``bobbin pipeline conflicts``."""

import json
from pathlib import Path

import pytest

from tests.unit.cli.command_line import Cli


def _lines(*changes: tuple[str, list[float], str]) -> str:
    rows = [
        {"tx": tx, "dimension": len(values), "positions": list(range(len(values))), "values": values, "keys": [key]}
        for tx, values, key in changes
    ]
    return "".join(f"{json.dumps(row)}\n" for row in rows)


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_what_is_said_of_all_pairs(cli: Cli, tmp_path: Path) -> None:
    source = tmp_path / "deltas.jsonl"
    source.write_text(_lines(("01", [1.0, 1.0], "a"), ("02", [1.0, 0.9], "b"), ("03", [-2.0, -2.0], "a")))
    answer = cli("pipeline", "conflicts", tmp_path / "x.lake", source, "--json")
    assert answer.code == 1
    (row,) = answer.rows
    assert (row["pairs"], row["conflicting"], row["opposite"], row["orthogonal"]) == (3, 2, 1, 0)
    source.write_text(_lines(("01", [1.0, 0.0], "a"), ("02", [1.0, 0.9], "b")))
    told = cli("pipeline", "conflicts", tmp_path / "x.lake", source, "--structural", "1", "--conflicting", "0.9")
    assert "low conflict               1" in told.text
    assert "1 pair of 2 changes in 1 window" in told.text
    assert told.code == 0


@pytest.mark.parametrize(
    ("line", "code", "reason"),
    [
        ("none.parquet", 4, "no file"),
        ("bad.parquet", 2, "no Parquet file"),
        ("deltas.jsonl --identical 1.5", 2, "thresholds of the cosine rise"),
        ("deltas.jsonl --opposite 0.5", 2, "opposite lies between"),
    ],
)
def test_what_is_wrong_is_said_before_spark_starts(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, code: int, reason: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.parquet").write_text("x")
    (tmp_path / "deltas.jsonl").write_text("")
    answer = cli("pipeline", "conflicts", "x.lake", *line.split())
    assert (answer.code, (tmp_path / "x.lake").exists()) == (code, False)
    assert reason in answer.err
