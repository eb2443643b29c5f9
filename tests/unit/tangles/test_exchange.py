"""The questions of the nine phases: every answer that was recorded over six databases, and what is never sent."""

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from bobbin.tangles.bloom import Bloom, FilterLimits, WireFilter
from bobbin.tangles.exchange import Credential, Exchange
from bobbin.tangles.memory import MemoryStore
from bobbin.tangles.message import decode
from bobbin.tangles.ranges import EMPTY, Range
from tests.tangle_pairs import recorded_messages, records_of, store_of
from tests.vectors.load import HERE, load

if TYPE_CHECKING:
    from pathlib import Path

_STATES = sorted((HERE / "pzp" / "algo").glob("*.json"))


@pytest.fixture(params=_STATES, ids=lambda path: path.stem)
def state(request: pytest.FixtureRequest) -> Any:  # noqa: ANN401 -- whatever the file holds
    path: Path = request.param
    return load(f"pzp/algo/{path.name}")


def _store(state: dict[str, Any], name: str = "alice") -> MemoryStore:
    return store_of(recorded_messages(state["messages"], state[f"{name}_records"]), {})


def _forms(texts: list[bytes]) -> list[list[str]]:
    return [[message.id, "dataful" if message.has_data else "dataless"] for message in map(decode, texts)]


def test_have_ranges(state: dict[str, Any]) -> None:
    for name in ("alice", "bob"):
        assert list(Exchange(_store(state, name)).have(state["tangleID"])) == state["haveRange"][name]
    assert list(Exchange(MemoryStore()).have(state["tangleID"])) == state["haveRange"]["unknown_tangle"]


def test_messages_in_range(state: dict[str, Any]) -> None:
    exchange = Exchange(_store(state))
    for row in state["getMsgsInRange"]:
        assert exchange.in_range(state["tangleID"], Range(*row["range"])) == row["ids"]


def test_account_messages(state: dict[str, Any]) -> None:
    recorded = state["getAccountMsgsFor"]
    assert Exchange(_store(state)).account_messages_for(recorded["input"]) == recorded["ids"]


def test_filters(state: dict[str, Any]) -> None:
    exchange = Exchange(_store(state))
    for row in state["bloomFor"]:
        bloom = exchange.filter_for(state["tangleID"], row["round"], Range(*row["range"]), row["extra"])
        assert msgspec.json.decode(bloom.encode()) == row["bloom"]


def test_missing_ids(state: dict[str, Any]) -> None:
    exchange = Exchange(_store(state))
    for row in state["getMsgsMissing"]:
        bloom = Bloom.read(msgspec.convert(row["remote_bloom"], WireFilter), FilterLimits())
        assert exchange.missing(state["tangleID"], row["round"], Range(*row["range"]), bloom) == row["missing"]


def test_slices(state: dict[str, Any]) -> None:
    exchange = Exchange(_store(state))
    for row in state["getTangleMsgs"]:
        assert _forms(exchange.slice_of(state["tangleID"], row["ids"])) == row["result"]


def test_what_is_accepted(state: dict[str, Any]) -> None:
    exchange = Exchange(MemoryStore())
    for row in state["filterReceivedMsgs"]:
        texts = [message.raw for message in recorded_messages(state["messages"], row["input"])]
        accepted = exchange.accept(state["tangleID"], texts, Range(*row["want"]))
        forms = [[message.id, "dataful" if message.has_data else "dataless"] for message in accepted.messages]
        assert forms == row["output"]
        assert len(accepted.messages) + len(accepted.refused) == len(texts)
        assert all(refused.rule is None for refused in accepted.refused)


def test_pruning(state: dict[str, Any]) -> None:
    for row in state["pruneNewest"]:
        store = _store(state)
        store.prune_newest(state["tangleID"], row["count"])
        assert sorted(records_of(store)) == sorted(row["records_after"])
        assert list(Exchange(store).have(state["tangleID"])) == row["haveRange_after"]


def test_a_text_that_is_no_message_leaves_the_others(state: dict[str, Any]) -> None:
    texts = [message.raw for message in recorded_messages(state["messages"], state["alice_records"])]
    exchange = Exchange(MemoryStore())
    whole = exchange.accept(state["tangleID"], texts, Range(0, 99))
    mixed = exchange.accept(state["tangleID"], [b"null", texts[0], b"{", *texts[1:], b"[]"], Range(0, 99))
    assert mixed.messages == whole.messages
    assert len(mixed.refused) == len(whole.refused) + 3


def test_a_filter_over_nothing_holds_promises_and_ghosts() -> None:
    store = MemoryStore()
    exchange = Exchange(store)
    assert exchange.filter_for("t", 0, EMPTY).bits == 96
    assert exchange.filter_for("t", 0, EMPTY).bits_set == 0
    store.save_ghost("t", "ghost", 3)
    bloom = exchange.filter_for("t", 1, EMPTY, {"promised": None})
    assert bloom.has([b"1ghost", b"1promised", b"0ghost"]) == [True, True, False]


def test_sizes_by_count_are_never_smaller(state: dict[str, Any]) -> None:
    store = _store(state)
    tangle = state["tangleID"]
    for depths in (Range(0, 1), Range(0, 20), EMPTY):
        plain = Exchange(store).filter_for(tangle, 0, depths)
        counted = Exchange(store, size_by_count=True).filter_for(tangle, 0, depths)
        count = len({*Exchange(store).in_range(tangle, depths), *state["getAccountMsgsFor"]["ids"]})
        assert counted.bits >= plain.bits
        assert counted.bits >= 24 * count


def test_credentials_are_asked_for_once(state: dict[str, Any]) -> None:
    store = _store(state)
    asked: list[str] = []

    class Counting(MemoryStore):
        def credentials(self, ids: Any) -> list[Credential]:  # noqa: ANN401 -- as the base has it
            asked.extend(ids)
            return super().credentials(ids)

    counting = Counting()
    counting.load(store)
    exchange = Exchange(counting)
    depths = Range(0, 99)
    for round_number in range(3):
        exchange.filter_for(state["tangleID"], round_number, depths)
    assert len(asked) == len(set(asked))
