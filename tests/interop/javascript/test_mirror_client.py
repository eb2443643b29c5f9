"""The JavaScript client's own tests, in Node. How it does in a browser is in ``tests/end_to_end``."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

_CLIENT = Path(__file__).resolve().parents[3] / "clients" / "js"
_SECONDS_MAX = 120


@pytest.mark.slow
def test_the_client_passes_its_tests() -> None:
    node = shutil.which("node")
    assert node is not None, "there is no Node; scripts/system-packages node installs it"
    done = subprocess.run(
        [node, "--test", "test/"], cwd=_CLIENT, capture_output=True, text=True, timeout=_SECONDS_MAX, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:]
    passed = re.search(r"^# pass (\d+)$", done.stdout, re.MULTILINE)
    assert passed is not None
    assert int(passed[1]) >= len(list((_CLIENT / "test").glob("*.test.mjs")))
