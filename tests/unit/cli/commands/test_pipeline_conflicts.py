"""``bobbin pipeline conflicts``."""

import json
from pathlib import Path

import pytest

from tests.end_to_end.command import bobbin
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


def _wrong() -> dict[str, tuple[str, str]]:
    falls = {"tx": "0f", "dimension": 4, "positions": [2, 1], "values": [1.0, 1.0]}
    return {
        "falls": (f"{json.dumps(falls)}\n", "the change of transaction 0f has positions that do not ascend"),
        "nan": ('{"tx":"0f","dimension":1,"positions":[0],"values":[NaN]}\n', """the line '{"tx":"0f","""),
        "twice": (_lines(("0f", [1.0], "a"), ("0f", [2.0], "b")), "0f"),
    }


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("name", ["falls", "nan", "twice"])
def test_a_wrong_row_ends_the_job_with_its_transaction_named(cli: Cli, tmp_path: Path, name: str) -> None:
    text, reason = _wrong()[name]
    source = tmp_path / "wrong.jsonl"
    source.write_text(text)
    answer = cli("pipeline", "conflicts", tmp_path / "x.lake", source)
    assert (answer.code, answer.out) == (2, b"")
    assert answer.err.startswith("error: conflicts: ")
    assert reason in answer.err
    assert answer.err.count("\n") == 1


@pytest.mark.slow
def test_a_wrong_row_is_named_also_where_the_command_ends_spark_itself(tmp_path: Path) -> None:
    """What Spark says of it is asked of its Java, which has ended when the command does."""
    text, reason = _wrong()["falls"]
    source = tmp_path / "wrong.jsonl"
    source.write_text(text)
    answer = bobbin("pipeline", "conflicts", tmp_path / "x.lake", source, "--master", "local[1]", "--memory", "1g")
    assert (answer.code, answer.out, answer.err) == (2, b"", f"error: conflicts: {reason}\n")
