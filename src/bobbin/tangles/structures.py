"""Sets and dicts in feeds: what they hold, and which messages of them still matter.

Each message of a set adds and removes values, each of a dict gives fields new values; both say which earlier messages
they *supersede*. What has been superseded is needed by nobody. The least depth of what has not been is the depth from
which on the messages are needed.
"""

from collections.abc import Callable, Iterator
from typing import Final

from bobbin.tangles.canonical import Json, canonical
from bobbin.tangles.message import MessageId
from bobbin.tangles.tangle import Tangle

SET_DOMAIN_PREFIX: Final = "set_v1__"
DICT_DOMAIN_PREFIX: Final = "dict_v1__"
SPAN_DEFAULT: Final = 32
"""How many depths below the needed ones deleted messages are remembered as ghosts."""


def min_required_depth(tangle: Tangle, data: Callable[[MessageId], Json]) -> int | None:
    """The least depth of a message that nothing supersedes; 0 without a root, ``None`` if no message has data."""
    if tangle.root is None:
        return 0
    roots: dict[MessageId, None] = {}
    for id, content in _contents(tangle, data):
        superseded = content.get("supersedes")
        for gone in superseded if isinstance(superseded, list) else ():
            if isinstance(gone, str):
                roots.pop(gone, None)
        roots[id] = None
    depths = [depth for id in roots if (depth := tangle.depth(id)) is not None]
    return min(depths, default=None)


def set_values(tangle: Tangle, data: Callable[[MessageId], Json]) -> list[Json]:
    """The values of a set, in the order in which they came in."""
    values: dict[bytes, Json] = {}
    for _, content in _contents(tangle, data):
        added, removed, superseded = content.get("add"), content.get("del"), content.get("supersedes")
        if not isinstance(added, list) or not isinstance(removed, list) or not isinstance(superseded, list):
            continue
        for value in added:
            values.setdefault(canonical(value), value)
        for value in removed:
            values.pop(canonical(value), None)
    return list(values.values())


def dict_values(tangle: Tangle, data: Callable[[MessageId], Json]) -> dict[str, Json]:
    """The fields of a dict, each with its latest value."""
    fields: dict[str, Json] = {}
    for _, content in _contents(tangle, data):
        update, superseded = content.get("update"), content.get("supersedes")
        if isinstance(update, dict) and isinstance(superseded, list):
            fields.update(update)
    return fields


def _contents(tangle: Tangle, data: Callable[[MessageId], Json]) -> Iterator[tuple[MessageId, dict[str, Json]]]:
    """The messages that have data, in topological order. Encrypted data says nothing here, but is counted."""
    for id in tangle.topological():
        if tangle.has_data(id):
            content = data(id)
            yield id, content if isinstance(content, dict) else {}
