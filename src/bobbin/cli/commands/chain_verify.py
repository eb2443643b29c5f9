"""``bobbin chain verify``: every node checks its whole chain, and the nodes of a shard are compared."""

from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from bobbin.cli.chain_asking import SetDir, ask, head
from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.options import AsJson
from bobbin.cli.output import Output
from bobbin.cli.text import count_text

if TYPE_CHECKING:
    from bobbin.cluster.names import NodeId
    from bobbin.config.cluster import NodeFolder
    from bobbin.runtime.tensor_chain import TensorChain
    from bobbin.wire.cluster.chain import ChainVerdict

Checked: TypeAlias = "list[tuple[int, NodeId, ChainVerdict | str]]"
"""Of each shard and node: what it has found, or why it does not answer."""


def chain_verify(
    folder: SetDir,
    seconds: Annotated[
        float, typer.Option("--seconds", min=0.1, max=86_400, metavar="SECONDS", help="How long a node may take.")
    ] = 600.0,
    as_json: AsJson = False,
) -> ExitCode:
    """Have every node check its whole chain: hashes, signatures, and every root by doing it all again.

    Then the nodes of a shard are compared: two of one height must have the same tip. The last line says whether all of
    it holds. Ends with 3 where a block is bad or tips differ, and with 1 where a node does not answer. Nodes that have
    started again and do not know yet what is committed check nothing: where there are no others, it ends with 5.

    Example: bobbin chain verify try/n1
    """
    out = Output(as_json=as_json)

    async def look(chain: "TensorChain", read: "tuple[NodeFolder, ...]") -> Checked:
        return await _checked(chain, read)

    found = ask(folder, look, seconds=seconds)
    head(out, f"{'shard':>5}  {'node':8}  {'height':>8}  {'tip':16}")
    for shard, node, verdict in found:
        if isinstance(verdict, str):
            out.row({"shard": shard, "node": node, "error": verdict}, f"{shard:>5}  {node[:8]}  {verdict}")
            continue
        fault = "" if verdict.fault_height is None else f"  BAD at {verdict.fault_height:,}: {verdict.fault}"
        out.row(
            {
                "shard": shard,
                "node": node,
                "height": verdict.height,
                "tip": verdict.tip.hex(),
                "fault_height": verdict.fault_height,
                "fault": verdict.fault or None,
            },
            f"{shard:>5}  {node[:8]}  {verdict.height:>8,}  {verdict.tip.hex()[:16]}{fault}",
        )
    for shard, height, count in differing(found):
        out.warn(f"shard {shard} has {count} different blocks of height {height:,}")
    code, text = conclusion(found)
    if not as_json:
        out.row(None, out.style(text, bold=True))
    return code


async def _checked(chain: "TensorChain", read: "tuple[NodeFolder, ...]") -> Checked:
    from bobbin.cluster.transactions.names import ShardId
    from bobbin.errors import BobbinError
    from bobbin.runtime.cluster_client import NotAccepted
    from bobbin.runtime.cluster_requests import NOT_LEARNT

    found: Checked = []
    unlearnt: NotAccepted | None = None
    for shard in range(len(read)):
        try:
            nodes = list((await chain.client(ShardId(shard)).members()).directory.members)
        except BobbinError:
            nodes = list(read[shard].known.directory.members)
        for node in sorted(nodes):
            try:
                found.append((shard, node, await chain.verify_node(ShardId(shard), node)))
            except BobbinError as error:
                if isinstance(error, NotAccepted) and error.why == NOT_LEARNT:
                    unlearnt = error
                found.append((shard, node, f"does not answer: {error}"))
    if unlearnt is not None and all(isinstance(verdict, str) for _, _, verdict in found):
        raise unlearnt
    return found


def differing(found: Checked) -> list[tuple[int, int, int]]:
    """Shards whose nodes have different tips at one height: shard, height, how many tips."""
    tips: dict[tuple[int, int], set[bytes]] = {}
    for shard, _, verdict in found:
        if not isinstance(verdict, str):
            tips.setdefault((shard, verdict.height), set()).add(verdict.tip)
    return [(shard, height, len(some)) for (shard, height), some in sorted(tips.items()) if len(some) > 1]


def conclusion(found: Checked) -> tuple[ExitCode, str]:
    """Whether it holds, and what was checked, in one line."""
    checked = [(shard, verdict) for shard, _, verdict in found if not isinstance(verdict, str)]
    bad = sum(verdict.fault_height is not None for _, verdict in checked)
    apart = {shard for shard, _, _ in differing(found)}
    silent = len(found) - len(checked)
    if bad or apart:
        parts = [f"{count_text(bad, 'node')} with a bad block"] if bad else []
        parts += [f"{count_text(len(apart), 'shard')} with nodes that differ"] if apart else []
        return ExitCode.INTEGRITY, f"does not hold: {', '.join(parts)}"
    if not checked:
        return ExitCode.NOT_ALL, f"nothing was checked: none of {count_text(silent, 'node')} answers"
    where = f"{count_text(len(checked), 'node')} of {count_text(len({shard for shard, _ in checked}), 'shard')}"
    what = f"every block on {where} (hashes, signatures, roots), and the tips of those of one height"
    if silent:
        return (
            ExitCode.NOT_ALL,
            f"holds as far as it was checked: {what}; {count_text(silent, 'node')} without an answer",
        )
    return ExitCode.OK, f"holds: {what}"
