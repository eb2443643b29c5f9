"""A decision kept up to date is the decision computed anew, whatever changed and in whichever order."""

from random import Random
from unittest.mock import patch

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from bobbin.facts import relations
from bobbin.facts.extract import Fact
from bobbin.policy import running, standing
from bobbin.policy.claims import ClaimedField, Claims
from bobbin.policy.decide import evaluate
from bobbin.policy.executables import LocalPolicy
from bobbin.policy.frozen import Frozen
from bobbin.policy.operands import Origin
from bobbin.policy.runtime_facts import RuntimeFacts
from bobbin.policy.standing import Standing
from bobbin.policy.views import RecordFacts
from tests.policy_worlds import (
    ALICE,
    BOB,
    plex,
    policy,
    random_claims,
    random_query,
    random_record,
    random_selector,
    situation,
    stored,
)
from tests.properties.effort import scaled

_HASHES = [plex(number) for number in range(10)]
_TIMES = [f"16409952{second:02d}:000000000" for second in range(0, 60, 7)]
_TIMED = (
    "SelectHave(P) :- Have(P), Field(P,'TAI',_,T), TickTAI(N), Le(T,N).\n",
    "SelectHave(P) :- Field(P,'TAI',_,T), TickTAI(N), TaiSub(N,'10000000000',L), Gt(T,L), not Field(P,'App',_,'a').\n",
    "SelectAdvertised(P,S) :- Advertised(P,S), TransportEncrypted(), AdvertisedField(P,S,_,_,'open').\n",
    "SelectAdvertised(P,S) :- Advertised(P,S), not TransportEncrypted(), not Have(P).\n",
    "SelectHave(P) :- RecordLink(_,_,_,_,P), Transport(A), Ne(A,'tcp:1').\n",
)
_QUERIES = (
    "Queryable(P,O) :- Have(P), Field(P,'TAI',_,T), TickTAI(N), Le(T,N), Viewer(O).\n",
    "Queryable(P,O) :- OwnSelected(P), not TransportEncrypted(), Viewer(O).\n",
    "Queryable(P,'nobody') :- Have(P).\nQueryable(Q,O) :- OwnSelected(P), RecordLink(P,_,_,_,Q), Viewer(O).\n",
)
_seeds = st.integers(min_value=0, max_value=2**32).map(Random)


class _World:
    """What is stored, claimed and going on, and a decision that is told of every change."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.records = {hash: self._facts(hash) for hash in random.sample(_HASHES, random.randint(0, 7))}
        self.claims: dict[str, tuple[ClaimedField, ...]] = {}
        self.runtime = RuntimeFacts(here=ALICE, peer=BOB)
        self.policy = self._policy()
        self.standing = Standing(self.policy)
        shift = self.standing.load(self.facts(), self.runtime)
        assert shift.send_added == self.standing.may_send

    def facts(self) -> RecordFacts:
        return stored(*self.records.values())

    def step(self) -> None:
        """Some changes of some kinds, at once."""
        before = dict(self.records)
        removed: set[str] = set()
        for _ in range(self.random.choice((0, 0, 1, 2))):
            if self.records:
                gone = self.random.choice(sorted(self.records))
                del self.records[gone]
                removed.add(gone)
        for _ in range(self.random.choice((0, 0, 1, 3))):
            self._store()
        arrived = [fact for hash, facts in self.records.items() if before.get(hash) is not facts for fact in facts]
        claimed, withdrawn = self._claim() if self.random.random() < 0.5 else ({}, [])
        if self.random.random() < 0.4:
            self.runtime = self._moved()
        sent, wanted = set(self.standing.may_send), set(self.standing.may_request)
        shift = self.standing.advance(
            self.facts(),
            runtime=self.runtime,
            stored=arrived,
            removed=removed,
            claimed=claimed,
            withdrawn=withdrawn,
        )
        assert (sent | shift.send_added) - shift.send_removed == self.standing.may_send
        assert not shift.send_added & sent
        assert shift.send_removed <= sent
        assert (wanted | shift.request_added) - shift.request_removed == self.standing.may_request
        assert not shift.request_added & wanted
        assert shift.request_removed <= wanted

    def check(self) -> None:
        """The decision and the view are those that are computed from everything."""
        where = situation(self.facts(), Claims(Origin(BOB), self.claims), self.runtime)
        evaluation = evaluate(self.policy, where)
        assert self.standing.visible == evaluation.visible
        assert self.standing.may_send == evaluation.decision.may_send
        assert self.standing.may_request == evaluation.decision.may_request

    def rest(self) -> None:
        """Freeze the decision, as bytes, and go on with another one."""
        raw = msgspec.msgpack.encode(self.standing.freeze())
        self.standing = Standing.restore(self.policy, msgspec.msgpack.decode(raw, type=Frozen))

    def _policy(self) -> LocalPolicy:
        random = self.random
        selectors = [random_selector(random, _HASHES) for _ in range(2)]
        own, peer = ("".join((text, *random.sample(_TIMED, random.choice((0, 1, 2))))) for text in selectors)
        query = random.choice(_QUERIES) if random.random() < 0.3 else random_query(random)
        return policy(own, peer, query)

    def _store(self) -> None:
        hash = self.random.choice(_HASHES)
        if hash not in self.records:
            self.records[hash] = self._facts(hash)

    def _facts(self, hash: str) -> list[Fact]:
        time = (relations.FIELD, (hash, "TAI", "0", self.random.choice(_TIMES)))
        return [*random_record(self.random, hash, _HASHES), time]

    def _claim(self) -> tuple[dict[str, tuple[ClaimedField, ...]], list[str]]:
        told = random_claims(self.random, _HASHES)
        claimed = {hash: told.fields(hash) for hash in told.records() if self.random.random() < 0.5}
        withdrawn = [hash for hash in self.claims if self.random.random() < 0.3 and hash not in claimed]
        for hash in withdrawn:
            del self.claims[hash]
        self.claims.update(claimed)
        return claimed, [*withdrawn, *sorted(set(_HASHES) - set(self.claims))[:1]]

    def _moved(self) -> RuntimeFacts:
        random = self.random
        return RuntimeFacts(
            here=ALICE,
            peer=BOB,
            tick_tai=random.choice((None, *_TIMES)),
            transport=random.choice((None, "tcp:1", "tcp:2")),
            transport_encrypted=random.random() < 0.5,
        )


@given(_seeds)
@scaled(0.5)
def test_a_rest_at_any_point_changes_nothing(random: Random) -> None:
    world = _World(random)
    for _ in range(5):
        for _ in range(random.choice((0, 1, 1, 2))):
            world.rest()
            world.check()
        if random.random() < 0.1:
            world.standing.load(world.facts(), world.runtime, world.claims)
        world.step()
        world.check()


@given(_seeds)
@scaled(0.5)
def test_a_standing_decision_is_the_decision(random: Random) -> None:
    world = _World(random)
    world.check()
    for _ in range(5):
        world.step()
        world.check()


@given(_seeds)
@scaled(0.3)
def test_large_changes_come_to_the_same(random: Random) -> None:
    """What is done for many rows at once, on few."""
    with (
        patch.object(running, "_AGAIN_MIN", 1),
        patch.object(standing, "_IDLE_TEXTS_MAX", 5),
        patch.object(standing, "_MANY", 1),
        patch.object(standing, "_CLAIMS_ANEW_MIN", random.choice((1, 3, 1_000))),
    ):
        world = _World(random)
        for _ in range(5):
            world.step()
            world.check()
