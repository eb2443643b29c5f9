"""Every module that ships opens by saying what it is."""

import ast

from tests.architecture.source_tree import source_modules


def test_every_module_has_a_docstring() -> None:
    silent = [module.place for module in source_modules() if not (ast.get_docstring(module.tree) or "").strip()]
    assert silent == []
