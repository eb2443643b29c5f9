"""What keys of a set of shards hold, for people and for programs."""

import pytest

from bobbin.cli.chain_text import held, name_of, value_of, words_of
from bobbin.cli.output import Json
from bobbin.cluster.chain.holdings import Holds, result_of
from bobbin.cluster.chain.versions import Item
from bobbin.cluster.geometry import Embedding
from bobbin.cluster.operations import CounterAdd, Embed, NodeCreate, Operation, Put, SetAdd


@pytest.mark.parametrize(
    ("operation", "words", "value"),
    [
        (Put(b"k", b"green"), "green", "green"),
        (Put(b"k", b"\xff"), "0xff", {"base64": "/w=="}),
        (CounterAdd(b"k", -7), "-7", "-7"),
        (SetAdd(b"k", b"red"), "(a set: red)", {"set": ["red"]}),
        (SetAdd(b"k", b"\xff"), "(a set: 0xff)", {"set": [{"base64": "/w=="}]}),
        (
            Embed(b"k", Embedding.of(2_000, {3: 1.5})),
            "(a vector of 2,000 dimensions)",
            {"vector": {"dimension": 2_000, "positions": [3], "values": [1.5]}},
        ),
        (NodeCreate(b"k", "person"), "(a node of a graph: person)", {"node": "person"}),
    ],
)
def test_what_a_key_holds(operation: Operation, words: str, value: Json) -> None:
    made = result_of(operation, None)
    assert made is not None
    assert not isinstance(made, str)
    item = Item(b"k", made.value, 1, Holds(made.holds))
    assert words_of(item) == words
    assert held(item) == value


def test_nothing_and_names() -> None:
    assert held(None) is value_of(None) is None
    assert name_of(b"a\xff") == "a\\xff"
