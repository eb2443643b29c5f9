"""No mutex guards a transaction, so none can be taken in the wrong order.

Tensor Chain has four and an order between them. Here the machines are stepped by whoever drives them, one event at a
time. Whoever brings a mutex in has to bring its order, and a test of it.
"""

import ast

from tests.architecture.source_tree import Module, source_modules

_STEPPED = ("bobbin/cluster/transactions/", "bobbin/cluster/shard/", "bobbin/cluster/chain/")
_BANNED = {"_thread", "asyncio", "concurrent", "contextvars", "multiprocessing", "queue", "threading"}


def _guards(module: Module) -> list[str]:
    """Whatever waits for somebody else, or hands something to another thread."""
    found = []
    for node in ast.walk(module.tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        is_guard = isinstance(node, ast.AsyncFunctionDef | ast.AsyncWith | ast.Await) or (
            isinstance(node, ast.Attribute) and node.attr in ("acquire", "acquire_lock")
        )
        if is_guard or {name.partition(".")[0] for name in names} & _BANNED:
            found.append(f"{module.place}:{getattr(node, 'lineno', 0)}")
    return found


def test_nothing_that_is_stepped_takes_a_mutex() -> None:
    stepped = [module for module in source_modules() if any(part in module.path.as_posix() for part in _STEPPED)]
    assert len(stepped) > 20
    assert [guard for module in stepped for guard in _guards(module)] == []
