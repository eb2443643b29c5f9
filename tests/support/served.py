"""A node for tests of commands: a lace that is served in a thread of this process, as its files say."""

import asyncio
import io
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bobbin.cli.node_process import OwnCertificate
from bobbin.config.layout import Layout
from bobbin.config.node import Overrides
from bobbin.config.reload import Origin, Reloader
from bobbin.lace import Lace
from bobbin.runtime.admin import Admin
from bobbin.runtime.log import make_log
from bobbin.runtime.node import Node
from bobbin.runtime.serving import Serving
from bobbin.wire import address

_PATIENCE_SECONDS: Final = 60.0


class Served:
    """A node that runs, seen from another thread."""

    def __init__(self, folder: Path, listen: tuple[str, ...], peers: Path | None) -> None:
        self.folder: Final = folder
        self._peers: Final = peers
        self.addresses: dict[str, str] = {}
        """By scheme."""
        self.certificate = ""
        self.verifier = ""
        self._listen: Final = listen
        self._started: Final = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._over: asyncio.Event | None = None
        self._failure: BaseException | None = None
        self._thread: Final = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()
        assert self._started.wait(_PATIENCE_SECONDS)
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        assert self._loop is not None
        assert self._over is not None
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(_PATIENCE_SECONDS)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # noqa: BLE001 -- raised where the node was started
            self._failure = error
        self._started.set()

    async def _serve(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        layout = Layout(self.folder)
        listen = tuple(address.parse(text, to_listen=True) for text in self._listen)
        reloader = Reloader(Origin(layout=layout, overrides=Overrides(listen=listen, peers=self._peers)))
        loaded = reloader.loaded
        certificate = OwnCertificate(layout, loaded.config)
        with Lace.open(self.folder) as lace:
            serving = Serving(lace.store, lace.key(), log=make_log(output=io.StringIO()))
            async with Node(serving, loaded.roster, loaded.config.settings, take=certificate.listen) as node:
                node.peers_file = reloader.peers_file
                admin = Admin(node, serving.meter, loaded.config.settings.metrics, layout.node_socket)
                await admin.start()
                self.addresses = {one.scheme.value: str(one) for one in node.addresses}
                if certificate.files.certificate.exists():
                    self.certificate = certificate.fingerprint()
                self.verifier = lace.key().verifier
                self._started.set()
                await self._over.wait()
                await admin.stop()


@contextmanager
def served(folder: Path, *listen: str, peers: Path | None = None) -> Iterator[Served]:
    """Serve a lace for the length of a block. ``peers``: another file of known peers."""
    node = Served(folder, listen or ("tcp:127.0.0.1:0",), peers)
    node.start()
    try:
        yield node
    finally:
        node.stop()
