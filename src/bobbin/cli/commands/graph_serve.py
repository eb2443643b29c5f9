"""``bobbin graph serve``: show what a lace holds, live, to whoever may see it."""

import asyncio
import os
import signal as signals
from collections.abc import Callable, Coroutine, Iterable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec import Struct, structs

from bobbin.cli.commands.peers import PeersFile
from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.graph_options import (
    CALLED,
    ROOM,
    RoomName,
    SharedMemory,
    Shown,
    SignalToken,
    check_room,
    find_room,
    parse_place,
)
from bobbin.cli.graph_serve_options import (
    Allow,
    Cells,
    Certificate,
    Insecure,
    Listen,
    Origins,
    PrivateKey,
    Replica,
    ReplicateAt,
    ReplicateWith,
    SignalAt,
    Tokens,
    Views,
    read_cells,
    read_replicas,
    read_view,
)
from bobbin.cli.options import AsJson, LaceFolder
from bobbin.cli.output import Json, Output
from bobbin.cli.server_log import ServerLog
from bobbin.cli.sources import check_given
from bobbin.errors import UsageError

if TYPE_CHECKING:
    from bobbin.config.graph_access import Access
    from bobbin.lace import Lace
    from bobbin.runtime.graph_calls import Room
    from bobbin.runtime.graph_host import Values
    from bobbin.runtime.graph_server import GraphServer, ServerSettings
    from bobbin.transport.tls import TlsServer
    from bobbin.wire.address import Address


_EARLY_MAX: Final = 256
"""Events that are kept until all is ready."""
_Work: TypeAlias = Callable[[], Coroutine[object, object, object]]
"""Something to be done as long as the graph is served."""


class _Plan(Struct, frozen=True, kw_only=True):
    """What is served, besides what the lace holds, and where."""

    places: "list[Address]"
    """Where it must be served."""
    own: "Address | None"
    """The socket in the folder, where observers look for the graph of a lace: served as well, if it can be had."""
    views: list[tuple[str, str]]
    cells: dict[str, str]
    replicas: list[Replica]
    replica_places: "list[Address]"
    room: "Room | None"

    @property
    def is_stdio(self) -> bool:
        from bobbin.wire.address import Scheme

        return any(place.scheme is Scheme.STDIO for place in self.places)

    @property
    def wanted(self) -> "list[Address]":
        """Where it is served if all goes well."""
        return [*self.places, *([] if self.own is None else [self.own])]

    def check(self, *, as_json: bool) -> None:
        """Raise ``UsageError`` for what makes no sense together."""
        if as_json and self.is_stdio:
            raise UsageError("on stdio the link has stdout, so there is no room for --json")
        if self.replicas and not self.cells:
            raise UsageError("there is nothing to replicate: --cell KEY=TAG says what is")
        if self.replica_places and not self.replicas:
            raise UsageError("say who comes there: --replicate-with PEER")
        if not self.replica_places and any(replica.address is None for replica in self.replicas):
            raise UsageError("say where replicas come that are not dialled: --replicate-at ADDRESS")


def graph_serve(
    folder: LaceFolder,
    listen: Listen = None,
    token_file: Tokens = None,
    allow: Allow = None,
    view: Views = None,
    cell: Cells = None,
    replicate_with: ReplicateWith = None,
    replicate_at: ReplicateAt = None,
    signal: SignalAt = None,
    room: RoomName = ROOM,
    signal_token: SignalToken = None,
    shared_memory: SharedMemory = False,
    origin: Origins = None,
    certificate: Certificate = None,
    private_key: PrivateKey = None,
    peers: PeersFile = None,
    allow_insecure: Insecure = False,
    as_json: AsJson = False,
) -> ExitCode:
    """Serve what a lace holds as a live graph: counts, sizes, the newest record, views, and cells that peers write.

    Nobody sees anything that was not allowed to it; who may do what is printed first. The owner of the lace, who can
    open its Unix socket, may read all. PEER is the id of a token, the name of a known peer, `owner` or `anyone`; KIND
    is read, write or trigger_effect. SIGTERM or Ctrl-C stops.

    Example: bobbin graph serve notes.lace --listen ws:127.0.0.1:4794 --allow anyone:read=records/*
    """
    from bobbin.config.graph_access import make_access, read_tokens
    from bobbin.config.layout import Layout
    from bobbin.config.peers import read_peers
    from bobbin.lace import Lace
    from bobbin.transport.tls import TlsServer

    out = Output(as_json=as_json)
    for file in (token_file, certificate, private_key, peers):
        check_given(file)
    if (certificate is None) != (private_key is None):
        raise UsageError("a certificate and its private key belong together: --certificate FILE --private-key FILE")
    if signal is None:
        check_room(signal_token)
    layout = Layout(folder.resolve())
    insecure = Shown(allow_insecure=allow_insecure)
    views = [read_view(text) for text in view or ()]
    with ExitStack() as stack:
        # A view writes down where it stands; all else is only read.
        lace = stack.enter_context(Lace.open(folder, read_only=not views))
        known = read_peers(peers or layout.peers)
        replica_places = [parse_place(text, to_listen=True) for text in replicate_at or ()]
        places, own = _places(listen or [], layout.graph_socket, replica_places)
        plan = _Plan(
            places=places,
            own=own,
            views=views,
            cells=read_cells(cell or ()),
            replicas=read_replicas(replicate_with or (), known),
            replica_places=replica_places,
            room=None if signal is None else find_room(signal, room, signal_token, insecure, peer=CALLED),
        )
        plan.check(as_json=as_json)
        access = make_access(allow or (), {} if token_file is None else read_tokens(token_file), known)
        tls = (
            None if certificate is None or private_key is None else TlsServer(certificate=certificate, key=private_key)
        )
        settings = _settings(
            lace, access, plan, tls, origin or [], allow_insecure=allow_insecure, shared_memory=shared_memory
        )
        serving = _Serving(out, lace, access, settings, plan)
        serving.add_views(stack, views)
        asyncio.run(serving.run())
    return ExitCode.OK


def _places(
    listen: list[str], default: Path, replica_places: "list[Address]"
) -> "tuple[list[Address], Address | None]":
    """Where the graph must be served, and the socket of the folder where that is not among it.

    On stdio it is served to whoever has started it, and to nobody else: it ends with that one link.
    """
    from bobbin.wire.address import Address, Scheme

    own = Address(scheme=Scheme.UNIX, path=str(default))
    places = [parse_place(text, to_listen=True) for text in listen] or [own]
    is_stdio = any(place.scheme is Scheme.STDIO for place in places)
    return places, None if is_stdio or own in (*places, *replica_places) else own


def _check_writers(access: "Access", cells: Iterable[str]) -> None:
    """Raise ``UsageError`` for who may write a cell and not read it: a cell is found by reading, so it never could."""
    from bobbin.reactive.permissions import OpKind

    for one in access.allowed:
        readable = [other for other in access.allowed if (other.peer, other.kind) == (one.peer, OpKind.READ)]
        unseen = [key for key in cells if one.matches(key) and not any(other.matches(key) for other in readable)]
        if one.kind is OpKind.WRITE and unseen:
            who = access.names[one.peer].removeprefix("peer ")
            raise UsageError(
                f"{access.names[one.peer]} may write {unseen[0]} and not read it, so it would not find it: add "
                f"--allow '{who}:read={one.pattern}'"
            )


def _settings(
    lace: "Lace",
    access: "Access",
    plan: _Plan,
    tls: "TlsServer | None",
    origins: list[str],
    *,
    allow_insecure: bool,
    shared_memory: bool,
) -> "ServerSettings":
    from bobbin.reactive.permissions import OpKind
    from bobbin.runtime.graph_link import ARENA_BYTES, LinkSettings
    from bobbin.runtime.graph_server import ServerSettings
    from bobbin.wire.address import Scheme

    if not plan.cells and any(one.kind is OpKind.WRITE for one in access.allowed):
        raise UsageError("what a lace holds cannot be written, so there is nothing to allow; --cell adds what can be")
    _check_writers(access, plan.cells)
    if shared_memory and not any(place.scheme is Scheme.UNIX for place in plan.wanted):
        raise UsageError("--shared-memory is for links over a Unix socket, and there is none")
    members = {replica.verifier for replica in plan.replicas}
    identities = structs.replace(access.identities, signers=access.identities.signers | members)
    has_key = lace.settings.default_key in lace.key_names()
    if members and not has_key:
        raise UsageError("replicas prove their keys to each other, and this lace has none: `bobbin key new` makes one")
    return ServerSettings(
        identities=identities,
        key=lace.key() if identities.signers and has_key else None,
        origins=frozenset(origins),
        tls=tls,
        allow_insecure=allow_insecure,
        link=LinkSettings(arena_bytes=ARENA_BYTES if shared_memory else 0),
    )


class _Serving:
    """One process that serves a graph."""

    def __init__(self, out: Output, lace: "Lace", access: "Access", settings: "ServerSettings", plan: _Plan) -> None:
        from bobbin.runtime.graph_cells import GraphCells
        from bobbin.runtime.graph_host import GraphHost
        from bobbin.runtime.lace_graph import LaceGraph
        from bobbin.runtime.reactive_context import ReactiveContext

        self._lace: Final = lace
        self._access: Final = access
        self._settings: Final = settings
        self._plan: Final = plan
        self._log: Final = ServerLog(out, is_stdio=plan.is_stdio)
        self._early: list[tuple[str, Values]] | None = []
        """What happens before all is ready, and is told behind that."""
        self._host: Final = GraphHost(ReactiveContext(), allowed=access.allowed, tell=self._hear)
        self._graph: Final = LaceGraph(self._host, lace.store)
        self._cells: Final = GraphCells(self._host, plan.cells)

    def add_views(self, stack: ExitStack, views: list[tuple[str, str]]) -> None:
        """Show some places live."""
        for name, place in views:
            view = stack.enter_context(self._lace.view(place, graph=self._host.graph, follow=False))
            self._graph.add_view(name, view)

    async def run(self) -> None:
        """Until somebody stops it; on stdio, until the link is over."""
        from bobbin.runtime.graph_server import GraphServer

        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signals.SIGTERM, signals.SIGINT):
            loop.add_signal_handler(number, stop.set)
        server = GraphServer(self._host, self._settings)
        try:
            for place in self._plan.places:
                await server.start(place)
            missed = await self._start_own(server)
            listening = server.addresses
            work: list[_Work] = [self._graph.follow, stop.wait, *await self._replicate(server)]
            work += [*await self._take_calls(server), *([server.is_idle.wait] if self._plan.is_stdio else ())]
            self._say_started(listening, server.addresses[len(listening) :], missed)
            tasks = [asyncio.ensure_future(one()) for one in work]
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

    async def _start_own(self, server: "GraphServer") -> str | None:
        """Serve at the socket of the folder, too; returns why not, if that cannot be."""
        from bobbin.transport.base import TransportError

        if self._plan.own is not None:
            try:
                await server.start(self._plan.own)
            except TransportError as error:
                return str(error)
        return None

    async def _replicate(self, server: "GraphServer") -> list[_Work]:
        """Be ready for replicas; returns what is to be done to reach those that are dialled."""
        from bobbin.runtime.graph_cells import keep_replica
        from bobbin.runtime.graph_dial import ClientSettings
        from bobbin.runtime.graph_peers import Credentials, signer_peer
        from bobbin.transport.tls import TlsClient
        from bobbin.wire.address import Scheme

        plan, key = self._plan, self._settings.key
        if not plan.replicas:
            return []
        assert key is not None, "the settings have seen to it"
        members = [signer_peer(replica.verifier) for replica in plan.replicas]
        frame_bytes_max = self._settings.link.frame_bytes_max
        replication = self._cells.replicate(signer_peer(key.verifier), members, frame_bytes_max=frame_bytes_max)
        for place in plan.replica_places:
            await server.start(place, replication=replication)
        work: list[_Work] = []
        for replica in plan.replicas:
            if replica.address is not None:
                # What it proves is bound to the channel, so the certificate need not be vouched for.
                is_tls = replica.address.scheme in (Scheme.TLS, Scheme.WSS)
                settings = ClientSettings(
                    frame_bytes_max=frame_bytes_max,
                    tls=TlsClient(unverified=True) if is_tls else None,
                    allow_insecure=self._settings.allow_insecure,
                )
                shown = Credentials(key=key, verifier=replica.verifier)
                work.append(partial(keep_replica, replication, self._host, replica.address, shown, settings))
        return work

    async def _take_calls(self, server: "GraphServer") -> list[_Work]:
        """Enter the room, if there is one; returns what is to be done there."""
        if self._plan.room is None:
            return []
        from bobbin.runtime.graph_calls import Calls

        calls = Calls(server, self._plan.room, self._host.tell)
        await calls.start()
        return [calls.run]

    def _hear(self, word: str, values: "Values") -> None:
        if self._early is None:
            self._log.hear(word, values)
        elif len(self._early) < _EARLY_MAX:
            self._early.append((word, values))

    def _say_started(
        self, listening: "tuple[Address, ...]", replicating: "tuple[Address, ...]", missed: str | None
    ) -> None:
        from bobbin.runtime.graph_greeting import OWN_SCHEMES
        from bobbin.runtime.graph_peers import OWNER

        allowed: dict[str, list[str]] = {name: [] for name in self._access.names.values()}
        rows: list[dict[str, Json]] = []
        for one in self._access.allowed:
            name = self._access.names[one.peer]
            allowed[name].append(f"{one.kind.value} {one.pattern}")
            rows.append({"peer": one.peer, "name": name, "kind": one.kind.value, "keys": one.pattern})
        values: dict[str, Json] = {"listening": [str(place) for place in listening]}
        if missed is not None:
            values["not_listening"] = missed
        if replicating:
            values["replicating"] = [str(place) for place in replicating]
        if self._plan.room is not None:
            values["room"] = str(self._plan.room)
        values |= {"process": os.getpid(), "allowed": rows}
        lines = [f"listening   {place}" for place in listening]
        lines += [f"but not at  {missed}"] if missed is not None else []
        lines += [f"replicas    {place}" for place in replicating]
        lines += [f"room        {self._plan.room}"] if self._plan.room is not None else []
        owner = self._access.names[OWNER]
        has_way = any(place.scheme in OWN_SCHEMES for place in listening)
        for name, what in allowed.items():
            how = "; that is whoever can open the Unix socket, or has started this on stdio" if name == owner else ""
            if name == owner and not has_way:
                how = "; but has no way here, which is a Unix socket or stdio"
            lines.append(f"{name:<11} {', '.join(what) or 'nothing'}{how}")
        lines += ["all others  nothing"] if "anyone" not in allowed else []
        self._log.tell("started", values, *lines)
        early, self._early = self._early, None
        for word, told in early or ():
            self._log.hear(word, told)
