"""The audit log of a node."""

import json
from datetime import UTC, datetime
from pathlib import Path

from bobbin.cluster.raft.entries import Configuration
from bobbin.runtime.cluster_audit import Audit, configuration_text


def _clock() -> datetime:
    return datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC)


def _lines(file: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


def test_a_change_is_a_line_with_from_and_to(tmp_path: Path) -> None:
    audit = Audit(tmp_path / "audit.jsonl", clock=_clock)
    audit.note("role", "follower", "candidate", term=3)
    audit.note("health", "healthy", "failed", member="ab")
    first, second = _lines(tmp_path / "audit.jsonl")
    assert first == {
        "number": 1,
        "time": "2026-01-02T03:04:05.678Z",
        "kind": "role",
        "from": "follower",
        "to": "candidate",
        "term": 3,
    }
    assert (second["number"], second["kind"], second["from"], second["to"]) == (2, "health", "healthy", "failed")


def test_numbers_go_on_after_a_restart_and_past_a_torn_line(tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    Audit(file).note("role", "follower", "candidate")
    with file.open("ab") as stream:
        stream.write(b'{"number": 2, "ti\n')
    Audit(file).note("role", "candidate", "leader")
    assert json.loads(file.read_text("utf-8").splitlines()[-1])["number"] == 2


def test_only_the_owner_can_read_it(tmp_path: Path) -> None:
    Audit(tmp_path / "audit.jsonl").note("role", "follower", "candidate")
    assert (tmp_path / "audit.jsonl").stat().st_mode & 0o077 == 0


def test_a_file_that_is_taken_away_is_begun_anew(tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    audit = Audit(file)
    audit.note("role", "follower", "candidate")
    file.rename(tmp_path / "audit.1.jsonl")
    audit.note("role", "candidate", "leader")
    assert [line["number"] for line in _lines(file)] == [2]


def test_a_line_that_cannot_be_written_is_counted(tmp_path: Path) -> None:
    audit = Audit(tmp_path / "missing" / "audit.jsonl")
    audit.note("role", "follower", "candidate")
    assert audit.failures == 1


def test_a_configuration_on_one_line() -> None:
    assert configuration_text(Configuration((), (), ())) == "voters none"
    assert configuration_text(Configuration(("a",), ("b",), ("c",))) == "voters a, learners b, outgoing c"  # type: ignore[arg-type]
