"""``bobbin init``: make a new lace."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.options import AsJson, LaceFolder
from bobbin.cli.output import Json, Output
from bobbin.errors import UsageError

if TYPE_CHECKING:
    from bobbin.config.cluster import NewNode

_NODES_MAX: Final = 99
_LOOPBACK: Final = "tls:127.0.0.1:4795"
_JOIN_SECONDS: Final = 30.0

LakeOption = Annotated[
    Path | None,
    typer.Option("--lake", metavar="LAKE", help="Over the records of this lake, only to be read.", show_default=False),
]


ClusterOption = Annotated[
    bool,
    typer.Option("--cluster", metavar="", help="A replicated lace: nodes of one cluster keep it.", show_default=False),
]
NodesOption = Annotated[
    int | None,
    typer.Option(
        "--nodes",
        min=1,
        max=_NODES_MAX,
        metavar="N",
        help="With --cluster: N nodes of this machine, in DIR/n1 … DIR/nN.",
        show_default=False,
    ),
]
JoinOption = Annotated[
    str | None,
    typer.Option(
        "--join",
        metavar="TOKEN",
        help="With --cluster: join one that runs; from `bobbin cluster invite`, - for stdin.",
        show_default=False,
    ),
]
LearnerOption = Annotated[
    bool,
    typer.Option(
        "--learner",
        metavar="",
        help="With --join: only listen, until `bobbin cluster replace` or `promote` has it vote.",
        show_default=False,
    ),
]
ListenOption = Annotated[
    str | None,
    typer.Option(
        "--listen",
        metavar="ADDRESS",
        help="With --cluster: where the node listens to the others, tls:HOST:PORT.",
        show_default=False,
    ),
]
AddressOption = Annotated[
    str | None,
    typer.Option(
        "--address",
        metavar="ADDRESS",
        help="With --cluster: where the others reach it. Default: where it listens.",
        show_default=False,
    ),
]
PresetOption = Annotated[
    str, typer.Option("--preset", metavar="NAME", help="With --cluster: timeouts of nodes: lan, region or world.")
]


def init(
    folder: LaceFolder,
    lake: LakeOption = None,
    cluster: ClusterOption = False,
    nodes: NodesOption = None,
    join: JoinOption = None,
    learner: LearnerOption = False,
    listen: ListenOption = None,
    address: AddressOption = None,
    preset: PresetOption = "region",
    as_json: AsJson = False,
) -> ExitCode:
    """Make a new, empty lace in DIR.

    DIR must not exist yet, or be empty. No key is made: that is `bobbin key new DIR`. With --lake the lace has no
    records of its own: it shows those of a lake and can send them in exchanges.

    With --cluster the lace survives the loss of a machine: every node has all of it, and a record is stored when a
    majority has it on disk. DIR is the first node, which others join, or with --nodes holds several nodes, to try it.
    The lace has one key, at every node: it is made here; a node that joins gets it by `bobbin key new DIR --from FILE`.

    Examples: bobbin init notes.lace · bobbin init trial --cluster --nodes 3
    """
    from bobbin.lace import Lace

    out = Output(as_json=as_json)
    if cluster:
        if lake is not None:
            raise UsageError("a lace over a lake is only read, so there is nothing to replicate")
        if learner and join is None:
            raise UsageError("the first nodes of a cluster vote; --learner is for one that joins: --join")
        if join is not None and nodes is None:
            return _join_cluster(out, folder, join, listen, address, preset, wants_vote=not learner)
        return _init_cluster(out, folder, nodes, join, listen, address, preset)
    if (nodes, join, listen, address) != (None,) * 4 or learner:
        raise UsageError("--nodes, --join, --learner, --listen and --address are about a replicated lace: --cluster")
    with Lace.create(folder, lake=lake) as lace:
        settings = lace.settings
    out.result(
        {
            "lace": str(folder),
            "format": settings.format,
            "created": settings.created,
            "default_key": settings.default_key,
            **({} if settings.lake is None else {"lake": settings.lake}),
        },
        f"created {out.style(str(folder), bold=True)}" + ("" if lake is None else f" over {out.style(str(lake))}"),
    )
    out.note(f"Next: bobbin key new {folder}")
    return ExitCode.OK


def _init_cluster(
    out: Output,
    folder: Path,
    count: int | None,
    join: str | None,
    listen: str | None,
    address: str | None,
    preset: str,
) -> ExitCode:
    from bobbin.config.cluster import places_from
    from bobbin.config.layout import Layout
    from bobbin.config.replicated import create_nodes, prepare_node, share_key
    from bobbin.config.undoing import undone_on_failure
    from bobbin.lace import Lace

    if count is not None and (join is not None or address is not None):
        raise UsageError("with --nodes each node has an address of its own, and a new cluster is made")
    folders, places = [folder], [listen or _LOOPBACK]
    if count is not None:
        folders = [folder / f"n{number}" for number in range(1, count + 1)]
        places = places_from(places[0], count)
    layouts = [Layout(one) for one in folders]
    with undone_on_failure(folders):
        made = [prepare_node(one, listen=place, address=address) for one, place in zip(folders, places, strict=True)]
        cluster = create_nodes(made, preset=preset)
        for layout in layouts:
            Lace.create(layout.folder).close()
        verifier = share_key(layouts[0], layouts[1:])
    value: Json = {"cluster": cluster.hex(), "verifier": verifier, "nodes": [_value(node) for node in made]}
    shown = [out.style(f"{node.node}  {node.address}  {node.layout.folder.parent}") for node in made]
    out.result(value, f"replicated lace {verifier}", *shown)
    if count is not None and count % 2 == 0:
        out.warn(f"{count} nodes tolerate no more failures than {count - 1} would")
    out.note(f"Next: bobbin serve {layouts[0].folder} --listen ADDRESS, and so each node")
    return ExitCode.OK


def _join_cluster(
    out: Output,
    folder: Path,
    token: str,
    listen: str | None,
    address: str | None,
    preset: str,
    *,
    wants_vote: bool,
) -> ExitCode:
    import asyncio

    from bobbin.cli.cluster_token import read_token
    from bobbin.cli.joining import join_cluster, prepared
    from bobbin.config.cluster import check_preset, complete
    from bobbin.config.replicated import SETTINGS, prepare_node
    from bobbin.lace import Lace

    invitation = read_token(sys.stdin.readline().strip() if token == "-" else token)  # noqa: S105 -- no password
    check_preset(preset)
    if invitation.has_lace is False:
        raise UsageError(f"this token is of a cluster that keeps no lace: bobbin cluster join {folder} --token TOKEN")
    with prepared(folder):
        node = prepare_node(folder, listen=listen or _LOOPBACK, address=address)
        known = asyncio.run(join_cluster(node, invitation, _JOIN_SECONDS, wants_vote=wants_vote))
    complete(node, invitation.cluster, known, preset=preset, more=SETTINGS)
    Lace.create(folder).close()
    value: dict[str, Json] = {"cluster": invitation.cluster.hex(), "nodes": [_value(node)]}
    out.result(value, out.style(f"{node.node}  {node.address}  {folder}"))
    out.note(f"Next: bobbin key new {folder} --from FILE, the lace's secret, as `bobbin key show --secret` prints it")
    return ExitCode.OK


def _value(node: "NewNode") -> Json:
    return {"node": node.node, "address": node.address, "folder": str(node.layout.folder.parent)}
