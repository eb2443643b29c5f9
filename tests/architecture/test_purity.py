"""The pure layers take time and chance as arguments, and only the command line prints.

Imports of whole modules are the import linter's part (`pure` contract). This looks at calls, with names resolved
through the module's imports, so ``from datetime import datetime as d; d.now()`` is seen as well. A type may be named
everywhere: a parameter annotated ``Random`` is the way chance comes in.
"""

import ast
from collections.abc import Iterator

from tests.architecture.source_tree import Module, pure_modules, source_modules

# A name ending in a dot bans everything under it.
_BANNED_IN_PURE_LAYERS = (
    "breakpoint",
    "datetime.date.today",
    "datetime.datetime.now",
    "datetime.datetime.today",
    "datetime.datetime.utcnow",
    "input",
    "open",
    "os.",
    "random.",
    "secrets.",
    "time.",
    "uuid.uuid1",
    "uuid.uuid4",
)


def called_names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The line and full dotted name of every call whose name the module's own imports resolve."""
    origins: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                origins[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                origins[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (name := _dotted(node.func)):
            first, dot, rest = name.partition(".")
            yield node.lineno, origins.get(first, first) + dot + rest


def _dotted(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=attribute):
            owner = _dotted(value)
            return f"{owner}.{attribute}" if owner else ""
        case _:
            return ""


def _is_banned(name: str) -> bool:
    return any(name.startswith(banned) if banned.endswith(".") else name == banned for banned in _BANNED_IN_PURE_LAYERS)


def _places(modules: list[Module], names: set[str] | None = None) -> list[str]:
    return [
        f"{module.place}:{line} {name}()"
        for module in modules
        for line, name in called_names(module.tree)
        if (name in names if names else _is_banned(name))
    ]


def test_pure_layers_call_no_clock_chance_or_file() -> None:
    assert _places(pure_modules()) == []


def test_only_the_command_line_prints() -> None:
    elsewhere = [module for module in source_modules() if module.layer != "cli" and module.path.name != "__main__.py"]
    assert _places(elsewhere, {"print", "rich.print", "sys.stdout.write", "sys.stderr.write"}) == []


def test_aliases_do_not_hide_a_call() -> None:
    text = (
        "import time as t\nfrom datetime import datetime as d\nfrom random import Random\nt.time()\nd.now()\nRandom()"
    )
    names = [name for _, name in called_names(ast.parse(text))]
    assert names == ["time.time", "datetime.datetime.now", "random.Random"]
    assert all(_is_banned(name) for name in names)
