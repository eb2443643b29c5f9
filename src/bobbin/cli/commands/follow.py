"""``bobbin follow``: stay in step with a peer, and show every record that comes."""

from typing import TYPE_CHECKING, Annotated

import typer

from bobbin.cli import output
from bobbin.cli.commands.peers import PeersFile
from bobbin.cli.elsewhere import (
    AllowInsecure,
    Authorities,
    Chosen,
    Demands,
    Elsewhere,
    ExpectedKey,
    Pin,
    Policy,
    QueryPolicy,
    Remote,
    TrustNew,
    find_elsewhere,
)
from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.link_text import duration_text
from bobbin.cli.options import AsJson, LaceFolder, StrategyOption, parse_place
from bobbin.cli.output import Json, Output
from bobbin.cli.record_rows import record_row
from bobbin.cli.text import count_text

if TYPE_CHECKING:
    from bobbin.interlace.effects import Effect
    from bobbin.interlace.events import Event
    from bobbin.lace import Lace
    from bobbin.records.coordinate import Coordinate, Prefix
    from bobbin.runtime.reconnect import Lost


def follow(
    folder: LaceFolder,
    peer: Remote,
    policy: Policy = None,
    query_policy: QueryPolicy = None,
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="PLACE", help="Show only what comes at this place.", show_default=False),
    ] = None,
    count: Annotated[
        int | None, typer.Option("--count", "-n", min=1, metavar="N", help="End after N records.", show_default=False)
    ] = None,
    strategy: StrategyOption = None,
    verifier: ExpectedKey = None,
    pin: Pin = None,
    authorities: Authorities = None,
    trust_new: TrustNew = None,
    allow_insecure: AllowInsecure = False,
    peers: PeersFile = None,
    as_json: AsJson = False,
) -> ExitCode:
    """Keep exchanging records with a peer, and print each one that comes, until Ctrl-C.

    One line each, as of `bobbin list`: hash, time, size, coordinate. A link that is lost is dialled again and goes on
    where it was: at the peer's next address at once, and when none leads to it, later after each failure. --at chooses
    what is shown; what is exchanged, the policies say.

    Example: bobbin follow notes.lace lab --at //u//ding//
    """
    import asyncio

    from bobbin.cli.sync_run import need_nodes
    from bobbin.lace import Lace

    out = Output(as_json=as_json)
    need_nodes(folder)
    demands = Demands(
        verifier=verifier,
        pin=pin,
        authorities=authorities,
        trust_new=trust_new,
        allow_insecure=allow_insecure,
        peers=peers,
    )
    place = None if at is None else parse_place(at)
    with Lace.open(folder) as lace:
        wanted = None if strategy is None else strategy.value
        chosen = Chosen(policy=policy, query_policy=query_policy, strategy=wanted)
        there = find_elsewhere(folder, peer, demands, chosen)
        asyncio.run(_follow(out, lace, there, place, count))
    return ExitCode.OK


async def _follow(
    out: Output, lace: "Lace", there: Elsewhere, place: "Coordinate | Prefix | None", count: int | None
) -> None:
    from bobbin.interlace.effects import Negotiated, Notify
    from bobbin.runtime.following import ObservationsMissed

    is_lost = False

    def tell(lost: "Lost") -> None:
        nonlocal is_lost
        is_lost = True
        there.say_passed_over(out)
        after = "trying the next address" if lost.is_next else _again_text(lost)
        value: Json = {
            "event": "lost",
            "address": there.lost_address(lost),
            "reason": lost.why,
            "wait_seconds": round(lost.wait_seconds, 3),
            "attempts": lost.attempts,
        }
        out.event(value, f"the link is lost: {lost.why}; {after}")

    def linked(words: str) -> None:
        there.say_passed_over(out)
        value: Json = {"event": "linked", "peer": there.name, "verifier": there.verifier, "address": str(there.address)}
        out.event(value, f"{words} {there}")

    def watch(event: "Event", effects: "tuple[Effect, ...]") -> None:
        nonlocal is_lost
        del event
        if is_lost and any(isinstance(one, Notify) and isinstance(one.notice, Negotiated) for one in effects):
            is_lost = False
            linked("the link is back: following")

    async with (
        there.connect(lace, needs_policy=True) as connection,
        connection.follow(place, tell=tell, observers=[watch]) as following,
    ):
        linked("following")
        left = count
        while left is None or left > 0:
            try:
                record = await anext(following, None)
            except ObservationsMissed as error:
                out.warn(f"{count_text(error.count, 'record')} came too fast to be shown here; `bobbin list` has them")
                continue
            if record is None:
                return
            record_row(out, record)
            output.flush()
            left = None if left is None else left - 1


def _again_text(lost: "Lost") -> str:
    return f"trying again within {duration_text(lost.wait_seconds + 1)} (attempt {lost.attempts})"
