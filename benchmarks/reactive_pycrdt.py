"""pycrdt in the reactive benchmark; run by the interpreter of its own environment.

Its merges are those of a map of a shared document: each write is one update of its own, or all are one update.
"""

from importlib import import_module
from typing import Any

from benchmarks.reactive_side import CELLS, Figures, answer, check, state, timed

pycrdt: Any = import_module("pycrdt")


def _document() -> tuple[Any, Any]:
    document = pycrdt.Doc()
    return document, document.get("cells", type=pycrdt.Map)


def _written(count: int) -> tuple[list[bytes], bytes]:
    """The updates of some writes, and all of them in one."""
    document, cells = _document()
    updates: list[bytes] = []
    keep = document.observe(lambda event: updates.append(event.update))
    for number in range(count):
        cells[f"cells/{number % CELLS}"] = state(number)
    document.unobserve(keep)
    check(len(updates), count)
    whole: bytes = document.get_update()
    return updates, whole


def merge_old(count: int) -> Figures:
    """Updates of one write each."""
    updates, _ = _written(count)
    document, cells = _document()

    def work() -> None:
        for update in updates:
            document.apply_update(update)

    figures = timed(work, count)
    check(bytes(cells[f"cells/{(count - 1) % CELLS}"]), state(count - 1))
    return figures


def merge_old_batched(count: int) -> Figures:
    """All writes as one update."""
    _, whole = _written(count)
    document, cells = _document()
    figures = timed(lambda: document.apply_update(whole), count)
    check(bytes(cells[f"cells/{(count - 1) % CELLS}"]), state(count - 1))
    return figures


if __name__ == "__main__":
    answer({"merge-old": merge_old, "merge-old-batched": merge_old_batched})
