"""What was decided in one world: each question is worked out once, however often it is asked.

A decision is a function of the policy, the records, the claims and the runtime facts. A machine over records in memory
and its witness come to a question by different ways, and mostly to the same one; where their books differ, so do their
questions, and each gets an answer of its own. What makes two questions one is everything that a decision looks at:

* the rules of all three programs as they are evaluated, not the names that somebody gave them, and both origins;
* the names of the records, which are hashes of their bytes, each computed from the record itself;
* every claim with its fields, and every runtime fact.

Now and then an answer that is known is worked out again, by the policy of whoever asks: were evaluation to depend on
anything else, that would show.
"""

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Final, TypeAlias

from bobbin.datalog.canonicalise import canonicalise
from bobbin.facts.extract import Fact, extract
from bobbin.policy.claims import ClaimedField, Claims
from bobbin.policy.decide import Decision, Situation, decide
from bobbin.policy.executables import LocalPolicy, Part
from bobbin.policy.operands import Origin
from bobbin.policy.runtime_facts import RuntimeFacts
from bobbin.policy.views import RecordFacts
from bobbin.records.record import Record

AGAIN_EVERY: Final = 64
"""Of so many answers that are known, one is worked out again."""

_Rules: TypeAlias = tuple[bytes, bytes, bytes, Origin, Origin]
_Question: TypeAlias = tuple[_Rules, frozenset[str], frozenset[tuple[str, tuple[ClaimedField, ...]]], RuntimeFacts]


class Decided:
    """The decisions of one world."""

    def __init__(self, *, again_every: int = AGAIN_EVERY) -> None:
        self.asked = 0
        self.worked_out = 0
        self._again_every: Final = again_every
        self._known: Final[dict[_Question, Decision]] = {}
        self._rules: Final[dict[int, tuple[LocalPolicy, _Rules]]] = {}
        """By the identity of the policy, which is held here so that no other can have it."""
        self._records: Final[dict[int, tuple[Record, str]]] = {}
        """Records with their names, by identity likewise: a record computes its name each time that it is asked."""
        self._facts: Final[dict[str, tuple[Fact, ...]]] = {}
        """Of each record."""
        self._stores: Final[dict[frozenset[str], RecordFacts]] = {}
        """The facts of records that were held together."""

    def decide(
        self,
        policy: LocalPolicy,
        records: Iterable[Record],
        claimed: Mapping[str, tuple[ClaimedField, ...]],
        runtime: RuntimeFacts,
    ) -> Decision:
        """What may be sent and requested; ``claimed`` is what the peer advertises."""
        held = {self._name_of(record): record for record in records}
        names = frozenset(held)
        question = self._rules_of(policy), names, frozenset(claimed.items()), runtime
        known = self._known.get(question)
        self.asked += 1
        if known is not None and (self.asked - self.worked_out) % self._again_every:
            return known
        self.worked_out += known is None
        if names not in self._stores:
            self._stores[names] = RecordFacts(chain.from_iterable(map(self._facts_of, held.items())))
        claims = Claims(policy.peer_origin, claimed)
        decision = decide(policy, Situation(facts=self._stores[names], claims=claims, runtime=runtime))
        assert known in (None, decision), "one question has two answers"
        self._known[question] = decision
        return decision

    def _rules_of(self, policy: LocalPolicy) -> _Rules:
        known = self._rules.get(id(policy))
        if known is None:
            own, query, peer = (canonicalise(policy.program(part)) for part in Part)
            known = self._rules[id(policy)] = policy, (own, query, peer, policy.own_origin, policy.peer_origin)
        return known[1]

    def _name_of(self, record: Record) -> str:
        known = self._records.get(id(record))
        if known is None:
            known = self._records[id(record)] = record, record.hash
        return known[1]

    def _facts_of(self, held: tuple[str, Record]) -> tuple[Fact, ...]:
        name, record = held
        facts = self._facts.get(name)
        if facts is None:
            facts = self._facts[name] = tuple(extract(record))
        return facts
