"""Small worlds for policy tests: two parties, records as facts, links between them, and random ones by seed."""

from collections.abc import Iterable, Mapping
from random import Random

from msgspec import Struct

from bobbin.datalog.limits import Limits
from bobbin.facts import relations
from bobbin.facts.extract import Fact
from bobbin.facts.relations import Tuple
from bobbin.policy.claims import ClaimedField, Claims
from bobbin.policy.decide import Situation, evaluate
from bobbin.policy.executables import Budgets, LocalPolicy, Part, PolicyLimitExceeded, make_policy
from bobbin.policy.modules import Query, compile_query, compile_selector
from bobbin.policy.operands import Origin
from bobbin.policy.runtime_facts import RuntimeFacts
from bobbin.policy.views import RecordFacts
from bobbin.records.ids import Verifier

# The two sample verifiers of the companion page. BOB's text is the smaller one, so BOB is operand 0.
ALICE = Verifier("V.OEL2sxn4GhPnCm_bU7hnAPU0Q0gVS8KxFlNg3zfHT2O.H3")
BOB = Verifier("V.KUEKyigQ92YohOZm6qahnSiSR8rO~qzWG3lhHM8Wmnt.H3")

DING = (
    "SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'App',_,'ding'), "
    "AdvertisedField(P,S,'Group',_,'u').\n"
    "SelectHave(P) :- Have(P), Field(P,'App',_,'ding'), Field(P,'Group',_,'u').\n"
)
DING_IDENTIFIER = "R.no0zpA989ba4DQLVF~dswkCbzd5aK1Dn373LKs5I1gC"
EVERYTHING = "SelectAdvertised(P,S) :- Advertised(P,S).\nSelectHave(P) :- Have(P).\n"
SHOW_EVERYTHING = "Queryable(P,O) :- Have(P), Viewer(O).\n"


def plex(number: int) -> str:
    """The hash text of a made-up Plex."""
    return f"P.{number:042d}0.H3"


def record(hash: str, **fields: str) -> list[Fact]:
    """A stored record; ``Signed_By`` is the field ``Signed-By``."""
    facts: list[Fact] = [(relations.HAVE, (hash,))]
    facts += [(relations.FIELD, (hash, name.replace("_", "-"), "0", value)) for name, value in fields.items()]
    return facts


def stored(*records: Iterable[Fact]) -> RecordFacts:
    return RecordFacts(fact for facts in records for fact in facts)


def claims(records: Mapping[str, Mapping[str, str]], source: str = BOB) -> Claims:
    """What a peer advertises: the claimed fields by record."""
    return Claims(
        Origin(source),
        {
            hash: [ClaimedField(name.replace("_", "-"), "0", value) for name, value in fields.items()]
            for hash, fields in records.items()
        },
    )


def policy(
    own: str,
    peer: str = EVERYTHING,
    query: str | None = None,
    *,
    budgets: Budgets | None = None,
    own_origin: str = ALICE,
    peer_origin: str = BOB,
) -> LocalPolicy:
    """Alice's policy towards Bob."""
    compiled: Query | None = None if query is None else compile_query(query)
    return make_policy(
        compile_selector(own),
        compile_selector(peer),
        own_origin=Origin(own_origin),
        peer_origin=Origin(peer_origin),
        query=compiled,
        budgets=budgets or Budgets(),
    )


def situation(facts: RecordFacts, advertised: Claims | None = None, runtime: RuntimeFacts | None = None) -> Situation:
    return Situation(
        facts=facts,
        claims=Claims(Origin(BOB)) if advertised is None else advertised,
        runtime=RuntimeFacts(here=ALICE, peer=BOB) if runtime is None else runtime,
    )


# ---- random worlds --------------------------------------------------------------------------------------------------

_NAMES = ("Group", "App", "Level", "Signed-By")
_VALUES = ("a", "b", "open", "closed")


def random_record(random: Random, hash: str, others: list[str]) -> list[Fact]:
    """A record with a few fields, and links to records that may or may not be there."""
    facts: list[Fact] = [(relations.HAVE, (hash,))]
    facts += [(relations.FIELD, (hash, name, "0", random.choice(_VALUES))) for name in _NAMES if random.random() < 0.7]
    if others and random.random() < 0.6:
        target = random.choice(others)
        facts.append((relations.RECORD_LINK, (hash, "+Link", "0", "to", target)))
        facts.append((relations.BLOB_HASH, (hash, random.choice(others))))
    return facts


def random_claims(random: Random, hashes: list[str]) -> Claims:
    advertised = random.sample(hashes, random.randint(0, len(hashes)))
    return claims(
        {hash: {name: random.choice(_VALUES) for name in _NAMES if random.random() < 0.6} for hash in advertised}
    )


def random_selector(random: Random, hashes: list[str], *, negation: bool = True) -> str:
    """A valid selector: helpers defined in layers, recursion among positive ones, constants, links, built-ins."""
    rules = [
        "Linked(P,Q) :- RecordLink(P,_,_,_,Q).",
        "Linked(P,R) :- Linked(P,Q), Linked(Q,R).",
    ]
    known: list[tuple[str, int]] = [("Linked", 2)]
    for helper in ("Near", "Odd", "Far"):
        count = random.randint(1, 2)
        rules += [_random_rule(random, f"{helper}(P)", known, hashes, negation=negation) for _ in range(count)]
        known.append((helper, 1))
    count = random.randint(1, 3)
    rules += [_random_rule(random, "SelectHave(P)", known, hashes, negation=negation) for _ in range(count)]
    count = random.randint(1, 2)
    rules += [_random_claim_rule(random, known, negation=negation) for _ in range(count)]
    if random.random() < 0.3:
        rules.append(f"SelectHave('{random.choice(hashes)}').")
    if random.random() < 0.3:
        rules.append("SelectHave(Q) :- Have(P), Linked(P,Q).")
    return "\n".join(rules) + "\n"


def _random_rule(random: Random, head: str, known: list[tuple[str, int]], hashes: list[str], *, negation: bool) -> str:
    binders = ["Have(P)", f"Field(P,'{random.choice(_NAMES)}',_,V)", "RecordLink(P,_,_,_,Q)", "BlobHash(P,Q)"]
    if negation:
        # A rule may also start from what is named elsewhere, and so test records that it does not see.
        binders += ["Advertised(P,_)", "RecordLink(Q,_,_,_,P)"]
    body = [random.choice(binders)]
    for _ in range(random.randint(0, 3)):
        body.append(_random_literal(random, known, hashes, has_value=body[0].endswith("V)"), negation=negation))
    return f"{head} :- {', '.join(body)}."


def _random_literal(
    random: Random, known: list[tuple[str, int]], hashes: list[str], *, has_value: bool, negation: bool
) -> str:
    name, value = random.choice(_NAMES), random.choice(_VALUES)
    choices = [f"Field(P,'{name}',_,'{value}')", "Have(P)", f"Ne(P,'{random.choice(hashes)}')"]
    choices += [f"{helper}(P)" if arity == 1 else f"{helper}(P,_)" for helper, arity in known]
    choices += [f"{helper}(_,P)" for helper, arity in known if arity == 2]
    if has_value:
        choices += [f"Le(V,'{value}')", f"Field(_,'{name}',_,V)"]
    literal = random.choice(choices)
    return f"not {literal}" if negation and random.random() < 0.4 else literal


def _random_claim_rule(random: Random, known: list[tuple[str, int]], *, negation: bool) -> str:
    body = ["Advertised(P,S)"]
    name, value = random.choice(_NAMES), random.choice(_VALUES)
    choices = [f"AdvertisedField(P,S,'{name}',_,'{value}')", "Have(P)"]
    choices += [f"{helper}(P)" for helper, arity in known if arity == 1]
    for _ in range(random.randint(0, 2)):
        literal = random.choice(choices)
        body.append(f"not {literal}" if negation and random.random() < 0.4 else literal)
    return f"SelectAdvertised(P,S) :- {', '.join(body)}."


def random_query(random: Random) -> str:
    """A valid query module, from the default to odd ones with negation."""
    return random.choice(
        (
            "Queryable(P,O) :- OwnSelected(P), Viewer(O).\n",
            "Queryable(P,O) :- Have(P), Field(P,'Level',_,'open'), Viewer(O).\n",
            "Queryable(P,O) :- Have(P), not Field(P,'Level',_,'closed'), Viewer(O).\n",
            "Queryable(P,O) :- OwnSelected(P), not Field(P,'Group',_,'b'), Viewer(O).\n",
            "Queryable(Q,O) :- Have(P), RecordLink(P,_,_,_,Q), Viewer(O).\n",
            "Queryable(P,O) :- Have(P), Field(P,'Level',_,V), Ne(V,'closed'), not Field(P,'App',_,'a'), Viewer(O).\n",
            "Queryable(P,O) :- Have(P), RecordLink(P,_,_,_,_), Viewer(O).\n",
            "",
        )
    )


class Interference(Struct, frozen=True, kw_only=True):
    """What became of one pair of stores that differ outside the peer's view."""

    view_moved: bool
    """The change moved the view itself, so the pair says nothing."""
    changed: bool
    """The two stores differ at all."""
    same_results: bool
    """The peer's module derived the same, or stopped at the same limit."""
    same_results_unfiltered: bool
    """It would have derived the same with the whole store in sight: then the pair proves little."""
    stopped: bool
    """A tight budget stopped the module."""
    program: str


def random_interference(random: Random) -> Interference:
    """Two stores that differ only in records outside the peer's view, under random policies."""
    hashes = [plex(number) for number in range(9)]
    named = hashes + [plex(number) for number in range(9, 12)]
    own, peer, query = random_selector(random, named), random_selector(random, named), random_query(random)
    tight = Limits(derived_tuples_max=random.choice((4, 12, 1_000)), steps_max=random.choice((20, 60, 1_000)))
    advertised = random_claims(random, named)
    world = _World(own if random.random() < 0.3 else EVERYTHING, peer, query, tight)
    before = {hash: random_record(random, hash, named) for hash in random.sample(hashes, 7)}
    first = world.run(situation(stored(*before.values()), advertised))
    after = dict(before)
    for hash in hashes:
        if hash in first.visible or random.random() < 0.3:
            continue
        if random.random() < 0.3:
            after.pop(hash, None)
        else:
            after[hash] = random_record(random, hash, named)
    # Records that came into view by the change leave again: it is to be a change outside the view.
    for hash in world.visible(situation(stored(*after.values()), advertised)) - first.visible:
        after.pop(hash, None)
    second = world.run(situation(stored(*after.values()), advertised))
    return Interference(
        view_moved=first.visible != second.visible,
        changed=before != after,
        same_results=(first.derived, first.stopped) == (second.derived, second.stopped),
        same_results_unfiltered=first.derived_unfiltered == second.derived_unfiltered,
        stopped=first.stopped is not None,
        program=peer,
    )


class _PeerRun(Struct, frozen=True, kw_only=True):
    visible: frozenset[str]
    derived: dict[str, frozenset[Tuple]]
    derived_unfiltered: dict[str, frozenset[Tuple]]
    stopped: str | None
    """The limit that a tight budget hits, if any."""


class _World:
    """Two parties and their rules. Every run gets executables of its own, as a peer that asks for the first time."""

    def __init__(self, own: str, peer: str, query: str, tight: Limits) -> None:
        self._own, self._peer, self._query = compile_selector(own), compile_selector(peer), compile_query(query)
        self._tight = tight

    def visible(self, where: Situation) -> frozenset[str]:
        return evaluate(self._link(Budgets()), where).visible

    def run(self, where: Situation) -> _PeerRun:
        """The peer's view, everything that its module derives in it, and where it stops with little to spend."""
        link = self._link(Budgets())
        evaluation = evaluate(link, where)
        everything = dict(evaluation.peer.sources) | dict.fromkeys(relations.ARITY, where.facts)
        unfiltered = link.run(Part.PEER_SELECTOR, everything)
        stopped = None
        try:
            self._link(Budgets(peer=self._tight)).run(Part.PEER_SELECTOR, evaluation.peer.sources)
        except PolicyLimitExceeded as error:
            stopped = error.limit
        heads = self._peer.program.heads()
        return _PeerRun(
            visible=evaluation.visible,
            derived={name: evaluation.peer.state.tuples(name) for name in heads},
            derived_unfiltered={name: unfiltered.tuples(name) for name in heads},
            stopped=stopped,
        )

    def _link(self, budgets: Budgets) -> LocalPolicy:
        return make_policy(
            self._own,
            self._peer,
            own_origin=Origin(ALICE),
            peer_origin=Origin(BOB),
            query=self._query,
            budgets=budgets,
        )
