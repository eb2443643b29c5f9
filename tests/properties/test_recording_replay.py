"""Any exchange that was recorded, with whatever went wrong in it, replays bit for bit; a changed machine does not."""

import io
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin.interlace.config import Open
from bobbin.interlace.effects import Send
from bobbin.interlace.epoch import Epoch
from bobbin.interlace.events import (
    Cancelled,
    Event,
    Fired,
    LinkClosed,
    Now,
    OperandChanged,
    Persisted,
    Received,
    Started,
    StoreChanged,
    Undecodable,
)
from bobbin.interlace.limits import Limits, Service
from bobbin.interlace.machine import InterlaceMachine
from bobbin.interlace.reasons import Reason
from bobbin.interlace.wants import Wants
from bobbin.policy.modules import compile_query, compile_selector
from bobbin.runtime.local_peer import LocalSide, Manner, configure
from bobbin.runtime.pair import DirectChannel, Side
from bobbin.runtime.recording import RecordedMachine, Recorder, replay
from bobbin.simulator.holdings import MemoryHoldings
from bobbin.simulator.policies import choose
from bobbin.simulator.population import Population, populate
from tests.local_exchanges import ALL, START_NS, Liar
from tests.properties.effort import scaled


class World:
    """Two random sides, one of them recorded, that live through random events."""

    def __init__(self, seed: int) -> None:
        self._random = random = Random(seed)
        self.stream = io.BytesIO()
        self._now_ns = START_NS
        people = populate(random, random.randrange(4, 20))
        self._everything = people
        proven = random.random() < 0.5
        own, peer = (self._side(people, number if proven else None) for number in (0, 1))
        self._is_open = random.random() < 0.4
        limits = Limits(
            max_total_transferred_bytes=random.choice((600, 10**9)), max_loop_iterations=random.choice((2, 16))
        )
        service = Service(
            list_outright_max=random.choice((1, 256)),
            request_records_max=random.choice((2, 1000)),
            chunk_records_max=random.choice((1, 1000)),
        )
        manner = Manner(limits=limits, service=service, lifecycle=Open(), direct=False)
        if not self._is_open:
            manner = Manner(limits=limits, service=service, direct=False)
        recorder = Recorder(self.stream)
        machine = RecordedMachine(configure(own, peer, manner, initiator=True), own.holdings, recorder)
        self.recorder = recorder
        self.left = Side(machine, own.holdings)
        self.right = Side(InterlaceMachine(configure(peer, own, manner, initiator=False), peer.holdings), peer.holdings)

    def _side(self, people: Population, number: int | None) -> LocalSide:
        random = self._random
        hashes = [record.hash for record in people.records]
        choice = choose(random, people.verifiers, hashes, proven=number is not None)
        query = None if choice.query is None else compile_query(choice.query)
        kind = Liar if random.random() < 0.2 else MemoryHoldings
        holdings = kind(random.sample(people.records, random.randrange(len(people.records))), query=query)
        for record in random.sample(people.records, random.randrange(3)):
            holdings.remove(record.hash)
        verifier = None if number is None else people.verifiers[number]
        # Two policies that have nothing to do with each other rarely move anything.
        selector = compile_selector(ALL if random.random() < 0.5 else choice.selector)
        return LocalSide(holdings=holdings, selector=selector, verifier=verifier)

    def run(self) -> None:
        """Live until the recorded side has ended, or nothing happens any more."""
        ways = DirectChannel(), DirectChannel()
        self.left.give(Started())
        self.right.give(Started())
        for _ in range(400):
            moved = self.left.turn(ways[0], ways[1], peer_closed=self.right.closed, now=self._now())
            moved = self.right.turn(ways[1], ways[0], peer_closed=self.left.closed, now=self._now()) or moved
            if self.left.result is not None:
                return
            if self._random.random() < 0.06 or (not moved and self._random.random() < 0.9):
                self.left.give(self._event())
            elif not moved:
                return

    def _now(self) -> Now:
        self._now_ns += self._random.randrange(10**9)
        return Now(tai_ns=self._now_ns, monotonic_ns=self._now_ns)

    def _event(self) -> Event:
        random = self._random
        holdings = self.left.machine._holdings._holdings  # type: ignore[attr-defined]
        assert isinstance(holdings, MemoryHoldings)
        happening = random.random()
        if happening < 0.35:
            record = random.choice(self._everything.records)
            if random.random() < 0.7:
                holdings.put(record)
            else:
                holdings.remove(record.hash)
            return StoreChanged()
        if happening < 0.5:
            return Fired(random.randrange(8))
        if happening < 0.6 and self._is_open:
            return OperandChanged(compile_selector("SelectHave(P) :- Have(P).\n"))
        if happening < 0.7:
            return Undecodable(Reason.MALFORMED_BLOCK, "noise")
        if happening < 0.8:
            return Cancelled()
        return LinkClosed() if happening < 0.9 else StoreChanged()


@scaled(1.5)
@given(st.integers(0, 2**32))
def test_any_exchange_replays_bit_for_bit(seed: int) -> None:
    world = World(seed)
    world.run()
    answer = replay(io.BytesIO(world.stream.getvalue()))
    assert answer.difference is None
    assert answer.steps == world.recorder.steps > 0
    assert answer.ended == (world.left.result is not None)


def test_the_worlds_are_of_every_kind() -> None:
    """What the property above is about does happen: ends of several kinds, records that move, lies that are found."""
    ends, received, rejected, still_open = set(), 0, 0, 0
    for seed in range(150):
        world = World(seed)
        world.run()
        if world.left.result is None:
            still_open += 1
            continue
        ends.add(world.left.result.reason)
        received += len(world.left.result.received)
        rejected += len(world.left.result.rejected)
    assert {None, Reason.CANCELLED, Reason.LINK_LOST, Reason.MALFORMED_BLOCK, Reason.TRANSFER_LIMIT} <= ends
    assert received > 40
    assert rejected > 5
    assert still_open > 5


@pytest.mark.parametrize("planted", ["request-order", "silence", "no-cursor"])
def test_a_changed_machine_is_found(planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    recordings = []
    for seed in range(60):
        world = World(seed)
        world.run()
        recordings.append(world.stream.getvalue())
    plain_choose, plain_step = Wants.choose, InterlaceMachine.step
    if planted == "request-order":
        monkeypatch.setattr(Wants, "choose", lambda *arguments: plain_choose(*arguments)[::-1])
    elif planted == "no-cursor":
        monkeypatch.setattr(Epoch, "cursor", lambda _: None)
    else:
        monkeypatch.setattr(
            InterlaceMachine,
            "step",
            lambda self, event, *, now: tuple(
                effect
                for effect in plain_step(self, event, now=now)
                if not (isinstance(event, Received | Persisted) and isinstance(effect, Send))
            ),
        )
    differing = [replay(io.BytesIO(raw)).difference for raw in recordings]
    assert any(difference is not None for difference in differing)
