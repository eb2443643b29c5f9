"""The status of a node as JSON."""

import json

import msgspec
import pytest

from bobbin.runtime.status import (
    FORMAT,
    Direction,
    Ended,
    LinkState,
    LinkStatus,
    NodeStatus,
    PastLink,
    decode_status,
    encode_status,
)

_TAI = "1640995200:000000000"
_STATUS = NodeStatus(
    version="0.1.0",
    verifier=None,
    at=_TAI,
    since=_TAI,
    age_seconds=1.5,
    stopping=False,
    health="ok",
    listening=("tcp:127.0.0.1:4790",),
    records=3,
    peers=1,
    links=(
        LinkStatus(
            id=1,
            direction=Direction.IN,
            state=LinkState.IDLE,
            address="tcp:127.0.0.1:4790",
            since=_TAI,
            age_seconds=1.0,
            missing=2,
            missing_why={"hash-mismatch": 2},
        ),
    ),
    past=(
        PastLink(
            id=2,
            direction=Direction.OUT,
            remote="127.0.0.1:1",
            peer="bob",
            verifier=None,
            seconds=0.5,
            rounds=1,
            records_in=1,
            records_out=2,
            bytes_in=3,
            bytes_out=4,
            end=Ended(at=_TAI, reason="fixed-point"),
        ),
    ),
    ended={"fixed-point": 1},
    refused={"unknown-key": 4},
)


def test_a_status_survives_its_json() -> None:
    assert decode_status(encode_status(_STATUS)) == _STATUS


def test_the_json_names_its_format_and_spells_states_as_words() -> None:
    table = json.loads(encode_status(_STATUS))
    assert table["format"] == FORMAT
    assert table["links"][0]["state"] == "idle"
    assert table["links"][0]["direction"] == "in"


def test_fields_of_a_newer_node_are_passed_over() -> None:
    table = json.loads(encode_status(_STATUS))
    table["moon"] = "full"
    table["links"][0]["colour"] = "blue"
    assert decode_status(json.dumps(table).encode()) == _STATUS


def test_what_is_no_status_is_refused() -> None:
    with pytest.raises(msgspec.MsgspecError):
        decode_status(b'{"format":1}')
