"""A node as a process: put together from its configuration, told by signals, kept in step with its files.

``SIGTERM`` and ``SIGINT`` stop it in order; a second one of either ends the process as if nobody had asked for order,
and what was acknowledged is durable then, too. ``SIGHUP`` has every file read again; without it a change is noticed by
looking every second.

A node that only talks over its standard input and output was started for one link. It ends with that link, and does
without the socket for the operator: another node may be serving the same lace.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from bobbin.config.layout import Layout
from bobbin.config.peers import certificate_text
from bobbin.config.reload import Loaded, Reloader
from bobbin.config.replicated import is_replicated
from bobbin.errors import BobbinError, UsageError
from bobbin.runtime.admin import Admin
from bobbin.runtime.node import Listen, Node
from bobbin.runtime.serving import Serving
from bobbin.runtime.tracing import make_tracing
from bobbin.transport import certificate as certificates
from bobbin.transport.base import Accept, Listener
from bobbin.transport.listen import Handshakes, Refused, Secure, Shown, listen
from bobbin.transport.tls import TlsServer
from bobbin.wire.address import Address, Scheme

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from bobbin.cli.output import Json
    from bobbin.config.node import NodeConfig
    from bobbin.lace import Lace
    from bobbin.records.signing import SigningKey
    from bobbin.runtime.workers import Validators

LOOK_SECONDS: Final = 1.0
"""How often the files of the configuration are looked at."""

_ENCRYPTED: Final = frozenset({Scheme.TLS, Scheme.WSS})
_EVERYWHERE: Final = frozenset({"0.0.0.0", "::"})  # noqa: S104 (not listened on: left out of a certificate)


class Tell(Protocol):
    """Hears of what happens to the process as a whole, for programs that started it."""

    def __call__(self, event: str, values: "dict[str, Json]") -> None: ...


class OwnCertificate:
    """The certificate that the node shows: the configured one, or one of its own, made when it is first needed."""

    def __init__(self, layout: Layout, config: "NodeConfig") -> None:
        self._layout: Final = layout
        self._config = config
        self._shown: Shown | None = None
        """None until an address is listened on that shows it."""

    @property
    def files(self) -> TlsServer:
        """Where it is kept."""
        given = self._config.certificate
        if given is None:
            return TlsServer(certificate=self._layout.certificate, key=self._layout.certificate_key)
        return TlsServer(certificate=given.certificate, key=given.key)

    def prepare(self) -> TlsServer:
        """The files, which are there afterwards."""
        files = self.files
        if self._config.certificate is None and not files.certificate.exists():
            self._layout.tls.mkdir(mode=0o700, exist_ok=True)
            listened = [one.host for one in self._config.settings.listen if one.scheme in _ENCRYPTED]
            names = dict.fromkeys([*(host for host in listened if host not in _EVERYWHERE), "localhost"])
            certificates.create(files.certificate, files.key, names=tuple(names))
        return files

    def fingerprint(self) -> str:
        """What peers pin: of what is shown, and before anything is, of the file."""
        if self._shown is not None:
            return certificate_text(self._shown.secure.binding)
        return certificate_text(certificates.fingerprint(self.files.certificate))

    @property
    def listen(self) -> Listen:
        """Listening on any address, with this certificate where one is shown."""

        async def take(address: Address, accept: Accept, *, handshakes: Handshakes, refused: Refused) -> Listener:
            tls = None
            if address.scheme in _ENCRYPTED:
                tls = self._shown = self._shown or Shown(await asyncio.to_thread(self.prepare))
            return await listen(address, accept, tls=tls, handshakes=handshakes, refused=refused)

        return take

    @asynccontextmanager
    async def renewed(self, config: "NodeConfig") -> AsyncIterator[None]:
        """Show what a configuration says now, also if only the files have changed; as before, if the block fails.

        Raises ``CertificateError`` for files that cannot be used, and then nothing has changed. Links that are up
        stay: what was proven on them was bound to the certificate that they began with.
        """
        config_before, shown = self._config, self._shown
        secure_before = None if shown is None else shown.secure
        self._config = config
        try:
            if shown is not None:
                files = await asyncio.to_thread(self.prepare)
                shown.secure = await asyncio.to_thread(Secure.load, files)
            yield
        except BaseException:
            self._config, self._shown = config_before, shown
            if shown is not None and secure_before is not None:
                shown.secure = secure_before
            raise


class NodeProcess:
    """One run of a node, from its configuration to its end."""

    def __init__(
        self,
        lace: "Lace",
        reloader: Reloader,
        *,
        log: "FilteringBoundLogger",
        tell: Tell,
        validators: "Validators | None" = None,
    ) -> None:
        loaded = reloader.loaded
        settings = loaded.config.settings
        layout = Layout(lace.path)
        self._layout: Final = layout
        self._reloader: Final = reloader
        self._log: Final = log
        self._tell: Final = tell
        self._certificate: Final = OwnCertificate(layout, loaded.config)
        self._ends_itself: Final = [address.scheme for address in settings.listen] == [Scheme.STDIO]
        self._serving: Final = Serving(
            lace.store,
            _key(lace, loaded.config),
            log=log,
            tracing=make_tracing(settings.telemetry),
            validators=validators,
        )
        self._node: Final = Node(self._serving, loaded.roster, settings, take=self._certificate.listen)
        self._node.peers_file = reloader.peers_file
        self._socket: Final[Path | None] = None if self._ends_itself else layout.node_socket
        self._admin: Final = Admin(self._node, self._serving.meter, settings.metrics, self._socket)
        self._wants_reload: Final = asyncio.Event()
        self._is_to_stop: Final = asyncio.Event()
        self._refused: Loaded | None = None
        """A configuration that is right, and that the node could not take up yet."""
        self._failure = ""
        """What was said last about a change that is not in force."""

    async def run(self) -> None:
        """Serve until asked to stop."""
        with self._signals():
            try:
                # First, since it fails where another node serves this lace.
                await self._admin.start()
            except BaseException:
                await self._serving.steps.close()
                raise
            try:
                async with self._node:
                    self._say_started()
                    await self._until_over()
            finally:
                await self._admin.stop()
        self._tell("stopped", {})

    def stop(self) -> None:
        """Stop in order, as a signal would."""
        self._is_to_stop.set()

    async def _until_over(self) -> None:
        """Wait for whatever ends the node, and take up changes meanwhile."""
        tasks: list[asyncio.Task[object]] = [
            asyncio.create_task(self._is_to_stop.wait()),
            asyncio.create_task(self._watch()),
        ]
        if self._ends_itself:
            tasks.append(asyncio.create_task(self._until_link_is_over()))
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
        for outcome in ended:
            if isinstance(outcome, Exception):
                raise outcome

    async def _until_link_is_over(self) -> None:
        # The one stream was taken before the node had started; its link appears as soon as its task runs.
        await asyncio.sleep(0)
        await self._node.until_empty()

    # ---- changes ----------------------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._wants_reload.wait()
            is_wanted = self._wants_reload.is_set()
            self._wants_reload.clear()
            found = await asyncio.to_thread(self._reloader.reload if is_wanted else self._reloader.poll)
            if isinstance(found, BobbinError):
                self._say_not_in_force(str(found))
            elif (new := found or self._refused) is not None:
                await self._take_up(new)

    async def _take_up(self, loaded: Loaded) -> None:
        before = self._shown_certificate()
        try:
            async with self._certificate.renewed(loaded.config):
                await self._node.reload(loaded.roster, loaded.config.settings)
        except BobbinError as error:
            # An address that is taken may become free.
            self._refused = loaded
            self._say_not_in_force(str(error))
            return
        self._refused, self._failure = None, ""
        self._node.peers_file = self._reloader.peers_file
        shown = self._shown_certificate()
        if before is not None and shown is not None and shown != before:
            self._log.info("certificate-renewed", before=before, certificate=shown)
        values: dict[str, Json] = {
            "peers": len(loaded.roster),
            "listening": self._addresses(),
            "certificate": shown,
        }
        self._tell("reloaded", values)

    def _say_not_in_force(self, message: str) -> None:
        """Once for each mistake, however often it is found."""
        if message != self._failure:
            self._failure = message
            self._node.note_failed_reload(message)
            self._log.error("reload-failed", detail=message)
            self._tell("reload-failed", {"message": message})

    # ---- signals ----------------------------------------------------------------------------------------------------

    @contextmanager
    def _signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, self._wants_reload.set)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop, number)
        try:
            yield
        finally:
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                loop.remove_signal_handler(number)

    def _stop(self, number: signal.Signals) -> None:
        loop = asyncio.get_running_loop()
        for one in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(one)
            # Whoever asks a second time does not want to wait, whatever this process is doing.
            signal.signal(one, signal.SIG_DFL)
        self._tell("stopping", {"signal": number.name})
        self._is_to_stop.set()

    # ---- words ------------------------------------------------------------------------------------------------------

    def _say_started(self) -> None:
        key = self._serving.key
        metrics = self._admin.address
        values: dict[str, Json] = {
            "listening": self._addresses(),
            "verifier": None if key is None else key.verifier,
            "certificate": self._shown_certificate(),
            "peers": len(self._node.roster),
            "socket": None if self._socket is None else str(self._socket),
            "metrics": None if metrics is None else f"http://{_host(metrics[0])}:{metrics[1]}/metrics",
            "process": os.getpid(),
        }
        self._tell("started", values)
        self._log.info("node-ready", **{name: values[name] for name in ("certificate", "socket", "metrics", "process")})
        if key is None:
            self._log.warning("no-key", detail=f"there is no key to prove anything with; {self._advice_of_key()}")
        if self._node.addresses and not len(self._node.roster) and self._node.roster.anonymous is None:
            self._log.warning("nobody-known", detail="every link is turned away; `bobbin peers add` makes peers known")

    def _advice_of_key(self) -> str:
        if is_replicated(self._layout):
            return "`bobbin key new DIR --from FILE` keeps the one that the other nodes of the lace have"
        return "`bobbin key new` makes one"

    def _shown_certificate(self) -> str | None:
        shows = any(address.scheme in _ENCRYPTED for address in self._node.addresses)
        return self._certificate.fingerprint() if shows else None

    def _addresses(self) -> list[str]:
        return [str(address) for address in self._node.addresses]


def check_purpose(loaded: Loaded) -> None:
    """Refuse to run a node that nobody could reach and that would reach nobody."""
    if not loaded.config.settings.listen and not any(loaded.roster.followed()):
        raise UsageError("there is nothing to do: name an address with --listen, or a peer to follow (follow = true)")


def _key(lace: "Lace", config: "NodeConfig") -> "SigningKey | None":
    if config.key is None and lace.settings.default_key not in lace.key_names():
        return None
    return lace.key(config.key)


def _host(host: str) -> str:
    return f"[{host}]" if ":" in host else host
