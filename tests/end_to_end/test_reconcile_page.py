"""docs/reconcile.md is one program, in blocks, and prints what stands below each; it names everything there is."""

import contextlib
import io
import re
from pathlib import Path

import bobbin.reconcile

_PAGE = Path(__file__).resolve().parents[2] / "docs" / "reconcile.md"
_BLOCK = re.compile(r"^```python\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?", flags=re.MULTILINE | re.DOTALL)


def test_the_program_on_the_page_prints_what_the_page_says() -> None:
    blocks = _BLOCK.findall(_PAGE.read_text(encoding="utf-8"))
    assert len(blocks) >= 6
    names: dict[str, object] = {}
    for program, expected in blocks:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(program, names)
        assert printed.getvalue() == expected


def test_the_page_has_every_name_of_the_library() -> None:
    page = _PAGE.read_text(encoding="utf-8")
    assert [name for name in bobbin.reconcile.__all__ if f"`{name}`" not in page] == []
