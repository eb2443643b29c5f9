"""What links have in common: decisions by terms, accounts by peer, and what is forgotten."""

import asyncio
from pathlib import Path

from bobbin.interlace.limits import LARGE
from bobbin.policy.modules import deny_all_query
from bobbin.runtime.clock import tai_now
from bobbin.runtime.log import make_log
from bobbin.runtime.node_settings import LinkBounds
from bobbin.runtime.roster import Roster
from bobbin.runtime.serving import Serving
from bobbin.store.sqlite import open_store
from tests.policy_worlds import ALICE, BOB
from tests.support.nodes import key, peer


def test_decisions_and_accounts_are_shared_and_forgotten_with_their_terms(tmp_path: Path) -> None:
    async def run() -> None:
        with open_store(tmp_path / "records.db", create=True, now=tai_now) as store:
            serving = Serving(store, key(1), log=make_log())
            alice, bob = peer("alice", ALICE), peer("bob", BOB, query=deny_all_query())
            big = peer("big", None, limits=LARGE)
            decisions = [serving.decisions(one) for one in (alice, bob, big)]
            assert len({id(one) for one in decisions}) == 3
            assert serving.decisions(peer("carol", None)) is decisions[0]
            pace = serving.pace(alice, LinkBounds())
            assert serving.pace(alice, LinkBounds()) is pace
            serving.forget_but(Roster([alice]))
            assert serving.decisions(alice) is decisions[0]
            assert serving.decisions(bob) is not decisions[1]
            assert serving.pace(alice, LinkBounds()) is not pace
            await serving.steps.turn()(serving.flush)
            await serving.steps.close()

    asyncio.run(run())
