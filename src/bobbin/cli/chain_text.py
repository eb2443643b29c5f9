"""What keys of a set of shards hold: for people on a line, for programs as JSON."""

import base64
from typing import TYPE_CHECKING

from bobbin.cli.chain_asking import shown
from bobbin.cli.output import Json

if TYPE_CHECKING:
    from bobbin.cluster.chain.versions import Item


def name_of(key: bytes) -> str:
    """A key as a name in JSON."""
    return key.decode("utf-8", "backslashreplace")


def words_of(item: "Item") -> str:
    """What a key holds, for people."""
    from bobbin.cluster.chain.holdings import Holds, parts_of, vector_of

    match item.holds:
        case Holds.SET:
            return f"(a set: {', '.join(shown(member) for member in parts_of(item.value))})"
        case Holds.VECTOR:
            return f"(a vector of {vector_of(item.value).dimension:,} dimensions)"
        case Holds.NODE:
            return f"(a node of a graph: {shown(item.value)})"
        case _:
            return shown(item.value)


def held(item: "Item | None") -> Json:
    """What a key holds, for programs: what is no text stands under a name that says what it is."""
    from bobbin.cluster.chain.holdings import Holds, parts_of, vector_of

    if item is None:
        return None
    match item.holds:
        case Holds.SET:
            return {"set": [value_of(member) for member in parts_of(item.value)]}
        case Holds.VECTOR:
            vector = vector_of(item.value)
            return {
                "vector": {
                    "dimension": vector.dimension,
                    "positions": list(vector.positions),
                    "values": list(vector.values),
                }
            }
        case Holds.NODE:
            return {"node": value_of(item.value)}
        case _:
            return value_of(item.value)


def value_of(data: bytes | None) -> Json:
    """Text where it is text, else in base64 under a name that says so."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}
