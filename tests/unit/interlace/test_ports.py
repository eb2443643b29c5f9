"""The port: a store in memory fits it, and its questions and answers start from nothing."""

from collections.abc import Collection, Sequence

from bobbin.interlace.built import Built
from bobbin.interlace.claim_index import ClaimIndex
from bobbin.interlace.cursor import Cursor
from bobbin.interlace.ports import Evaluated, Holdings, Memory, Question
from bobbin.interlace.schema import Schema
from bobbin.policy.claims import ClaimedField
from bobbin.policy.executables import LocalPolicy, make_policy
from bobbin.policy.modules import Selector, compile_selector, receive_selector
from bobbin.policy.operands import Index, other
from bobbin.policy.plan import Plan
from bobbin.policy.runtime_facts import RuntimeFacts
from tests.policy_worlds import ALICE, BOB, EVERYTHING, plex, policy


class _Memory:
    """A few bytes by record, and no rules: everything may be sent."""

    def __init__(self, held: dict[str, bytes], refused: frozenset[str] = frozenset()) -> None:
        self._held = held
        self._refused = refused
        self._told: frozenset[str] = frozenset()
        self._modules: dict[str, bytes] = {}
        self._cursors: dict[str, Cursor] = {}

    def prepare(self, plan: Plan, index: Index, *, own: Selector, peer_module: bytes) -> LocalPolicy:
        peer = plan.operand(other(index))
        selector = receive_selector(peer_module, peer.module)
        self._modules[peer.module] = peer_module
        return make_policy(own, selector, own_origin=plan.operand(index).origin, peer_origin=peer.origin)

    def module(self, identifier: str) -> bytes | None:
        return self._modules.get(identifier)

    def begin(self, policy: LocalPolicy, schema: Schema, key: str | None) -> Memory | None:
        self._begun = (policy, schema, key)
        self._told = frozenset()
        return None

    def evaluate(self, question: Question) -> Evaluated:
        now = frozenset(self._held)
        answer = Evaluated(
            send_added=now - self._told, send_removed=self._told - now, request_added=frozenset(question.claimed)
        )
        self._told = now
        return answer

    def absent(self, records: Collection[str]) -> frozenset[str]:
        return frozenset(records) - self._held.keys() - self._refused

    def describe(self, records: Collection[str], schema: Schema) -> list[tuple[ClaimedField, ...] | None]:
        return [self._describe(self._held[record], schema) if record in self._held else None for record in records]

    def _describe(self, raw: bytes, schema: Schema) -> tuple[ClaimedField, ...]:
        return (ClaimedField("Size", "0", str(len(raw))),) if "Size" in schema else ()

    def expect(self, records: Sequence[str]) -> None:
        """Nothing is saved by knowing it."""

    def load(self, record: str) -> bytes | None:
        return self._held.get(record)

    def kept_index(self, schema: Schema) -> ClaimIndex | None:
        del schema
        return None

    def built(self, records: Collection[str], schema: Schema, length: int) -> Built | None:
        del records, schema, length
        return None

    def cursor(self, key: str) -> Cursor | None:
        return self._cursors.get(key)


def _use(holdings: Holdings) -> tuple[Evaluated, Evaluated]:
    """What a machine does with its port: one epoch, two evaluations."""
    assert holdings.begin(policy(EVERYTHING), Schema(), None) is None
    claimed = {plex(2): (ClaimedField("App", "0", "ding"),)}
    first = holdings.evaluate(Question(runtime=RuntimeFacts(here=ALICE, peer=BOB), claimed=claimed))
    return first, holdings.evaluate(Question(runtime=RuntimeFacts(here=ALICE, peer=BOB)))


def test_a_store_in_memory_is_enough() -> None:
    """The types say that it fits; this says that it works."""
    first, second = _use(_Memory({plex(1): b"one"}))
    assert first == Evaluated(send_added=frozenset({plex(1)}), request_added=frozenset({plex(2)}))
    assert second == Evaluated()


def test_what_is_stored_or_refused_is_not_absent() -> None:
    holdings: Holdings = _Memory({plex(1): b"one"}, refused=frozenset({plex(2)}))
    assert holdings.absent([plex(1), plex(2), plex(3)]) == {plex(3)}
    assert (holdings.load(plex(1)), holdings.load(plex(2))) == (b"one", None)


def test_there_is_one_description_per_record_in_order() -> None:
    """A record that has gone is described by nothing at all, which is not the same as by no fields."""
    holdings: Holdings = _Memory({plex(1): b"one", plex(2): b"three"})
    described = holdings.describe([plex(2), plex(3), plex(1)], Schema(all=True))
    assert described == [(ClaimedField("Size", "0", "5"),), None, (ClaimedField("Size", "0", "3"),)]
    assert holdings.describe([plex(2)], Schema()) == [()]


def test_a_module_is_known_once_it_was_prepared() -> None:
    selector = compile_selector(EVERYTHING)
    agreed = policy(EVERYTHING)
    holdings: Holdings = _Memory({})
    assert holdings.module(selector.identifier) is None
    prepared = holdings.prepare(agreed.plan, agreed.index, own=selector, peer_module=selector.canonical)
    assert prepared.plan == agreed.plan
    assert holdings.module(selector.identifier) == selector.canonical
    assert holdings.cursor("link") is None


def test_a_question_without_changes_says_so() -> None:
    question = Question(runtime=RuntimeFacts())
    assert (dict(question.claimed), question.withdrawn) == ({}, frozenset())
