"""Any run of calls: every implementation answers like the model."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from bobbin.facts.relations import ARITY
from bobbin.records.coordinate import Prefix
from bobbin.records.record import Record
from bobbin.store.base import Mark, Store
from tests.conformance.conftest import IMPLEMENTATIONS
from tests.conformance.samples import GROUPS, plex, records

_MADE = st.integers(0, 30)


def _contents(store: Store) -> list[object]:
    stat = store.stat()
    return [
        list(store.scan()),
        [list(store.list(Prefix(group=group), tips=tips)) for group in GROUPS for tips in (False, True)],
        [sorted(store.facts.enumerate(predicate)) for predicate in ARITY],
        list(store.refusals()),
        list(store.quarantined()),
        store.mark(),
        (stat.records, stat.record_bytes, stat.quarantined, stat.refused, stat.high_water),
    ]


class _Comparison(RuleBasedStateMachine):
    """Two stores, one of them the model, that get the same calls."""

    implementation: str

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        self.path = Path(self.folder.name) / "records.db"
        self.clock = 0
        self.openers = [IMPLEMENTATIONS[name]() for name in ("model", self.implementation)]
        self.stores: list[Store] = []
        self.known = [plex(number).hash for number in range(3)]
        self.marks = [Mark()]

    @initialize()
    def create(self) -> None:
        self.stores = [opener(self.path, create=True, now=lambda: self.clock) for opener in self.openers]

    def teardown(self) -> None:
        for store in self.stores:
            store.close()
        self.folder.cleanup()

    def both(self, call: Callable[[Store], Any]) -> None:
        self.clock += 1
        expected, actual = [call(store) for store in self.stores]
        assert actual == expected

    @rule(batch=st.lists(records(), max_size=5))
    def put(self, batch: list[Record]) -> None:
        self.known.extend(record.hash for record in batch)
        self.both(lambda store: store.put_records(batch))

    @rule(batch=st.lists(records().map(lambda record: record.raw) | st.binary(max_size=4), max_size=4))
    def put_bytes(self, batch: list[bytes]) -> None:
        self.both(lambda store: store.put_many(batch, source="here"))

    @rule(choice=_MADE)
    def get(self, choice: int) -> None:
        name = self.known[choice % len(self.known)]
        self.both(lambda store: (store.get(name), store.have(name)))

    @rule(choice=_MADE, reason=st.sampled_from(["old", "unwanted"]))
    def remove(self, choice: int, reason: str) -> None:
        self.both(lambda store: store.remove(self.known[choice % len(self.known)], reason=reason))

    @rule(choice=_MADE)
    def lift(self, choice: int) -> None:
        self.both(lambda store: store.lift(self.known[choice % len(self.known)]))

    @rule(number=st.integers(1, 6))
    def release(self, number: int) -> None:
        self.both(lambda store: store.release(number))

    @rule(choice=_MADE)
    def catch_up(self, choice: int) -> None:
        after = self.marks[choice % len(self.marks)]
        self.both(lambda store: (store.changes(after), sorted(store.facts_after(after.high_water))))
        self.marks.append(self.stores[0].mark())

    @rule(names=st.none() | st.frozensets(st.sampled_from(["App", "TAI", "Signature", "+Link", "X-Custom", "None"])))
    def describe(self, names: frozenset[str] | None) -> None:
        self.both(lambda store: (store.fields(self.known, names), store.absent(self.known)))

    @rule(key=st.sampled_from(["a", "b"]), value=st.none() | st.binary(max_size=3))
    def keep(self, key: str, value: bytes | None) -> None:
        for store in self.stores:
            store.keep("test", key, value)
        self.both(lambda store: ([store.kept("test", key) for key in ("a", "b")], list(store.kept_rows("test"))))

    @rule()
    def compact(self) -> None:
        self.both(lambda store: store.compact())

    @rule()
    def reopen(self) -> None:
        for store in self.stores:
            store.close()
        self.stores = [opener(self.path, now=lambda: self.clock) for opener in self.openers]

    @invariant()
    def they_hold_the_same(self) -> None:
        if self.stores:
            expected, actual = [_contents(store) for store in self.stores]
            assert actual == expected
            assert list(self.stores[1].check()) == []


@pytest.mark.slow
@pytest.mark.parametrize("implementation", [name for name in IMPLEMENTATIONS if name != "model"])
def test_any_run_of_calls_is_answered_like_the_model(implementation: str) -> None:
    machine = type("Comparison", (_Comparison,), {"implementation": implementation})
    run_state_machine_as_test(machine, settings=settings(stateful_step_count=20, max_examples=30))
