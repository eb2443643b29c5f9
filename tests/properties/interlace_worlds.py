"""Random stores and policies for exchanges, by seed: real records, rules with negation and links, query policies."""

from random import Random

from msgspec import Struct

from bobbin.interlace.limits import Service
from bobbin.policy.modules import compile_query
from bobbin.records.record import Plex, build_plex
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


class World(Struct, frozen=True, kw_only=True):
    """Two stores, two policies, two ways to behave."""

    here: list[Plex]
    there: list[Plex]
    rules: tuple[str, str]
    queries: tuple[str, str]
    services: tuple[Service, Service]

    def meeting(
        self, *, codec: bool = False, direct: bool = False, shares: tuple[int | None, int | None] = (None, None)
    ) -> Meeting:
        """The two sides, not started yet. ``shares``: of the key of sketches, where there are to be some."""
        return meet(
            Watched(self.here, query=compile_query(self.queries[0])),
            Watched(self.there, query=compile_query(self.queries[1])),
            *self.rules,
            signed=True,
            codec=codec,
            direct=direct,
            service=self.services[0],
            right=Changes(service=self.services[1], share=shares[1]),
            share=shares[0],
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
