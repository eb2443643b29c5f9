"""Sets and dicts: their values, and from which depth on their messages are needed."""

import pytest

from bobbin.tangles.canonical import Json
from bobbin.tangles.message import Message, MessageId, from_json
from bobbin.tangles.structures import dict_values, min_required_depth, set_values
from bobbin.tangles.tangle import Tangle
from tests.support.tangle_messages import Author
from tests.vectors.load import load

RECORDED = ["dict-basic", "dict-span4", "set-basic", "set-one", "set-span32"]


class Written:
    """A feed of data, as a tangle and its messages."""

    def __init__(self, *data: Json) -> None:
        alice = Author("alice")
        moot = alice.moot("set_v1__x")
        self.messages: list[Message] = [moot]
        for one in data:
            content = {**one, "supersedes": self._superseded(one)} if isinstance(one, dict) else one
            self.messages.append(alice.post(moot.id, content, "set_v1__x"))
        self.tangle = Tangle(moot.id, self.messages)

    def _superseded(self, one: dict[str, Json]) -> Json:
        """Numbers of earlier messages stand for their ids."""
        given = one.get("supersedes", [])
        if not isinstance(given, list):
            return given
        return [self.messages[item].id if isinstance(item, int) else item for item in given]

    def data(self, id: MessageId) -> Json:
        return next(message.data for message in self.messages if message.id == id)


@pytest.mark.parametrize("name", RECORDED)
def test_what_a_real_peer_needs_and_reads(name: str) -> None:
    case = load(f"pzp/goals/purpose-{name}.json")
    messages = {id: from_json(value) for id, value in case["messages"].items()}
    tangle = Tangle(case["tangleID"], messages.values())
    assert min_required_depth(tangle, lambda id: messages[id].data) == case["minRequiredDepth"]
    assert max(0, case["minRequiredDepth"] - case["ghostSpan"]) == case["minGhostDepth"]
    read = dict_values if case["goal"] == "dict" else set_values
    assert read(tangle, lambda id: messages[id].data) == case["value"]


def test_superseded_messages_are_not_needed() -> None:
    written = Written(
        {"add": ["a"], "del": []},
        {"add": ["b"], "del": []},
        {"add": [], "del": ["a"], "supersedes": [1]},
        {"add": [], "del": ["b"], "supersedes": [2]},
    )
    assert min_required_depth(written.tangle, written.data) == 3
    assert set_values(written.tangle, written.data) == []


def test_nothing_left_and_nothing_held() -> None:
    written = Written()
    assert min_required_depth(written.tangle, written.data) is None
    assert min_required_depth(Tangle("unknown"), written.data) == 0


def test_erased_messages_do_not_count() -> None:
    written = Written({"add": ["a"], "del": []}, {"add": ["b"], "del": []})
    written.tangle.erase(written.messages[1].id)
    assert min_required_depth(written.tangle, written.data) == 2
    assert set_values(written.tangle, written.data) == ["b"]


def test_odd_data_is_passed_over() -> None:
    written = Written(
        "sealed",
        {"add": "a", "del": [], "supersedes": 7},
        {"add": [["x", 1], {"y": 2}], "del": [], "supersedes": [None]},
        {"add": [["x", 1], 1, 1.0], "del": [{"y": 2}]},
        {"update": {"k": 1}},
        {"update": [1]},
        {"update": {"k": 2, "l": None}, "supersedes": "x"},
    )
    assert set_values(written.tangle, written.data) == [["x", 1], 1]
    assert dict_values(written.tangle, written.data) == {"k": 1}
    assert min_required_depth(written.tangle, written.data) == 1
