"""Random stores and policies for exchanges, by seed: real records, rules with negation and links, query policies.

A side may lie: say of some records what they do not say of themselves, and offer others that it does not have.
"""

from collections.abc import Collection, Iterable
from random import Random

from msgspec import Struct, structs

from bobbin.interlace.choice import Strategy
from bobbin.interlace.limits import Service
from bobbin.interlace.ports import Evaluated, Memory, Question
from bobbin.interlace.schema import Schema
from bobbin.policy.claims import ClaimedField
from bobbin.policy.executables import LocalPolicy
from bobbin.policy.modules import Query, compile_query
from bobbin.records import tai
from bobbin.records.record import Plex, Record, build_plex
from bobbin.simulator.holdings import describe
from tests.policy_worlds import EVERYTHING, SHOW_EVERYTHING, random_query, random_selector
from tests.support.exchanges import START_NS, Changes, Meeting, Watched, meet

_VALUES = ("a", "b", "open", "closed")

_LIVELY = (
    EVERYTHING,
    # By what is claimed, and by what is held.
    (
        "SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'Group',_,'a').\n"
        "SelectHave(P) :- Have(P), not Field(P,'Level',_,'closed').\n"
    ),
    # One of each kind: what is accepted depends on what came first.
    (
        "SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'App',_,A), not Served(A).\n"
        "SelectHave(P) :- Have(P).\n"
        "Served(A) :- Have(P), Field(P,'App',_,A), Field(P,'Group',_,'a').\n"
    ),
    # What links to something that is here is wanted: later loops find more.
    (
        "SelectAdvertised(P,S) :- Advertised(P,S), not AdvertisedField(P,S,'Level',_,'closed').\n"
        "SelectAdvertised(Q,S) :- Advertised(Q,S), Have(P), RecordLink(P,_,_,_,Q).\n"
        "SelectHave(P) :- Have(P).\n"
    ),
    # What the other side offers decides what is offered.
    (
        "SelectAdvertised(P,S) :- Advertised(P,S).\n"
        "SelectHave(P) :- Have(P), Field(P,'Group',_,'a').\n"
        "SelectHave(P) :- Have(P), Advertised(Q,_), AdvertisedField(Q,_,'Group',_,'a').\n"
    ),
    # Only of those that say when they were made; sketches then know that too.
    (
        "SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'TAI',_,_).\n"
        "SelectHave(P) :- Have(P), not Field(P,'Level',_,'open').\n"
    ),
    # A record that comes closes a door.
    (
        "SelectAdvertised(P,S) :- Advertised(P,S).\n"
        "SelectHave(P) :- Have(P), not Closed(P).\n"
        "Closed(P) :- Have(P), Field(P,'Group',_,'b'), Field(Q,'App',_,'closed'), Field(Q,'Group',_,'a').\n"
    ),
)


def _record(random: Random, number: int, earlier: list[Plex]) -> Plex:
    extras = [("Level", random.choice(_VALUES))] if random.random() < 0.6 else []
    if earlier and random.random() < 0.4:
        extras.append(("+Link", f"to {random.choice(earlier).hash}"))
    return build_plex(
        group=random.choice(("a", "b")),
        app=random.choice(_VALUES),
        name=f"n/{number}",
        tai_ns=START_NS + number,
        data=b"%d" % number,
        extras=extras,
    )


class Lies(Struct, frozen=True, kw_only=True):
    """What a side says that is not so."""

    seed: int
    """Of what is said about its records: something else, of one in four."""
    invented: tuple[Plex, ...] = ()
    """Offered, as if they were there."""

    def about(self, record: str, fields: tuple[ClaimedField, ...]) -> tuple[ClaimedField, ...]:
        """What is claimed of a record with these fields; the same each time."""
        random = Random(f"{self.seed} {record}")
        if not fields or random.random() >= 0.25:
            return fields
        at = random.randrange(len(fields))
        one = fields[at]
        value = tai.render(START_NS + random.randrange(500)) if one.name == "TAI" else random.choice((*_VALUES, "u"))
        return (*fields[:at], ClaimedField(one.name, one.index, value), *fields[at + 1 :])


class Lying(Watched):
    """Holdings of a side that lies to its peer. It knows the truth itself."""

    def __init__(self, some: Iterable[Record], lies: Lies, *, query: Query | None = None) -> None:
        super().__init__(some, query=query)
        self.lies = lies
        self._invented: dict[str, Plex] = {one.hash: one for one in lies.invented}
        self._is_invented_told = False

    def begin(self, policy: LocalPolicy, schema: Schema, key: str | None) -> Memory | None:
        memory = super().begin(policy, schema, key)
        self._is_invented_told = memory is not None
        return memory

    def evaluate(self, question: Question) -> Evaluated:
        answer = super().evaluate(question)
        if self._is_invented_told:
            return answer
        self._is_invented_told = True
        return structs.replace(answer, send_added=answer.send_added | self._invented.keys())

    def describe(self, records: Collection[str], schema: Schema) -> list[tuple[ClaimedField, ...] | None]:
        true = super().describe(records, schema)
        told = [
            describe(self._invented[record], schema) if fields is None and record in self._invented else fields
            for record, fields in zip(records, true, strict=True)
        ]
        return [
            None if fields is None else self.lies.about(record, fields)
            for record, fields in zip(records, told, strict=True)
        ]


def holdings_of(some: Iterable[Record], lies: Lies | None, query: Query | None = None) -> Watched:
    """Those of an honest side, or of one that lies."""
    return Watched(some, query=query) if lies is None else Lying(some, lies, query=query)


class World(Struct, frozen=True, kw_only=True):
    """Two stores, two policies, two ways to behave."""

    here: list[Plex]
    there: list[Plex]
    rules: tuple[str, str]
    queries: tuple[str, str]
    services: tuple[Service, Service]

    def meeting(
        self,
        *,
        codec: bool = False,
        direct: bool = False,
        shares: tuple[int | None, int | None] = (None, None),
        strategies: tuple[Strategy, Strategy] = (Strategy.AUTO, Strategy.AUTO),
        lies: tuple[Lies | None, Lies | None] = (None, None),
    ) -> Meeting:
        """The two sides, not started yet. ``shares``: of the key of sketches, where there are to be some."""
        return meet(
            holdings_of(self.here, lies[0], compile_query(self.queries[0])),
            holdings_of(self.there, lies[1], compile_query(self.queries[1])),
            *self.rules,
            signed=True,
            codec=codec,
            direct=direct,
            service=self.services[0],
            right=Changes(service=self.services[1], share=shares[1], strategy=strategies[1]),
            share=shares[0],
            strategy=strategies[0],
        )


def random_world(random: Random) -> World:
    """A small one, from simple to odd."""
    some: list[Plex] = []
    for number in range(random.randint(0, 14)):
        some.append(_record(random, number, some))
    names: list[str] = [one.hash for one in some] or ["P.none.H3"]
    negation = random.random() < 0.5
    return World(
        here=[one for one in some if random.random() < 0.6],
        there=[one for one in some if random.random() < 0.6],
        rules=(_rules(random, names, negation=negation), _rules(random, names, negation=negation)),
        queries=(_query(random), _query(random)),
        services=(random_service(random), random_service(random)),
    )


def _rules(random: Random, names: list[str], *, negation: bool) -> str:
    """Random rules seldom agree on much, so most worlds have at least one side that is easy to please."""
    return random.choice(_LIVELY) if random.random() < 0.8 else random_selector(random, names, negation=negation)


def _query(random: Random) -> str:
    return SHOW_EVERYTHING if random.random() < 0.6 else random_query(random)


def random_service(random: Random) -> Service:
    """Batches and budgets from one record to all of them."""
    few = (1, 2, 3, 1_000)
    return Service(
        request_records_max=random.choice(few),
        serve_records_max=random.choice(few),
        chunk_records_max=random.choice(few),
        unsettled_records_max=random.choice(few),
        list_outright_max=random.choice(few),
        list_partition_max=random.choice(few),
    )
