"""On a link that is up: each fault ends that link by its name, what was whole before it is kept, and others are served.

The peer at fault is Bob, whose phases may take three seconds and whose blocks may have four megabytes. Carol, who is
served during or after each fault, has the usual limits.
"""

import asyncio
import random
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest
from msgspec import structs

from bobbin.interlace.config import Open
from bobbin.interlace.events import Now
from bobbin.interlace.limits import SECOND_NS, Service
from bobbin.interlace.result import Result
from bobbin.records.record import Plex
from bobbin.runtime.local_peer import now
from bobbin.transport.dial import dial
from bobbin.wire import address as addresses
from tests.faults.clients import Talking, admitted, converse, raw, serves_carol
from tests.faults.proxy import Act, Fault, Proxy, Way
from tests.faults.served import BOB, CAROL, MB, Served, fsck, peer_table, until
from tests.support.exchanges import hashes, record, records
from tests.support.nodes import Client

_RECORDS: Final = 5
_MEMORY: Final = 64 * MB
_MUCH: Final = 10_000_000_000
_PHASES: Final = {
    "setup": b"ExchangeOperand(",
    "hello": b"HelloExchangePlan(",
    "advertise": b"\nAdvertised('",
    "request": b"MayRequest(",
    "transfer": "🖧: P.".encode(),
}
"""What the peer says in each phase."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One node for all of this page: what one test does to it must not matter to the next."""
    folder = tmp_path_factory.mktemp("link") / "node"
    limits = {"phase_timeout": 3, "max_fact_block_size": 4 * MB}
    peers = [peer_table("bob", BOB.verifier, limits=limits), peer_table("carol", CAROL.verifier)]
    settings = "[links]\nper_peer_max = 8\nsilent_seconds_min = 0.001\n"
    with Served(folder, records=records(_RECORDS), peers=peers, settings=settings) as node:
        yield node
        assert node.is_running
    assert not node.noise
    assert not node.entries("link-crashed")
    fsck(folder)


_numbers = iter(range(1_000, 1_000_000, 1_000))


def _fresh(count: int = 3) -> list[Plex]:
    """Records that nobody has."""
    return records(count, first=next(_numbers))


def _through(proxy: Proxy) -> str:
    return f"tcp:127.0.0.1:{proxy.port}"


@pytest.mark.parametrize("phase", _PHASES)
def test_a_line_of_10_gb(served: Served, tmp_path: Path, phase: str) -> None:
    """In each phase a line without end stops at the bound of that phase, and takes no more memory than that."""
    seen, start = served.newest("bob"), served.forget_peak()
    fault = Fault(act=Act.FLOOD, mark=_PHASES[phase], after=10)
    with Proxy(served.port, fault) as proxy:
        talking = Talking(tmp_path / "bob", _through(proxy), records=_fresh())
        end = served.ends("bob", seen).end
        serves_carol(served, tmp_path / "carol", _RECORDS)
        talking.join()
        assert proxy.flooded < _MUCH, "the node let go, and did not take it all"
    expected = "malformed-fact-block" if phase == "transfer" else "oversized-fact-block"
    assert end.reason == expected
    assert served.memory_peak < start + _MEMORY


def test_blocks_that_were_never_whole_are_let_go(served: Served, tmp_path: Path) -> None:
    """With the usual limits a block may have 64 MB. What has come of it is gone with its link, also in a row."""
    start = served.memory
    for number in range(4):
        seen = served.newest("carol")
        with Proxy(served.port, Fault(act=Act.FLOOD, mark=_PHASES["request"], after=10)) as proxy:
            talking = Talking(tmp_path / str(number), _through(proxy), key=CAROL, records=_fresh())
            assert served.ends("carol", seen).end.reason == "oversized-fact-block"
            talking.join()
    assert served.memory < start + _MEMORY
    serves_carol(served, tmp_path / "carol", _RECORDS)


def test_whole_blocks_that_are_refused_are_let_go(served: Served, tmp_path: Path) -> None:
    """A block of 40 MB is read to its end, and refused. It goes with its link, and not when a collector comes by."""
    line = b"PeerAdvertises('" + b"P" * 200 + b"','x')\n"
    wrong = b"('x')\n" + line * (40 * MB // len(line)) + b"\n"
    start = served.memory
    for number in range(4):
        seen = served.newest("carol")
        fault = Fault(act=Act.FLOOD, mark=_PHASES["request"], after=len("MayRequest"), piece=wrong)
        with Proxy(served.port, fault) as proxy:
            talking = Talking(tmp_path / str(number), _through(proxy), key=CAROL, records=_fresh())
            assert served.ends("carol", seen).end.reason == "malformed-fact-block"
            talking.join()
    assert served.memory < start + _MEMORY
    serves_carol(served, tmp_path / "carol", _RECORDS)


def test_a_block_that_is_begun_at_the_fixed_point_and_left(served: Served, tmp_path: Path) -> None:
    """There the node waits for nothing, and a peer can put off the next tick for a day: the block has its own time."""
    seen = served.newest("bob")

    async def run() -> Result:
        stream = await dial(addresses.parse(served.addresses["tcp"]))
        running = asyncio.create_task(client.run(stream))
        await asyncio.to_thread(until, is_idle)
        await stream.write(b"Advertised('P.x','source:0')\n" * 10_000)
        return await running

    def is_idle() -> bool:
        return any(link.peer == "bob" and link.state == "idle" for link in served.status().links)

    service = Service(tick_interval_ns=24 * 3_600 * SECOND_NS)
    client = Client(tmp_path / "bob", BOB, lifecycle=Open(), service=service)
    try:
        asyncio.run(run())
    finally:
        client.close()
    assert served.ends("bob", seen).end.reason == "phase-timeout"
    serves_carol(served, tmp_path / "carol", _RECORDS)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (random.Random(3).randbytes(10_000), "malformed-fact-block"),
        (b"ExchangeOperand('0','R.x','source:0','selector')\n" * 3 + b"\n", "malformed-fact-block"),
        (b"Advertised('P.x','source:0')\n\n", "out-of-phase-message"),
        ("🖧: P.x\n\n".encode(), "out-of-phase-message"),
        ("🪢: lace/1 ".encode() + b"0" * 43 + b"\n\n", "out-of-phase-message"),
        # Claims of sizes that nobody has room for.
        ("🧩: R.".encode() + b"0" * 43 + b"\nData-Length: 99999999\n\n", "oversized-fact-block"),
        ("🧩: R.".encode() + b"0" * 43 + b"\nData-Length: 999999999999\n\n", "malformed-fact-block"),
        # A module under a name that is not its own.
        ("🧩: R.".encode() + b"0" * 43 + b"\nData-Length: 3\n\nx.\n", "malformed-exchange-module"),
    ],
)
def test_garbage_after_the_greeting(served: Served, tmp_path: Path, said: bytes, reason: str) -> None:
    """A known key is no reason to believe what comes after it."""
    seen = served.newest("bob")
    with raw(served.port) as connection:
        admitted(connection, BOB)
        connection.send(said)
        assert served.ends("bob", seen).end.reason == reason
        connection.hear_all()
    serves_carol(served, tmp_path / "carol", _RECORDS)


def test_half_open_in_each_phase(served: Served, tmp_path: Path) -> None:
    """A peer that falls silent in a phase, as one whose cable is pulled, is given the time of the phase."""
    seen = served.newest("bob")
    with ExitStack() as stack:
        proxies = [
            stack.enter_context(Proxy(served.port, Fault(act=Act.STALL, mark=mark, after=3)))
            for mark in _PHASES.values()
        ]
        talking = [Talking(tmp_path / f"bob-{proxy.port}", _through(proxy), records=_fresh()) for proxy in proxies]
        serves_carol(served, tmp_path / "carol", _RECORDS)
        assert all(proxy.struck.wait(30) for proxy in proxies)
        until(lambda: len(served.over("bob", seen)) == len(proxies))
        ends = [past.end.reason for past in served.over("bob", seen)]
        assert ends == ["phase-timeout"] * len(proxies)
    for one in talking:
        one.join()


def test_slow_loris_on_a_link(served: Served, tmp_path: Path) -> None:
    """Bytes that come one by one, and comments that say nothing, do not prolong a phase; whole records are kept."""
    seen = served.newest("bob")
    some = _fresh(3)
    with ExitStack() as stack:
        setup = stack.enter_context(Proxy(served.port, Fault(act=Act.THROTTLE, mark=_PHASES["setup"])))
        slow = stack.enter_context(
            Proxy(served.port, Fault(act=Act.THROTTLE, mark=_PHASES["transfer"], after=2 * len(some[0].raw) + 20))
        )
        idle = stack.enter_context(
            Proxy(served.port, Fault(act=Act.FLOOD, mark=_PHASES["setup"], piece=b"# nothing\n" * 5_000))
        )
        start = served.forget_peak()
        talking = [
            Talking(tmp_path / "setup", _through(setup), records=_fresh()),
            Talking(tmp_path / "slow", _through(slow), records=some),
            Talking(tmp_path / "idle", _through(idle), records=_fresh()),
        ]
        serves_carol(served, tmp_path / "carol", _RECORDS)
        until(lambda: len(served.over("bob", seen)) == 3)
        assert [past.end.reason for past in served.over("bob", seen)] == ["phase-timeout"] * 3
        assert served.memory_peak < start + _MEMORY
    for one in talking:
        one.join()
    kept = converse(tmp_path / "look", served.addresses["tcp"], CAROL).received
    assert len(hashes(some) & set(kept)) == 2


def test_a_peer_that_does_not_read(served: Served, tmp_path: Path) -> None:
    """Somebody who asks for much and does not take it holds nothing up but its own link."""
    seen, start = served.newest("bob"), served.forget_peak()
    much = records(300, first=next(_numbers), size=100_000)
    assert converse(tmp_path / "giver", served.addresses["tcp"], CAROL, records=much).fixed_point
    start = served.forget_peak()
    fault = Fault(act=Act.STALL, way=Way.TO_CLIENT, mark=_PHASES["transfer"], after=1_000_000)
    with Proxy(served.port, fault) as proxy:
        talking = Talking(tmp_path / "bob", _through(proxy))
        assert proxy.struck.wait(30)
        serves_carol(served, tmp_path / "carol", _RECORDS)
        assert served.ends("bob", seen).end.reason == "phase-timeout"
    talking.join()
    assert served.memory_peak < start + _MEMORY


@pytest.mark.parametrize("act", [Act.CUT, Act.RESET, Act.HALF_CLOSE])
@pytest.mark.parametrize("phase", _PHASES)
def test_a_link_that_breaks(served: Served, tmp_path: Path, phase: str, act: Act) -> None:
    """A link may be cut in any phase and in any way: it is lost, and what was whole is kept."""
    seen = served.newest("bob")
    some = _fresh(4)
    # In a transfer, after two whole records and some of the third.
    after = 2 * len(some[0].raw) + 20 if phase == "transfer" else 5
    with Proxy(served.port, Fault(act=act, mark=_PHASES[phase], after=after)) as proxy:
        talking = Talking(tmp_path / "bob", _through(proxy), records=some)
        past = served.ends("bob", seen)
        talking.join()
    assert past.end.reason == "link-lost"
    assert past.records_in == (2 if phase == "transfer" else 0)
    # The next link goes on from there, and brings only what is missing.
    report = converse(tmp_path / "bob", served.addresses["tcp"])
    assert report.fixed_point
    again = served.ends("bob", past.id)
    assert again.records_in == len(some) - past.records_in
    serves_carol(served, tmp_path / "carol", _RECORDS)


def test_a_byte_that_changed_on_its_way(served: Served, tmp_path: Path) -> None:
    """A record that is not what it is called is put aside with the reason, and the others of the same link are kept."""
    seen = served.newest("bob")
    some = _fresh(4)
    mark = some[0].raw[: len("🖧: P.".encode())]
    with Proxy(served.port, Fault(act=Act.FLIP, mark=mark, after=len(some[0].raw) - 2)) as proxy:
        result = converse(tmp_path / "bob", _through(proxy), records=some)
        past = served.ends("bob", seen)
        assert proxy.struck.is_set()
    assert not result.fixed_point or past.records_in == len(some) - 1
    assert past.records_in == len(some) - 1
    assert converse(tmp_path / "bob", served.addresses["tcp"]).fixed_point
    assert served.ends("bob", past.id).records_in == 1
    serves_carol(served, tmp_path / "carol", _RECORDS)


def test_dead_links_do_not_lock_a_peer_out(served: Served, tmp_path: Path) -> None:
    """Links that are up and silent, because the peer is gone, make room for the one that comes after them.

    Carol's, who has the usual limits: eight exchanges at once are slow, and none of them is to end for that.
    """
    seen, talking = served.newest("carol"), []
    with ExitStack() as stack:
        for count in range(1, 9):
            way = _through(stack.enter_context(Proxy(served.port)))
            talking.append(Talking(tmp_path / f"carol-{count}", way, key=CAROL, lifecycle=Open()))
            _idle(served, "carol", count)
        assert converse(tmp_path / "again", served.addresses["tcp"], CAROL).fixed_point
        until(lambda: len(served.over("carol", seen)) == 2)
        reasons = {past.end.reason for past in served.over("carol", seen)}
        assert reasons == {"replaced-by-newer-link", "fixed-point"}
    for one in talking:
        one.join()


def _idle(served: Served, peer: str, count: int) -> None:
    until(lambda: [link.state for link in served.status().links if link.peer == peer] == ["idle"] * count)


_DEAR: Final = (
    "Near(P,Q,R) :- Have(P), Have(Q), Have(R).\n"
    "SelectHave(P) :- Near(P,Q,R), Near(R,Q,P).\n"
    "SelectAdvertised(P,S) :- Advertised(P,S).\n"
)


def test_rules_that_unfold_to_more_than_they_are(served: Served, tmp_path: Path) -> None:
    """A few lines of rules that would derive millions of tuples end at the budget for a peer's rules."""
    some = records(300, first=next(_numbers))
    assert converse(tmp_path / "giver", served.addresses["tcp"], CAROL, records=some).fixed_point
    seen, start = served.newest("bob"), served.forget_peak()
    converse(tmp_path / "bob", served.addresses["tcp"], rules=_DEAR)
    assert served.ends("bob", seen).end.reason == "policy-evaluation-error"
    assert served.memory_peak < start + 4 * _MEMORY
    serves_carol(served, tmp_path / "carol", _RECORDS)


@pytest.mark.parametrize("hours", [-2, 2])
def test_a_peer_whose_clock_is_wrong(served: Served, tmp_path: Path, hours: int) -> None:
    """A clock that is hours off is noticed before anything is exchanged."""
    seen = served.newest("bob")

    def wrong() -> Now:
        right = now()
        return structs.replace(right, tai_ns=right.tai_ns + hours * 3_600 * SECOND_NS)

    result = converse(tmp_path / "bob", served.addresses["tcp"], clock=wrong, records=_fresh())
    assert not result.fixed_point
    past = served.ends("bob", seen)
    assert past.end.reason == "clock-skew-too-large"
    assert past.records_in == past.records_out == 0
    serves_carol(served, tmp_path / "carol", _RECORDS)


def test_a_clock_that_jumps_on_an_open_link(served: Served, tmp_path: Path) -> None:
    """A peer whose clock is set while its link is up stays in step: what it sends is taken, what comes is sent."""
    jump = [0]

    def jumping() -> Now:
        right = now()
        return structs.replace(right, tai_ns=right.tai_ns + jump[0])

    with Proxy(served.port) as proxy:
        talking = Talking(tmp_path / "bob", _through(proxy), lifecycle=Open(), clock=jumping)
        _stay_in_step(served, tmp_path, jump)
    talking.join()


def _stay_in_step(served: Served, tmp_path: Path, jump: list[int]) -> None:
    until(lambda: any(link.peer == "bob" and link.state == "idle" for link in served.status().links))
    for hours in (30, -60):
        jump[0] = hours * 3_600 * SECOND_NS
        some = record(next(_numbers))
        assert converse(tmp_path / "carol", served.addresses["tcp"], CAROL, records=[some]).fixed_point
        _until_bob_has(served, served.status().records)


def _until_bob_has(served: Served, total: int) -> None:
    until(lambda: any(link.peer == "bob" and link.records_out == total for link in served.status().links))
