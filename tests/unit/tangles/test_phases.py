"""Frames: recorded ones are read and written byte for byte; whatever is wrong is refused whole."""

import json
from pathlib import Path
from typing import Any

import pytest

from bobbin.errors import PeerError
from bobbin.tangles import phases
from bobbin.tangles.bloom import FilterLimits
from bobbin.tangles.phases import FrameLimits, Have, HaveAndWant, IdsAndFilter, MalformedFrame, Messages
from bobbin.tangles.ranges import Range
from tests.vectors.load import HERE, load

_SESSIONS = sorted((HERE / "pzp" / "sessions").glob("*.json"))
_LIMITS = FrameLimits()
_ID = "5sXCwcsvVbViuRCQ19DiUBi1ta7xt83Dp3Zngunj4dP5"


def _raw(data: Any) -> bytes:  # noqa: ANN401 -- whatever JSON holds
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False).encode()


@pytest.mark.parametrize("path", _SESSIONS, ids=lambda path: path.stem)
def test_recorded_frames(path: Path) -> None:
    for entry in load(f"pzp/sessions/{path.name}")["transcript"]:
        frame = phases.decode(_raw(entry["data"]), _LIMITS)
        assert frame.phase == entry["data"]["phase"]
        assert phases.encode(frame) == _raw(entry["data"])


def test_the_plain_forms() -> None:
    assert phases.encode(Have(_ID, Range(0, 3))) == f'{{"id":"{_ID}","phase":1,"payload":[0,3]}}'.encode()
    assert phases.encode(HaveAndWant(_ID, Range(1, 0), Range(0, 3))) == (
        f'{{"id":"{_ID}","phase":2,"payload":{{"haveRange":[1,0],"wantRange":[0,3]}}}}'.encode()
    )
    assert phases.encode(Messages(_ID, (b"{}", b"1"))) == f'{{"id":"{_ID}","phase":9,"payload":[{{}},1]}}'.encode()


def test_an_empty_list_of_ids_is_there() -> None:
    bloom = next(
        entry["data"]["payload"]["bloom"]
        for entry in load("pzp/sessions/identical.json")["transcript"]
        if entry["data"]["phase"] == 4
    )
    frame = phases.decode(_raw({"id": _ID, "phase": 4, "payload": {"bloom": bloom, "msgIDs": []}}), _LIMITS)
    assert isinstance(frame, IdsAndFilter)
    assert frame.ids == ()
    assert phases.encode(frame).endswith(b'"msgIDs":[]}}')
    with pytest.raises(MalformedFrame):
        phases.decode(_raw({"id": _ID, "phase": 4, "payload": {"bloom": bloom}}), _LIMITS)


def test_keys_may_come_in_any_order_and_with_others() -> None:
    frame = phases.decode(_raw({"payload": [0, 1], "extra": {}, "phase": 1, "id": _ID}), _LIMITS)
    assert frame == Have(_ID, Range(0, 1))


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        {},
        {"id": _ID, "phase": 1},
        {"id": _ID, "phase": "1", "payload": [0, 1]},
        {"id": _ID, "phase": 1.5, "payload": [0, 1]},
        {"id": _ID, "phase": 0, "payload": [0, 1]},
        {"id": _ID, "phase": 10, "payload": []},
        {"id": _ID, "phase": -1, "payload": []},
        {"id": "abc", "phase": 1, "payload": [0, 1]},
        {"id": _ID + "1", "phase": 1, "payload": [0, 1]},
        {"id": _ID[:-1] + "0", "phase": 1, "payload": [0, 1]},
        {"id": 7, "phase": 1, "payload": [0, 1]},
        {"id": _ID, "phase": 1, "payload": [0]},
        {"id": _ID, "phase": 1, "payload": [0, 1, 2]},
        {"id": _ID, "phase": 1, "payload": {"0": 0, "1": 1}},
        {"id": _ID, "phase": 1, "payload": [0, "1"]},
        {"id": _ID, "phase": 1, "payload": [0, 1.5]},
        {"id": _ID, "phase": 1, "payload": [0, 2**53]},
        {"id": _ID, "phase": 1, "payload": [0, 10**30]},
        {"id": _ID, "phase": 2, "payload": [0, 1]},
        {"id": _ID, "phase": 2, "payload": {"haveRange": [0, 1]}},
        {"id": _ID, "phase": 3, "payload": {"bloom": "text", "wantRange": [0, 1]}},
        {"id": _ID, "phase": 3, "payload": {"wantRange": [0, 1]}},
        {"id": _ID, "phase": 4, "payload": {"bloom": {}, "msgIDs": []}},
        {"id": _ID, "phase": 8, "payload": {"msgs": []}},
        {"id": _ID, "phase": 9, "payload": {"msgs": []}},
        {"id": _ID, "phase": 9, "payload": None},
    ],
    ids=lambda data: _raw(data).decode()[:90],
)
def test_wrong_shapes_are_refused(data: Any) -> None:  # noqa: ANN401 -- whatever JSON holds
    with pytest.raises(MalformedFrame) as refused:
        phases.decode(_raw(data), _LIMITS)
    assert refused.value.code == "malformed-phase"


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"\xff", b"[" * 100_000, b'{"id":"x","phase":1,"payload":' + b"[" * 100_000], ids=len
)
def test_what_is_no_json_is_refused(raw: bytes) -> None:
    with pytest.raises(MalformedFrame):
        phases.decode(raw, _LIMITS)


def test_bounds() -> None:
    tight = FrameLimits(filter=FilterLimits(bits_max=8), ids_max=1, messages_max=1)
    entries = load("pzp/sessions/feed-all-partial.json")["transcript"]
    for entry in entries:
        raw = _raw(entry["data"])
        if entry["data"]["phase"] < 3 or entry["data"]["payload"] == []:
            phases.decode(raw, tight)
            continue
        with pytest.raises(PeerError):
            phases.decode(raw, tight)
    with pytest.raises(MalformedFrame):
        phases.decode(_raw({"id": _ID, "phase": 9, "payload": [{}, {}]}), tight)


def test_ids_are_counted() -> None:
    bloom = load("pzp/bloom/filters.json")["filters"][0]["json"]
    raw = _raw({"id": _ID, "phase": 5, "payload": {"bloom": bloom, "msgIDs": [_ID, _ID]}})
    assert phases.decode(raw, FrameLimits(ids_max=2)).phase == 5
    with pytest.raises(MalformedFrame):
        phases.decode(raw, FrameLimits(ids_max=1))


def test_a_wrong_id_in_a_list_refuses_the_frame() -> None:
    bloom = load("pzp/bloom/filters.json")["filters"][0]["json"]
    with pytest.raises(MalformedFrame):
        phases.decode(_raw({"id": _ID, "phase": 5, "payload": {"bloom": bloom, "msgIDs": [_ID, "abc"]}}), _LIMITS)
