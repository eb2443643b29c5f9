"""``bobbin tangle serve``: take PZP peers, and keep them up to date."""

import asyncio
import os
import signal
from typing import TYPE_CHECKING, Annotated, Final

import typer

from bobbin.cli import output
from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.options import AsJson, LaceFolder
from bobbin.cli.output import Json, Output
from bobbin.cli.tangle_options import KEY_DEFAULT, load_key
from bobbin.cli.tangle_text import short
from bobbin.cli.tangle_unwanted import note_unwanted, threads_without_goal
from bobbin.errors import ResourceError, UsageError

if TYPE_CHECKING:
    from bobbin.errors import BobbinError
    from bobbin.lace import Lace
    from bobbin.tangles.session_effects import Notice
    from bobbin.wire.address import Address

LOOK_SECONDS: Final = 1.0
"""How often the lace is looked at for messages that other processes have written."""


def tangle_serve(
    folder: LaceFolder,
    listen: Annotated[
        str, typer.Option("--listen", metavar="HOST:PORT", help="Where to take peers; port 0 lets the system choose.")
    ] = "127.0.0.1:8008",
    key: Annotated[str, typer.Option("--key", metavar="NAME", help="The account key to be known by.")] = KEY_DEFAULT,
    admit: Annotated[
        list[str] | None,
        typer.Option("--admit", metavar="PUBLIC", help="Take only peers with these keys. Default: everybody."),
    ] = None,
    nine_phases: Annotated[
        bool, typer.Option("--nine-phases", metavar="", help="Speak only as PZP peers do.", show_default=False)
    ] = False,
    as_json: AsJson = False,
) -> ExitCode:
    """Take PZP peers, and keep them up to date while they stay.

    Whoever proves a key may ask for any tangle by its id, as between PZP peers; --admit names those who may. What comes
    in is decided by the goals here. The address that is printed has the key of this side, the one that
    `bobbin tangle key list` shows. With --json there is a line for each event; the first, "started", has the address.
    SIGTERM or Ctrl-C stops.

    Example: bobbin tangle serve notes.lace --listen 0.0.0.0:8008
    """
    from bobbin.lace import Lace
    from bobbin.wire import address as addresses

    out = Output(as_json=as_json)
    place = addresses.parse(f"tcp:{listen}", to_listen=True)
    if place.port is None:
        raise UsageError(f"--listen takes a host and a port, as in 127.0.0.1:8008, not {listen[:80]!r}")
    admitted = None if not admit else frozenset(map(_public, admit))
    with Lace.open(folder) as lace:
        serving = _Serving(out, lace, key, admitted, modern=not nine_phases)
        asyncio.run(serving.run(place))
    return ExitCode.OK


def _public(text: str) -> bytes:
    from bobbin.tangles import keys
    from bobbin.tangles.errors import MalformedText

    try:
        return keys.public_bytes(text)
    except MalformedText as error:
        raise UsageError(f"--admit takes public keys (base58 of 32 bytes), not {text[:80]!r}: {error}") from error


class _Serving:
    """One process that takes peers."""

    def __init__(self, out: Output, lace: "Lace", key: str, admitted: frozenset[bytes] | None, *, modern: bool) -> None:
        from bobbin.runtime.tangle_library import StoreKeeper
        from bobbin.runtime.tangle_node import TangleNode

        self._out: Final = out
        self._lace: Final = lace
        self._admitted: Final = admitted
        self._node: Final = TangleNode(
            load_key(lace, key),
            StoreKeeper(lace.tangles),
            modern=modern,
            watch=self._watch,
            lost=self._lost,
            turned=self._turned,
        )

    async def run(self, place: "Address") -> None:
        """Until somebody stops it."""
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        self._lace.tangles.refresh()
        listener = await self._node.listen(place, admits=self._admits)
        values: dict[str, Json] = {"address": str(listener.address), "process": os.getpid()}
        self._tell("started", values, f"listening at {listener.address}")
        note_unwanted(self._out, self._lace, threads_without_goal(self._lace))
        looking, stopping = asyncio.create_task(self._look()), asyncio.create_task(stop.wait())
        try:
            await asyncio.wait((looking, stopping), return_when=asyncio.FIRST_COMPLETED)
            if looking.done():
                # It looks for ever, unless it cannot. Peers would wait for news that nobody brings.
                looking.result()
        finally:
            looking.cancel()
            stopping.cancel()
            await asyncio.gather(looking, stopping, return_exceptions=True)
            await self._node.close()
        self._tell("stopped", {}, "stopped")

    def _admits(self, peer: bytes) -> bool:
        return self._admitted is None or peer in self._admitted

    async def _look(self) -> None:
        """Tell peers what other processes have written into the lace.

        Where the store cannot be read for now it is told, once, and looked at again later.
        """
        told: str | None = None
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                came = self._lace.tangles.refresh()
            except ResourceError as error:
                if not error.retry:
                    raise
                if told != str(error):
                    told = str(error)
                    self._tell("failed", {"message": told}, f"looking for new messages failed: {told}")
                continue
            told = None
            if came:
                self._node.added(came)

    def _watch(self, peer: bytes, notice: "Notice") -> None:
        from bobbin.tangles import base58
        from bobbin.tangles.session_effects import Finished

        if isinstance(notice, Finished):
            who = base58.encode(peer)
            values: dict[str, Json] = {
                "peer": who,
                "tangle": notice.tangle,
                "sent": notice.sent,
                "added": len(notice.added),
                "refused": len(notice.refused),
            }
            words = f"{len(notice.added):,} came, {notice.sent:,} sent, {len(notice.refused):,} refused"
            self._tell("run", values, f"{short(who)}  {short(notice.tangle)}  {words}")

    def _lost(self, peer: bytes, error: "BobbinError") -> None:
        from bobbin.tangles import base58

        who = base58.encode(peer)
        self._tell("lost", {"peer": who, "message": str(error)}, f"{short(who)}  {error}")

    def _turned(self, code: str, remote: str) -> None:
        self._tell("turned-away", {"remote": remote, "reason": code}, f"{remote} was turned away: {code}")

    def _tell(self, event: str, values: dict[str, Json], words: str) -> None:
        self._out.row({"event": event, **values}, self._out.style(words))
        output.flush()
