"""``bobbin signal serve``: help peers find each other."""

import asyncio
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.options import AsJson
from bobbin.cli.output import Output
from bobbin.cli.server_log import ServerLog
from bobbin.cli.sources import check_given
from bobbin.errors import UsageError

if TYPE_CHECKING:
    from bobbin.runtime.signal_server import SignalSettings
    from bobbin.wire.address import Address


def signal_serve(
    listen: Annotated[
        str, typer.Option("--listen", metavar="HOST:PORT", help="Where to listen; port 0 lets the system choose.")
    ] = "127.0.0.1:4793",
    access: Annotated[
        Path | None,
        typer.Option("--access", metavar="FILE", help="Who may join, and signal whom (TOML).", show_default=False),
    ] = None,
    open_to_all: Annotated[
        bool, typer.Option("--open", metavar="", help="Let everybody join and signal everybody.", show_default=False)
    ] = False,
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
    allow_insecure: Annotated[
        bool,
        typer.Option(
            "--allow-insecure", metavar="", help="Listen off this machine without encryption.", show_default=False
        ),
    ] = False,
    as_json: AsJson = False,
) -> ExitCode:
    """Serve rooms in which peers find each other, to open data channels between them (WebRTC).

    A room is at /session/NAME and exists while somebody is in it. Who may join is said by a file (--access) or is
    everybody (--open). With --json there is a line for each event; the first, "started", has the address. SIGTERM or
    Ctrl-C stops.

    Example: bobbin signal serve --open
    """
    from bobbin.wire import address as addresses

    out = Output(as_json=as_json)
    for file in (access, certificate, private_key):
        check_given(file)
    if (access is None) != open_to_all:
        raise UsageError("say who may join: --access FILE, or --open for everybody")
    if (certificate is None) != (private_key is None):
        raise UsageError("a certificate and its private key belong together: --certificate FILE --private-key FILE")
    place = addresses.parse(f"tcp:{listen}", to_listen=True)
    settings = _settings(access, certificate, private_key, origin or [], allow_insecure=allow_insecure)
    asyncio.run(_Serving(out, settings).run(place))
    return ExitCode.OK


def _settings(
    access: Path | None,
    certificate: Path | None,
    private_key: Path | None,
    origins: list[str],
    *,
    allow_insecure: bool,
) -> "SignalSettings":
    from msgspec import structs

    from bobbin.config.signaling import read_signaling
    from bobbin.reactive.signaling import OPEN
    from bobbin.runtime.signal_server import SignalSettings
    from bobbin.transport.tls import TlsServer

    settings = SignalSettings(access=OPEN) if access is None else read_signaling(access)
    tls = None if certificate is None or private_key is None else TlsServer(certificate=certificate, key=private_key)
    return structs.replace(
        settings, origins=settings.origins | frozenset(origins), tls=tls, allow_insecure=allow_insecure
    )


class _Serving:
    """One process that serves rooms."""

    def __init__(self, out: Output, settings: "SignalSettings") -> None:
        from bobbin.runtime.signal_server import SignalServer

        self._log: Final = ServerLog(out)
        self._server: Final = SignalServer(settings, tell=self._log.hear)

    async def run(self, place: "Address") -> None:
        """Until somebody stops it."""
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        address = await self._server.start(place.host, place.port_number)
        self._log.tell("started", {"address": str(address), "process": os.getpid()}, f"listening at {address}")
        try:
            await stop.wait()
        finally:
            await self._server.close()
        self._log.tell("stopped", {}, "stopped")
