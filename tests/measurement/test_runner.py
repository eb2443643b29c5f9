from pathlib import Path
from types import ModuleType

import pytest

from measurement.runner import Collection, main, question_names

_GOOD = """
def run(where):
    return {"question": "Does it run?", "rows": [{"name": "where", "value": where}]}
"""
_MISSES = """
def run(where):
    return {"question": "Is it fast?", "rows": [], "ratios": [{"name": "speed", "value": 1, "bar": 2}]}
"""
_FAILS = """
import a_module_that_does_not_exist
def run(where):
    return {}
"""


@pytest.fixture
def collection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Collection:
    # A package name of its own for each test: modules stay in sys.modules.
    name = f"questions_of_{request.node.name}"
    folder = tmp_path / name
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "__main__.py").write_text("raise SystemExit")
    (folder / "not_a_question.py").write_text("def walk(): ...")
    (folder / "good.py").write_text(_GOOD)
    monkeypatch.syspath_prepend(tmp_path)

    def call(module: ModuleType) -> object:
        return module.run("here")

    return Collection(
        package=name,
        modules=folder,
        title="Questions",
        introduction="Some questions.",
        results=tmp_path / "results",
        page=tmp_path / "docs" / "page.md",
        call=call,
    )


def test_questions_are_found_by_their_run_function(collection: Collection) -> None:
    assert question_names(collection) == ["good"]


def test_a_question_that_takes_very_long_is_run_when_it_is_named(collection: Collection) -> None:
    (collection.modules / "long_one.py").write_text(f"ONLY_BY_NAME: bool = True\n{_GOOD}")
    assert question_names(collection) == ["good", "long_one"]
    assert main(collection, []) == 0
    assert [path.name for path in collection.results.iterdir()] == ["good.json"]
    assert main(collection, ["long-one"]) == 0
    assert sorted(path.name for path in collection.results.iterdir()) == ["good.json", "long_one.json"]


def test_a_run_leaves_a_report_and_a_page(collection: Collection) -> None:
    assert main(collection, []) == 0
    assert [path.name for path in collection.results.iterdir()] == ["good.json"]
    assert "| where | here |" in collection.page.read_text()


def test_a_missed_bar_is_recorded_and_fails(collection: Collection, capsys: pytest.CaptureFixture[str]) -> None:
    (collection.modules / "slow_one.py").write_text(_MISSES)
    assert main(collection, ["slow-one"]) == 1
    assert "MISSED slow_one: speed" in capsys.readouterr().err
    assert "**MISSED**" in collection.page.read_text()


def test_a_failing_module_does_not_stop_the_others(collection: Collection, capsys: pytest.CaptureFixture[str]) -> None:
    (collection.modules / "fails.py").write_text(_FAILS)
    assert main(collection, []) == 1
    assert "FAILED fails" in capsys.readouterr().err
    assert [path.name for path in collection.results.iterdir()] == ["good.json"]


def test_an_unknown_name_runs_nothing(collection: Collection, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(collection, ["good", "no-such"])
    assert "unknown: no_such. Known: good." in capsys.readouterr().err
    assert not collection.results.exists()


def test_list_and_page_run_nothing(collection: Collection, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(collection, ["--list"]) == 0
    assert capsys.readouterr().out == "good\n"
    assert main(collection, ["--page"]) == 0
    assert not collection.results.exists()
    assert "No run has been recorded yet." in collection.page.read_text()
