"""The table of phases: where a machine can go, and what may come where."""

from bobbin.interlace.messages import Advertise, Hello, Request, Setup, Transfer
from bobbin.interlace.state import AWAITS, MAY_COME, NEXT, Awaits, Phase, may_follow


def test_every_phase_has_its_rows() -> None:
    assert AWAITS.keys() == MAY_COME.keys() == NEXT.keys() == set(Phase)


def test_every_phase_can_be_reached_and_ends() -> None:
    reached, edge = {Phase.READY}, [Phase.READY]
    while edge:
        for phase in NEXT[edge.pop()]:
            if phase not in reached:
                reached.add(phase)
                edge.append(phase)
    assert reached == set(Phase) - {Phase.ENDING, Phase.ENDED}
    for phase in set(Phase) - {Phase.ENDED}:
        assert may_follow(phase, Phase.ENDED)
    assert not may_follow(Phase.ENDED, Phase.ENDED)
    assert not may_follow(Phase.ENDED, Phase.ENDING)
    assert not may_follow(Phase.ENDING, Phase.ENDING)
    assert may_follow(Phase.TRANSFER, Phase.ENDING)


def test_no_phase_of_the_loop_follows_before_hello() -> None:
    """IL-044, IL-120: setup, then hello, then the loop."""
    loop = {Phase.ADVERTISE, Phase.REQUEST, Phase.TRANSFER, Phase.IDLE}
    assert not loop & set(NEXT[Phase.READY])
    assert not loop & set(NEXT[Phase.SETUP])
    assert NEXT[Phase.SETUP] == NEXT[Phase.SETUP_AGAIN] == (Phase.HELLO,)


def test_a_request_follows_reconciliation_and_a_transfer_follows_a_request() -> None:
    """IL-180."""
    assert [phase for phase in Phase if may_follow(phase, Phase.REQUEST)] == [Phase.ADVERTISE]
    assert [phase for phase in Phase if may_follow(phase, Phase.TRANSFER)] == [Phase.REQUEST]
    assert [phase for phase in Phase if may_follow(phase, Phase.IDLE)] == [Phase.ADVERTISE]


def test_what_is_awaited_is_what_may_come() -> None:
    """A decoder reads a block as what is awaited; the machine takes it where it may come."""
    reads = {
        Awaits.SETUP: (Setup,),
        Awaits.HELLO: (Hello,),
        Awaits.ADVERTISE: (Advertise, Setup),
        Awaits.REQUEST: (Request,),
        Awaits.TRANSFER: (Transfer,),
        Awaits.NOTHING: (),
    }
    for phase in Phase:
        assert MAY_COME[phase] == reads[AWAITS[phase]]
