"""``bobbin serve``: run a node."""

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bobbin.cli import output
from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.options import AsJson, LaceFolder
from bobbin.cli.output import Json, Output, ReaderGone
from bobbin.cli.sources import check_given
from bobbin.errors import ResourceError, UsageError

if TYPE_CHECKING:
    from bobbin.config.layout import Layout
    from bobbin.config.reload import Loaded, Reloader
    from bobbin.lace import Lace
    from bobbin.runtime.node_settings import Logging


def serve(
    folder: LaceFolder,
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="Configuration (TOML).", show_default=False)
    ] = None,
    listen: Annotated[
        list[str] | None,
        typer.Option(
            "--listen", metavar="ADDRESS", help="Take links here; instead of the configured ones.", show_default=False
        ),
    ] = None,
    peers: Annotated[
        Path | None,
        typer.Option("--peers", metavar="FILE", help="Another file of known peers. Default: DIR/peers.toml."),
    ] = None,
    allow_insecure: Annotated[
        bool,
        typer.Option(
            "--allow-insecure",
            metavar="",
            help="Let links off this machine be unencrypted, or with peers that prove nothing.",
            show_default=False,
        ),
    ] = False,
    workers: Annotated[
        int, typer.Option("--workers", min=0, metavar="N", help="More processes that check what arrives.")
    ] = 0,
    as_json: AsJson = False,
) -> ExitCode:
    """Serve a lace to other machines: take links, and keep those to the peers that are followed.

    Of a replicated lace this runs one node: it takes part in the cluster, and serves what it has. Only known peers are
    served, each under the policy for it (`bobbin peers`). Port 0 lets the system choose one. The log goes to stderr.
    SIGTERM or Ctrl-C stops in order, a second one at once; SIGHUP reads all files again. With --json there is a line on
    stdout for each event; the first, "started", has the addresses, the key and the certificate.

    Example: bobbin serve notes.lace --listen tls:0.0.0.0:4791
    """
    import asyncio

    from bobbin.config.layout import Layout
    from bobbin.config.node import Overrides
    from bobbin.config.reload import Origin, Reloader
    from bobbin.lace import Lace
    from bobbin.wire import address as addresses
    from bobbin.wire.address import Scheme

    out = Output(as_json=as_json)
    for file in (config, peers):
        check_given(file)
    where = tuple(addresses.parse(text, to_listen=True) for text in listen or ())
    overrides = Overrides(listen=where, peers=peers, allow_insecure=allow_insecure)
    layout = Layout(folder)
    with ExitStack() as stack:
        lace = None if layout.is_lace() and layout.cluster.is_dir() else stack.enter_context(Lace.open(folder))
        reloader = Reloader(Origin(layout=layout, file=config, overrides=overrides))
        if as_json and any(address.scheme is Scheme.STDIO for address in reloader.loaded.config.settings.listen):
            raise UsageError("on stdio the link has stdout, so there is no room for --json")
        asyncio.run(_run(stack, out, lace or layout, reloader, has_file=config is not None, workers=workers))
    return ExitCode.OK


async def _run(
    stack: ExitStack, out: Output, served: "Lace | Layout", reloader: "Reloader", *, has_file: bool, workers: int
) -> None:
    """``served``: an open lace, or the folder of one whose node is to be run as well."""
    from bobbin.cli.node_process import NodeProcess, check_purpose
    from bobbin.lace import Lace
    from bobbin.runtime.log import make_log
    from bobbin.runtime.workers import Validators

    is_watched = sys.stderr is not None and sys.stderr.isatty()
    validators = stack.enter_context(Validators(workers)) if workers else None
    announcer = Announcer(out, for_people=is_watched)
    log = make_log(_logging(reloader.loaded, for_people=is_watched and not has_file))
    if isinstance(served, Lace):
        check_purpose(reloader.loaded)
        await NodeProcess(served, reloader, log=log, tell=announcer, validators=validators).run()
        return
    from bobbin.cli.replicated_process import replicated_node
    from bobbin.config.settings import read_settings

    settings = read_settings(served.settings)
    async with replicated_node(served, log) as replicated:
        lace = Lace(served, settings, replicated.store)
        process = NodeProcess(lace, reloader, log=log, tell=announcer, validators=validators)
        replicated.node.over.add_done_callback(lambda _: process.stop())
        await process.run()
        if replicated.node.is_halted:
            replicated.node.over.result()


def _logging(loaded: "Loaded", *, for_people: bool) -> "Logging":
    from msgspec import structs

    from bobbin.runtime.node_settings import LogForm

    logging = loaded.config.settings.log
    return structs.replace(logging, format=LogForm.TEXT) if for_people else logging


class Announcer:
    """Says what happens to the node: as JSON on stdout, or in words where somebody watches stderr."""

    def __init__(self, out: Output, *, for_people: bool) -> None:
        self._out = out
        self._for_people = for_people
        self._is_heard = True

    def __call__(self, event: str, values: dict[str, Json]) -> None:
        if not self._out.as_json:
            for line in _lines(event, values) if self._for_people else ():
                self._out.note(line)
            return
        try:
            if self._is_heard:
                self._out.row({"event": event, **values})
                output.flush()
        except (ReaderGone, ResourceError):
            # Whoever started the node has heard enough, and the node goes on.
            self._is_heard = False
            output.abandon()


def _lines(event: str, values: dict[str, Json]) -> list[str]:
    if event == "stopping":
        return ["stopping; once more stops at once"]
    if event != "started":
        return []
    listening = values["listening"]
    assert isinstance(listening, list)
    rows = {
        "listening": ", ".join(map(str, listening)) or "nowhere; this node only dials",
        "our key": values["verifier"] or "none",
        "certificate": values["certificate"],
        "known peers": values["peers"],
        "metrics": values["metrics"],
    }
    return [f"{label:<12} {value}" for label, value in rows.items() if value is not None]
