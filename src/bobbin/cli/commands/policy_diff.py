"""``bobbin policy diff``: what a change of policy would move."""

from typing import Annotated

import typer

from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.options import AsJson, LaceFolder
from bobbin.cli.output import Output
from bobbin.cli.policy_files import load_query, load_selector
from bobbin.cli.policy_situation import (
    Encrypted,
    HereName,
    Link,
    PeerLace,
    PeerName,
    PeerPolicy,
    QueryPolicy,
    Tick,
    Transport,
    offered_claims,
    own_origin,
    refusals_among,
    runtime_facts,
)


def policy_diff(
    folder: LaceFolder,
    old: Annotated[str, typer.Argument(metavar="OLD", help="The policy until now.", show_default=False)],
    new: Annotated[str, typer.Argument(metavar="NEW", help="The policy from now on.", show_default=False)],
    peer: PeerName,
    peer_policy: PeerPolicy = None,
    query_policy: QueryPolicy = None,
    peer_lace: PeerLace = None,
    here: HereName = None,
    tick: Tick = None,
    transport: Transport = None,
    encrypted: Encrypted = False,
    as_json: AsJson = False,
) -> ExitCode:
    """Show which records a change of policy would move, and which it would stop.

    Without --peer-policy, the peer changes its policy in the same way: OLD on both sides, then NEW on both. What would
    newly arrive but was removed here is shown as refused, and is no difference. Ends with 1 if there is any.

    Example: bobbin policy diff notes.lace ward.policy new.policy --peer source:lab
    """
    from bobbin.lace import Lace
    from bobbin.policy.compare import compare
    from bobbin.policy.decide import Situation
    from bobbin.policy.executables import make_policy
    from bobbin.policy.operands import parse_origin

    out = Output(as_json=as_json)
    selectors = load_selector(old), load_selector(new)
    others = selectors if peer_policy is None else (load_selector(peer_policy),) * 2
    query = None if query_policy is None else load_query(query_policy)
    link = Link(here=here, peer=peer, tick=tick, transport=transport, encrypted=encrypted)
    origin = parse_origin(peer)
    claims = offered_claims(origin, peer_lace)
    with Lace.open(folder, read_only=True) as lace, lace.snapshot() as moment:
        ours = own_origin(lace, link)
        before, after = (
            make_policy(own, other, own_origin=ours, peer_origin=origin, query=query)
            for own, other in zip(selectors, others, strict=True)
        )
        situation = Situation(facts=moment.facts, claims=claims, runtime=runtime_facts(lace, link))
        change = compare(before, after, situation)
        arrivals = change.newly_arrive | change.no_longer_arrive
        change = change.without_refused(frozenset(refusals_among(lace, arrivals)))
    for name, records, fg in (
        ("newly leaves", change.newly_leave, "red"),
        ("no longer leaves", change.no_longer_leave, "yellow"),
        ("newly arrives", change.newly_arrive, "green"),
        ("no longer arrives", change.no_longer_arrive, "yellow"),
        ("refused", change.refused, "yellow"),
    ):
        for record in sorted(records):
            key = name.replace(" ", "-")
            out.row({"change": key, "record": record}, f"{out.style(f'{name:<17}', fg=fg)}  {out.style(record)}")
    if change.is_empty:
        out.note(
            "no difference: what would newly arrive was removed here, and `bobbin refusals` lists it"
            if change.refused
            else "no difference"
        )
    return ExitCode.OK if change.is_empty else ExitCode.NOT_ALL
