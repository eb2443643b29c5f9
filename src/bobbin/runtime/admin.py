"""What operators and monitoring read over HTTP: health, metrics, links. Nothing can be changed here.

It is served on a Unix socket in the folder of the lace, which only its owner can open, and on a TCP address if one is
configured. There, who the peers are is shown only if that is asked for, and a request must name the host that it goes
to by its address: a page in somebody's browser that has its own name point here gets nothing.

Whoever connects has a time for its request and a time to take the answer. Connections without a request cannot keep
others out: beyond a number for one address and a number for all, the oldest of them goes.
"""

import asyncio
import os
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from itertools import count
from pathlib import Path
from typing import ClassVar, Final, Protocol

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from bobbin.errors import ResourceError
from bobbin.runtime.health import Condition, Health
from bobbin.runtime.metrics import CONTENT_TYPE
from bobbin.runtime.node_settings import Metrics
from bobbin.runtime.status import NodeStatus, encode_status
from bobbin.transport import tcp, unix_socket
from bobbin.transport.base import TransportError
from bobbin.transport.unix_socket import SocketFile

_PATH_BYTES_MAX: Final = 100
_CONNECTIONS_MAX: Final = 64
_CONNECTIONS_OF_ADDRESS_MAX: Final = 32
_KEEP_ALIVE_SECONDS: Final = 5
_REQUEST_SECONDS: Final = 10.0
"""For a whole request, however it comes."""
_ANSWER_SECONDS: Final = 60.0
"""For the answer, until the client has taken it."""
_HEAD_BYTES_MAX: Final = 16 * 1024
_BACKLOG: Final = 64
_STOP_SECONDS: Final = 2


class AdminError(ResourceError):
    """The place where operators look cannot be opened."""


class Watched(Protocol):
    """A node, as far as it is looked at here."""

    @property
    def health(self) -> Health: ...

    @property
    def reload_failure(self) -> str | None: ...

    async def refresh(self) -> None: ...

    async def status(self) -> NodeStatus: ...


class Figures(Protocol):
    """What a node counts."""

    def expose(self) -> bytes:
        """Everything, in the text format of Prometheus."""
        ...


def make_app(node: Watched, meter: Figures, *, links: bool) -> Starlette:
    """The pages; ``links`` says whether there is the one that names peers."""

    def tell_health(health: Health, *, is_good: bool) -> Response:
        value: dict[str, object] = {"status": health.condition.value}
        if health.reasons:
            value["reasons"] = list(health.reasons)
        if node.reload_failure is not None:  # what is wrong with the files, ``/links`` says
            value["reload"] = "failed"
        return JSONResponse(value, status_code=200 if is_good else 503)

    async def healthz(_: Request) -> Response:
        health = node.health
        # Whoever restarts a node by this code must not do so because a peer elsewhere is down.
        return tell_health(health, is_good=health.is_healthy)

    async def readyz(_: Request) -> Response:
        health = node.health
        return tell_health(health, is_good=health.condition is Condition.OK)

    async def metrics(_: Request) -> Response:
        await node.refresh()
        return Response(meter.expose(), headers={"content-type": CONTENT_TYPE})

    async def show_links(_: Request) -> Response:
        return Response(encode_status(await node.status()), media_type="application/json")

    pages = [Route("/healthz", healthz), Route("/readyz", readyz), Route("/metrics", metrics)]
    if links:
        pages.append(Route("/links", show_links))
    return Starlette(routes=pages)


class LocalNamesOnly:
    """Refuses requests whose ``Host`` is a name, other than ``localhost`` and the configured one."""

    def __init__(self, app: ASGIApp, host: str) -> None:
        self._app: Final = app
        self._host: Final = host.lower()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not self._is_allowed(dict(scope["headers"]).get(b"host", b"")):
            await PlainTextResponse("name the host by its address\n", status_code=421)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _is_allowed(self, header: bytes) -> bool:
        host = header.decode("latin-1").lower()
        host = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
        if host in ("localhost", self._host):
            return True
        with suppress(ValueError):
            ip_address(host)
            return True
        return False


class _Connection(H11Protocol):
    """One client, which cannot stay for ever without asking anything."""

    _numbers: ClassVar = count()
    _timer: asyncio.TimerHandle | None = None
    number = 0

    @property
    def is_asking(self) -> bool:
        """Whether there is a request that has not been answered."""
        # There is none before the first request, whatever the types say.
        return self.cycle is not None and not self.cycle.response_complete  # type: ignore[redundant-expr]

    @property
    def origin(self) -> str:
        return "" if self.client is None else self.client[0]

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.number = next(self._numbers)
        self._set_timer(_REQUEST_SECONDS)
        everybody = [one for one in self.connections if isinstance(one, _Connection)]
        here = [one for one in everybody if one.origin == self.origin]
        if len(here) > _CONNECTIONS_OF_ADDRESS_MAX:
            self._drop_oldest(here)
        elif len(everybody) >= _CONNECTIONS_MAX:
            counts = Counter(one.origin for one in everybody if not one.is_asking)
            most = max(counts.values())
            self._drop_oldest([one for one in everybody if counts[one.origin] == most])

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        was_asking = self.is_asking
        super().data_received(data)
        if self.is_asking and not was_asking:
            self._set_timer(_ANSWER_SECONDS)
        elif self._timer is None and not self.is_asking:
            self._set_timer(_REQUEST_SECONDS)

    def on_response_complete(self) -> None:
        # From here on the time for keeping a connection counts, unless the next request is there already.
        self._stop_timer()
        super().on_response_complete()
        if self.is_asking:
            self._set_timer(_ANSWER_SECONDS)

    def let_go(self) -> None:
        """End now."""
        self._stop_timer()
        self.connections.discard(self)
        self.transport.abort()

    def _drop_oldest(self, connections: list["_Connection"]) -> None:
        waiting = [one for one in connections if not one.is_asking and one is not self]
        if waiting:
            min(waiting, key=lambda one: one.number).let_go()

    def _set_timer(self, seconds: float) -> None:
        self._stop_timer()
        if not self.transport.is_closing():
            self._timer = self.loop.call_later(seconds, self.let_go)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _Server(uvicorn.Server):
    """Without the handling of signals, which belongs to whoever runs the node."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Admin:
    """The pages, served."""

    def __init__(self, node: Watched, meter: Figures, settings: Metrics, socket_path: Path | None) -> None:
        """``socket_path``: where the socket in the folder of the lace is; None for none."""
        self._node: Final = node
        self._meter: Final = meter
        self._settings: Final = settings
        self._path: Final = socket_path
        self._served: Final[list[tuple[_Server, asyncio.Task[None]]]] = []
        self._file: SocketFile | None = None
        self._folder: int | None = None
        """The folder of the socket, where its path is too long for the system."""
        self.address: tuple[str, int] | None = None
        """Where it really listens on TCP."""

    async def start(self) -> None:
        """Serve. Raises ``AdminError``."""
        try:
            if self._path is not None:
                self._file = _bind_file(self._path, self._reachable(self._path))
                await self._serve(make_app(self._node, self._meter, links=True), [self._file.listening])
            if (address := self._settings.listen) is not None:
                off_loopback = self._settings.off_loopback
                sockets = await asyncio.to_thread(
                    _bind_tcp, address.host, address.port_number, off_loopback=off_loopback
                )
                self.address = sockets[0].getsockname()[:2]
                app = make_app(self._node, self._meter, links=self._settings.links)
                await self._serve(LocalNamesOnly(app, address.host), sockets)
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Serve no more."""
        for server, _ in self._served:
            server.should_exit = True
        for _, task in self._served:
            await asyncio.wait({task}, timeout=2 * _STOP_SECONDS)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        self._served.clear()
        if self._file is not None:
            self._file.remove()
            self._file = None
        if self._folder is not None:
            os.close(self._folder)
            self._folder = None

    def _reachable(self, path: Path) -> Path:
        """The path, or a short one that leads to the same place: the system's addresses hold about a hundred bytes."""
        if len(os.fsencode(path)) <= _PATH_BYTES_MAX:
            return path
        try:
            self._folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise AdminError(f"cannot listen at {path}: {error.strerror}", retry=True) from error
        return Path(f"/proc/self/fd/{self._folder}") / path.name

    async def _serve(self, app: ASGIApp, sockets: list[socket.socket]) -> None:
        config = uvicorn.Config(
            app,
            log_config=None,
            log_level="error",
            access_log=False,
            lifespan="off",
            ws="none",
            http=_Connection,
            loop="none",
            server_header=False,
            limit_concurrency=_CONNECTIONS_MAX,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=_STOP_SECONDS,
            h11_max_incomplete_event_size=_HEAD_BYTES_MAX,
        )
        server = _Server(config)
        task = asyncio.create_task(server.serve(sockets=sockets))
        self._served.append((server, task))
        while not server.started:
            if task.done():
                task.result()
                raise AdminError("the pages for operators are not served", retry=False)
            await asyncio.sleep(0.005)


def _bind_file(path: Path, reachable: Path) -> SocketFile:
    try:
        return unix_socket.bind(reachable, backlog=_BACKLOG)
    except TransportError as error:
        raise AdminError(f"cannot listen at {path}: {error}; is another node serving this lace?", retry=True) from error
    except OSError as error:
        raise AdminError(f"cannot listen at {path}: {error.strerror or error}", retry=True) from error


def _bind_tcp(host: str, port: int, *, off_loopback: bool) -> list[socket.socket]:
    try:
        sockets = tcp.bind(host, port, backlog=_BACKLOG)
    except OSError as error:
        raise AdminError(f"cannot listen at {host}, port {port}: {error.strerror}", retry=True) from error
    if not off_loopback and not all(ip_address(one.getsockname()[0]).is_loopback for one in sockets):
        for one in sockets:
            one.close()
        raise AdminError(f"{host} can be reached from other machines; off_loopback says that it may", retry=False)
    return sockets
