"""Every module that ships has a test module of its own, at the mirrored path under tests/unit.

``untested_modules.txt`` lists the exceptions. It is a ratchet: a module that has its test, or is gone, must leave the
list.
"""

from pathlib import Path

from tests.architecture.source_tree import REPOSITORY, SOURCE, exceptions, source_modules

_UNIT = REPOSITORY / "tests" / "unit"


def _mirror(path: Path) -> Path:
    inside = path.relative_to(SOURCE / "bobbin")
    return _UNIT / inside.parent / f"test_{inside.stem}.py"


def _modules_without_mirror() -> set[str]:
    return {
        module.path.relative_to(SOURCE).as_posix()
        for module in source_modules()
        if module.path.name not in {"__init__.py", "__main__.py"} and not _mirror(module.path).is_file()
    }


def test_every_module_has_its_test_module() -> None:
    assert sorted(_modules_without_mirror() - exceptions("untested_modules.txt")) == []


def test_the_list_of_exceptions_only_shrinks() -> None:
    assert sorted(exceptions("untested_modules.txt") - _modules_without_mirror()) == []


def test_every_unit_test_mirrors_a_module() -> None:
    expected = {_mirror(module.path) for module in source_modules()}
    strays = [path.relative_to(REPOSITORY).as_posix() for path in _UNIT.rglob("test_*.py") if path not in expected]
    assert sorted(strays) == []
