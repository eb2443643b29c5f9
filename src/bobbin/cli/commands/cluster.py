"""``bobbin cluster …``: nodes of one owner that agree on one order, and the table of keys that they keep."""

import asyncio
import base64
import os
import secrets
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from bobbin.cli.cluster_asking import SECONDS, NodeDir, Seconds, ask, ask_keys, refuse_set
from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.options import AsJson, Limit
from bobbin.cli.output import Json, Output, not_found, refused
from bobbin.errors import UsageError

if TYPE_CHECKING:
    from bobbin.cli.cluster_view import Shown
    from bobbin.config.cluster import NewNode, NodeFolder
    from bobbin.runtime.cluster_client import ClusterClient
    from bobbin.runtime.node_settings import Logging
    from bobbin.wire.cluster.client import Row, Value

_NODES_MAX: Final = 99
_SHARDS_MAX: Final = 64
_AGAIN_SECONDS: Final = 0.2
"""Between two looks at nodes that are not all there yet."""
_HOUR_MS: Final = 3_600_000
_LOOPBACK: Final = "tls:127.0.0.1:4795"

Listen = Annotated[
    str | None,
    typer.Option("--listen", metavar="ADDRESS", help="Where to listen: tls:HOST:PORT.", show_default=False),
]
ReachedAt = Annotated[
    str | None,
    typer.Option(
        "--address", metavar="ADDRESS", help="Where others reach it. Default: where it listens.", show_default=False
    ),
]
Preset = Annotated[
    str, typer.Option("--preset", metavar="NAME", help="Timeouts: lan (round trips < 10 ms), region (< 50), world.")
]
Key = Annotated[str, typer.Argument(metavar="KEY", help="Key, as text.", show_default=False)]
Stale = Annotated[
    bool,
    typer.Option(
        "--stale", metavar="", help="Read what one node has, which may be old; needs no majority.", show_default=False
    ),
]


# ---- making one -----------------------------------------------------------------------------------------------------


def cluster_init(
    folder: NodeDir,
    listen: Listen = None,
    address: ReachedAt = None,
    preset: Preset = "lan",
    nodes: Annotated[
        int | None,
        typer.Option(
            "--nodes", min=1, max=_NODES_MAX, metavar="N", help="N nodes of this machine, in DIR/n1 … DIR/nN."
        ),
    ] = None,
    shards: Annotated[
        int | None,
        typer.Option(
            "--shards",
            min=1,
            max=_SHARDS_MAX,
            metavar="S",
            help="With --nodes: S shards, fixed for good.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> ExitCode:
    """Make the first node of a new cluster, or several of this machine at once, to try it.

    Other nodes join with `bobbin cluster invite` and `bobbin cluster join`. Clusters have 3, 5 or 7 nodes. With
    --nodes, the nodes listen on loopback, at the port of --listen and those after it.

    With --shards, each of DIR/n1 … DIR/nN serves a node of every shard in one process, for transactions over several
    keys. Which key belongs to which shard follows from their number, so it is fixed when they are made.

    Example: bobbin cluster init here --listen tls:192.0.2.1:4795
    """
    from bobbin.config.cluster import create_cluster, places_from, prepare
    from bobbin.config.undoing import undone_on_failure

    out = Output(as_json=as_json)
    if shards is not None:
        return _init_set(out, folder, listen, address, preset, nodes, shards)
    folders, places = [folder], [listen or _LOOPBACK]
    if nodes is not None:
        if address is not None:
            raise UsageError("with --nodes each node has an address of its own; --listen says where the first one is")
        folders = [folder / f"n{number}" for number in range(1, nodes + 1)]
        places = places_from(places[0], nodes)
    with undone_on_failure(folders):
        made = [prepare(one, listen=place, address=address) for one, place in zip(folders, places, strict=True)]
        cluster = create_cluster(made, preset=preset)
    value: Json = {"cluster": cluster.hex(), "nodes": [_new_value(node) for node in made]}
    shown = [out.style(f"{node.node}  {node.address}  {node.layout.folder}") for node in made]
    out.result(value, f"cluster {cluster.hex()}", *shown)
    if nodes is not None and nodes % 2 == 0:
        out.warn(f"{nodes} nodes tolerate no more failures than {nodes - 1} would")
    out.note(f"run each node with: bobbin cluster serve {made[0].layout.folder}")
    return ExitCode.OK


def _init_set(
    out: Output, folder: Path, listen: str | None, address: str | None, preset: str, nodes: int | None, shards: int
) -> ExitCode:
    from bobbin.config.cluster import places_from
    from bobbin.config.shards import create_set
    from bobbin.config.undoing import undone_on_failure

    if nodes is None or address is not None:
        raise UsageError("--shards goes with --nodes; --listen says where the first node of the first shard is")
    places = places_from(listen or _LOOPBACK, nodes * shards)
    by_shard = [places[shard * nodes : (shard + 1) * nodes] for shard in range(shards)]
    folders = [folder / f"n{number}" for number in range(1, nodes + 1)]
    with undone_on_failure(folders):
        made = create_set(folders, by_shard, preset=preset)
    value: list[Json] = [
        {"shard": shard, "cluster": cluster.hex(), "nodes": [_new_value(node) for node in made.nodes[shard]]}
        for shard, cluster in enumerate(made.clusters)
    ]
    shown = [out.style(f"{node.node}  {node.address}  {node.layout.folder}") for some in made.nodes for node in some]
    out.result({"shards": value}, f"{shards} shards, each on {nodes} nodes", *shown)
    if nodes % 2 == 0:
        out.warn(f"{nodes} nodes tolerate no more failures than {nodes - 1} would")
    out.note(f"run each process with: bobbin cluster serve {folder / 'n1'}")
    return ExitCode.OK


def _new_value(node: "NewNode") -> Json:
    return {"node": node.node, "address": node.address, "folder": str(node.layout.folder)}


def cluster_invite(
    folder: NodeDir,
    hours: Annotated[
        float, typer.Option("--hours", min=0.01, max=8760, metavar="N", help="For how long it holds.")
    ] = 24,
    seconds: Seconds = SECONDS,
    as_json: AsJson = False,
) -> ExitCode:
    """Make a token by which one more node can join the cluster.

    It is printed once, and is a secret until it is used or over. Give it to `bobbin cluster join`. So far no machine
    can join a set of shards.

    Example: bobbin cluster invite here
    """
    from bobbin.cli.cluster_token import Invitation, write_token
    from bobbin.cluster.identity import Identity
    from bobbin.config.replicated import lace_of
    from bobbin.runtime import cluster_certificate

    out = Output(as_json=as_json)
    refuse_set(folder)
    seed = secrets.token_bytes(32)
    has_lace = lace_of(folder) is not None
    expires_ms = time.time_ns() // 1_000_000 + int(hours * _HOUR_MS)

    async def invite(client: "ClusterClient", read: "NodeFolder") -> Invitation:
        await client.invite(cluster_certificate.make(Identity(seed)).certificate, expires_ms)
        member = (await client.members()).directory.members.get(read.node)
        if member is None:
            return Invitation(
                read.settings.cluster, seed, read.own.certificate, read.settings.address, expires_ms, has_lace
            )
        # The certificate that it shows now: the key in the folder may be one that it uses from its next start on.
        return Invitation(read.settings.cluster, seed, member.certificate, member.address, expires_ms, has_lace)

    token = write_token(ask(folder, invite, seconds=seconds))
    out.result({"token": token, "expires_ms": expires_ms}, token)
    return ExitCode.OK


def cluster_join(
    folder: NodeDir,
    token: Annotated[
        str, typer.Option("--token", metavar="TOKEN", help="From `bobbin cluster invite`; - reads it from stdin.")
    ],
    listen: Listen = None,
    address: ReachedAt = None,
    via: Annotated[
        str | None,
        typer.Option(
            "--via", metavar="ADDRESS", help="Where the inviting node is reached. Default: as the token says."
        ),
    ] = None,
    preset: Preset = "lan",
    learner: Annotated[
        bool,
        typer.Option(
            "--learner",
            metavar="",
            help="Only listen, until `bobbin cluster replace` or `promote` has it vote.",
            show_default=False,
        ),
    ] = False,
    seconds: Seconds = SECONDS,
    as_json: AsJson = False,
) -> ExitCode:
    """Make a node that joins a cluster which runs. It listens first, and votes when it has caught up.

    With --learner it goes on listening, to take the place of another one. If this is cut off, do it again with the same
    folder.

    Example: bobbin cluster join there --token bobbin-join-1.… --listen tls:192.0.2.2:4795
    """
    from bobbin.cli.cluster_token import read_token
    from bobbin.cli.joining import join_cluster, prepared
    from bobbin.config.cluster import check_preset, complete, prepare

    out = Output(as_json=as_json)
    invitation = read_token(sys.stdin.readline().strip() if token == "-" else token)  # noqa: S105 -- no password
    check_preset(preset)
    if invitation.has_lace:
        raise UsageError(f"this token is of a replicated lace: bobbin init {folder} --cluster --join TOKEN")
    with prepared(folder):
        node = prepare(folder, listen=listen or _LOOPBACK, address=address)
        known = asyncio.run(join_cluster(node, invitation, seconds, via=via, wants_vote=not learner))
    complete(node, invitation.cluster, known, preset=preset)
    out.result(
        {"cluster": invitation.cluster.hex(), **_as_table(_new_value(node))},
        out.style(f"{node.node}  {node.address}  {node.layout.folder}"),
    )
    out.note(f"run it with: bobbin cluster serve {folder}")
    return ExitCode.OK


def _as_table(value: Json) -> dict[str, Json]:
    assert isinstance(value, dict)
    return value


# ---- running one ----------------------------------------------------------------------------------------------------


def cluster_serve(folder: NodeDir, as_json: AsJson = False) -> ExitCode:
    """Run a node, or with shards one of each, until SIGTERM or Ctrl-C.

    The log goes to stderr. With --json there is a line on stdout for each event; the first, "started", has the id of
    the node and its address.

    Example: bobbin cluster serve here
    """
    from bobbin.cli.cluster_process import ClusterProcess
    from bobbin.cli.commands.serve import Announcer
    from bobbin.cli.shards_process import ShardsProcess
    from bobbin.config.cluster import read_folder
    from bobbin.config.replicated import lace_of
    from bobbin.config.shards import is_set, read_set
    from bobbin.runtime.log import make_log

    out = Output(as_json=as_json)
    if (lace := lace_of(folder)) is not None:
        raise UsageError(f"this is the node of a replicated lace, which is served with it: bobbin serve {lace}")
    served = read_set(folder) if is_set(folder) else (read_folder(folder),)
    if len(served) == 1 and served[0].shard is not None and not is_set(folder):
        raise UsageError(f"the shards of a machine are served together: bobbin cluster serve {folder.parent}")
    is_watched = sys.stderr is not None and sys.stderr.isatty()
    log = make_log(_logging(served[0].logging, for_people=is_watched))
    announcer = Announcer(out, for_people=False)
    if served[0].shard is None:
        process: ClusterProcess | ShardsProcess = ClusterProcess(served[0], log=log, tell=announcer)
    else:
        process = ShardsProcess(served, log=log, tell=announcer)
    asyncio.run(process.run())
    return ExitCode.OK


def _logging(logging: "Logging", *, for_people: bool) -> "Logging":
    from msgspec import structs

    from bobbin.runtime.node_settings import LogForm

    return structs.replace(logging, format=LogForm.TEXT) if for_people else logging


def cluster_status(
    folder: NodeDir,
    watch: Annotated[
        bool, typer.Option("--watch", metavar="", help="Keep it up to date, until Ctrl-C.", show_default=False)
    ] = False,
    every: Annotated[
        float, typer.Option("--every", min=0.1, max=3600, metavar="SECONDS", help="How often, with --watch.")
    ] = 1.0,
    wait: Annotated[
        float,
        typer.Option(
            "--wait", min=0, max=3600, metavar="SECONDS", help="Wait so long until all nodes answer and one leads."
        ),
    ] = 0.0,
    seconds: Annotated[
        float, typer.Option("--seconds", min=0.1, max=3600, metavar="SECONDS", help="How long to wait for a node.")
    ] = 2.0,
    as_json: AsJson = False,
) -> ExitCode:
    """Show who leads, how far each node is, how it is, and what is wrong.

    Every node that is known is asked for its own view, so the answer is whole as far as nodes can be reached. In the
    folder of a machine with several shards all of them are shown; with --json under "shards". Ends with 1 where no node
    leads or one does not answer, and with 5 where none answers. --wait is for scripts that have just started nodes.

    Example: bobbin cluster status here --wait 30
    """
    from bobbin.cli import cluster_view

    out = Output(as_json=as_json)
    end = time.monotonic() + wait
    view = cluster_view.look_at(folder, seconds=seconds)
    while not view.is_whole and time.monotonic() < end:
        time.sleep(_AGAIN_SECONDS)
        view = cluster_view.look_at(folder, seconds=seconds)
    if watch:
        return _watch(folder, out, view, every, seconds)
    out.result(view.value(), *view.lines(out))
    if not view.is_heard:
        return ExitCode.TRY_AGAIN
    return ExitCode.OK if view.is_whole else ExitCode.NOT_ALL


def _watch(folder: Path, out: Output, view: "Shown", every: float, seconds: float) -> ExitCode:
    from bobbin.cli import cluster_view, output

    is_screen = not out.as_json and sys.stdout is not None and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    try:
        while True:
            lines: Sequence[str] = view.lines(out)
            if is_screen:
                # Home, and nothing below: the picture before is drawn over.
                lines = ["\x1b[H\x1b[2J" + lines[0], *lines[1:]]
            elif not out.as_json:
                lines = [*lines, ""]
            out.row(view.value(), *lines)
            output.flush()
            time.sleep(every)
            view = cluster_view.look_at(folder, seconds=seconds)
    except KeyboardInterrupt:
        return ExitCode.OK


# ---- changing one ---------------------------------------------------------------------------------------------------


def cluster_snapshot(folder: NodeDir, seconds: Seconds = 60.0, as_json: AsJson = False) -> ExitCode:
    """Have the node of a folder write a snapshot of its state now, and cut its log.

    It does so by itself, too, when the log has grown.

    Example: bobbin cluster snapshot here
    """
    from bobbin.runtime.cluster_client import NotAccepted

    out = Output(as_json=as_json)

    async def snapshot(client: "ClusterClient", read: "NodeFolder") -> int:
        return await client.snapshot(read.node)

    try:
        index = ask(folder, snapshot, seconds=seconds, needs_majority=False)
    except NotAccepted as error:
        return refused(out, str(error))
    out.result({"index": index}, f"snapshot up to {index:,}")
    return ExitCode.OK


# ---- keys -----------------------------------------------------------------------------------------------------------


def cluster_put(
    folder: NodeDir,
    key: Key,
    value: Annotated[str, typer.Argument(metavar="VALUE", help="Value, as text; - reads stdin.", show_default=False)],
    expect: Annotated[
        str | None,
        typer.Option("--expect", metavar="TEXT", help="Only if the key has this value now.", show_default=False),
    ] = None,
    new: Annotated[
        bool, typer.Option("--new", metavar="", help="Only if there is no such key.", show_default=False)
    ] = False,
    seconds: Seconds = SECONDS,
    as_json: AsJson = False,
) -> ExitCode:
    """Set a key, on a majority of the nodes, durably.

    Not in a set of shards, whose keys `bobbin chain tx` writes, nor in a replicated lace, which keeps records.

    Example: bobbin cluster put here colour green
    """
    out = Output(as_json=as_json)
    if expect is not None and new:
        raise UsageError("--expect and --new exclude each other")
    data = sys.stdin.buffer.read() if value == "-" else value.encode()

    async def put(client: "ClusterClient", _: "NodeFolder") -> int | None:
        if expect is None and not new:
            return await client.put(key.encode(), data)
        is_done = await client.compare_and_swap(key.encode(), None if expect is None else expect.encode(), data)
        return 0 if is_done else None

    version = ask_keys(folder, put, instead=lambda of: f"tx {of} --put {key}=VALUE", writes=True, seconds=seconds)
    if version is None:
        return refused(out, f"{key} has another value" if expect is not None else f"there is a key {key} already")
    out.result({"key": key, "version": version or None}, *([f"version {version}"] if version else []))
    return ExitCode.OK


def cluster_get(
    folder: NodeDir, key: Key, stale: Stale = False, seconds: Seconds = SECONDS, as_json: AsJson = False
) -> ExitCode:
    """Print the value of a key, as it is now by a majority of the nodes.

    Example: bobbin cluster get here colour
    """
    out = Output(as_json=as_json)

    async def get(client: "ClusterClient", _: "NodeFolder") -> "Value":
        return await client.get(key.encode(), stale=stale)

    found = ask_keys(folder, get, instead=lambda of: f"get {of} {key}", seconds=seconds, needs_majority=not stale)
    if found.value is None:
        return not_found(out, f"there is no key {key}")
    if as_json:
        out.result({"key": key, **_text_of("value", found.value), "version": found.version})
    else:
        out.raw(found.value)
    return ExitCode.OK


def cluster_delete(folder: NodeDir, key: Key, seconds: Seconds = SECONDS, as_json: AsJson = False) -> ExitCode:
    """Take a key away.

    Example: bobbin cluster delete here colour
    """
    out = Output(as_json=as_json)

    async def delete(client: "ClusterClient", _: "NodeFolder") -> bool:
        return await client.delete(key.encode())

    if not ask_keys(folder, delete, instead=lambda of: f"tx {of} --delete {key}", writes=True, seconds=seconds):
        return not_found(out, f"there is no key {key}")
    out.result({"deleted": key})
    return ExitCode.OK


def cluster_scan(
    folder: NodeDir,
    prefix: Annotated[
        str, typer.Argument(metavar="PREFIX", help="What the keys begin with. Default: all.", show_default=False)
    ] = "",
    limit: Limit = None,
    stale: Stale = False,
    seconds: Seconds = SECONDS,
    as_json: AsJson = False,
) -> ExitCode:
    """List keys and their values, in order.

    Example: bobbin cluster scan here user/
    """
    out = Output(as_json=as_json)

    async def scan(client: "ClusterClient", _: "NodeFolder") -> None:
        count = 0
        async for row in client.scan(prefix.encode(), stale=stale):
            if limit is not None and count >= limit:
                return
            count += 1
            _show(out, row)

    ask_keys(folder, scan, instead=lambda of: f"get {of} KEY…", seconds=seconds, needs_majority=not stale)
    return ExitCode.OK


def _show(out: Output, row: "Row") -> None:
    if out.as_json:
        out.row({**_text_of("key", row.key), **_text_of("value", row.value), "version": row.version})
    else:
        key, value = (one.decode("utf-8", "backslashreplace") for one in (row.key, row.value))
        out.row(None, out.style(f"{key}  {value}"))


def _text_of(name: str, data: bytes) -> dict[str, Json]:
    """Bytes in JSON: as text where they are text, else in base64 under another name."""
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}
