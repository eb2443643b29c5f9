"""``bobbin import``."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from bobbin.records import jsonl
from bobbin.records.record import Record
from bobbin.runtime.ingest import BATCH_RECORDS_MAX
from bobbin.store.base import Put, StoreError
from bobbin.store.sqlite import config, opening
from bobbin.store.sqlite.store import SqliteStore
from tests.conformance.samples import plex
from tests.unit.cli.command_line import PLEX_1, Cli
from tests.unit.cli.damaged import damage, sealed, write_damaged


def test_good_records_are_stored_and_bad_ones_listed_with_offset_and_reason(
    folder: Path, cli: Cli, tmp_path: Path
) -> None:
    path = tmp_path / "x.bundle"
    damaged = write_damaged(path, good=40, bad=10)
    answer = cli("import", folder, path, "--json")
    *rows, summary = answer.rows
    assert answer.code == 1
    assert [(row["event"], row["offset"], row["reason"]) for row in rows] == [
        ("rejected", offset, reason) for offset, reason in damaged.bad
    ]
    assert {row["source"] for row in rows} == {str(path)}
    assert summary == {
        "event": "summary",
        "files": 1,
        "read": 50,
        "stored": 40,
        "duplicate": 0,
        "refused": 0,
        "rejected": 10,
        "bytes_read": path.stat().st_size,
        "only_counted": 0,
        "without_bytes": 0,
    }
    assert {fact[6:-2] for fact in cli("facts", folder, "Have").lines} == {seal.hash for seal in damaged.good}
    quarantined = cli("quarantine", "list", folder, "--json").rows
    assert sorted((row["offset"], row["reason"]) for row in quarantined) == sorted(damaged.bad)


def test_lines_for_people(folder: Path, cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "x.bundle"
    damaged = write_damaged(path, good=4, bad=2)
    answer = cli("import", folder, path)
    assert answer.code == 1
    for line, (offset, reason) in zip(answer.lines, damaged.bad, strict=False):
        assert line.split()[:3] == ["rejected", f"{path}:{offset}", reason]
    assert answer.lines[2].startswith("4 stored · 0 duplicate · 0 refused · 2 rejected")
    assert "quarantine" in answer.lines[3]


def test_importing_again_is_safe(folder: Path, cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "x.bundle"
    write_damaged(path, good=10, bad=0)
    assert cli("import", folder, path).code == 0
    again = cli("import", folder, path, path, "--json")
    assert again.code == 0
    assert (again.json["stored"], again.json["duplicate"], again.json["files"]) == (0, 20, 2)


@pytest.mark.parametrize("form", ["auto", "jsonl"])
def test_jsonl(folder: Path, cli: Cli, tmp_path: Path, form: str) -> None:
    path = tmp_path / "records"
    seals = [sealed(number) for number in range(1, 4)]
    lines = [jsonl.encode(seal) for seal in seals]
    lines.insert(1, b'{"hash": "nonsense"}')
    path.write_bytes(b"\n".join(lines) + b"\n")
    answer = cli("import", folder, path, "--form", form, "--json")
    (row, summary) = answer.rows
    assert answer.code == 1
    assert (row["offset"], row["reason"]) == (len(lines[0]) + 1, "malformed-line")
    assert (summary["stored"], summary["rejected"]) == (3, 1)


def test_stdin(folder: Path, cli: Cli) -> None:
    answer = cli("import", folder, "-", "--json", stdin=sealed(1).raw + b"rubbish")
    row, summary = answer.rows
    assert (row["source"], row["offset"]) == ("stdin", len(sealed(1).raw))
    assert summary["stored"] == 1
    assert cli("import", folder, "-", "-").code == 2


def test_an_empty_file_is_no_error(folder: Path, cli: Cli) -> None:
    answer = cli("import", folder, "-", "--json", stdin=b"")
    assert answer.code == 0
    assert answer.json["read"] == 0


def test_a_refused_record_is_named_and_stays_out(filled: Path, cli: Cli) -> None:
    record = cli("get", filled, PLEX_1, "--record").out
    cli("remove", filled, PLEX_1, "--reason", "not ours")
    answer = cli("import", filled, "-", "--json", stdin=record + sealed(1).raw)
    row, summary = answer.rows
    assert answer.code == 1
    assert (row["event"], row["hash"], row["reason"]) == ("refused", PLEX_1, "not ours")
    assert (summary["stored"], summary["refused"], summary["rejected"]) == (1, 1, 0)
    assert cli("get", filled, PLEX_1).code == 1


def test_each_commit_is_acknowledged_in_a_file_that_grows(folder: Path, cli: Cli, tmp_path: Path) -> None:
    path, ledger = tmp_path / "x.bundle", tmp_path / "acknowledged"
    write_damaged(path, good=10, bad=2)
    for _ in range(2):
        cli("import", folder, path, "--acknowledge", ledger)
    rows = [json.loads(line) for line in ledger.read_text().splitlines()]
    assert rows[-1] == {
        "source": str(path),
        "read": 12,
        "stored": 0,
        "duplicate": 10,
        "refused": 0,
        "rejected": 2,
        "bytes_read": path.stat().st_size,
        "durable_offset": path.stat().st_size,
    }
    assert sum(row["read"] == 12 for row in rows) == 2


def test_a_missing_file_stops_everything_before_it_starts(folder: Path, cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "x.bundle"
    write_damaged(path, good=3, bad=0)
    answer = cli("import", folder, path, tmp_path / "missing")
    assert answer.code == 4
    assert "missing" in answer.err
    assert cli("stat", folder, "--json").json["records"] == 0
    assert cli("import", folder, tmp_path).code == 2


def test_worker_processes_give_the_same_answer(folder: Path, cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "x.bundle"
    damaged = write_damaged(path, good=20, bad=5)
    answer = cli("import", folder, path, "--workers", "1", "--json")
    assert [(row["offset"], row["reason"]) for row in answer.rows[:-1]] == damaged.bad
    assert answer.rows[-1]["stored"] == 20


@pytest.mark.parametrize("first", [b"{", b" ", b"\n"])
def test_a_damaged_first_byte_costs_one_record(folder: Path, cli: Cli, first: bytes) -> None:
    content = first + b"".join(sealed(number).raw for number in range(1, 5))[1:]
    answer = cli("import", folder, "-", "--json", stdin=content)
    assert (answer.rows[-1]["stored"], answer.rows[-1]["rejected"]) == (3, 1)


def test_the_files_of_a_lace_are_neither_read_nor_appended_to(filled: Path, cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "x.bundle"
    write_damaged(path, good=2, bad=0)
    before = {entry: entry.read_bytes() for entry in filled.rglob("*") if entry.is_file()}
    (tmp_path / "soft").symlink_to(filled / "records.db")
    (tmp_path / "hard").hardlink_to(filled / "records.db")
    for inside in (filled / "records.db", tmp_path / "soft", tmp_path / "hard", filled / "keys" / "main.key"):
        for arguments in ((inside,), (path, inside), (path, "--acknowledge", inside)):
            answer = cli("import", filled, *arguments)
            assert answer.code == 2
            assert "inside the lace" in answer.err
    assert cli("import", filled, path, "--acknowledge", filled / "new").code == 2
    assert {entry: entry.read_bytes() for entry in filled.rglob("*") if entry.is_file()} == before


def test_what_the_quarantine_had_no_room_for_is_said(folder: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    small = config.Config(quarantine_rows_max=3, quarantine_bytes_max=500)
    monkeypatch.setattr(opening, "Config", lambda: small)
    bad = b"".join(damage(sealed(number), 0)[0] for number in range(1, 6))
    answer = cli("import", folder, "-", stdin=bad)
    assert answer.code == 1
    assert not any("rejected bytes are in the quarantine" in line for line in answer.lines)
    assert any(line.startswith("2 of the rejected were only counted") for line in answer.lines)
    assert any(line.startswith("2 rows of the quarantine came without bytes") for line in answer.lines)
    again = cli("import", folder, "-", "--json", stdin=bad).rows[-1]
    assert (again["rejected"], again["only_counted"] >= 2, again["without_bytes"]) == (5, True, 2)
    stat = cli("stat", folder, "--json").json
    assert (stat["quarantined"], stat["quarantine_overflow"] >= 4) == (3, True)
    assert "only counted" in cli("stat", folder).text
    listed = cli("quarantine", "list", folder)
    assert "only counted" in listed.err
    assert [row["kept"] for row in cli("quarantine", "list", folder, "--json").rows] == [True, False, False]


def test_names_are_shown_with_escapes(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "a\x1b[2J[/b].lace"
    assert cli("init", folder).code == 0
    answer = cli("import", folder, "-", stdin=b"rubbish")
    assert "\x1b" not in answer.text + answer.err
    assert "a\\x1b[2J[/b].lace" in answer.text


@pytest.mark.parametrize("error", [StoreError("another process holds it", retry=True), KeyboardInterrupt()])
def test_what_was_stored_before_it_ended_is_said(
    folder: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: BaseException
) -> None:
    path = tmp_path / "x.bundle"
    path.write_bytes(b"".join(plex(number).raw for number in range(BATCH_RECORDS_MAX + 1)))
    real, calls = SqliteStore.put_records, 0

    def put_records(self: SqliteStore, records: list[Record], **more: Any) -> list[Put]:  # noqa: ANN401 -- as it was
        nonlocal calls
        calls += 1
        if calls == 2:
            raise error
        return real(self, records, **more)

    monkeypatch.setattr(SqliteStore, "put_records", put_records)
    ended = cli("import", folder, path)
    assert ended.code != 0
    told = re.search(r"([\d,]+) records of (\S+) had been stored", ended.err)
    assert told is not None, ended.err
    stored = int(told[1].replace(",", ""))
    assert 0 < stored <= BATCH_RECORDS_MAX
    monkeypatch.undo()
    again = cli("import", folder, path, "--json").json
    assert (again["stored"], again["duplicate"]) == (BATCH_RECORDS_MAX + 1 - stored, stored)
