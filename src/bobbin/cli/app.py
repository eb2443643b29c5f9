"""The tree of commands: names, groups and the order in which help lists them."""

import inspect
from collections.abc import Callable
from typing import Annotated, Final

import typer

from bobbin.cli.commands.backup import backup
from bobbin.cli.commands.chain import (
    chain_blocks,
    chain_codebook,
    chain_get,
    chain_history,
    chain_pending,
    chain_resolve,
    chain_tx,
)
from bobbin.cli.commands.chain_verify import chain_verify
from bobbin.cli.commands.cluster import (
    cluster_delete,
    cluster_get,
    cluster_init,
    cluster_invite,
    cluster_join,
    cluster_put,
    cluster_scan,
    cluster_serve,
    cluster_snapshot,
    cluster_status,
)
from bobbin.cli.commands.cluster_change import cluster_promote, cluster_remove, cluster_replace, cluster_transfer
from bobbin.cli.commands.cluster_rotate import cluster_rotate
from bobbin.cli.commands.compact import compact
from bobbin.cli.commands.export import export
from bobbin.cli.commands.facts import facts
from bobbin.cli.commands.follow import follow
from bobbin.cli.commands.fsck import fsck
from bobbin.cli.commands.get import get
from bobbin.cli.commands.graph_dump import graph_dump
from bobbin.cli.commands.graph_serve import graph_serve
from bobbin.cli.commands.graph_set import graph_set
from bobbin.cli.commands.graph_watch import graph_watch
from bobbin.cli.commands.import_ import import_
from bobbin.cli.commands.init import init
from bobbin.cli.commands.key import key_list, key_new, key_show
from bobbin.cli.commands.lake_check import lake_check
from bobbin.cli.commands.lake_clean import lake_clean
from bobbin.cli.commands.lake_compact import lake_compact
from bobbin.cli.commands.lake_history import lake_history
from bobbin.cli.commands.lake_init import lake_init
from bobbin.cli.commands.lake_stat import lake_stat
from bobbin.cli.commands.lift import lift
from bobbin.cli.commands.links import links
from bobbin.cli.commands.list import list_records
from bobbin.cli.commands.peers import peers_add, peers_list, peers_remove, peers_show
from bobbin.cli.commands.pipeline_advertise import pipeline_advertise
from bobbin.cli.commands.pipeline_conflicts import pipeline_conflicts
from bobbin.cli.commands.pipeline_export import pipeline_export
from bobbin.cli.commands.pipeline_facts import pipeline_facts
from bobbin.cli.commands.pipeline_follow import pipeline_follow
from bobbin.cli.commands.pipeline_ingest import pipeline_ingest
from bobbin.cli.commands.pipeline_load import pipeline_load
from bobbin.cli.commands.pipeline_reconcile import pipeline_reconcile
from bobbin.cli.commands.pipeline_report import pipeline_report
from bobbin.cli.commands.pipeline_select import pipeline_select
from bobbin.cli.commands.pipeline_tangles import pipeline_tangles
from bobbin.cli.commands.policy_build import policy_build
from bobbin.cli.commands.policy_check import policy_check
from bobbin.cli.commands.policy_diff import policy_diff
from bobbin.cli.commands.policy_eval import policy_eval
from bobbin.cli.commands.policy_explain import policy_explain
from bobbin.cli.commands.policy_fmt import policy_fmt
from bobbin.cli.commands.policy_id import policy_id
from bobbin.cli.commands.policy_test import policy_test
from bobbin.cli.commands.put import put
from bobbin.cli.commands.quarantine import quarantine_list, quarantine_release, quarantine_show
from bobbin.cli.commands.refusals import refusals
from bobbin.cli.commands.remote import remote_get, remote_list, remote_put
from bobbin.cli.commands.remove import remove
from bobbin.cli.commands.replay import replay
from bobbin.cli.commands.serve import serve
from bobbin.cli.commands.show import show
from bobbin.cli.commands.sign import sign
from bobbin.cli.commands.signal_serve import signal_serve
from bobbin.cli.commands.stat import stat
from bobbin.cli.commands.statement import statement_check, statement_show
from bobbin.cli.commands.sync import sync
from bobbin.cli.commands.tangle_account import (
    tangle_account_add,
    tangle_account_consent,
    tangle_account_del,
    tangle_account_show,
)
from bobbin.cli.commands.tangle_append import tangle_append
from bobbin.cli.commands.tangle_gc import tangle_gc
from bobbin.cli.commands.tangle_goal import tangle_goal
from bobbin.cli.commands.tangle_key import tangle_key_list, tangle_key_new
from bobbin.cli.commands.tangle_log import tangle_log
from bobbin.cli.commands.tangle_new import tangle_new
from bobbin.cli.commands.tangle_serve import tangle_serve
from bobbin.cli.commands.tangle_show import tangle_show
from bobbin.cli.commands.tangle_sync import tangle_sync
from bobbin.cli.commands.top import top
from bobbin.cli.commands.verify import verify
from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.single import SingleValued

START: Final = "Start"
RECORDS: Final = "Records"
FILES: Final = "In and out"
POLICY: Final = "Policy"
EXCHANGE: Final = "Exchange"
TANGLES: Final = "Tangles"
NODE: Final = "Node"
CLUSTER: Final = "Cluster"
PIPELINE: Final = "Pipeline"
CARE: Final = "Care"

_EPILOG: Final = (
    "Exit codes: 0 all done · 1 not all (not found, rejected) · 2 usage · 3 lace or key damaged · 4 machine failed · "
    "5 try again · 6 peer at fault · 7 policy wrong. All of them: docs/cli.md"
)

app = typer.Typer(
    name="bobbin",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=_EPILOG,
)
key = typer.Typer(no_args_is_help=True, help="Signing keys: make, show, list.")
quarantine = typer.Typer(no_args_is_help=True, help="Rejected bytes and why: list, show, release.")
statement = typer.Typer(no_args_is_help=True, help="What one side has sealed about an exchange: show, check.")
peers = typer.Typer(no_args_is_help=True, help="Known peers: list, show, add, remove.")
remote = typer.Typer(no_args_is_help=True, help="Single records of a peer elsewhere: get, list, put.")
tangle = typer.Typer(no_args_is_help=True, help="Histories of signed messages that name what they come after.")
tangle_key = typer.Typer(no_args_is_help=True, help="Keys of accounts: make, list.")
tangle_account = typer.Typer(no_args_is_help=True, help="Who may speak for an account: show, consent, add, del.")
signal = typer.Typer(no_args_is_help=True, help="Rooms in which peers find each other: serve.")
graph = typer.Typer(no_args_is_help=True, help="What a lace holds as a live graph: serve, watch, dump, set.")
cluster = typer.Typer(no_args_is_help=True, help="Nodes that agree on one order, and a table of keys to try it on.")
chain = typer.Typer(no_args_is_help=True, help="Transactions on a set of shards, and the blocks that they leave.")
pipeline = typer.Typer(no_args_is_help=True, help="Jobs on Spark, over as many records as there are, in a lake.")
lake = typer.Typer(no_args_is_help=True, help="A lake, the folder of tables that jobs read and write: look, check.")
policy = typer.Typer(no_args_is_help=True, help="Rules about who may have what: check, try, compare, explain.")


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version  # slow, and rarely wanted

        typer.echo(f"bobbin {version('bobbin')}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool,
        typer.Option("--version", metavar="", help="Show the version and exit.", is_eager=True, callback=_show_version),
    ] = False,
) -> None:
    """Verified records in a folder: write them, sign them, check them, move them.

    A lace is a folder with a store of records and the keys that sign them. A record never changes: its name is the
    hash of its bytes, and every byte is checked before it is stored.

    Start with: bobbin init notes.lace
    """


def _help(function: Callable[..., object]) -> str:
    """A docstring with each paragraph on one line; the terminal breaks it where it must."""
    paragraphs = inspect.cleandoc(function.__doc__ or "").split("\n\n")
    return "\n\n".join(paragraph.replace("\n", " ") for paragraph in paragraphs)


def _add(parent: typer.Typer, name: str, function: Callable[..., ExitCode], panel: str | None = None) -> None:
    parent.command(name, cls=SingleValued, help=_help(function), rich_help_panel=panel)(function)


app.callback(help=_help(_root))(_root)

_add(app, "init", init, START)
app.add_typer(key, name="key", rich_help_panel=START)
_add(key, "new", key_new)
_add(key, "show", key_show)
_add(key, "list", key_list)

_add(app, "put", put, RECORDS)
_add(app, "get", get, RECORDS)
_add(app, "list", list_records, RECORDS)
_add(app, "show", show, RECORDS)
_add(app, "sign", sign, RECORDS)
_add(app, "facts", facts, RECORDS)
_add(app, "remove", remove, RECORDS)
_add(app, "lift", lift, RECORDS)
_add(app, "refusals", refusals, RECORDS)

_add(app, "import", import_, FILES)
_add(app, "export", export, FILES)
_add(app, "verify", verify, FILES)
app.add_typer(quarantine, name="quarantine", rich_help_panel=FILES)
_add(quarantine, "list", quarantine_list)
_add(quarantine, "show", quarantine_show)
_add(quarantine, "release", quarantine_release)

app.add_typer(policy, name="policy", rich_help_panel=POLICY)
_add(policy, "check", policy_check)
_add(policy, "id", policy_id)
_add(policy, "fmt", policy_fmt)
_add(policy, "build", policy_build)
_add(policy, "test", policy_test)
_add(policy, "eval", policy_eval)
_add(policy, "diff", policy_diff)
_add(policy, "explain", policy_explain)

_add(app, "sync", sync, EXCHANGE)
_add(app, "follow", follow, EXCHANGE)
app.add_typer(remote, name="remote", rich_help_panel=EXCHANGE)
_add(remote, "get", remote_get)
_add(remote, "list", remote_list)
_add(remote, "put", remote_put)
app.add_typer(statement, name="statement", rich_help_panel=EXCHANGE)
_add(statement, "show", statement_show)
_add(statement, "check", statement_check)
_add(app, "replay", replay, EXCHANGE)

app.add_typer(tangle, name="tangle", rich_help_panel=TANGLES)
tangle.add_typer(tangle_key, name="key")
_add(tangle_key, "new", tangle_key_new)
_add(tangle_key, "list", tangle_key_list)
tangle.add_typer(tangle_account, name="account")
_add(tangle_account, "show", tangle_account_show)
_add(tangle_account, "consent", tangle_account_consent)
_add(tangle_account, "add", tangle_account_add)
_add(tangle_account, "del", tangle_account_del)
_add(tangle, "new", tangle_new)
_add(tangle, "append", tangle_append)
_add(tangle, "show", tangle_show)
_add(tangle, "log", tangle_log)
_add(tangle, "goal", tangle_goal)
_add(tangle, "gc", tangle_gc)
_add(tangle, "sync", tangle_sync)
_add(tangle, "serve", tangle_serve)

_add(app, "serve", serve, NODE)
app.add_typer(peers, name="peers", rich_help_panel=NODE)
_add(peers, "list", peers_list)
_add(peers, "show", peers_show)
_add(peers, "add", peers_add)
_add(peers, "remove", peers_remove)
app.add_typer(signal, name="signal", rich_help_panel=NODE)
_add(signal, "serve", signal_serve)
app.add_typer(graph, name="graph", rich_help_panel=NODE)
_add(graph, "serve", graph_serve)
_add(graph, "watch", graph_watch)
_add(graph, "dump", graph_dump)
_add(graph, "set", graph_set)
_add(app, "links", links, NODE)
_add(app, "top", top, NODE)

app.add_typer(cluster, name="cluster", rich_help_panel=CLUSTER)
_add(cluster, "init", cluster_init)
_add(cluster, "invite", cluster_invite)
_add(cluster, "join", cluster_join)
_add(cluster, "serve", cluster_serve)
_add(cluster, "status", cluster_status)
_add(cluster, "transfer", cluster_transfer)
_add(cluster, "remove", cluster_remove)
_add(cluster, "promote", cluster_promote)
_add(cluster, "replace", cluster_replace)
_add(cluster, "rotate", cluster_rotate)
_add(cluster, "snapshot", cluster_snapshot)
_add(cluster, "put", cluster_put)
_add(cluster, "get", cluster_get)
_add(cluster, "delete", cluster_delete)
_add(cluster, "scan", cluster_scan)
app.add_typer(chain, name="chain", rich_help_panel=CLUSTER)
_add(chain, "tx", chain_tx)
_add(chain, "get", chain_get)
_add(chain, "history", chain_history)
_add(chain, "blocks", chain_blocks)
_add(chain, "verify", chain_verify)
_add(chain, "pending", chain_pending)
_add(chain, "resolve", chain_resolve)
_add(chain, "codebook", chain_codebook)

app.add_typer(pipeline, name="pipeline", rich_help_panel=PIPELINE)
_add(pipeline, "ingest", pipeline_ingest)
_add(pipeline, "load", pipeline_load)
_add(pipeline, "follow", pipeline_follow)
_add(pipeline, "export", pipeline_export)
_add(pipeline, "facts", pipeline_facts)
_add(pipeline, "advertise", pipeline_advertise)
_add(pipeline, "reconcile", pipeline_reconcile)
_add(pipeline, "select", pipeline_select)
_add(pipeline, "tangles", pipeline_tangles)
_add(pipeline, "conflicts", pipeline_conflicts)
_add(pipeline, "report", pipeline_report)
app.add_typer(lake, name="lake", rich_help_panel=PIPELINE)
_add(lake, "init", lake_init)
_add(lake, "stat", lake_stat)
_add(lake, "history", lake_history)
_add(lake, "check", lake_check)
_add(lake, "compact", lake_compact)
_add(lake, "clean", lake_clean)

_add(app, "stat", stat, CARE)
_add(app, "fsck", fsck, CARE)
_add(app, "backup", backup, CARE)
_add(app, "compact", compact, CARE)
