"""Signaling: the rows of the conformance list that are about rooms, over the texts that clients and servers send."""

import json
from typing import Any, TypeAlias

import pytest

from bobbin.errors import PeerError
from bobbin.reactive.messages import PeerId
from bobbin.reactive.signaling import (
    OPEN,
    Access,
    ConnectionId,
    Drop,
    Effect,
    Garbled,
    Heard,
    Lost,
    Mode,
    Opened,
    Room,
    Tell,
)
from bobbin.reactive.signaling_frames import Code
from bobbin.wire.lazily import signaling as codec
from tests.shared_fixtures import shared_fixture

Frame: TypeAlias = dict[str, Any]
SDP = "v=0\r\no=- 12345 2 IN IP4 127.0.0.1\r\n..."


def _fixture(*parts: str) -> Any:  # noqa: ANN401 (whatever is in the file)
    return json.loads(shared_fixture("lazily", *parts).read_text(encoding="utf-8"))


class Session:
    """A room in which connection n is meant to be that of peer n. Everything goes through its text."""

    def __init__(self, access: Access = OPEN) -> None:
        self.room = Room(access)

    def open(self, *connections: int) -> None:
        for one in connections:
            self.room.step(Opened(connection=ConnectionId(one)), now_ns=0)

    def hear(self, connection: int, frame: Frame | str) -> list[tuple[int, Frame]]:
        """Who is told what about a text of a client."""
        raw = (frame if isinstance(frame, str) else json.dumps(frame)).encode()
        number = ConnectionId(connection)
        try:
            said = codec.decode_client(raw)
        except PeerError as error:
            return self._told(self.room.step(Garbled(connection=number, reason=str(error), size=len(raw)), now_ns=0))
        return self._told(self.room.step(Heard(connection=number, frame=said, size=len(raw)), now_ns=0))

    def lose(self, connection: int) -> list[tuple[int, Frame]]:
        return self._told(self.room.step(Lost(connection=ConnectionId(connection)), now_ns=0))

    def join(self, *peers: int) -> None:
        self.open(*peers)
        for peer in peers:
            answer = self.hear(peer, {"type": "join", "peer": peer})
            assert answer[0][1]["type"] == "welcome"

    def _told(self, effects: tuple[Effect, ...]) -> list[tuple[int, Frame]]:
        self.room.check()
        return [
            (one.connection, json.loads(codec.encode_server(one.frame))) for one in effects if isinstance(one, Tell)
        ]


def _code(told: list[tuple[int, Frame]], connection: int) -> str:
    ((to, frame),) = told
    assert (to, frame["type"], set(frame)) == (connection, "error", {"type", "code", "message"})
    assert isinstance(frame["code"], str)
    return frame["code"]


# ---- the shared fixtures --------------------------------------------------------------------------------------------


def test_every_frame_of_the_shared_fixture_is_read_and_written_alike() -> None:
    """RX-084 to RX-093, RX-149."""
    fixture = _fixture("signaling", "frames.json")
    for frame in fixture["frames"]:
        raw = json.dumps(frame["wire"]).encode()
        if frame["direction"] == "client":
            again = codec.encode_client(codec.decode_client(raw))
        else:
            again = codec.encode_server(codec.decode_server(raw))
        assert json.loads(again) == frame["wire"], frame["label"]
    for refused in fixture["rejects"]:
        raw = json.dumps(refused["wire"]).encode()
        with pytest.raises(PeerError):
            (codec.decode_client if refused["direction"] == "client" else codec.decode_server)(raw)
    assert (len(fixture["frames"]), len(fixture["rejects"])) == (17, 3)


def test_the_session_of_the_shared_example_happens_as_it_is_written() -> None:
    """RX-085, RX-086, RX-087, RX-088, RX-089, RX-090, RX-092: the frames of both peers, in their order."""
    script = _fixture("examples", "signaling-session.json")
    session = Session()
    session.open(1, 2)
    assert session.hear(1, script[0]) == [(1, script[1])]
    assert session.hear(2, script[2]) == [(2, script[3]), (1, script[4])]
    offer, answer, ice, back, relay, leave = script[5:]
    assert session.hear(1, offer) == [(2, {"type": "offer", "from": 1, "sdp": offer["sdp"]})]
    assert session.hear(2, {"type": "answer", "to": 1, "sdp": answer["sdp"]}) == [(1, answer)]
    assert session.hear(1, ice) == [(2, {"type": "ice", "from": 1, "candidate": ice["candidate"]})]
    assert session.hear(2, {"type": "ice", "to": 1, "candidate": back["candidate"]}) == [(1, back)]
    assert session.hear(1, relay) == [(2, {"type": "relay", "from": 1, "payload": relay["payload"]})]
    assert session.hear(1, leave) == [(2, {"type": "peer-left", "peer": 1})]


# ---- client to server -----------------------------------------------------------------------------------------------


def test_joining_needs_an_id_and_nothing_else() -> None:
    """RX-084."""
    session = Session()
    session.open(1, 2, 3)
    assert session.hear(1, {"type": "join", "peer": 1}) == [(1, {"type": "welcome", "peer": 1, "peers": []})]
    assert session.hear(2, {"type": "join", "peer": 2, "capabilities": ["crdt"]})[0][1]["type"] == "welcome"
    assert _code(session.hear(3, {"type": "join"}), 3) == "bad_message"


@pytest.mark.parametrize("kind", ["offer", "answer"])
def test_descriptions_pass_to_the_last_character(kind: str) -> None:
    """RX-085."""
    session = Session()
    session.join(1, 2, 3)
    sdp = SDP + "\r\n\u2028é\U0001f5a7\t\x00\\u0041"
    assert session.hear(1, {"type": kind, "to": 2, "sdp": sdp}) == [(2, {"type": kind, "from": 1, "sdp": sdp})]


def test_a_way_goes_to_its_target_alone() -> None:
    """RX-086."""
    session = Session()
    session.join(1, 2, 3)
    told = session.hear(1, {"type": "ice", "to": 2, "candidate": "candidate:1"})
    assert told == [(2, {"type": "ice", "from": 1, "candidate": "candidate:1"})]


@pytest.mark.parametrize(
    "payload",
    [
        '{"b":1,"a":{"z":[],"y":null}}',
        "[1.0, 1e3, 0.1, 18446744073709551616]",
        '"\\u00e9\\/"',
        "null",
        "-0.0",
        '{"from":9,"to":9,"type":"leave"}',
    ],
)
def test_what_is_relayed_passes_as_it_was_written(payload: str) -> None:
    """RX-087: not only the same value, the same text."""
    room = Room(OPEN)
    for number in (1, 2):
        room.step(Opened(connection=ConnectionId(number)), now_ns=0)
        joined = codec.decode_client(f'{{"type":"join","peer":{number}}}'.encode())
        room.step(Heard(connection=ConnectionId(number), frame=joined, size=20), now_ns=0)
    relay = codec.decode_client(f'{{"type":"relay","to":2,"payload":{payload}}}'.encode())
    (told,) = room.step(Heard(connection=ConnectionId(1), frame=relay, size=20), now_ns=0)
    assert isinstance(told, Tell)
    assert told.connection == 2
    text = codec.encode_server(told.frame).decode()
    assert f'"payload":{payload}' in text
    assert json.loads(text)["from"] == 1


def test_leaving_ends_the_registration_and_tells_the_others() -> None:
    """RX-088."""
    session = Session()
    session.join(1, 2, 3)
    left = {"type": "peer-left", "peer": 2}
    assert sorted(session.hear(2, {"type": "leave"}), key=lambda one: one[0]) == [(1, left), (3, left)]
    assert session.room.members == (1, 3)
    session.open(4)
    assert session.hear(4, {"type": "join", "peer": 2})[0] == (4, {"type": "welcome", "peer": 2, "peers": [1, 3]})
    session.open(5)
    assert _code(session.hear(5, {"type": "leave", "peer": 5}), 5) == "bad_message"


# ---- server to client -----------------------------------------------------------------------------------------------


def test_the_roster_is_ascending_and_without_the_newcomer() -> None:
    """RX-089, RX-149."""
    session = Session()
    session.join(30, 4, 2**53 - 1, 7)
    session.open(5)
    welcome = session.hear(5, {"type": "join", "peer": 5})[0]
    assert welcome == (5, {"type": "welcome", "peer": 5, "peers": [4, 7, 30, 2**53 - 1]})


def test_those_who_are_there_hear_of_a_newcomer_and_it_does_not() -> None:
    """RX-090."""
    session = Session()
    session.join(1, 2)
    session.open(3)
    told = session.hear(3, {"type": "join", "peer": 3})
    joined = {"type": "peer-joined", "peer": 3}
    assert [(to, frame) for to, frame in told if frame["type"] == "peer-joined"] == [(1, joined), (2, joined)]


def test_a_dropped_connection_is_told_like_a_farewell() -> None:
    """RX-091."""
    session = Session()
    session.join(1, 2)
    assert session.lose(2) == [(1, {"type": "peer-left", "peer": 2})]
    assert session.room.members == (1,)


def test_forwarded_frames_have_a_sender_in_place_of_a_target() -> None:
    """RX-092."""
    session = Session()
    session.join(1, 2)
    for frame in (
        {"type": "offer", "to": 2, "sdp": ""},
        {"type": "answer", "to": 2, "sdp": ""},
        {"type": "ice", "to": 2, "candidate": ""},
        {"type": "relay", "to": 2, "payload": 1},
    ):
        ((to, forwarded),) = session.hear(1, frame)
        assert to == 2
        assert {**forwarded, "to": 2} == {**frame, "from": 1}


def test_an_error_goes_to_whoever_made_it_alone() -> None:
    """RX-093."""
    session = Session()
    session.join(1, 2, 3)
    assert _code(session.hear(1, {"type": "offer", "to": 9, "sdp": ""}), 1) == "unknown_target"
    assert _code(session.hear(2, "garbage"), 2) == "bad_message"


# ---- who speaks -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "frame",
    [
        {"type": "offer", "to": 2, "from": 3, "sdp": ""},
        {"type": "relay", "from": 3, "payload": 1},
        {"type": "ice", "from": 1, "to": 2, "candidate": ""},
        {"type": "join", "peer": 4, "from": 3},
        {"type": "leave", "from": 3},
        {"type": "welcome", "peer": 2, "peers": []},
        {"type": "peer-left", "peer": 2},
    ],
)
def test_a_client_cannot_say_who_speaks(frame: Frame) -> None:
    """RX-094, RX-149: it is refused, not mended."""
    session = Session()
    session.join(1, 2, 3)
    assert _code(session.hear(1, frame), 1) == "bad_message"
    assert session.room.members == (1, 2, 3)
    assert session.hear(1, {"type": "relay", "to": 2, "payload": {"from": 3}}) == [
        (2, {"type": "relay", "from": 1, "payload": {"from": 3}})
    ]


def test_the_sender_is_the_connections_own_id() -> None:
    """RX-094: whatever numbers connections have."""
    session = Session()
    session.open(10, 20)
    session.hear(10, {"type": "join", "peer": 2})
    session.hear(20, {"type": "join", "peer": 1})
    assert session.hear(10, {"type": "offer", "to": 1, "sdp": ""}) == [(20, {"type": "offer", "from": 2, "sdp": ""})]


# ---- who may --------------------------------------------------------------------------------------------------------

LISTED = Access(
    mode=Mode.ALLOWLIST,
    grants={PeerId(1): frozenset({PeerId(2)}), PeerId(2): frozenset({PeerId(1)}), PeerId(3): frozenset({PeerId(1)})},
)


def test_in_an_open_room_anybody_signals_anybody() -> None:
    """RX-095."""
    session = Session()
    session.join(1, 2, 77)
    for sender in (1, 2, 77):
        for target in (1, 2, 77):
            assert session.hear(sender, {"type": "ice", "to": target, "candidate": ""})[0][0] == target


def test_without_a_grant_nobody_joins() -> None:
    """RX-096, RX-164."""
    session = Session(LISTED)
    session.open(9)
    assert _code(session.hear(9, {"type": "join", "peer": 9}), 9) == "permission_denied"
    assert _code(session.hear(9, {"type": "offer", "to": 1, "sdp": ""}), 9) == "not_joined"
    assert session.room.members == ()


def test_a_frame_reaches_only_what_its_sender_was_granted() -> None:
    """RX-097."""
    session = Session(LISTED)
    session.join(1, 2, 3)
    assert session.hear(3, {"type": "offer", "to": 1, "sdp": ""})[0][0] == 1
    assert _code(session.hear(1, {"type": "answer", "to": 3, "sdp": ""}), 1) == "permission_denied"
    assert _code(session.hear(3, {"type": "offer", "to": 2, "sdp": ""}), 3) == "permission_denied"


def test_a_refusal_tells_nothing_about_who_is_there() -> None:
    """RX-164."""
    session = Session(LISTED)
    session.join(1)
    frame = {"type": "offer", "to": 3, "sdp": ""}
    absent = session.hear(1, frame)
    session.join(3)
    assert session.hear(1, frame) == absent
    assert _code(absent, 1) == "permission_denied"


def test_a_second_join_and_a_taken_id_are_refused() -> None:
    """RX-165: nobody takes over what is for another."""
    session = Session()
    session.join(1, 2)
    session.open(3)
    assert _code(session.hear(1, {"type": "join", "peer": 5}), 1) == "already_joined"
    assert _code(session.hear(3, {"type": "join", "peer": 2}), 3) == "duplicate_peer"
    assert session.hear(1, {"type": "offer", "to": 2, "sdp": ""})[0][0] == 2
    assert session.room.members == (1, 2)


def test_every_reason_is_one_of_the_six() -> None:
    """RX-148: and each of them is given."""
    session, listed = Session(), Session(LISTED)
    session.join(1, 2)
    session.open(3)
    listed.open(9)
    given = [
        _code(session.hear(1, "garbage"), 1),
        _code(session.hear(3, {"type": "offer", "to": 1, "sdp": ""}), 3),
        _code(session.hear(1, {"type": "join", "peer": 1}), 1),
        _code(session.hear(3, {"type": "join", "peer": 1}), 3),
        _code(session.hear(1, {"type": "offer", "to": 9, "sdp": ""}), 1),
        _code(listed.hear(9, {"type": "join", "peer": 9}), 9),
    ]
    assert given == [
        "bad_message",
        "not_joined",
        "already_joined",
        "duplicate_peer",
        "unknown_target",
        "permission_denied",
    ]
    assert set(given) == {code.value for code in Code}
    with pytest.raises(PeerError):
        codec.decode_server(b'{"type":"error","code":"free_text","message":""}')


def test_leaving_closes_the_connection() -> None:
    """RX-088."""
    session = Session()
    session.join(1)
    leave = codec.decode_client(b'{"type":"leave"}')
    effects = session.room.step(Heard(connection=ConnectionId(1), frame=leave, size=16), now_ns=0)
    assert [one.connection for one in effects if isinstance(one, Drop)] == [1]
