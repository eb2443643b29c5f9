"""``bobbin policy eval``: what the rules of one policy derive from a lace."""

from typing import TYPE_CHECKING, Annotated

import typer

from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.options import AsJson, LaceFolder, Limit
from bobbin.cli.output import Output
from bobbin.cli.policy_files import (
    AsRole,
    PolicyFile,
    RoleChoice,
    chosen_role,
    load_module,
    load_selector,
)
from bobbin.cli.policy_situation import (
    AnyPeerName,
    Encrypted,
    HereName,
    Link,
    PeerLace,
    Tick,
    Transport,
    offered_claims,
    peer_origin,
    runtime_facts,
)
from bobbin.cli.text import printable
from bobbin.errors import UsageError

if TYPE_CHECKING:
    from bobbin.policy.modules import Query, Selector


def policy_eval(
    folder: LaceFolder,
    file: PolicyFile,
    predicate: Annotated[
        str | None,
        typer.Option("--predicate", "-p", metavar="P", help="Only what is derived of this one.", show_default=False),
    ] = None,
    limit: Limit = None,
    role: AsRole = RoleChoice.AUTO,
    selector: Annotated[
        str | None,
        typer.Option(
            "--selector", metavar="FILE", help="For a query policy: whose choice is OwnSelected.", show_default=False
        ),
    ] = None,
    peer: AnyPeerName = None,
    peer_lace: PeerLace = None,
    here: HereName = None,
    tick: Tick = None,
    transport: Transport = None,
    encrypted: Encrypted = False,
    as_json: AsJson = False,
) -> ExitCode:
    """List what the rules of a policy derive from the records of a lace.

    One policy on its own: what the peer allows has no part in it. `bobbin policy explain` has both.

    Example: bobbin policy eval notes.lace ward.policy --predicate SelectHave
    """
    from bobbin.facts.text import quote
    from bobbin.lace import Lace
    from bobbin.policy.modules import Query
    from bobbin.policy.trial import derive
    from bobbin.policy.vocabulary import SELECT_HAVE

    out = Output(as_json=as_json)
    module = load_module(file, chosen_role(role))
    wanted = _wanted(module, predicate)
    if selector is not None and not isinstance(module, Query):
        raise UsageError("--selector is for query policies; this one is a selector itself")
    chooser = None if selector is None else load_selector(selector)
    link = Link(here=here, peer=peer, tick=tick, transport=transport, encrypted=encrypted)
    origin = peer_origin(link)
    if peer_lace is not None and origin is None:
        raise UsageError("--peer-lace says what a peer offers; --peer must say who it is")
    claims = None if origin is None else offered_claims(origin, peer_lace)
    with Lace.open(folder, read_only=True) as lace, lace.snapshot() as moment:
        runtime = runtime_facts(lace, link)
        chosen = {} if chooser is None else derive(chooser, moment.facts, runtime=runtime)
        derived = derive(
            module,
            moment.facts,
            runtime=runtime,
            claims=claims,
            viewer=origin,
            own_selected=(record for (record,) in chosen.get(SELECT_HAVE, ())),
        )
    rows = ((name, values) for name in wanted for values in sorted(derived[name]))
    count = 0
    for name, values in rows:
        if count == limit:
            break
        count += 1
        out.row({"predicate": name, "values": values}, printable(f"{name}({','.join(map(quote, values))})"))
    if count == 0 and limit != 0:
        out.note("the rules derive nothing")
    return ExitCode.OK


def _wanted(module: "Selector | Query", predicate: str | None) -> list[str]:
    defined = sorted(module.program.heads())
    if predicate is None:
        return defined
    if predicate not in defined:
        raise UsageError(f"no rule of this policy defines {predicate}; it defines {', '.join(defined) or 'nothing'}")
    return [predicate]
