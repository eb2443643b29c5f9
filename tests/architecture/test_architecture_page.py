"""docs/ARCHITECTURE.md tells the truth: a layer stands under "What exists" exactly when it is there."""

import re

from tests.architecture.source_tree import REPOSITORY, source_modules

_PAGE = REPOSITORY / "docs" / "ARCHITECTURE.md"


def _rows(heading: str) -> set[str]:
    section = re.search(
        rf"^## {heading}$(.*?)(?=^## |\Z)", _PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
    )
    assert section is not None, f"no section {heading!r}"
    return set(re.findall(r"^\| `(\w+)` \|", section.group(1), flags=re.MULTILINE))


def test_what_exists_is_listed_as_existing() -> None:
    existing = {module.layer for module in source_modules()} - {"", "__main__"}
    assert _rows("What exists") == existing


def test_what_is_planned_does_not_exist_yet() -> None:
    existing = {module.layer for module in source_modules()}
    assert _rows("Planned") & existing == set()
