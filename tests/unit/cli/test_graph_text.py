"""Nodes as rows."""

import io

from rich.console import Console

from bobbin.cli.graph_text import node_value, plain_lines, rows, snapshot_value, table
from bobbin.reactive.messages import Edge, Node, NodeId, NodeState, Snapshot
from bobbin.reactive.type_tags import TypeTags

TAGS = TypeTags.standard()
COUNT = Node(NodeId(1), "i64", NodeState.RESOLVED, (1_234).to_bytes(8, "little"), "records/count")
NODES = (
    COUNT,
    Node(NodeId(2), "string", NodeState.DIRTY, b"red\x1b[31m", "a/text"),
    Node(NodeId(3), "f64", NodeState.UNSET, None, "a/unset"),
    Node(NodeId(4), "of-others", NodeState.RESOLVED, b"\x00\x01", None),
    Node(NodeId(5), "json", NodeState.RESOLVED, b'{"a":[1,true]}', "z"),
    Node(NodeId(6), "i64", NodeState.RESOLVED, b"wrong", "broken"),
    Node(NodeId(7), "string", NodeState.RESOLVED, b"x" * 200, "long"),
)


def test_for_people() -> None:
    assert rows(NODES, TAGS) == [
        ("#4", "2 bytes", ""),
        ("a/text", "red\\x1b[31m", "stale"),
        ("a/unset", "", "no value"),
        ("broken", "5 bytes", ""),
        ("long", "x" * 71 + "…", ""),
        ("records/count", "1,234", ""),
        ("z", '{"a": [1, true]}', ""),
    ]
    assert plain_lines([COUNT], TAGS) == ["records/count  1,234"]
    assert plain_lines([], TAGS) == []


def test_for_programs() -> None:
    assert node_value(COUNT, TAGS) == {
        "id": 1,
        "key": "records/count",
        "tag": "i64",
        "state": "resolved",
        "value": 1_234,
    }
    assert node_value(NODES[3], TAGS)["base64"] == "AAE="
    assert node_value(NODES[5], TAGS)["base64"] == "d3Jvbmc="
    assert "value" not in node_value(NODES[2], TAGS)
    graph = Snapshot(5, (COUNT,), (Edge(NodeId(1), NodeId(1)),), (NodeId(1),))
    assert snapshot_value(graph, TAGS) == {
        "epoch": 5,
        "nodes": [node_value(COUNT, TAGS)],
        "edges": [{"dependent": 1, "dependency": 1}],
        "roots": [1],
    }


def test_on_a_screen() -> None:
    console = Console(file=io.StringIO(), width=100)
    with console.capture() as captured:
        console.print(table(NODES, TAGS))
    lines = [line.rstrip() for line in captured.get().splitlines()]
    assert lines[0].split() == ["key", "value"]
    assert lines[-1].split() == ["z", '{"a":', "[1,", "true]}"]
    assert "\x1b[31m" not in captured.get()
