"""The page about faults names tests that exist and reasons that exist, and leaves out no test of this folder."""

import ast
import re
from pathlib import Path
from typing import Final

from bobbin.interlace.reasons import Reason
from bobbin.runtime import admission, introduction
from bobbin.runtime.status import End
from bobbin.transport.listen import Turned

_HERE: Final = Path(__file__).resolve().parent
_PAGE: Final = _HERE.parents[1] / "docs" / "faults.md"
_TEST: Final = re.compile(r"`(test_\w+\.py)::(test_\w+)`")
_ROW: Final = re.compile(r"^\| .* \|$", re.MULTILINE)
_CODE: Final = re.compile(r"`([a-z]+(?:-[a-z]+)+)`")


def _tests() -> set[tuple[str, str]]:
    """Every test function of this folder, besides those about the folder itself."""
    return {
        (path.name, node.name)
        for path in _HERE.glob("test_*.py")
        if path.name not in (Path(__file__).name, "test_partitions.py", "test_proxy.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


def test_the_page_and_the_tests_name_each_other() -> None:
    assert set(_TEST.findall(_PAGE.read_text(encoding="utf-8"))) == _tests()


def test_every_fault_of_the_page_has_a_test_and_a_reason_that_exists() -> None:
    known = {one.value for kind in (Reason, End, admission.Refusal, introduction.Refusal, Turned) for one in kind}
    rows = [row for row in _ROW.findall(_PAGE.read_text(encoding="utf-8")) if "`test_" in row]
    assert len(rows) > 25
    named = {code for row in rows for code in _CODE.findall(row)}
    assert named <= known
    for row in rows:
        assert _TEST.search(row), row
