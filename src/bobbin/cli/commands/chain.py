"""``bobbin chain …``: transactions on a set of shards, and the chains of blocks that they leave."""

import asyncio
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bobbin.cli.chain_asking import SECONDS, Seconds, SetDir, ask, head, key_of, pair, shown, transaction_id
from bobbin.cli.chain_text import held, name_of, value_of, words_of
from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.options import AsJson
from bobbin.cli.output import Json, Output, not_found, refused
from bobbin.cli.single import in_order
from bobbin.errors import ResourceError, UsageError

if TYPE_CHECKING:
    from bobbin.cluster.chain.block import Block
    from bobbin.cluster.chain.versions import Item
    from bobbin.cluster.operations import Operation
    from bobbin.config.cluster import NodeFolder
    from bobbin.runtime.tensor_chain import Result, TensorChain, Workspace
    from bobbin.wire.cluster.chain import ChainChange, PendingTransaction

Shard = Annotated[
    int | None,
    typer.Option("--shard", min=0, max=65_535, metavar="N", help="Only this shard, from 0.", show_default=False),
]
Tx = Annotated[str, typer.Argument(metavar="TX", help="Transaction: 32 hexadecimal digits.", show_default=False)]


class ResolvedAs(StrEnum):
    """What a person has decided."""

    COMMIT = "commit"
    ABORT = "abort"


# ---- transactions ---------------------------------------------------------------------------------------------------


def chain_tx(
    context: typer.Context,
    folder: SetDir,
    get: Annotated[
        list[str] | None, typer.Option("--get", metavar="KEY", help="Read a key in it.", show_default=False)
    ] = None,
    require: Annotated[
        list[str] | None,
        typer.Option(
            "--if", metavar="KEY=VALUE", help="Only if the key holds this; KEY= for nothing.", show_default=False
        ),
    ] = None,
    put: Annotated[
        list[str] | None, typer.Option("--put", metavar="KEY=VALUE", help="Set a key.", show_default=False)
    ] = None,
    add: Annotated[
        list[str] | None, typer.Option("--add", metavar="KEY=N", help="Add to a number.", show_default=False)
    ] = None,
    delete: Annotated[
        list[str] | None, typer.Option("--delete", metavar="KEY", help="Take a key away.", show_default=False)
    ] = None,
    seconds: Seconds = SECONDS,
    as_json: AsJson = False,
) -> ExitCode:
    """Do one transaction: everything or nothing, over whatever shards its keys are on.

    Options may be repeated; what writes is done in the order of the line. What is read, and what --if asks, is true at
    the moment at which the rest is done; if somebody else was faster, it is all tried again. Ends with 1 where an --if
    does not hold, and nothing is done then; and where --add meets something that is no number: that key is left as it
    is, which is said, and the rest is done. What --put writes is text, also where it looks like a number. The height of
    its block is told where it wrote on one shard; over several shards it has one on each, which `bobbin chain history`
    shows.

    Example: bobbin chain tx try/n1 --if alice=10 --put alice=7 --put bob=3
    """
    from bobbin.cluster.operations import affected_key
    from bobbin.runtime.tensor_chain import TransactionFailed

    out = Output(as_json=as_json)
    keys = [key_of(text) for text in get or []]
    wanted = [pair(text, "--if") for text in require or []]
    written = in_order(context, {"put": put or [], "add": add or [], "delete": delete or []})
    operations = [_operation(option, text) for option, text in written]
    if not keys and not wanted and not operations:
        raise UsageError("there is nothing to do; see --get, --if, --put, --add and --delete")

    async def run(chain: "TensorChain", _: "tuple[NodeFolder, ...]") -> "tuple[dict[bytes, Item | None], Result]":
        return await _tried(chain, keys, wanted, operations)

    try:
        found, result = ask(folder, run, seconds=seconds)
    except _NotSo as error:
        return refused(out, str(error))
    except TransactionFailed as error:
        return refused(out, str(error))
    value: dict[str, Json] = {
        "tx": result.tx.hex(),
        # Over several shards it is decided before its parts stand in blocks, at a height of each shard's own.
        **({"height": result.height} if result.height else {}),
        "read": {name_of(key): held(item) for key, item in found.items()},
        "refusals": [{"key": name_of(affected_key(one)), "reason": reason} for one, reason in result.refusals],
    }
    lines = [f"{shown(key)}  {'(nothing)' if item is None else words_of(item)}" for key, item in found.items()]
    if operations:
        where = f" at height {result.height:,}" if result.height else ""
        lines.append(f"committed {result.tx.hex()}{where}")
    out.result(value, *lines)
    for operation, reason in result.refusals:
        out.warn(f"{shown(affected_key(operation))} was left as it is: {reason}")
    return ExitCode.NOT_ALL if result.refusals else ExitCode.OK


class _NotSo(UsageError):
    """A condition does not hold."""


async def _tried(
    chain: "TensorChain",
    keys: list[bytes],
    wanted: list[tuple[bytes, bytes]],
    operations: "list[Operation]",
) -> "tuple[dict[bytes, Item | None], Result]":
    """Once, and again with fresh reads while somebody else is faster."""
    from bobbin.cluster.transactions.phases import Ended
    from bobbin.runtime.tensor_chain import TRIES_MAX, TransactionFailed

    born_ms: int | None = None
    tries = 0
    while True:
        workspace = await chain.begin(born_ms=born_ms)
        born_ms = workspace.born_ms
        found = await _prepared(workspace, keys, wanted, operations)
        result = await chain.commit(workspace)
        if result.is_committed:
            return found, result
        tries += 1
        if result.ended is Ended.REFUSED or tries == TRIES_MAX:
            raise TransactionFailed(result)


async def _prepared(
    workspace: "Workspace",
    keys: list[bytes],
    wanted: list[tuple[bytes, bytes]],
    operations: "list[Operation]",
) -> "dict[bytes, Item | None]":
    from bobbin.cluster.operations import affected_key

    for key, value in wanted:
        held = await workspace.get(key)
        if (held or b"") != value:
            raise _NotSo(f"{shown(key)} holds {'nothing' if held is None else shown(held)}, not {shown(value)!r}")
    found = {key: await _look(workspace, key) for key in keys}
    for operation in operations:
        try:
            await workspace.do(operation)
        except UsageError as error:
            raise UsageError(f"{shown(affected_key(operation))}: {error}") from error
    return found


def _operation(option: str, text: str) -> "Operation":
    from bobbin.cluster.operations import CounterAdd, Delete, Put

    if option == "put":
        return Put(*pair(text, "--put"))
    if option == "delete":
        return Delete(key_of(text))
    key, amount = pair(text, "--add")
    try:
        return CounterAdd(key, int(amount))
    except ValueError as error:
        raise UsageError(f"--add takes KEY=N with a whole number, not {text[:80]!r}") from error


async def _look(workspace: "Workspace", key: bytes) -> "Item | None":
    """What a key holds: bytes, a number or a set in its own place, else a vector or a node of a graph beside it."""
    from bobbin.cluster.geometry import Embedding
    from bobbin.cluster.operations import Embed, NodeCreate, Put

    for like in (Put(key, b""), Embed(key, Embedding.zero(1)), NodeCreate(key, "")):
        if (found := await workspace.read(like)) is not None:
            return found
    return None


def chain_get(
    folder: SetDir,
    keys: Annotated[list[str], typer.Argument(metavar="KEY…", help="Keys, as text.", show_default=False)],
    seconds: Seconds = SECONDS,
    as_json: AsJson = False,
) -> ExitCode:
    """Read keys, all at one moment.

    A set is shown with its members; of a vector it is said that there is one. Ends with 1 where a key is not there.

    Example: bobbin chain get try/n1 alice bob
    """
    out = Output(as_json=as_json)
    wanted = [key_of(key) for key in keys]

    async def read(chain: "TensorChain", _: "tuple[NodeFolder, ...]") -> "dict[bytes, Item | None]":
        return (await _tried(chain, wanted, [], []))[0]

    found = ask(folder, read, seconds=seconds)
    lines = [f"{shown(key)}  {words_of(item)}" for key, item in found.items() if item is not None]
    out.result({name_of(key): held(item) for key, item in found.items()}, *lines)
    missing = [shown(key) for key, item in found.items() if item is None]
    return ExitCode.OK if not missing else not_found(out, f"nothing is there: {', '.join(missing)}")


# ---- what there is --------------------------------------------------------------------------------------------------


def chain_history(
    folder: SetDir,
    key: Annotated[str, typer.Argument(metavar="KEY", help="Key, as text.", show_default=False)],
    seconds: Seconds = SECONDS,
    as_json: AsJson = False,
) -> ExitCode:
    """Show everything that was ever done to a key, the oldest first.

    Example: bobbin chain history try/n1 alice
    """
    out = Output(as_json=as_json)

    async def look(chain: "TensorChain", _: "tuple[NodeFolder, ...]") -> "list[ChainChange]":
        return [change async for change in chain.history(key.encode())]

    changes = ask(folder, look, seconds=seconds)
    if changes:
        head(out, f"{'height':>8}  {'transaction':32}  operation")
    for change in changes:
        what = type(change.operation).__name__
        refusal = f"  not done: {change.refusal}" if change.refusal else ""
        data = getattr(change.operation, "data", None)
        amount = getattr(change.operation, "amount", None)
        text = f"  {shown(data)}" if isinstance(data, bytes) else "" if amount is None else f"  {amount:+,}"
        out.row(
            {
                "height": change.height,
                "timestamp_ms": change.timestamp_ms,
                "tx": change.tx.hex(),
                "operation": what,
                "data": None if not isinstance(data, bytes) else value_of(data),
                "amount": amount,
                "refusal": change.refusal or None,
            },
            f"{change.height:>8,}  {change.tx.hex()}  {what}{text}{refusal}",
        )
    return ExitCode.OK if changes else not_found(out, f"nothing was ever done to {key}")


def chain_blocks(
    folder: SetDir,
    shard: Shard = None,
    first: Annotated[int, typer.Option("--from", min=0, metavar="HEIGHT", help="Begin here.")] = 0,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, metavar="N", help="Blocks of each shard.")] = 20,
    seconds: Seconds = SECONDS,
    as_json: AsJson = False,
) -> ExitCode:
    """List blocks: their heights, hashes, proposers, and how many transactions and operations they hold.

    Example: bobbin chain blocks try/n1 --shard 0 --from 100
    """
    out = Output(as_json=as_json)

    async def look(chain: "TensorChain", read: "tuple[NodeFolder, ...]") -> "list[tuple[int, Block]]":
        from bobbin.cluster.transactions.names import ShardId

        found = []
        for one in _shards(shard, len(read)):
            found += [(one, block) async for block in chain.blocks(ShardId(one), first, limit)]
        return found

    from bobbin.cluster.chain.encoding import header_hash

    found = ask(folder, look, seconds=seconds)
    if found:
        head(out, f"{'shard':>5}  {'height':>8}  {'hash':16}  {'proposer':8}  transactions  operations")
    for one, block in found:
        header = block.header
        digest = header_hash(header).hex()
        count = sum(len(transaction.operations) for transaction in block.transactions)
        out.row(
            {
                "shard": one,
                "height": header.height,
                "hash": digest,
                "previous": header.prev_hash.hex(),
                "state_root": header.state_root.hex(),
                "proposer": header.proposer,
                "timestamp_ms": header.timestamp_ms,
                "transactions": [transaction.id.hex() for transaction in block.transactions],
                "operations": count,
            },
            f"{one:>5}  {header.height:>8,}  {digest[:16]}  {header.proposer[:8]:8}  "
            f"{len(block.transactions):>12}  {count:>10}",
        )
    if not found:
        out.note(f"there is no block of height {first:,} or above")
    return ExitCode.OK


# ---- what is not over -----------------------------------------------------------------------------------------------


def chain_pending(folder: SetDir, seconds: Seconds = SECONDS, as_json: AsJson = False) -> ExitCode:
    """List transactions that are not over: who coordinates them, and what they wait for.

    They end by themselves when all shards have a leader. One whose coordinator is gone for good holds its keys until
    somebody ends it: see `bobbin chain resolve`. Where a shard has no majority, what one node knows of it is listed,
    and it ends with 5.

    Example: bobbin chain pending try/n1
    """
    out = Output(as_json=as_json)

    async def look(chain: "TensorChain", read: "tuple[NodeFolder, ...]") -> None:
        looks = await asyncio.gather(*(_open_on(chain, shard) for shard in range(len(read))))
        failures = [error for *_, error in looks if error is not None]
        for shard, (found, error) in enumerate(looks):
            for one in found:
                _show_open(out, shard, one)
            if found and error is not None:
                out.warn(f"of shard {shard} this is what one node knows, and it may be old")
        if failures:
            raise failures[0]
        if not any(found for found, _ in looks):
            out.note("every transaction is over")

    ask(folder, look, seconds=seconds)
    return ExitCode.OK


async def _open_on(chain: "TensorChain", number: int) -> "tuple[tuple[PendingTransaction, ...], ResourceError | None]":
    """What is not over on a shard; with an error where that is one node's word, for want of a majority.

    Any node says what it has applied. So a majority is asked how far the shard is first, which brings whoever leads.
    """
    from bobbin.cluster.transactions.names import ShardId
    from bobbin.wire.cluster.chain import ChainItems, ChainOpen, ChainPending, ChainRead

    shard, failure = ShardId(number), None
    try:
        await chain.ask(shard, ChainItems, lambda number: ChainRead(number, ()))
    except ResourceError as error:
        failure = error
    try:
        return (await chain.ask(shard, ChainOpen, ChainPending)).transactions, failure
    except ResourceError as error:
        return (), failure or error


def _show_open(out: Output, shard: int, one: "PendingTransaction") -> None:
    out.row(
        {
            "shard": shard,
            "tx": one.tx.hex(),
            "role": one.role,
            "standing": one.standing,
            "coordinator": one.coordinator,
            "shards": list(one.shards),
            "keys": one.keys,
        },
        f"{shard:>3}  {one.tx.hex()}  {one.role} ({one.standing}), coordinated by shard {one.coordinator}, "
        f"{one.keys} keys locked",
    )


def chain_resolve(
    folder: SetDir,
    tx: Tx,
    outcome: Annotated[
        ResolvedAs, typer.Argument(metavar="commit|abort", help="Do its part, or drop it.", show_default=False)
    ],
    shard: Annotated[int, typer.Option("--shard", min=0, max=65_535, metavar="N", help="On this shard.")],
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; it is kept for ever.")],
    seconds: Seconds = SECONDS,
    as_json: AsJson = False,
) -> ExitCode:
    """End a prepared part of a transaction by hand, where its coordinator is gone for good.

    This can break a transaction in two: other shards may decide otherwise. It is written into the log, with the reason,
    and marked as a person's decision for ever. Look at `bobbin chain pending` on all shards first.

    Example: bobbin chain resolve try/n1 0000…c2 abort --shard 1 --reason "shard 0 was lost in the fire"
    """
    from bobbin.cluster.transactions.names import ShardId, TxId
    from bobbin.cluster.transactions.phases import Ended
    from bobbin.wire.cluster.chain import ChainEnded, ChainResolve

    out = Output(as_json=as_json)
    id = TxId(transaction_id(tx))
    commits = outcome is ResolvedAs.COMMIT

    async def resolve(chain: "TensorChain", read: "tuple[NodeFolder, ...]") -> ChainEnded:
        (one,) = _shards(shard, len(read))
        return await chain.ask(ShardId(one), ChainEnded, lambda number: ChainResolve(number, id, commits, reason))

    answer = ask(folder, resolve, seconds=seconds)
    done = Ended.COMMITTED if commits else Ended.ABORTED
    if answer.ended is not done:
        return refused(out, answer.reason or answer.ended.value)
    out.result({"tx": id.hex(), "ended": answer.ended.value, "heuristic": True}, f"{answer.ended.value} {id.hex()}")
    out.warn("this was decided by hand: other shards may have decided otherwise")
    return ExitCode.OK


def chain_codebook(
    folder: SetDir,
    replace: Annotated[
        Path | None,
        typer.Option("--replace", metavar="FILE", help="Put this one in force.", exists=False, show_default=False),
    ] = None,
    shard: Shard = None,
    seconds: Seconds = SECONDS,
    as_json: AsJson = False,
) -> ExitCode:
    """Show which codebook each shard has, or put a new one in force.

    FILE has a vector on each line, as numbers with commas between them. It goes through the log, so it takes effect at
    the same place on every node.

    Example: bobbin chain codebook try/n1 --replace centroids.csv
    """
    from bobbin.cluster.transactions.names import ShardId
    from bobbin.cluster.transactions.phases import Ended
    from bobbin.wire.cluster.chain import ChainBook, ChainCodebook, ChainEnded

    out = Output(as_json=as_json)
    centroids = None if replace is None else _centroids(replace)

    async def look(chain: "TensorChain", read: "tuple[NodeFolder, ...]") -> list[tuple[int, ChainBook, str]]:
        found = []
        for one in _shards(shard, len(read)):
            problem = ""
            if centroids is not None:
                ended = await chain.ask(ShardId(one), ChainEnded, lambda number: ChainCodebook(number, centroids))
                problem = "" if ended.ended is Ended.COMMITTED else ended.reason or ended.ended.value
            found.append((one, await chain.ask(ShardId(one), ChainBook, ChainCodebook), problem))
        return found

    is_done = True
    for one, book, problem in ask(folder, look, seconds=seconds):
        is_done &= not problem
        out.row(
            {"shard": one, "version": book.version, "bytes": len(book.centroids), "problem": problem or None},
            f"{one:>3}  version {book.version}, {len(book.centroids):,} bytes{'  ' + problem if problem else ''}",
        )
    return ExitCode.OK if is_done else ExitCode.NOT_ALL


def _centroids(file: Path) -> bytes:
    from bobbin.cluster.codebook.global_book import GlobalCodebook
    from bobbin.cluster.geometry import Embedding

    vectors = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip():
            continue
        try:
            vectors.append(Embedding.dense(tuple(float(part) for part in line.split(","))))
        except ValueError as error:
            raise UsageError(f"{file}, line {number}: numbers with commas between them are expected") from error
    if not vectors:
        raise UsageError(f"{file} holds no vector: a codebook in force is replaced by another one, and not taken away")
    return GlobalCodebook(1, vectors).encode()


# ---- forms ----------------------------------------------------------------------------------------------------------


def _shards(shard: int | None, count: int) -> range:
    if shard is None:
        return range(count)
    if shard >= count:
        raise UsageError(f"there is no shard {shard}; there are {count}, from 0")
    return range(shard, shard + 1)
