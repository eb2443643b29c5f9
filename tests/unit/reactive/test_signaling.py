import pytest

from bobbin.errors import UsageError
from bobbin.reactive.messages import PeerId
from bobbin.reactive.signaling import (
    OPEN,
    SECOND_NS,
    Access,
    ConnectionId,
    Drop,
    Effect,
    Garbled,
    Heard,
    Limits,
    Lost,
    Mode,
    Opened,
    Room,
    Tell,
)
from bobbin.reactive.signaling_frames import (
    Answer,
    ClientFrame,
    Code,
    ForwardedAnswer,
    ForwardedIce,
    ForwardedOffer,
    ForwardedRelay,
    Ice,
    Join,
    Leave,
    Offer,
    PeerJoined,
    PeerLeft,
    Refusal,
    Relay,
    ServerFrame,
    Welcome,
)

SDP = "v=0\r\no=- 1 2 IN IP4 127.0.0.1\r\n"


class Rig:
    """A room, and connections that are numbered like the peers that join by them."""

    def __init__(self, access: Access = OPEN, limits: Limits = Limits()) -> None:  # noqa: B008
        self.room = Room(access, limits)
        self.now_ns = 0

    def step(self, event: Opened | Heard | Garbled | Lost) -> tuple[Effect, ...]:
        effects = self.room.step(event, now_ns=self.now_ns)
        self.room.check()
        return effects

    def open(self, *connections: int, bound: int | None = None) -> None:
        for one in connections:
            self.step(Opened(connection=ConnectionId(one), bound=None if bound is None else PeerId(bound)))

    def say(self, connection: int, frame: ClientFrame, size: int = 100) -> tuple[Effect, ...]:
        return self.step(Heard(connection=ConnectionId(connection), frame=frame, size=size))

    def join(self, *connections: int) -> None:
        for one in connections:
            self.open(one)
            self.say(one, Join(peer=PeerId(one)))


def told(connection: int, frame: ServerFrame) -> Tell:
    return Tell(connection=ConnectionId(connection), frame=frame)


def codes(effects: tuple[Effect, ...]) -> list[tuple[int, Code]]:
    return [
        (one.connection, one.frame.code) for one in effects if isinstance(one, Tell) and isinstance(one.frame, Refusal)
    ]


def test_who_joins_gets_the_roster_and_the_others_hear_of_it() -> None:
    """RX-084, RX-089, RX-090, RX-149: ascending, and without the newcomer."""
    rig = Rig()
    rig.join(30, 4)
    rig.open(7)
    effects = rig.say(7, Join(peer=PeerId(7), capabilities=("crdt",)))
    assert effects == (
        told(7, Welcome(peer=PeerId(7), peers=(PeerId(4), PeerId(30)))),
        told(4, PeerJoined(peer=PeerId(7))),
        told(30, PeerJoined(peer=PeerId(7))),
    )


@pytest.mark.parametrize(
    ("said", "heard"),
    [
        (Offer(to=PeerId(2), sdp=SDP), ForwardedOffer(sender=PeerId(1), sdp=SDP)),
        (Answer(to=PeerId(2), sdp=SDP), ForwardedAnswer(sender=PeerId(1), sdp=SDP)),
        (Ice(to=PeerId(2), candidate="candidate:1"), ForwardedIce(sender=PeerId(1), candidate="candidate:1")),
        (
            Relay(to=PeerId(2), payload=b'{"b": 1, "a": [1.0]}'),
            ForwardedRelay(sender=PeerId(1), payload=b'{"b": 1, "a": [1.0]}'),
        ),
    ],
)
def test_a_directed_frame_reaches_its_target_alone_under_the_senders_own_id(
    said: ClientFrame, heard: ServerFrame
) -> None:
    """RX-085, RX-086, RX-087, RX-092, RX-094, RX-095."""
    rig = Rig()
    rig.join(1, 2, 3)
    assert rig.say(1, said) == (told(2, heard),)


def test_whoever_leaves_is_gone_and_the_others_hear_of_it() -> None:
    """RX-088."""
    rig = Rig()
    rig.join(1, 2, 3)
    effects = rig.say(2, Leave())
    assert set(effects) == {
        told(1, PeerLeft(peer=PeerId(2))),
        told(3, PeerLeft(peer=PeerId(2))),
        Drop(connection=ConnectionId(2), why="it left"),
    }
    assert rig.room.members == (PeerId(1), PeerId(3))
    assert codes(rig.say(1, Offer(to=PeerId(2), sdp=SDP))) == [(1, Code.UNKNOWN_TARGET)]


def test_a_lost_connection_is_like_leaving() -> None:
    """RX-091."""
    rig = Rig()
    rig.join(1, 2)
    assert rig.step(Lost(connection=ConnectionId(1))) == (told(2, PeerLeft(peer=PeerId(1))),)
    assert rig.step(Lost(connection=ConnectionId(1))) == (), "once is enough"
    rig.open(5)
    assert rig.step(Lost(connection=ConnectionId(5))) == (), "it had not joined"
    assert rig.step(Lost(connection=ConnectionId(2))) == ()
    assert rig.room.is_empty


def test_an_error_goes_to_whoever_made_it_and_changes_nothing() -> None:
    """RX-093, RX-148, RX-165."""
    rig = Rig()
    rig.join(1, 2)
    rig.open(3)
    assert codes(rig.say(3, Offer(to=PeerId(1), sdp=SDP))) == [(3, Code.NOT_JOINED)]
    assert codes(rig.say(3, Leave())) == [(3, Code.NOT_JOINED)]
    assert codes(rig.say(3, Join(peer=PeerId(1)))) == [(3, Code.DUPLICATE_PEER)]
    assert codes(rig.say(1, Join(peer=PeerId(9)))) == [(1, Code.ALREADY_JOINED)]
    assert codes(rig.say(1, Join(peer=PeerId(1)))) == [(1, Code.ALREADY_JOINED)]
    assert codes(rig.say(1, Ice(to=PeerId(9), candidate="c"))) == [(1, Code.UNKNOWN_TARGET)]
    garbled = Garbled(connection=ConnectionId(2), reason="no frame", size=8)
    assert rig.step(garbled) == (told(2, Refusal(code=Code.BAD_MESSAGE, message="no frame")),)
    assert rig.room.members == (PeerId(1), PeerId(2))
    # Nobody took over what is said to peer 1.
    assert rig.say(2, Offer(to=PeerId(1), sdp=SDP))[0].connection == ConnectionId(1)


def test_a_frame_to_oneself_comes_back() -> None:
    rig = Rig()
    rig.join(1)
    assert rig.say(1, Offer(to=PeerId(1), sdp=SDP)) == (told(1, ForwardedOffer(sender=PeerId(1), sdp=SDP)),)


# ---- identity -------------------------------------------------------------------------------------------------------


def test_an_authenticated_connection_has_no_other_id() -> None:
    """RX-094."""
    rig = Rig()
    rig.open(1, bound=7)
    assert codes(rig.say(1, Join(peer=PeerId(8)))) == [(1, Code.PERMISSION_DENIED)]
    assert rig.say(1, Join(peer=PeerId(7))) == (told(1, Welcome(peer=PeerId(7), peers=())),)


def test_an_id_that_is_authenticated_for_is_nobody_elses() -> None:
    rig = Rig(Access(mode=Mode.OPEN, reserved=frozenset({PeerId(7)})))
    rig.open(1, 2)
    assert codes(rig.say(1, Join(peer=PeerId(7)))) == [(1, Code.PERMISSION_DENIED)]
    assert isinstance(rig.say(2, Join(peer=PeerId(8)))[0], Tell)
    assert rig.room.members == (PeerId(8),)


# ---- allowlist ------------------------------------------------------------------------------------------------------

LISTED = Access(
    grants={
        PeerId(1): frozenset({PeerId(2), PeerId(4)}),
        PeerId(2): frozenset(),
        PeerId(3): frozenset({PeerId(4)}),
        PeerId(4): frozenset({PeerId(4)}),
    }
)


def test_nobody_joins_without_a_grant() -> None:
    """RX-096, RX-164."""
    rig = Rig(LISTED)
    rig.open(9)
    assert codes(rig.say(9, Join(peer=PeerId(9)))) == [(9, Code.PERMISSION_DENIED)]
    assert rig.room.members == ()
    assert Access().mode is Mode.ALLOWLIST, "nothing is open by default"


def test_a_frame_reaches_only_those_whom_its_sender_was_granted() -> None:
    """RX-097: a grant is one way."""
    rig = Rig(LISTED)
    rig.join(1, 2, 3)
    assert rig.say(1, Offer(to=PeerId(2), sdp=SDP))[0].connection == ConnectionId(2)
    assert codes(rig.say(2, Answer(to=PeerId(1), sdp=SDP))) == [(2, Code.PERMISSION_DENIED)]
    assert codes(rig.say(1, Offer(to=PeerId(3), sdp=SDP))) == [(1, Code.PERMISSION_DENIED)]


def test_a_refusal_does_not_say_who_is_there() -> None:
    """RX-164: the same answer for a peer that is present and for one that is not."""
    rig = Rig(LISTED)
    rig.join(1, 3)
    (present,) = rig.say(1, Offer(to=PeerId(3), sdp=SDP))
    rig.step(Lost(connection=ConnectionId(3)))
    (absent,) = rig.say(1, Offer(to=PeerId(3), sdp=SDP))
    assert present == absent
    assert codes((absent,)) == [(1, Code.PERMISSION_DENIED)]
    assert codes(rig.say(1, Offer(to=PeerId(2), sdp=SDP))) == [(1, Code.UNKNOWN_TARGET)], "whom it may know of"


def test_peers_that_may_exchange_nothing_do_not_hear_of_each_other() -> None:
    rig = Rig(LISTED)
    rig.join(1, 3)
    rig.open(2)
    assert rig.say(2, Join(peer=PeerId(2))) == (
        told(2, Welcome(peer=PeerId(2), peers=(PeerId(1),))),
        told(1, PeerJoined(peer=PeerId(2))),
    )
    assert rig.say(2, Leave())[:-1] == (told(1, PeerLeft(peer=PeerId(2))),)


# ---- bounds ---------------------------------------------------------------------------------------------------------


def test_a_room_has_a_bound() -> None:
    rig = Rig(limits=Limits(members_max=2))
    rig.join(1, 2)
    rig.open(3)
    assert codes(rig.say(3, Join(peer=PeerId(3)))) == [(3, Code.PERMISSION_DENIED)]
    rig.step(Lost(connection=ConnectionId(1)))
    assert codes(rig.say(3, Join(peer=PeerId(3)))) == []


def test_who_says_too_much_is_dropped_and_the_others_hear_of_it() -> None:
    rig = Rig(limits=Limits(frames_per_second=2, frames_burst=3))
    rig.join(1, 2)
    ice = Ice(to=PeerId(2), candidate="c")
    assert codes((*rig.say(1, ice), *rig.say(1, ice))) == []
    refusal, drop, left = rig.say(1, ice)
    assert codes((refusal,)) == [(1, Code.PERMISSION_DENIED)]
    assert isinstance(drop, Drop)
    assert drop.connection == ConnectionId(1)
    assert left == told(2, PeerLeft(peer=PeerId(1)))
    with pytest.raises(UsageError):
        rig.say(1, ice)


def test_time_makes_up_for_it() -> None:
    rig = Rig(limits=Limits(frames_per_second=2, frames_burst=3))
    rig.join(1, 2)
    ice = Ice(to=PeerId(2), candidate="c")
    for _ in range(20):
        assert codes(rig.say(1, ice)) == []
        rig.now_ns += SECOND_NS // 2
    rig.now_ns -= SECOND_NS
    assert codes(rig.say(1, ice)) == [], "a clock that goes back takes nothing away"


def test_garbage_costs_like_frames_and_bytes_cost_too() -> None:
    rig = Rig(limits=Limits(bytes_per_second=10, bytes_burst=1000))
    rig.join(1)
    assert len(rig.step(Garbled(connection=ConnectionId(1), reason="?", size=899))) == 1
    dropped = rig.step(Garbled(connection=ConnectionId(1), reason="?", size=100))
    assert [type(one) for one in dropped] == [Tell, Drop]


def test_a_frame_that_is_too_long_drops_its_sender() -> None:
    rig = Rig(limits=Limits(frame_bytes_max=50))
    rig.open(1)
    effects = rig.say(1, Join(peer=PeerId(1)), size=51)
    assert codes(effects) == [(1, Code.BAD_MESSAGE)]
    assert rig.room.is_empty


def test_ids_that_a_browser_would_round_are_refused() -> None:
    """RX-003: every member gets the roster, and some are browsers."""
    rig = Rig()
    rig.open(1)
    assert codes(rig.say(1, Join(peer=PeerId(2**53)))) == [(1, Code.BAD_MESSAGE)]
    assert codes(rig.say(1, Join(peer=PeerId(2**53 - 1)))) == []


def test_connections_are_opened_once() -> None:
    rig = Rig()
    rig.open(1)
    with pytest.raises(UsageError):
        rig.open(1)
    with pytest.raises(UsageError):
        rig.say(9, Leave())
    assert not rig.room.has_joined(ConnectionId(1))
    rig.say(1, Join(peer=PeerId(1)))
    assert rig.room.has_joined(ConnectionId(1))
