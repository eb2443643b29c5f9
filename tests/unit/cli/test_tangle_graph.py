"""Drawings of tangles."""

from itertools import pairwise

from bobbin.cli.tangle_graph import Line, draw, nearest
from bobbin.tangles.tangle import Tangle
from tests.support.tangle_messages import Author


def drawing(order: str, parents: dict[str, str]) -> list[str]:
    lines = draw(order, {id: list(before) for id, before in parents.items()}, lambda _: "●")
    assert [line.message for line in lines if line.message] == list(order)
    return [f"{line.drawing} {line.message}" if line.message else line.drawing for line in lines]


def test_a_line() -> None:
    assert drawing("abc", {"b": "a", "c": "b"}) == ["● a", "● b", "● c"]


def test_a_fork_that_is_joined() -> None:
    assert drawing("abcd", {"b": "a", "c": "a", "d": "bc"}) == [
        "● a",
        "├─╮",
        "● │ b",
        "│ ● c",
        "├─╯",
        "● d",
    ]


def test_a_star() -> None:
    assert drawing("abcd", {"b": "a", "c": "a", "d": "a"})[:3] == ["● a", "├─╮", "├─┼─╮"]


def test_lines_that_cross() -> None:
    assert drawing("abcdef", {"b": "a", "c": "a", "d": "bc", "e": "c", "f": "de"}) == [
        "● a",
        "├─╮",
        "● │ b",
        "│ ● c",
        "├─┤",
        "● │ d",
        "│ ● e",
        "├─╯",
        "● f",
    ]


def test_nothing() -> None:
    assert draw([], {}, lambda _: "●") == []


def test_a_predecessor_that_is_not_held_is_not_drawn() -> None:
    assert draw(["b"], {"b": []}, lambda _: "○") == [Line("○", "b")]


def test_links_that_shorten_the_way_are_left_out() -> None:
    alice = Author("alice")
    feed = alice.feed(8)
    tangle = Tangle(feed[0].id, feed)
    assert any(len(tangle.prev(message.id)) > 1 for message in feed)
    joined = {after.id: [before.id] for before, after in pairwise(feed)}
    assert nearest(tangle) == joined | {feed[0].id: []}
