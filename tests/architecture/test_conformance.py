"""Every numbered statement of the protocol has its row on a conformance page, and every row names tests that exist.

To fill rows, write lines ``<id> <test>`` into a text file (``IL-139 tests/unit/interlace/test_hello.py::test_skew``)
and run ``scripts/conformance FILE…``. It adds the tests to their rows, keeps the order of the page, takes the ids out
of ``PENDING`` below, and refuses ids and tests that do not exist. A row may get more tests at any time.

``PENDING`` only ever shrinks: it holds the statements whose code does not exist yet. When it is empty, it goes.
"""

import ast
import re
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

import pytest

from bobbin.interlace.reasons import Reason
from tests.architecture import conformance_page
from tests.architecture.conformance_page import PageError, Row, contract, expand, read_row, read_rows, why_unknown
from tests.architecture.source_tree import REPOSITORY, Module, source_modules

_PAGES = REPOSITORY / "docs" / "conformance"
_CHECKLISTS = REPOSITORY.parent / "shared" / "conformance"
"""Where the checklists themselves may stand, beside the repository. They are not part of it."""

IDS = {
    "cluster.md": ("CL-001…379",),
    "interlace.md": ("IL-001…299", "ILC-001…148"),
    "reactive.md": ("RX-001…170",),
    "tangles.md": ("TG-001…130",),
}
"""Page by page, the ids that it answers for."""
_TOTALS = {"cluster.md": 379, "interlace.md": 447, "reactive.md": 170, "tangles.md": 130}
_UNTESTABLE_SHARE_MAX = 0.02

PENDING: tuple[str, ...] = ()
"""Statements whose rows are still to come."""
PENDING_MAX = 0
"""How many there are. The script lowers it; nobody raises it."""


def _rows(page: str) -> list[Row]:
    return read_rows((_PAGES / page).read_text(encoding="utf-8"))


@pytest.fixture(params=sorted(IDS))
def page(request: pytest.FixtureRequest) -> str:
    name = request.param
    assert isinstance(name, str)
    return name


def test_every_page_is_checked() -> None:
    assert {path.name for path in _PAGES.glob("*.md")} - {"index.md"} == IDS.keys() == _TOTALS.keys()
    index = (_PAGES / "index.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\]\((\w+\.md)\)", index)) == IDS.keys()


def test_every_statement_has_one_row_in_order(page: str) -> None:
    ids = expand(IDS[page])
    assert len(ids) == len(set(ids)) == _TOTALS[page]
    assert [row.id for row in _rows(page)] == ids


def test_the_ids_are_those_of_the_checklist(page: str) -> None:
    checklist = _CHECKLISTS / page
    if not checklist.is_file():
        pytest.skip("the checklist is not at hand; its ids are also written down here")
    numbered = re.findall(r"^\| ([A-Z]+-[0-9]+) \|", checklist.read_text(encoding="utf-8"), re.MULTILINE)
    assert numbered == expand(IDS[page])


def test_every_test_that_is_named_exists(page: str) -> None:
    wrong = [
        f"{row.id}: {reason}" for row in _rows(page) for test in row.tests if (reason := why_unknown(test)) is not None
    ]
    assert wrong == []


def test_no_row_names_a_test_twice(page: str) -> None:
    assert [row.id for row in _rows(page) if len(set(row.tests)) != len(row.tests)] == []


def test_exactly_the_pending_rows_are_to_come() -> None:
    to_come = [row.id for page in IDS for row in _rows(page) if row.is_to_come]
    assert contract(to_come) == list(PENDING)
    assert len(to_come) <= PENDING_MAX


def test_few_rows_have_no_test_and_each_of_them_says_why(page: str) -> None:
    rows = _rows(page)
    without = [row for row in rows if row.reason is not None]
    assert len(without) <= _UNTESTABLE_SHARE_MAX * len(rows)
    assert [row.id for row in without if len((row.reason or "").split()) < 4] == []


# ---- statements about the source as a whole --------------------------------------------------------------------------


def test_the_prepared_route_is_a_reason_that_nothing_gives() -> None:
    """IL-264, ILC-079: the reason is in the closed set, and no module but the one that lists it says its name."""
    assert Reason.MALFORMED_PREPARED_POLICY.value == "malformed-prepared-policy"
    naming = [
        module.place
        for module in source_modules()
        if "MALFORMED_PREPARED_POLICY" in module.text or "malformed-prepared-policy" in module.text
    ]
    assert naming == ["src/bobbin/interlace/reasons.py"]


_SPEAKING_LAYERS = ("interlace", "wire", "transport")
_TELLING = ("bobbin.policy.verdict", "bobbin.policy.narrate", "bobbin.datalog.explain", "bobbin.datalog.explanation")


def _imports(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def _telling(modules: list[Module]) -> list[str]:
    return [
        f"{module.place} imports {name}"
        for module in modules
        for name in sorted(_imports(module.tree))
        if any(name == telling or name.startswith(f"{telling}.") for telling in _TELLING)
    ]


def test_verdicts_are_out_of_reach_of_what_speaks_to_a_peer() -> None:
    """ILC-080: why a record was refused is for the owner of the machine; no layer that writes to a peer imports it."""
    speaking = [module for module in source_modules() if module.layer in _SPEAKING_LAYERS]
    assert speaking
    assert _telling(speaking) == []


def test_an_import_of_a_verdict_is_found() -> None:
    assert _imports(ast.parse("from bobbin.policy import verdict")) >= {"bobbin.policy.verdict"}
    assert _imports(ast.parse("from bobbin.policy.verdict import explain")) >= {"bobbin.policy.verdict"}
    assert _imports(ast.parse("import bobbin.policy.narrate")) == {"bobbin.policy.narrate"}


# ---- the reading of pages --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "row",
    [
        Row(id="IL-001", words="some words"),
        Row(id="IL-001", words="`a`, b", tests=("tests/unit/a/test_b.py::test_c",)),
        Row(id="IL-001", words="w", tests=("tests/a/test_b.py::test_c[x-1]", "tests/a/test_b.py::TestA::test_c")),
        Row(id="ILC-1000", words="w", reason="nothing that a test could see"),
    ],
)
def test_a_row_reads_back(row: Row) -> None:
    assert read_row(str(row)) == row


@pytest.mark.parametrize(
    "line",
    [
        "| IL-001 | words |",
        "| IL-001 | words |  |",
        "|IL-001 | words | to come |",
        "| IL-001 | words | later |",
        "| IL-001 | words | tests/a/test_b.py::test_c |",
        "| IL-001 | words | `tests/a/test_b.py` |",
        "| IL-001 | words | `tests/a/test_b.py::test_c`, `tests/a/test_b.py::test_d` |",
    ],
)
def test_what_is_no_row(line: str) -> None:
    with pytest.raises(PageError):
        read_row(line)


def test_other_lines_are_no_rows() -> None:
    assert read_rows("# IL-001\n\n| id | what it asks | tests |\n|---|---|---|\nIL-001\n") == []


def test_ranges() -> None:
    ids = ["IL-001", "IL-002", "IL-003", "IL-005", "ILC-006", "ILC-007"]
    assert contract(ids) == ["IL-001…003", "IL-005", "ILC-006…007"]
    assert expand(contract(ids)) == ids
    with pytest.raises(PageError):
        expand(["IL-1"])


def test_names_of_tests_that_do_not_exist_are_found() -> None:
    here = Path(__file__).relative_to(REPOSITORY).as_posix()
    assert why_unknown(f"{here}::test_ranges") is None
    assert why_unknown(f"{here}::test_a_row_reads_back[row0]") is None
    for wrong in ("::test_nothing", "::_rows", "::page", "::test_ranges[x]", "::TestNothing::test_ranges"):
        assert why_unknown(here + wrong) is not None
    assert why_unknown("tests/nowhere/test_a.py::test_b") is not None
    assert why_unknown("tests/architecture/source_tree.py::test_b") is not None


def test_methods_of_test_classes_are_tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "class TestA:\n    def test_b(self): ...\n    def other(self): ...\nclass B:\n    def test_c(self): ...\n"
    (tmp_path / "test_x.py").write_text(text, encoding="utf-8")
    monkeypatch.setattr(conformance_page, "REPOSITORY", tmp_path)
    assert conformance_page.tests_of("test_x.py") == {"TestA::test_b": False}


def test_the_script_leaves_a_list_that_has_not_changed_as_it_is() -> None:
    path = REPOSITORY / "scripts" / "conformance"
    loader = SourceFileLoader("conformance_script", str(path))
    specification = spec_from_loader(loader.name, loader)
    assert specification is not None
    script = module_from_spec(specification)
    loader.exec_module(script)
    text = Path(__file__).read_text(encoding="utf-8")
    assert script.with_pending(text, list(PENDING), PENDING_MAX) == text
    filled = script.with_pending(text, ["IL-001", "IL-002"], 2)
    assert 'PENDING: tuple[str, ...] = (\n    "IL-001",\n    "IL-002",\n)\n"""Statements' in filled
    assert "PENDING_MAX = 2\n" in filled
    assert script.with_pending(filled, [], 0) == script.with_pending(text, [], 0)
