"""The published fixtures of graphs: steps, and what is to be seen after each."""

import json
from collections.abc import Callable
from typing import Any, Final

import pytest

from bobbin.reactive.graph import Cell, DisposedNode, DrainExhausted, Effect, Graph, Readable, Signal
from tests.shared_fixtures import shared_fixture

_FOLDER: Final = shared_fixture("lazily", "reactive-graph")
_FIXTURES: Final = sorted(path.stem for path in _FOLDER.glob("*.json"))
_SEEN: Final = {
    "churn_returns_to_baseline",
    "disposal_does_not_run_surviving_effects",
    "dispose_detaches_edges_both_directions",
    "failed_compute_is_never_cached",
    "feedback_drain_bound_reports_exhaustion",
    "read_after_dispose_is_an_error",
    "signal_materializes_once_per_batch",
    "signal_materializes_without_a_read",
}
"""What this runner was written against. Others may come."""


class _ComputeFailed(Exception):
    """What an armed computation raises."""


class _Runner:
    """Does steps, and knows what came of the last one."""

    def __init__(self) -> None:
        self.graph = Graph(drain_max=200)
        self.nodes: dict[str, Readable[int] | Effect] = {}
        self.computes: dict[str, int] = {}
        self.armed: dict[str, int] = {}
        self.observed: list[str] = []
        self.value: object = None
        self.error: str | None = None
        self.exhausted = False

    def step(self, op: dict[str, Any]) -> None:
        """One step. Errors that fixtures have names for are kept, others are the test's."""
        self.observed.clear()
        self.value, self.error, self.exhausted = None, None, False
        do: Callable[[dict[str, Any]], None] = getattr(self, f"_{op['type']}")
        try:
            do(op)
        except DisposedNode:
            self.error = "read_after_dispose"
        except _ComputeFailed:
            self.error = "compute_failed"
        except DrainExhausted:
            self.exhausted = True

    def read(self, name: str) -> int:
        node = self.nodes[name]
        assert isinstance(node, Readable)
        return node.get()

    def _cell(self, op: dict[str, Any]) -> None:
        self.nodes[op["id"]] = self.graph.cell(op["value"])

    def _computing(self, name: str, reads: list[str], offset: int) -> Callable[[], int]:
        # Bound to nodes, not names: a name may be given to another node later.
        sources = [self.nodes[read] for read in reads]

        def compute() -> int:
            self.computes[name] = self.computes.get(name, 0) + 1
            total = offset
            for source in sources:
                assert isinstance(source, Readable)
                total += source.get()
            if self.armed.get(name, 0):
                self.armed[name] -= 1
                raise _ComputeFailed
            return total

        return compute

    def _computed(self, op: dict[str, Any]) -> None:
        self.nodes[op["id"]] = self.graph.slot(self._computing(op["id"], op["reads"], op["offset"]))

    def _signal(self, op: dict[str, Any]) -> None:
        signal = self.graph.signal(self._computing(op["id"], op["reads"], op["offset"]))
        self.nodes[op["id"]] = signal
        self.value = signal.last_value

    def _effect(self, op: dict[str, Any]) -> None:
        name = op["id"]
        sources = [self.nodes[read] for read in op["reads"]]
        written = self.nodes.get(op.get("writes_own_cone", ""))
        runs = [0]

        def act() -> None:
            runs[0] += 1
            self.observed.append(name)
            for source in sources:
                assert isinstance(source, Readable)
                source.get()
            # The loop is closed by the first change, not by the creation.
            if written is not None and runs[0] > 1:
                assert isinstance(written, Cell)
                written.set(written.peek() + 1)

        self.nodes[name] = self.graph.effect(act)

    def _read(self, op: dict[str, Any]) -> None:
        self.value = self.read(op["id"])

    def _set_cell(self, op: dict[str, Any]) -> None:
        cell = self.nodes[op["id"]]
        assert isinstance(cell, Cell)
        cell.set(op["value"])

    def _batch(self, op: dict[str, Any]) -> None:
        with self.graph.batch():
            for write in op["writes"]:
                self._set_cell(write)

    def _dispose(self, op: dict[str, Any]) -> None:
        node = self.nodes[op["id"]]
        assert isinstance(node, Readable | Effect)
        (node.remove if isinstance(node, Signal) else node.dispose)()

    def _dispose_signal(self, op: dict[str, Any]) -> None:
        signal = self.nodes[op["id"]]
        assert isinstance(signal, Signal)
        signal.dispose()

    def _fail_next(self, op: dict[str, Any]) -> None:
        self.armed[op["id"]] = op["count"]

    def _fanout(self, op: dict[str, Any]) -> None:
        for number in range(op["count"]):
            self._subscribe(f"{op['id_prefix']}{number}", op["reads"])

    def _subscribe(self, name: str, reads: list[str]) -> None:
        """A subscriber is an effect, so that what is published to it can be counted."""
        self._effect({"id": name, "reads": reads})

    def _churn(self, op: dict[str, Any]) -> None:
        for cycle in range(op["cycles"]):
            if op["mode"] == "dispose_then_create":
                name = f"{op['id_prefix']}{cycle % op['live_width']}"
                self._dispose({"id": name})
                self._subscribe(name, [op["source"]])
            else:
                assert op["mode"] == "scope_per_cycle"
                name = f"{op['id_prefix']}{cycle}"
                self._subscribe(name, [op["source"]])
                self._dispose({"id": name})

    def _dispose_fanout(self, op: dict[str, Any]) -> None:
        for number in range(op["count"]):
            self._dispose({"id": f"{op['id_prefix']}{number}"})


def _is_readable(runner: _Runner, name: str) -> bool:
    try:
        runner.read(name)
    except DisposedNode:
        return False
    return True


_SEES: Final[dict[str, Callable[[_Runner, Any], object]]] = {
    "value": lambda runner, _: runner.value,
    "error": lambda runner, _: runner.error,
    "computes_of": lambda runner, names: {name: runner.computes.get(name, 0) for name in names},
    "observed_by": lambda runner, _: sorted(runner.observed),
    "observed_count": lambda runner, _: len(runner.observed),
    "dependents_of": lambda runner, names: {name: len(runner.nodes[name].readers) for name in names},
    "dependencies_of": lambda runner, names: {name: len(runner.nodes[name].sources) for name in names},
    "drain_exhausted": lambda runner, _: runner.exhausted,
    # Last, since these read.
    "readable": lambda runner, names: {name: _is_readable(runner, name) for name in names},
    "read": lambda runner, names: {name: runner.read(name) for name in names},
}


@pytest.mark.parametrize("name", _FIXTURES)
def test_fixture(name: str) -> None:
    """RX-153, RX-154, RX-155, RX-156."""
    fixture = json.loads((_FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    assert (fixture["kind"], fixture["shape"]) == ("ReactiveGraph", "steps")
    runner = _Runner()
    for number, step in enumerate(fixture["steps"]):
        runner.step(step["op"])
        expected = {key: value for key, value in step.get("expect", {}).items() if key != "note"}
        assert expected.keys() <= _SEES.keys(), "an expectation that nobody looks at"
        for key in [key for key in _SEES if key in expected]:
            assert _SEES[key](runner, expected[key]) == expected[key], (number, key)


def test_the_fixtures_are_there() -> None:
    assert set(_FIXTURES) >= _SEEN
