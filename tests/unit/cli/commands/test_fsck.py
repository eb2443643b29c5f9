"""``bobbin fsck``."""

import sqlite3
from pathlib import Path

from tests.unit.cli.command_line import Cli


def test_a_sound_lace_is_in_order(filled: Path, cli: Cli) -> None:
    assert cli("fsck", filled, "--json").json == {
        "event": "summary",
        "lace": str(filled),
        "records": 1,
        "findings": 0,
    }
    assert cli("fsck", filled).text.startswith("in order · 1 record checked")


def test_a_key_that_others_can_read_is_a_finding(filled: Path, cli: Cli) -> None:
    (filled / "keys" / "main.key").chmod(0o644)
    answer = cli("fsck", filled, "--json")
    finding, summary = answer.rows
    assert answer.code == 3
    assert finding["where"] == "key main"
    assert "chmod" in finding["what"]
    assert summary["findings"] == 1


def test_a_changed_byte_in_the_store_is_found(filled: Path, cli: Cli) -> None:
    cli("compact", filled)
    path = filled / "records.db"
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()
    content = bytearray(path.read_bytes())
    content[content.index(b"hello")] ^= 1
    path.write_bytes(content)
    answer = cli("fsck", filled, "--json")
    assert answer.code == 3
    assert len(answer.rows) >= 2
    assert cli("verify", filled).code == 3
