"""Writing, signing, reading and moving records, with real processes and real files."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bobbin.records.bundle import BundleReader, Extent
from bobbin.records.record import validate
from tests.end_to_end.command import AT, PLACE, PLEX_1, bobbin
from tests.unit.cli.damaged import write_damaged


def test_put_of_plex_1_prints_its_name(tmp_path: Path) -> None:
    lace = tmp_path / "x.lace"
    assert bobbin("init", lace).code == 0
    answer = bobbin("put", lace, *PLACE, *AT, "-", stdin=b"hello")
    assert (answer.code, answer.text, answer.err) == (0, PLEX_1 + "\n", "")


def test_the_installed_script_is_the_same_command() -> None:
    script = shutil.which("bobbin", path=str(Path(sys.executable).parent))
    assert script is not None
    answer = subprocess.run([script, "--version"], capture_output=True, check=True)
    assert answer.stdout == bobbin("--version").out
    assert answer.stdout.startswith(b"bobbin ")


@pytest.mark.slow
def test_a_tour_from_one_lace_to_another(tmp_path: Path) -> None:
    first, second, bundle = tmp_path / "a.lace", tmp_path / "b.lace", tmp_path / "x.bundle"
    for lace in (first, second):
        assert bobbin("init", lace).code == 0
    verifier = bobbin("key", "new", first).text.strip()
    plain = bobbin("put", first, *PLACE, *AT, "-", stdin=b"hello").text.strip()
    signed = bobbin("put", first, *PLACE, "--sign", "-", stdin=b"hello, signed").text.strip()
    also = bobbin("sign", first, plain).text.strip()
    assert bobbin("export", first, bundle).code == 0
    assert bobbin("verify", bundle).code == 0
    assert bobbin("import", second, bundle).code == 0
    assert bobbin("get", second, "//u//ding//links/1").out == b"hello, signed"
    shown = json.loads(bobbin("show", second, signed, "--json").text)
    assert (shown["signed_by"], shown["signature"]) == (verifier, "valid")
    listed = [json.loads(line)["hash"] for line in bobbin("list", second, "//u//", "--json").lines]
    assert sorted(listed) == sorted([plain, signed, also])
    for lace in (first, second):
        assert bobbin("fsck", lace).code == 0


@pytest.mark.slow
def test_1000_good_and_50_damaged_seals(tmp_path: Path) -> None:
    lace, bundle = tmp_path / "x.lace", tmp_path / "x.bundle"
    damaged = write_damaged(bundle, good=1000, bad=50)
    bobbin("init", lace)
    answer = bobbin("import", lace, bundle, "--json")
    *rows, summary = map(json.loads, answer.lines)
    assert answer.code == 1
    assert (summary["read"], summary["stored"], summary["rejected"]) == (1050, 1000, 50)
    assert [(row["offset"], row["reason"]) for row in rows] == damaged.bad
    assert len({reason for _, reason in damaged.bad}) == 5, "the damage is of many kinds"

    quarantined = [json.loads(line) for line in bobbin("quarantine", "list", lace, "--json").lines]
    assert sorted((row["offset"], row["reason"]) for row in quarantined) == sorted(damaged.bad)

    assert bobbin("export", lace, tmp_path / "out.bundle").code == 0
    reader = BundleReader()
    pieces = reader.feed((tmp_path / "out.bundle").read_bytes()) + reader.finish()
    stored = {validate(piece.raw).hash for piece in pieces if isinstance(piece, Extent)}
    assert stored == {seal.hash for seal in damaged.good}
    assert stored.isdisjoint(damaged.inner)
    have = {json.loads(line)["values"][0] for line in bobbin("facts", lace, "Have", "--json").lines}
    assert have == stored
    assert bobbin("fsck", lace).code == 0

    again = json.loads(bobbin("import", lace, bundle, "--json").lines[-1])
    assert (again["stored"], again["duplicate"], again["rejected"]) == (0, 1000, 50)


def test_a_file_that_is_all_rubbish_stores_nothing_and_says_so(tmp_path: Path) -> None:
    lace = tmp_path / "x.lace"
    bobbin("init", lace)
    answer = bobbin("import", lace, "-", "--json", stdin=bytes(range(256)) * 40)
    assert answer.code == 1
    assert json.loads(answer.lines[-1])["stored"] == 0
    assert json.loads(bobbin("stat", lace, "--json").text)["records"] == 0
