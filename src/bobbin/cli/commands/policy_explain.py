"""``bobbin policy explain``: why a record is sent or withheld, requested or not."""

from typing import TYPE_CHECKING, Annotated

import typer

from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.missing import record_not_found
from bobbin.cli.options import AsJson, LaceFolder, parse_wanted
from bobbin.cli.output import Json, Output
from bobbin.cli.policy_files import load_query, load_selector, texts_of
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
    offered_tip,
    own_origin,
    refusals_among,
    runtime_facts,
    tip_of,
)
from bobbin.cli.text import utc_text
from bobbin.records import tai

if TYPE_CHECKING:
    from bobbin.store.base import Refusal


def policy_explain(
    folder: LaceFolder,
    wanted: Annotated[
        str,
        typer.Argument(metavar="RECORD", help="A hash, or //group//app//name (its newest).", show_default=False),
    ],
    policy: Annotated[str, typer.Option("--policy", metavar="FILE", help="Our policy.", show_default=False)],
    peer: PeerName,
    peer_policy: PeerPolicy = None,
    query_policy: QueryPolicy = None,
    peer_lace: PeerLace = None,
    here: HereName = None,
    tick: Tick = None,
    transport: Transport = None,
    encrypted: Encrypted = False,
    full: Annotated[
        bool, typer.Option("--full", metavar="", help="Do not shorten hashes.", show_default=False)
    ] = False,
    as_json: AsJson = False,
) -> ExitCode:
    """Say why a record would be sent to a peer or withheld, requested from it or not.

    Each condition of both decisions, and the reasons: the rules by file and line and the facts that they rest on, or
    for each rule the first thing that it asks for in vain. A coordinate is looked up here, and else in --peer-lace. A
    record that was removed here is refused, whatever policies say. Made for you alone: it speaks of records that the
    peer must not know of.

    Example: bobbin policy explain notes.lace --policy ward.policy --peer source:lab //u//ding//links/1
    """
    import msgspec

    from bobbin.lace import Lace
    from bobbin.policy.decide import Situation, evaluate
    from bobbin.policy.executables import make_policy
    from bobbin.policy.narrate import narrate, requesting
    from bobbin.policy.operands import parse_origin
    from bobbin.policy.verdict import explain
    from bobbin.records.coordinate import Address

    out = Output(as_json=as_json)
    what = parse_wanted(wanted)
    own = load_selector(policy)
    other = own if peer_policy is None else load_selector(peer_policy)
    query = None if query_policy is None else load_query(query_policy)
    link = Link(here=here, peer=peer, tick=tick, transport=transport, encrypted=encrypted)
    texts = texts_of(policy, policy if peer_policy is None else peer_policy, query_policy)
    origin = parse_origin(peer)
    claims = offered_claims(origin, peer_lace)
    with Lace.open(folder, read_only=True) as lace, lace.snapshot() as moment:
        record = what.hash if isinstance(what, Address) else tip_of(moment, what) or offered_tip(peer_lace, what)
        if record is None:
            return record_not_found(out, lace, what, also=peer_lace)
        made = make_policy(own, other, own_origin=own_origin(lace, link), peer_origin=origin, query=query)
        situation = Situation(facts=moment.facts, claims=claims, runtime=runtime_facts(lace, link))
        verdict = explain(evaluate(made, situation), record)
        refusal = refusals_among(lace, (record,)).get(record)
    if as_json:
        value = msgspec.to_builtins(verdict)
        value["requesting"] = requesting(verdict, refused=refusal is not None)
        value["refusal"] = None if refusal is None else _refusal(refusal)
        value["texts"] = {part.value: file for part, file in texts.items()}
        out.result(value)
    else:
        reason = None if refusal is None else refusal.reason
        out.result(None, *map(out.style, narrate(verdict, full=full, refusal=reason, texts=texts).splitlines()))
    return ExitCode.OK


def _refusal(refusal: "Refusal") -> dict[str, Json]:
    return {"reason": refusal.reason, "tai": tai.render(refusal.tai), "utc": utc_text(refusal.tai)}
