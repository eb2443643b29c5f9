"""Who comes to a node: other nodes, clients with a certificate that is known, and the operator of this machine.

Over a network there is mutual TLS and nothing else. Whoever shows no certificate that is known is refused in the
handshake, before a byte of it is decoded (CL-367). The operator of this machine comes by a Unix socket in the node's
folder, which only its owner can open.
"""

import asyncio
import os
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from time import time_ns
from typing import Final, TypeAlias

from structlog.typing import FilteringBoundLogger

from bobbin.cluster.names import MILLISECOND_NS
from bobbin.runtime.cluster_certificate import Credentials
from bobbin.runtime.cluster_links import Door, Purpose, shown_by
from bobbin.runtime.cluster_members import Directory, Rights
from bobbin.runtime.cluster_port import Port
from bobbin.runtime.cluster_requests import Requests
from bobbin.runtime.cluster_settings import ClientBounds
from bobbin.runtime.log import Repeats
from bobbin.transport.base import ByteStream, TransportError
from bobbin.transport.flow import FlowStream
from bobbin.transport.listen import Handshakes, SocketListener, Turned
from bobbin.transport.unix_socket import bind
from bobbin.wire.address import Address, Scheme
from bobbin.wire.cluster.client import GREETING, KEY_BYTES_MAX, decode_requests
from bobbin.wire.cluster.faults import MessageRefused
from bobbin.wire.cluster.frame import Deframer, frame

_BACKLOG: Final = 128
NOT_KNOWN: Final = "not-known"
TOO_MANY: Final = "too-many-clients"

ServePeer: TypeAlias = Callable[[ByteStream, bytes], Awaitable[None]]
"""Hears a node on a channel; the certificate says which."""


class Channels:
    """Every channel that others have opened to a node."""

    def __init__(
        self,
        own: Credentials,
        directory: Directory,
        requests: Requests,
        bounds: ClientBounds,
        *,
        serve_peer: ServePeer,
        log: FilteringBoundLogger,
        key_bytes_max: int = KEY_BYTES_MAX,
    ) -> None:
        """``key_bytes_max``: a longer key in a request is refused at the door, before it can come into a log."""
        self.refused: Final[Counter[str]] = Counter()
        """Channels that came to nothing, by reason."""
        self._repeats: Final = Repeats(log)
        self._door: Final = Door(own, directory, left_out=self._left_out)
        self._directory = directory
        self._requests: Final = requests
        self._bounds: Final = bounds
        self._key_bytes_max: Final = key_bytes_max
        self._serve_peer: Final = serve_peer
        self._ports: Final[dict[ByteStream, Port]] = {}
        self._closing: Final[set[asyncio.Task[None]]] = set()
        self._local: SocketListener | None = None
        self._folder: int | None = None
        """That of the socket."""

    def _left_out(self, certificate: bytes, why: str) -> None:
        self._repeats.warning("certificate-left-out", certificate[-8:].hex(), size=len(certificate), detail=why)

    @property
    def clients(self) -> int:
        """Open channels of clients."""
        return len(self._ports)

    async def open(self, address: Address, socket: Path | None) -> Address:
        """Listen; returns where it really is. Raises ``TransportError``."""
        place = await self._door.open(address, self._accept, refused=self._turned)
        if socket is not None:
            try:
                self._folder = os.open(socket.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                # By way of its folder: the path of a socket may have about a hundred bytes only.
                file = bind(Path(f"/proc/self/fd/{self._folder}") / socket.name, backlog=_BACKLOG)
            except OSError as error:
                raise TransportError(f"cannot listen at {socket}: {error.strerror or error}", retry=False) from error
            self._local = SocketListener(
                Address(scheme=Scheme.UNIX, path=str(socket)),
                [file.listening],
                self._accept_local,
                handshakes=Handshakes(),
                refused=self._turned,
                file=file,
            )
        return place

    def know(self, directory: Directory) -> None:
        """Others are known from now on; a client that is not among them is let go of."""
        self._directory = directory
        self._door.know(directory)
        for stream, port in list(self._ports.items()):
            if port.certificate is not None and self._rights(port.certificate) is not port.rights:
                # What it has asked for is still answered: it may be the very thing that took its rights away.
                port.leave(partial(self._close_soon, stream))

    def _close_soon(self, stream: ByteStream) -> None:
        task = asyncio.get_running_loop().create_task(stream.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def shut(self) -> None:
        """Let nobody in any more."""
        await self._door.close()
        if self._local is not None:
            await self._local.close()
        if self._folder is not None:
            os.close(self._folder)
            self._folder = None

    async def close(self) -> None:
        """Let go of everybody, with the answers that are on their way."""
        await asyncio.gather(*(stream.close() for stream in list(self._ports)), *self._closing)

    def _turned(self, reason: Turned, remote: str) -> None:
        self.refused[reason.value] += 1
        self._repeats.info("channel-refused", reason.value, remote=remote)

    def _rights(self, certificate: bytes) -> Rights | None:
        caller = self._directory.caller_of(certificate, now_ms=time_ns() // MILLISECOND_NS)
        if caller is not None:
            return caller.rights
        # A node asks for itself, like somebody who wants to become one.
        return None if self._directory.member_of(certificate) is None else Rights.JOIN

    async def _accept(self, stream: ByteStream) -> None:
        shown = shown_by(stream)
        if shown is not None:
            certificate, purpose = shown
            if purpose is Purpose.PEER and self._directory.member_of(certificate) is not None:
                await self._serve_peer(stream, certificate)
                return
            rights = self._rights(certificate) if purpose is Purpose.CLIENT else None
            if rights is not None:
                await self._serve(stream, rights, certificate)
                return
        # Known when the handshake began, and not any more; or for nothing that is done here.
        self.refused[NOT_KNOWN] += 1
        stream.abort()

    async def _accept_local(self, stream: ByteStream) -> None:
        await self._serve(stream, Rights.OPERATOR, None)

    async def _serve(self, stream: ByteStream, rights: Rights, certificate: bytes | None) -> None:
        assert isinstance(stream, FlowStream), "streams of sockets are these"
        if len(self._ports) >= self._bounds.connections_max:
            self.refused[TOO_MANY] += 1
            stream.abort()
            return
        port = self._ports[stream] = Port(stream.outgoing, rights, certificate, self._bounds)
        deframer = Deframer()
        try:
            stream.outgoing.put(frame(GREETING))
            while data := await stream.read():
                deframer.feed(data)
                # Whole frames come first, and a bad one after them with the next drain.
                while payloads := deframer.drain():
                    for payload in payloads:
                        self._requests.take(port, decode_requests(payload, key_bytes_max=self._key_bytes_max))
                        await port.room()
                    if not deframer.buffered:
                        break
        except MessageRefused as refused:
            self.refused[refused.code] += 1
            self._repeats.warning("request-refused", refused.code, remote=stream.route.remote, detail=str(refused))
        except TransportError:
            pass
        finally:
            del self._ports[stream]
            port.close()
            stream.abort()
