"""The import contract of pyproject.toml holds, and covers everything it should."""

import re

import grimp
import pytest
from importlinter.cli import EXIT_STATUS_SUCCESS, lint_imports

from tests.architecture.source_tree import (
    PURE_LAYERS,
    REPOSITORY,
    SOURCE,
    exceptions,
    import_contract,
    source_modules,
)

# Commands are loaded by name when they are called.
_WAYS_IN = ("bobbin.cli.commands.",)


def _layer_names() -> list[str]:
    return [
        re.sub(r"[()]", "", name).strip() for layer in import_contract("layers")["layers"] for name in layer.split("|")
    ]


def test_contracts_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPOSITORY)
    assert lint_imports(no_cache=True, no_logo=True) == EXIT_STATUS_SUCCESS


def test_pure_contract_covers_every_pure_layer_that_exists() -> None:
    existing = {module.layer for module in source_modules()} & set(PURE_LAYERS)
    assert set(import_contract("pure")["source_modules"]) == {f"bobbin.{layer}" for layer in existing}


def test_pure_layers_are_the_lowest_layers() -> None:
    lowest = list(reversed(_layer_names()))[: len(PURE_LAYERS)]
    assert set(lowest) == set(PURE_LAYERS)


def _modules_nothing_imports() -> set[str]:
    """Modules that no other module imports and that are no way in."""
    graph = grimp.build_graph("bobbin", cache_dir=None)
    dead = set()
    for module in source_modules():
        name = ".".join(module.path.relative_to(SOURCE).with_suffix("").parts)
        if module.path.name in {"__init__.py", "__main__.py"} or name.startswith(_WAYS_IN):
            continue
        # A folder without __init__.py is invisible to the linter, and so to every contract.
        if name not in graph.modules or not graph.find_modules_that_directly_import(name):
            dead.add(name)
    return dead


def test_no_module_is_dead() -> None:
    """Either something imports a module, or ``unused_modules.txt`` says that it was built ahead of its user."""
    assert sorted(_modules_nothing_imports() - exceptions("unused_modules.txt")) == []


def test_the_list_of_unused_modules_only_shrinks() -> None:
    assert sorted(exceptions("unused_modules.txt") - _modules_nothing_imports()) == []
