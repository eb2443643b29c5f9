"""Nodes of a graph as rows: for people, for programs, and as a table that is kept up to date."""

import base64
import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from bobbin.cli.output import Json
from bobbin.cli.text import printable
from bobbin.errors import PeerError

if TYPE_CHECKING:
    from rich.table import Table

    from bobbin.reactive.messages import Node, Snapshot
    from bobbin.reactive.type_tags import TypeTags

HEAD: Final = ("key", "value", "")
"""The last column says what is wrong with a value, and mostly says nothing."""
_VALUE_CHARACTERS: Final = 72


def node_value(node: "Node", tags: "TypeTags") -> dict[str, Json]:
    """A node for programs. Bytes whose meaning nobody here knows are in ``base64``."""
    row: dict[str, Json] = {"id": node.id, "key": node.key, "tag": node.tag, "state": node.state.value}
    if isinstance(node.value, bytes):
        try:
            value = tags.decode(node.tag, node.value)
        except PeerError:
            value = node.value
        if isinstance(value, bytes):
            return {**row, "base64": base64.b64encode(value).decode()}
        return {**row, "value": value}  # type: ignore[dict-item]  # what the standard tags give is JSON, or bytes
    return row


def snapshot_value(snapshot: "Snapshot", tags: "TypeTags") -> dict[str, Json]:
    """A whole graph for programs."""
    return {
        "epoch": snapshot.epoch,
        "nodes": [node_value(node, tags) for node in sorted(snapshot.nodes, key=node_name)],
        "edges": [{"dependent": edge.dependent, "dependency": edge.dependency} for edge in snapshot.edges],
        "roots": list(snapshot.roots),
    }


def node_name(node: "Node") -> str:
    """What a node is called: by its key, or by its id."""
    return f"#{node.id}" if node.key is None else node.key


def rows(nodes: Iterable["Node"], tags: "TypeTags") -> list[tuple[str, str, str]]:
    """Nodes for people, by name."""
    found = sorted(nodes, key=node_name)
    return [(printable(node_name(node)), printable(_value_text(node, tags)), _state_text(node)) for node in found]


def plain_lines(nodes: Iterable["Node"], tags: "TypeTags") -> list[str]:
    """A table as plain lines."""
    table = rows(nodes, tags)
    width = max((len(name) for name, _, _ in table), default=0)
    return [f"{name:<{width}}  {value}  {state}".rstrip() for name, value, state in table]


def table(nodes: Iterable["Node"], tags: "TypeTags", *, width: int = 120, rows_max: int | None = None) -> "Table":
    """A table for a terminal of a width, of the first so many. Where room is scarce it is values that are cut."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    name, value, state = HEAD
    drawn.add_column(name, no_wrap=True, max_width=width * 2 // 3)
    # Only a column that may be broken into lines gives way to the others; its texts then are not broken, but cut.
    drawn.add_column(value)
    drawn.add_column(state, no_wrap=True)
    for first, second, third in rows(nodes, tags)[:rows_max]:
        drawn.add_row(Text(first), Text(second, no_wrap=True, overflow="ellipsis"), Text(third))
    return drawn


def _value_text(node: "Node", tags: "TypeTags") -> str:
    value = node_value(node, tags)
    if "value" not in value:
        return f"{len(node.value)} bytes" if isinstance(node.value, bytes) else ""
    shown = value["value"]
    if isinstance(shown, str):
        text = shown
    elif isinstance(shown, int | float) and not isinstance(shown, bool):
        text = f"{shown:,}"
    else:
        text = json.dumps(shown, ensure_ascii=False)
    return text if len(text) <= _VALUE_CHARACTERS else f"{text[: _VALUE_CHARACTERS - 1]}…"


def _state_text(node: "Node") -> str:
    return "" if node.state.value == "resolved" else {"dirty": "stale", "unset": "no value"}[node.state.value]
