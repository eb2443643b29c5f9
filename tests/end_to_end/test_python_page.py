"""docs/python.md is one program, in blocks, and does what it says; every argument of ``sync`` is on the page."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

from bobbin.lace import Lace
from bobbin.runtime.accounts import SyncReport

_PAGE = Path(__file__).resolve().parents[2] / "docs" / "python.md"
_PYTHON = re.compile(r"^```python\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)


def test_the_program_on_the_page_runs(tmp_path: Path) -> None:
    blocks = _PYTHON.findall(_PAGE.read_text(encoding="utf-8"))
    assert len(blocks) >= 8
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(blocks)], cwd=tmp_path, check=False, timeout=300, capture_output=True
    )
    assert (done.returncode, done.stderr.decode(), done.stdout) == (0, "", b"")


def test_the_page_has_every_argument_and_every_answer() -> None:
    page = _PAGE.read_text(encoding="utf-8")
    arguments = set(inspect.signature(Lace.sync).parameters) - {"self", "peer", "policy"}
    own = {name for name in vars(SyncReport) if isinstance(getattr(SyncReport, name), property)}
    answers = (own | set(SyncReport.__struct_fields__)) - {"peer_rounds"}
    assert sorted(name for name in arguments | answers if f"`{name}`" not in page) == []
