"""Three real processes with a node of each of two shards: a transaction over both, and the leader killed."""

from pathlib import Path

import pytest

from bobbin.cluster.operations import CounterAdd, Put
from bobbin.cluster.transactions.phases import Ended
from bobbin.wire.cluster.chain import ChainVerdict, ChainVerify
from tests.end_to_end.shard_processes import shard_processes
from tests.support.shards import Asker

pytestmark = pytest.mark.slow


def test_a_transaction_over_two_shards_has_one_outcome_whoever_is_killed(tmp_path: Path) -> None:
    """CL-165, on real processes: what is committed stays so, on both shards, after the coordinator is killed (-9)."""
    with shard_processes(tmp_path) as nodes:

        async def transfer(ask: Asker) -> bytes:
            here, there = ask.keys(0, 1)[0], ask.keys(1, 1)[0]
            done = await ask.commit(CounterAdd(here, -5), CounterAdd(there, 5))
            assert done.ended is Ended.COMMITTED
            return done.tx

        nodes.put(transfer)
        killed = nodes.leader_of(0)

        async def begin(ask: Asker) -> tuple[Ended, list[bytes | None]]:
            """The process that coordinates dies with the transaction on its way; the same id is asked again."""
            here, there = ask.keys(0, 1)[0], ask.keys(1, 1)[0]
            tx, parts = await ask.prepare(CounterAdd(here, -7), CounterAdd(there, 7))
            nodes.kill(killed)
            ended = await ask.finish(tx, parts)
            again = await ask.finish(tx, parts)
            assert again.ended is ended.ended
            return ended.ended, [(await ask.get(key)).value for key in (here, there)]

        ended, values = nodes.put(begin)
        assert values == ([b"-12", b"12"] if ended is Ended.COMMITTED else [b"-5", b"5"])
        nodes.start(killed)

        async def look(ask: Asker) -> list[bytes | None]:
            found: list[bytes | None] = []
            for shard in (0, 1):
                key = ask.keys(shard, 1)[0]
                assert (await ask.commit(Put(b"after-%d" % shard, b""))).ended is Ended.COMMITTED
                found.append((await ask.get(key)).value)
                verdict = await ask.clients[shard].ask(ChainVerdict, ChainVerify)
                assert verdict.fault_height is None
            return found

        assert nodes.put(look) == values
        assert nodes.stop(killed) == 0
