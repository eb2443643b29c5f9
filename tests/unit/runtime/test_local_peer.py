"""An exchange with a peer in the same process: who is proven, what is counted, and that both ways have one outcome."""

import io

import pytest
from msgspec import structs

from bobbin.interlace.config import Bounded
from bobbin.interlace.effects import Effect
from bobbin.interlace.events import Event, Started
from bobbin.interlace.limits import Limits
from bobbin.interlace.machine import InterlaceMachine
from bobbin.interlace.reasons import Reason
from bobbin.interlace.result import Result
from bobbin.runtime.local_peer import PHASES, Books, Manner, configure, make_machine, now, run_local
from bobbin.runtime.recording import RecordedMachine, Recorder
from bobbin.simulator.holdings import MemoryHoldings
from tests.local_exchanges import APP, SERVER, Clock, plex, sealed, side

OURS = [plex(f"links/{number}", b"ours") for number in range(3)]
THEIRS = [sealed(f"notes/{number}", b"theirs") for number in range(4)]


def test_both_sides_end_with_what_both_select() -> None:
    own, peer = side(OURS), side(THEIRS)
    ran = run_local(own, peer, clock=Clock())
    names = {record.hash for record in (*OURS, *THEIRS)}
    for one in (own, peer):
        assert isinstance(one.holdings, MemoryHoldings)
        assert one.holdings.records.keys() == names
    assert ran.own.result.fixed_point
    assert ran.own.result.received == ran.peer.result.sent == {record.hash for record in THEIRS}
    assert ran.peer.result.received == ran.own.result.sent == {record.hash for record in OURS}


def outcome(books: Books) -> Result:
    """What was moved, whatever way the sides found out what to move."""
    return structs.replace(books.result, strategies=(), fallbacks=())


@pytest.mark.parametrize("manner", [Manner(direct=False), Manner(through_codec=True), Manner(checking=True)])
def test_every_way_has_one_outcome(manner: Manner) -> None:
    plain = run_local(side(OURS, key=APP), side(THEIRS, key=SERVER), clock=Clock())
    other = run_local(side(OURS, key=APP), side(THEIRS, key=SERVER), manner, clock=Clock())
    assert list(map(outcome, (other.own, other.peer))) == list(map(outcome, (plain.own, plain.peer)))


def test_each_side_is_proven_only_if_both_are() -> None:
    proven = run_local(side(key=APP), side(key=SERVER), clock=Clock())
    assert proven.own.result.peer == SERVER.verifier
    assert proven.peer.result.peer == APP.verifier
    assert proven.own.result.link is not None
    for own, peer in ((side(key=APP), side()), (side(), side(key=SERVER)), (side(), side())):
        ran = run_local(own, peer, clock=Clock())
        assert ran.own.result.peer is ran.peer.result.peer is ran.own.result.link is None


def test_the_link_counts_as_encrypted_and_has_no_address() -> None:
    config = configure(side(), side(), Manner(), initiator=True)
    assert config.encrypted
    assert config.transport is None
    assert config.cursor_key == "local"
    assert isinstance(config.lifecycle, Bounded)


def test_a_side_that_has_proven_nothing_is_remembered_under_its_name() -> None:
    own, peer = side(OURS), side(THEIRS)
    run_local(own, peer, clock=Clock())
    assert isinstance(own.holdings, MemoryHoldings)
    assert own.holdings.cursors.keys() == {"local"}


def test_messages_are_counted_by_phase_and_bytes_where_there_are_any() -> None:
    plain = run_local(side(OURS), side(THEIRS), clock=Clock())
    assert list(plain.figures) == list(PHASES)
    assert plain.figures["setup"].messages == plain.figures["hello"].messages == 2
    assert all(figure.bytes is None for figure in plain.figures.values())
    bytewise = run_local(side(OURS), side(THEIRS), Manner(through_codec=True), clock=Clock())
    moved = sum(len(record.raw) for record in (*OURS, *THEIRS))
    assert moved < (bytewise.figures["transfer"].bytes or 0) < moved + 2_000
    assert all(figure.bytes for figure in bytewise.figures.values())


def test_nothing_is_transferred_where_there_is_nothing() -> None:
    assert "transfer" not in run_local(side(OURS), side(OURS), clock=Clock()).figures


def test_a_limit_ends_both_sides_with_what_is_stored() -> None:
    limits = Limits(max_total_transferred_bytes=len(OURS[0].raw) + 10)
    ran = run_local(side(OURS), side(), Manner(limits=limits), clock=Clock())
    reasons = {ran.own.result.reason, ran.peer.result.reason}
    assert Reason.TRANSFER_LIMIT in reasons
    assert len(ran.peer.result.received) == 1


def test_observers_see_every_step_of_our_side() -> None:
    seen: list[Event] = []

    def observe(event: Event, effects: tuple[Effect, ...]) -> None:
        assert isinstance(effects, tuple)
        seen.append(event)

    run_local(side(OURS), side(THEIRS), clock=Clock(), observers=[observe])
    assert isinstance(seen[0], Started)
    assert sum(isinstance(event, Started) for event in seen) == 1
    assert len(seen) > 5


def test_a_machine_is_recorded_where_a_recorder_is_given() -> None:
    config = configure(side(), side(), Manner(), initiator=True)
    assert type(make_machine(config, MemoryHoldings())) is InterlaceMachine
    assert type(make_machine(config, MemoryHoldings(), Recorder(io.BytesIO()))) is RecordedMachine


def test_the_clocks_go_forward() -> None:
    one, another = now(), now()
    assert another.monotonic_ns >= one.monotonic_ns
    assert one.tai_ns > 1_600_000_000 * 10**9


def test_the_peer_sees_the_same_with_and_without_observers() -> None:
    """IL-251: whoever collects on our side, the bytes on the link and the peer's end are the same."""
    seen: list[Event] = []
    manner = Manner(through_codec=True)
    watched = run_local(
        side(OURS, key=APP),
        side(THEIRS, key=SERVER),
        manner,
        clock=Clock(),
        observers=[lambda event, _: seen.append(event)],
    )
    alone = run_local(side(OURS, key=APP), side(THEIRS, key=SERVER), manner, clock=Clock())
    assert seen
    assert watched.figures == alone.figures
    assert watched.peer.result == alone.peer.result
    assert watched.peer.ledger.disclosure() == alone.peer.ledger.disclosure()
