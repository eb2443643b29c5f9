"""Random policies for worlds of an exchange: plain ones, closures over evidence and links, windows of time, negation.

What a policy promises about the end of an exchange depends on how its rules use ``not``. Without it a side selects more
as it holds more, and where it all ends does not depend on the order of events. With it an exchange still ends, as long
as what a side offers does not depend on what the other side offers.
"""

from collections.abc import Sequence
from random import Random
from typing import Final

from msgspec import Struct

from bobbin.records.ids import Verifier
from bobbin.simulator.population import APPS, CHUNK, DOCUMENT, GROUPS, LEFT, MEMBER

_WINDOW_NS: Final = 60_000_000_000


class Choice(Struct, frozen=True, kw_only=True):
    """One side's rules, and what they are like."""

    selector: str
    query: str | None = None
    is_monotone: bool = True
    """What is selected only grows with what is held and with what is offered."""
    settles: bool = True
    """What is offered does not depend on what the other side offers."""
    is_timed: bool = False


def choose(random: Random, verifiers: Sequence[Verifier], hashes: Sequence[str], *, proven: bool) -> Choice:
    """A random policy. ``hashes``: records that rules may name. ``proven``: whether rules may ask who is there."""
    makers = [_one_group, _one_group, _group_and_app, _signers, _members, _chunks, _newest, _recent, _embargo]
    makers += [_gate, _random_rules, _random_rules]
    choice = (_everything if random.random() < 0.3 else random.choice(makers))(random, verifiers, hashes)
    query, is_monotone = _query(random)
    selector = choice.selector
    if proven and random.random() < 0.1:
        selector = selector.replace("Have(P),", "Have(P), Peer(_),", 1)
    return Choice(
        selector=selector,
        query=query,
        is_monotone=choice.is_monotone and is_monotone,
        settles=choice.settles,
        is_timed=choice.is_timed,
    )


def _query(random: Random) -> tuple[str | None, bool]:
    kind = random.random()
    if kind < 0.7:
        return None, True
    if kind < 0.8:
        return "Queryable(P,O) :- Have(P), Viewer(O).\n", True
    if kind < 0.9:
        hidden = "Queryable(P,O) :- OwnSelected(P), not Private(P), Viewer(O).\n"
        hidden += "Private(P) :- Field(P,'X-Private',_,'yes').\n"
        # Whether a record is private is said by itself, so this view only grows as well.
        return hidden, True
    if kind < 0.98:
        return f"Queryable(P,O) :- OwnSelected(P), Field(P,'Group',_,'{random.choice(GROUPS)}'), Viewer(O).\n", True
    return "", True


def _everything(random: Random, verifiers: Sequence[Verifier], hashes: Sequence[str]) -> Choice:
    del random, verifiers, hashes
    return Choice(selector="SelectHave(P) :- Have(P), Eq('a','a').\nSelectAdvertised(P,S) :- Advertised(P,S).\n")


def _pair(have: str, advertised: str) -> str:
    return f"SelectHave(P) :- Have(P), {have}.\nSelectAdvertised(P,S) :- Advertised(P,S), {advertised}.\n"


def _field(name: str, value: str) -> tuple[str, str]:
    return f"Field(P,'{name}',_,{value})", f"AdvertisedField(P,S,'{name}',_,{value})"


def _one_group(random: Random, verifiers: Sequence[Verifier], hashes: Sequence[str]) -> Choice:
    del verifiers, hashes
    return Choice(selector=_pair(*_field("Group", f"'{random.choice(GROUPS)}'")))


def _group_and_app(random: Random, verifiers: Sequence[Verifier], hashes: Sequence[str]) -> Choice:
    del verifiers, hashes
    group, app = _field("Group", f"'{random.choice(GROUPS)}'"), _field("App", f"'{random.choice(APPS)}'")
    every = random.random() < 0.2
    open_name = ("", ", AdvertisedField(P,S,_,_,_)")[every]
    return Choice(selector=_pair(f"{group[0]}, {app[0]}", f"{group[1]}, {app[1]}{open_name}"))


def _signers(random: Random, verifiers: Sequence[Verifier], hashes: Sequence[str]) -> Choice:
    del hashes
    trusted = "".join(f"Trusted('{verifier}').\n" for verifier in random.sample(verifiers, 2))
    have, advertised = _field("Signed-By", "V")
    return Choice(selector=_pair(f"{have}, Trusted(V)", f"{advertised}, Trusted(V)") + trusted)


def _members(random: Random, verifiers: Sequence[Verifier], hashes: Sequence[str]) -> Choice:
    del hashes
    revocable = random.random() < 0.5
    by, claimed_by = _field("Signed-By", "V")
    lines = [_pair(f"{by}, Member(V)", f"{claimed_by}, Member(V)")]
    for app in (MEMBER, LEFT) if revocable else (MEMBER,):
        have, advertised = _field("App", f"'{app}'")
        lines.append(_pair(f"{have}, {by}, Admin(V)", f"{advertised}, {claimed_by}, Admin(V)"))
    said = "Have(M), Field(M,'App',_,'{}'), Field(M,'Name',_,V), Field(M,'Signed-By',_,A), Admin(A)"
    lines.append(f"Member(V) :- {said.format(MEMBER)}{', not Left(V)' if revocable else ''}.\n")
    if revocable:
        lines.append(f"Left(V) :- {said.format(LEFT)}.\n")
    lines.append(f"Admin('{verifiers[0]}').\n")
    return Choice(selector="".join(lines), is_monotone=not revocable)


def _chunks(random: Random, verifiers: Sequence[Verifier], hashes: Sequence[str]) -> Choice:
    del random, verifiers, hashes
    return Choice(
        selector=(
            "SelectHave(P) :- Have(P), Wanted(P).\n"
            f"Wanted(P) :- Have(P), Field(P,'App',_,'{DOCUMENT}').\n"
            f"Wanted(Q) :- Wanted(P), RecordLink(P,'{CHUNK}',_,_,Q).\n"
            f"SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'App',_,'{DOCUMENT}').\n"
            "SelectAdvertised(P,S) :- Advertised(P,S), Wanted(P).\n"
        )
    )


def _newest(random: Random, verifiers: Sequence[Verifier], hashes: Sequence[str]) -> Choice:
    del verifiers, hashes
    group = random.choice(GROUPS)
    return Choice(
        selector=(
            f"SelectHave(P) :- Have(P), Field(P,'Group',_,'{group}'), not Outdated(P).\n"
            "Outdated(P) :- Field(P,'Name',_,N), Field(P,'TAI',_,T), Field(Q,'Name',_,N), Field(Q,'TAI',_,U), "
            "Lt(T,U).\n"
            f"SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'Group',_,'{group}'), not Stale(P,S).\n"
            "Stale(P,S) :- AdvertisedField(P,S,'Name',_,N), AdvertisedField(P,S,'TAI',_,T), Field(Q,'Name',_,N), "
            "Field(Q,'TAI',_,U), Le(T,U).\n"
        ),
        is_monotone=False,
    )


def _recent(random: Random, verifiers: Sequence[Verifier], hashes: Sequence[str]) -> Choice:
    del verifiers, hashes
    clock = random.choice(("TickTAI", "StartTAI"))
    since = f"{clock}(Now), TaiSub(Now,'{_WINDOW_NS}',Since)"
    have, advertised = _field("TAI", "T")
    compare = random.choice(("Ge", "Le"))
    rules = _pair(f"{since}, {have}, {compare}(T,Since)", f"{since}, {advertised}, {compare}(T,Since)")
    return Choice(selector=rules, is_timed=True)


def _embargo(random: Random, verifiers: Sequence[Verifier], hashes: Sequence[str]) -> Choice:
    del verifiers, hashes
    group = random.choice(GROUPS)
    return Choice(
        selector=_pair(
            f"Field(P,'Group',_,'{group}'), Field(P,'Release-TAI',_,R), TickTAI(Now), Le(R,Now)",
            f"AdvertisedField(P,S,'Group',_,'{group}')",
        ),
        is_timed=True,
    )


def _gate(random: Random, verifiers: Sequence[Verifier], hashes: Sequence[str]) -> Choice:
    """Everything moves until one certain record is there, which itself may come at any moment."""
    del verifiers
    gate = random.choice(hashes)
    return Choice(
        selector=(
            f"SelectHave(P) :- Have(P), not Have('{gate}').\n"
            f"SelectHave(P) :- Have(P), Eq(P,'{gate}').\n"
            "SelectAdvertised(P,S) :- Advertised(P,S).\n"
        ),
        is_monotone=False,
    )


_CONDITIONS: Final = (
    "Have('{0}')",
    "not Have('{0}')",
    "Field(P,'X-Level',_,'a')",
    "not Field(P,'X-Level',_,'b')",
    "RecordLink(P,_,_,_,Q), not Have(Q)",
    "RecordLink(P,_,_,_,Q), Have(Q)",
    "not Field('{0}','Group',_,'u')",
    "Linked('{0}',P)",
    "not Linked(P,'{0}')",
)
_CLAIM_CONDITIONS: Final = (
    "not Have('{0}')",
    "AdvertisedField(P,S,'X-Level',_,'a')",
    "not AdvertisedField(P,S,'X-Level',_,'b')",
    "not Advertised('{0}',S)",
    "Advertised('{0}',S)",
    "not Linked('{0}',P)",
    "not Held(P)",
    "Have(Q), RecordLink(Q,_,_,_,P)",
)
_ON_CLAIMS: Final = ("not Advertised(P,_)", "not Advertised('{0}',_)", "Advertised('{0}',_)")


def _random_rules(random: Random, verifiers: Sequence[Verifier], hashes: Sequence[str]) -> Choice:
    """Rules with negation wherever it may stand; rarely, also about what the other side offers."""
    del verifiers
    settles = random.random() < 0.8
    rules = ["Linked(P,Q) :- RecordLink(P,_,_,_,Q).", "Linked(P,R) :- Linked(P,Q), Linked(Q,R).", "Held(P) :- Have(P)."]
    own = _CONDITIONS if settles else (*_CONDITIONS, *_ON_CLAIMS * 3)
    for head, start, conditions in (
        ("SelectHave(P)", "Have(P)", own),
        ("SelectAdvertised(P,S)", "Advertised(P,S)", _CLAIM_CONDITIONS),
    ):
        for _ in range(random.randint(1, 3)):
            chosen = random.sample(conditions, random.randint(0, 2))
            body = [start, *(condition.format(random.choice(hashes)) for condition in chosen)]
            rules.append(f"{head} :- {', '.join(body)}.")
    return Choice(selector="\n".join(rules) + "\n", is_monotone=False, settles=settles)
