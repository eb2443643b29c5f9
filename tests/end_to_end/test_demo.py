"""The tour runs to its end, every claim of it holds, and it is plain text where nobody looks on."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.end_to_end.command import environment

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_the_demo_keeps_its_claims(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    done = subprocess.run(
        [sys.executable, "-m", "demo", "--keep", str(kept)],
        capture_output=True,
        cwd=tmp_path,
        env=environment() | {"TMPDIR": str(tmp_path), "PYTHONPATH": str(REPOSITORY)},
        check=False,
        timeout=800,
    )
    shown = done.stdout.decode()
    assert done.returncode == 0, shown
    claims = [line for line in shown.splitlines() if line.startswith("   ✓ ")]
    assert f"All {len(claims)} claims held." in shown
    assert [line for line in shown.splitlines() if line.startswith("   ✗")] == [], "a claim that did not hold"
    assert "   │     ✗ our selector does not choose it" in shown, "why a record is withheld"
    assert "\x1b" not in shown
    assert done.stderr == b""
    assert f"   │ {kept / 'report.html'}\n" in shown, "where the report is"
    assert [path.name for path in kept.iterdir()] == ["report.html"]
    assert list(tmp_path.iterdir()) == [kept], "nothing else is left behind"
