"""Small worlds for policy tests: two parties, records as facts, links between them, and random ones by seed."""

from collections.abc import Iterable, Mapping
from random import Random

from bobbin.facts import relations
from bobbin.facts.extract import Fact
from bobbin.policy.claims import ClaimedField, Claims
from bobbin.policy.decide import Situation
from bobbin.policy.executables import Budgets, LocalPolicy, make_policy
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
            "",
        )
    )
