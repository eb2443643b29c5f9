"""``bobbin graph serve``: show what a lace holds, live, to whoever may see it."""

import asyncio
import os
import signal
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from bobbin.cli.commands.peers import PeersFile
from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.graph_options import parse_place
from bobbin.cli.options import AsJson, LaceFolder
from bobbin.cli.output import Json, Output
from bobbin.cli.server_log import ServerLog
from bobbin.cli.sources import check_given
from bobbin.errors import UsageError

if TYPE_CHECKING:
    from bobbin.config.graph_access import Access
    from bobbin.lace import Lace
    from bobbin.runtime.graph_server import ServerSettings
    from bobbin.wire.address import Address


def graph_serve(
    folder: LaceFolder,
    listen: Annotated[
        list[str] | None,
        typer.Option("--listen", metavar="ADDRESS", help="Where. Default: DIR/graph.sock.", show_default=False),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option("--token-file", metavar="FILE", help="Ids and tokens, one peer a line.", show_default=False),
    ] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(
            "--allow",
            metavar="PEER:KIND=KEYS",
            help="Allow a peer something, as in 7:read=records/*.",
            show_default=False,
        ),
    ] = None,
    view: Annotated[
        list[str] | None,
        typer.Option("--view", metavar="NAME=PLACE", help="Show the records at a place as a view.", show_default=False),
    ] = None,
    origin: Annotated[
        list[str] | None,
        typer.Option("--origin", metavar="URL", help="Take browsers on pages of this origin.", show_default=False),
    ] = None,
    certificate: Annotated[
        Path | None, typer.Option("--certificate", metavar="FILE", help="Certificate (PEM).", show_default=False)
    ] = None,
    private_key: Annotated[
        Path | None, typer.Option("--private-key", metavar="FILE", help="Its private key (PEM).", show_default=False)
    ] = None,
    peers: PeersFile = None,
    allow_insecure: Annotated[
        bool,
        typer.Option(
            "--allow-insecure", metavar="", help="Let links off this machine be unencrypted.", show_default=False
        ),
    ] = False,
    as_json: AsJson = False,
) -> ExitCode:
    """Serve what a lace holds as a live graph: counts, sizes, the newest record, views.

    Nobody sees anything that was not allowed to it; who may do what is printed first. The owner of the lace, who can
    open its Unix socket, may read all. PEER is the id of a token, the name of a known peer, `owner` or `anyone`; KIND
    is read, write or trigger_effect. SIGTERM or Ctrl-C stops.

    Example: bobbin graph serve notes.lace --listen ws:127.0.0.1:4794 --allow anyone:read=records/*
    """
    from bobbin.config.graph_access import make_access, read_tokens
    from bobbin.config.layout import Layout
    from bobbin.config.peers import read_peers
    from bobbin.lace import Lace
    from bobbin.wire.address import Scheme

    out = Output(as_json=as_json)
    for file in (token_file, certificate, private_key, peers):
        check_given(file)
    if (certificate is None) != (private_key is None):
        raise UsageError("a certificate and its private key belong together: --certificate FILE --private-key FILE")
    layout = Layout(folder.resolve())
    places = [parse_place(text, to_listen=True) for text in listen or [f"unix:{layout.graph_socket}"]]
    is_stdio = any(place.scheme is Scheme.STDIO for place in places)
    if as_json and is_stdio:
        raise UsageError("on stdio the link has stdout, so there is no room for --json")
    views = [_view(text) for text in view or ()]
    with ExitStack() as stack:
        # A view writes down where it stands; all else is only read.
        lace = stack.enter_context(Lace.open(folder, read_only=not views))
        tokens = {} if token_file is None else read_tokens(token_file)
        access = make_access(allow or (), tokens, read_peers(peers or layout.peers))
        settings = _settings(lace, access, origin or [], certificate, private_key, allow_insecure=allow_insecure)
        serving = _Serving(out, lace, access, settings, is_stdio=is_stdio)
        serving.add_views(stack, views)
        asyncio.run(serving.run(places))
    return ExitCode.OK


def _view(text: str) -> tuple[str, str]:
    from bobbin.config.peers import NAME

    name, equals, place = text.partition("=")
    if not equals or not NAME.fullmatch(name) or not place.startswith("//"):
        raise UsageError(f"a view is NAME=PLACE, as in links=//u//ding//links/, not {text[:80]!r}")
    return name, place


def _settings(
    lace: "Lace",
    access: "Access",
    origins: list[str],
    certificate: Path | None,
    private_key: Path | None,
    *,
    allow_insecure: bool,
) -> "ServerSettings":
    from bobbin.runtime.graph_server import ServerSettings
    from bobbin.transport.tls import TlsServer

    has_key = bool(access.identities.signers) and lace.settings.default_key in lace.key_names()
    return ServerSettings(
        identities=access.identities,
        key=lace.key() if has_key else None,
        origins=frozenset(origins),
        tls=None if certificate is None or private_key is None else TlsServer(certificate=certificate, key=private_key),
        allow_insecure=allow_insecure,
    )


class _Serving:
    """One process that serves a graph."""

    def __init__(
        self, out: Output, lace: "Lace", access: "Access", settings: "ServerSettings", *, is_stdio: bool
    ) -> None:
        from bobbin.runtime.graph_host import GraphHost
        from bobbin.runtime.lace_graph import LaceGraph
        from bobbin.runtime.reactive_context import ReactiveContext

        self._lace: Final = lace
        self._access: Final = access
        self._settings: Final = settings
        self._is_stdio: Final = is_stdio
        self._log: Final = ServerLog(out, is_stdio=is_stdio)
        self._host: Final = GraphHost(ReactiveContext(), allowed=access.allowed, tell=self._log.hear)
        self._graph: Final = LaceGraph(self._host, lace.store)

    def add_views(self, stack: ExitStack, views: list[tuple[str, str]]) -> None:
        """Show some places live."""
        for name, place in views:
            view = stack.enter_context(self._lace.view(place, graph=self._host.graph, follow=False))
            self._graph.add_view(name, view)

    async def run(self, places: "list[Address]") -> None:
        """Until somebody stops it; on stdio, until the link is over."""
        from bobbin.runtime.graph_server import GraphServer

        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        server = GraphServer(self._host, self._settings)
        try:
            for place in places:
                await server.start(place)
            self._say_started([str(address) for address in server.addresses])
            ends = [self._graph.follow(), stop.wait(), *([server.is_idle.wait()] if self._is_stdio else ())]
            tasks = [asyncio.ensure_future(end) for end in ends]
            try:
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    # Following ends only by an error: the graph would stand still.
                    task.result()
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            await server.close()
        self._log.tell("stopped", {}, "stopped")

    def _say_started(self, listening: list[str]) -> None:
        from bobbin.runtime.graph_greeting import OWN_SCHEMES
        from bobbin.runtime.graph_peers import OWNER

        allowed: dict[str, list[str]] = {name: [] for name in self._access.names.values()}
        rows: list[dict[str, Json]] = []
        for one in self._access.allowed:
            name = self._access.names[one.peer]
            allowed[name].append(f"{one.kind.value} {one.pattern}")
            rows.append({"peer": one.peer, "name": name, "kind": one.kind.value, "keys": one.pattern})
        values: dict[str, Json] = {"listening": listening, "process": os.getpid(), "allowed": rows}
        lines = [f"listening   {address}" for address in listening]
        owner = self._access.names[OWNER]
        has_way = any(place.startswith(tuple(OWN_SCHEMES)) for place in listening)
        for name, what in allowed.items():
            how = "; that is whoever can open the Unix socket, or has started this on stdio" if name == owner else ""
            if name == owner and not has_way:
                how = "; but has no way here, which is a Unix socket or stdio"
            lines.append(f"{name:<11} {', '.join(what) or 'nothing'}{how}")
        lines += ["all others  nothing"] if "anyone" not in allowed else []
        self._log.tell("started", values, *lines)
