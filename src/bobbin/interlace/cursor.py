"""What is remembered of a peer between two exchanges: its last accepted advertisements. Local state, no proof."""

from msgspec import Struct

from bobbin.interlace.messages import Advertisement
from bobbin.interlace.schema import Schema


class Cursor(Struct, frozen=True, kw_only=True):
    """The peer's advertisement state at the end of an exchange, under one plan, source label and field schema."""

    key: str
    """The name of the link, or a local key where a side has proven nothing."""
    plan: str
    source: str
    schema: Schema
    advertisements: tuple[Advertisement, ...]
    root: bytes = b""
    """Of the index of these claims; empty where nobody has made one. It saves hashing them all to say what is held."""
