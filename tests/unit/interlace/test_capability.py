"""The capability: told by a limit that nobody else knows, and one key for both sides."""

from bobbin.interlace.capability import NAME, agree_key
from bobbin.interlace.limits import NAMES
from bobbin.interlace.messages import Hello
from bobbin.interlace.schema import Schema
from bobbin.reconcile import KEY_BYTES


def hello(share: int | None) -> Hello:
    return Hello(plan="E.x", tai="0", tick_interval_ns=1, formats=frozenset({"H3"}), schema=Schema(), reconcile=share)


def test_both_sides_find_the_same_key() -> None:
    key = agree_key(hello(7), hello(9), initiator=True)
    assert key is not None
    assert len(key) == KEY_BYTES
    assert key == agree_key(hello(9), hello(7), initiator=False)


def test_either_share_changes_the_key() -> None:
    pairs = [(7, 9), (9, 7), (7, 8), (8, 9), (2**64 - 1, 1)]
    assert len({agree_key(hello(own), hello(peer), initiator=True) for own, peer in pairs}) == len(pairs)


def test_without_both_there_is_no_key() -> None:
    assert agree_key(hello(None), hello(9), initiator=True) is None
    assert agree_key(hello(7), hello(None), initiator=True) is None


def test_its_name_is_none_of_the_protocol() -> None:
    assert NAME not in NAMES
