"""The situation that a policy is tried in: who is here, who is the peer, what it offers, which time it is.

A running exchange knows all that by itself. A command that only tries a policy takes it from its options, and from
the lace where no option says otherwise.
"""

from collections.abc import Container
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import Struct

from bobbin.cli.times import FORMS, parse_time
from bobbin.records.coordinate import Coordinate

if TYPE_CHECKING:
    from bobbin.facts.relations import FactSource
    from bobbin.lace import Lace
    from bobbin.policy.claims import Claims
    from bobbin.policy.operands import Origin
    from bobbin.policy.runtime_facts import RuntimeFacts
    from bobbin.records.ids import HashText
    from bobbin.store.base import Refusal, View

_PEER_HELP = "The other side: its verifier, or source:LABEL for one that has proven nothing."

PeerName = Annotated[str, typer.Option("--peer", metavar="V", help=_PEER_HELP, show_default=False)]

AnyPeerName = Annotated[str | None, typer.Option("--peer", metavar="V", help=_PEER_HELP, show_default=False)]

PeerPolicy = Annotated[
    str | None,
    typer.Option("--peer-policy", metavar="FILE", help="The peer's policy. Default: the same as ours."),
]

QueryPolicy = Annotated[
    str | None,
    typer.Option(
        "--query-policy", metavar="FILE", help="What the peer's rules may see. Default: what our policy selects."
    ),
]

PeerLace = Annotated[
    Path | None,
    typer.Option("--peer-lace", metavar="DIR", help="Lace whose records the peer offers. Default: it offers nothing."),
]

HereName = Annotated[
    str | None,
    typer.Option("--here", metavar="V", help="Our verifier. Default: that of the lace's default key, if there is one."),
]

Tick = Annotated[str | None, typer.Option("--tick", metavar="T", help=f"Time of the exchange: {FORMS}. Default: now.")]

Transport = Annotated[
    str | None, typer.Option("--transport", metavar="ADDRESS", help="Address of the connection.", show_default=False)
]

Encrypted = Annotated[
    bool, typer.Option("--encrypted", metavar="", help="The connection is encrypted.", show_default=False)
]


class Link(Struct, frozen=True, kw_only=True):
    """What the options say about the exchange."""

    here: str | None
    peer: str | None
    tick: str | None
    transport: str | None
    encrypted: bool


def own_origin(lace: "Lace", link: Link) -> "Origin":
    """Who this side is: what the user says, else the default key, else nobody in particular."""
    from bobbin.policy.operands import anonymous_origin, parse_origin

    if link.here is not None:
        return parse_origin(link.here)
    if lace.settings.default_key in lace.key_names():
        return parse_origin(lace.key().verifier)
    return anonymous_origin(0)


def peer_origin(link: Link) -> "Origin | None":
    """Who the other side is, if it was said."""
    from bobbin.policy.operands import parse_origin

    return None if link.peer is None else parse_origin(link.peer)


def runtime_facts(lace: "Lace", link: Link) -> "RuntimeFacts":
    """What the rules are told about the exchange."""
    from bobbin.policy.operands import is_verifier
    from bobbin.policy.runtime_facts import RuntimeFacts
    from bobbin.records import tai
    from bobbin.records.ids import Verifier
    from bobbin.runtime.clock import tai_now

    here, peer = own_origin(lace, link), peer_origin(link)
    tick = tai.render(tai_now()) if link.tick is None else parse_time(link.tick)
    return RuntimeFacts(
        here=Verifier(here) if is_verifier(here) else None,
        peer=Verifier(peer) if peer is not None and is_verifier(peer) else None,
        transport=link.transport,
        transport_encrypted=link.encrypted,
        start_tai=tick,
        tick_tai=tick,
    )


def refusals_among(lace: "Lace", records: Container[str]) -> "dict[str, Refusal]":
    """Those of some records that were removed here and are refused, with the refusal. Policies know nothing of it."""
    return {refusal.hash: refusal for refusal in lace.refusals() if refusal.hash in records}


def offered_claims(peer: "Origin", folder: Path | None) -> "Claims":
    """What the peer would advertise if it held the records of a lace; nothing without one."""
    from bobbin.lace import Lace
    from bobbin.policy.claims import Claims

    if folder is None:
        return Claims(peer)
    with Lace.open(folder, read_only=True) as lace, lace.snapshot() as moment:
        return _claims(peer, moment.facts)


def tip_of(view: "View", place: Coordinate) -> "HashText | None":
    """The newest record at a coordinate."""
    return next((tip.hash for tip in view.list(place, tips=True, limit=1)), None)


def offered_tip(folder: Path | None, place: Coordinate) -> "HashText | None":
    """The newest record at a coordinate of the lace whose records the peer offers, if there is one."""
    from bobbin.lace import Lace

    if folder is None:
        return None
    with Lace.open(folder, read_only=True) as lace:
        return tip_of(lace.store, place)


def _claims(peer: "Origin", facts: "FactSource") -> "Claims":
    from bobbin.facts.relations import FIELD, HAVE
    from bobbin.policy.claims import ClaimedField, Claims

    fields: dict[str, list[ClaimedField]] = {record: [] for (record,) in facts.enumerate(HAVE)}
    for record, name, index, value in facts.enumerate(FIELD):
        fields[record].append(ClaimedField(name, index, value))
    return Claims(peer, fields)
