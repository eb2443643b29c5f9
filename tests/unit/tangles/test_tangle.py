"""The structure of a tangle: every answer of a real peer about recorded graphs, and what happens as messages go."""

import random
from typing import Any

import pytest

from bobbin.tangles.errors import UnknownMessage
from bobbin.tangles.message import Message, MessageId, Place
from bobbin.tangles.tangle import Kind, Piece, Removable, Tangle, collation, kind_of_root
from tests.support.tangle_messages import Author
from tests.vectors.load import load

GRAPHS = ["11", "12", "14", "15", "16", "18", "19", "21", "22"]


def node(
    id: MessageId, place: Place | None, tangle: MessageId, *, has_data: bool = True, moot: bool = False
) -> Message:
    """A message of which only the structure matters."""
    return Message(
        id=id,
        raw=b"{}",
        account="account",
        account_tips=None,
        domain="post",
        places={} if place is None else {tangle: place},
        data_hash=None,
        data_size=0,
        sigkey="",
        sig="",
        has_data=has_data and not moot,
        is_root=place is None,
        is_moot=moot,
    )


def nodes_of(graph: dict[str, Any]) -> list[Message]:
    root = graph["rootID"]
    return [
        node(
            entry["id"],
            None if entry["prev"] is None else Place(entry["depth"], tuple(entry["prev"])),
            root,
            moot=entry["id"] == root and graph["root_type"] == "feed",
        )
        for entry in graph["nodes"]
    ]


def line(count: int) -> Tangle:
    """``r`` and so many messages ``1``, ``2``, … one after the other, without links of the long way."""
    tangle = Tangle("r", [node("r", None, "r")])
    before = "r"
    for number in range(1, count + 1):
        tangle.add(node(str(number), Place(number, (before,)), "r"))
        before = str(number)
    return tangle


def star() -> Tangle:
    """A root with three followers, and one message after all of them."""
    followers = [node(name, Place(1, ("r",)), "r") for name in ("b", "a", "C")]
    return Tangle("r", [node("r", None, "r"), *followers, node("z", Place(2, ("C", "a", "b")), "r")])


@pytest.mark.parametrize("number", GRAPHS)
def test_the_answers_of_a_real_peer(number: str) -> None:
    graph = load(f"pzp/tangle/dag-{number}.json")
    nodes = nodes_of(graph)
    tangle = Tangle(graph["rootID"])
    for one in nodes:
        assert tangle.add(one)
        tangle.check()
    assert (len(tangle), tangle.max_depth) == (graph["size"], graph["maxDepth"])
    assert list(tangle.topological()) == graph["topoSort"]
    assert {id: tangle.shortest_path(id) for id in graph["shortestPathToRoot"]} == graph["shortestPathToRoot"]
    for first, second, expected in graph["precedes"]:
        assert tangle.precedes(first, second) is expected
    for given, expected in graph["minimumAmong"]:
        assert tangle.minimum(given) == expected
    for case in graph["deletablesAndErasables"]:
        assert tangle.removable(case["of"]) == Removable(case["deletables"], case["erasables"])
    for case in graph["slices"]:
        found = [
            [piece.id, "dataless" if piece.erased or not tangle.has_data(piece.id) else "dataful"]
            for piece in tangle.slice(case["min"], case["max"])
        ]
        assert found == case["result"]


@pytest.mark.parametrize("number", GRAPHS)
def test_tips_of_a_real_peer(number: str) -> None:
    """A real peer counts a root that comes after its followers as a tip. Here the order of arrival means nothing."""
    graph = load(f"pzp/tangle/dag-{number}.json")
    nodes = nodes_of(graph)
    root = next(one for one in nodes if one.id == graph["rootID"])
    followers = [one for one in nodes if root.id in one.places.get(root.id, Place(1, ())).prev]
    came_late = any(nodes.index(one) < nodes.index(root) for one in followers)
    tips = Tangle(root.id, nodes).tips()
    assert tips == set(graph["tips"]) - ({root.id} if came_late else set())
    random.Random(7).shuffle(nodes)
    assert Tangle(root.id, nodes).tips() == tips


def test_ids_of_one_depth_are_collated_and_not_sorted_by_code_unit() -> None:
    for part in load("pzp/tangle/id-order.json").values():
        if isinstance(part, dict):
            assert sorted(part["by_code_unit"]) == part["by_code_unit"]
            assert sorted(part["by_code_unit"], key=collation) == part["by_locale"]
    assert star().topological() == ["r", "a", "b", "C", "z"]
    assert star().prev("z") == ("C", "a", "b")


def test_kinds_of_tangles() -> None:
    alice = Author("alice")
    moot = alice.moot()
    thread = alice.root({"text": "root"})
    assert [kind_of_root(root) for root in (moot, alice.account, thread)] == [Kind.FEED, Kind.ACCOUNT, Kind.WEAVE]
    assert Tangle(moot.id).kind is None
    assert Tangle(moot.id, [moot]).kind is Kind.FEED


def test_without_its_root_a_tangle_says_nothing() -> None:
    tangle = Tangle("r", [node("a", Place(1, ("r",)), "r")])
    assert (list(tangle.topological()), tangle.tips(), tangle.root, list(tangle.lipmaa_set(3))) == ([], set(), None, [])
    assert not tangle.precedes("r", "a")
    assert tangle.slice(["a"]) == []
    assert tangle.shortest_path("a") == []
    assert tangle.missing_predecessors() == {"r"}
    assert (len(tangle), "a" in tangle, tangle.max_depth) == (1, True, 1)
    with pytest.raises(UnknownMessage, match="root"):
        tangle.next_place()
    tangle.add(node("r", None, "r"))
    assert (list(tangle.topological()), tangle.tips()) == (["r", "a"], {"a"})
    assert tangle.missing_predecessors() == set()


def test_messages_of_other_tangles_are_not_taken() -> None:
    tangle = line(1)
    assert not tangle.add(node("x", Place(1, ("q",)), "q"))
    assert not tangle.add(node("q", None, "q"))
    assert len(tangle) == 2


def test_the_depth_is_the_one_in_this_tangle() -> None:
    alice = Author("alice")
    moot, *posts = alice.feed(3)
    thread = alice.root({"text": "thread"})
    both = alice.post([moot.id, thread.id], {"text": "both"})
    assert Tangle(moot.id, [moot, *posts, both]).depth(both.id) == 4
    assert Tangle(thread.id, [thread, both]).depth(both.id) == 1
    assert Tangle(thread.id, [thread, both]).max_depth_with_data() == 1


def test_slices_of_a_line() -> None:
    tangle = line(6)
    assert tangle.slice(["3", "5"]) == [
        Piece("r", erased=True),
        Piece("1", erased=True),
        Piece("2", erased=True),
        Piece("3", erased=False),
        Piece("5", erased=False),
        Piece("6", erased=False),
    ]
    assert [piece.id for piece in tangle.slice((), ["4"])] == ["r", "1", "2", "3", "4"]
    assert [piece.id for piece in tangle.slice((), ["not here"])] == ["r", "1", "2", "3", "4", "5", "6"]
    assert [piece.id for piece in tangle.slice(["4"], ["4"])] == ["r", "1", "2", "3", "4"]
    assert not any(piece.erased for piece in tangle.slice())


def test_a_slice_holds_every_branch_beside_what_is_asked_for() -> None:
    assert star().slice(["b"]) == [
        Piece("r", erased=True),
        Piece("a", erased=False),
        Piece("b", erased=False),
        Piece("C", erased=False),
        Piece("z", erased=False),
    ]


def test_the_shortest_path_goes_to_the_shallowest_and_first_collated() -> None:
    tangle = star()
    tangle.add(node("y", Place(3, ("b", "r", "z")), "r"))
    assert tangle.shortest_path("z") == ["a", "r"]
    assert tangle.shortest_path("y") == ["r"]
    assert tangle.shortest_path("r") == []
    assert tangle.shortest_path("not here") == []


def test_a_path_ends_where_no_predecessor_is_held() -> None:
    tangle = line(4)
    tangle.discard("2")
    assert tangle.shortest_path("4") == ["3"]
    assert tangle.shortest_path("3") == []
    assert [piece.id for piece in tangle.slice(["4"])] == ["r", "1", "3", "4"]


def test_what_may_go_leaves_the_trail() -> None:
    tangle = Tangle("r", [node("r", None, "r")])
    for number in range(1, 8):
        place = tangle.next_place()
        tangle.add(node(f"m{number}", place, "r"))
    # m7 also comes after m3, and m3 after the root.
    assert tangle.prev("m7") == ("m3", "m6")
    assert tangle.removable(["m7"]) == Removable(["m1", "m2", "m4", "m5", "m6"], ["m3", "r"])


def test_a_new_message_comes_after_the_tips_and_the_long_way() -> None:
    tangle = star()
    assert tangle.next_place() == Place(3, ("r", "z"))
    tangle.add(node("y", Place(2, ("a",)), "r"))
    assert tangle.tips() == {"y", "z"}
    assert tangle.next_place() == Place(3, ("r", "y", "z"))


def test_depths_and_data() -> None:
    tangle = line(4)
    assert tangle.max_depth_with_data() == 4
    assert tangle.erase("4")
    assert not tangle.erase("4")
    assert not tangle.erase("not here")
    assert (tangle.max_depth, tangle.max_depth_with_data(), tangle.has_data("4")) == (4, 3, False)
    assert tangle.add(node("4", Place(4, ("3",)), "r"))
    assert not tangle.add(node("4", Place(4, ("3",)), "r"))
    assert not tangle.add(node("4", Place(4, ("3",)), "r", has_data=False))
    assert tangle.max_depth_with_data() == 4
    assert tangle.between(1, 2) == ["1", "2"]
    assert tangle.between(3, 99) == ["3", "4"]
    assert tangle.between(3, 2) == []
    assert list(tangle.at_depth(9)) == []
    assert Tangle("r", [node("r", None, "r", moot=True)]).max_depth_with_data() == 0
    tangle.check()


def test_a_depth_without_end_costs_nothing() -> None:
    tangle = line(2)
    tangle.add(node("far", Place(2**53 - 1, ("2",)), "r"))
    assert list(tangle.topological()) == ["r", "1", "2", "far"]
    assert tangle.between(0, 2**53) == ["r", "1", "2", "far"]
    assert tangle.shortest_path("far") == ["2", "1", "r"]


def test_a_predecessor_that_came_later_may_be_deeper() -> None:
    tangle = line(1)
    tangle.add(node("x", Place(2, ("1", "late")), "r"))
    tangle.add(node("late", Place(9, ("1",)), "r"))
    assert tangle.precedes("late", "x")
    assert tangle.shortest_path("x") == ["1", "r"]
    assert tangle.minimum(["x", "late"]) == ["late"]
    tangle.check()


def test_deleting_uncovers_tips() -> None:
    tangle = star()
    assert tangle.discard("z")
    assert not tangle.discard("z")
    assert tangle.tips() == {"a", "b", "C"}
    assert list(tangle.topological()) == ["r", "a", "b", "C"]
    tangle.check()
    tangle.discard("a")
    tangle.discard("b")
    tangle.discard("C")
    assert tangle.tips() == {"r"}
    tangle.discard("r")
    assert (len(tangle), tangle.root, tangle.max_depth) == (0, None, 0)
    tangle.check()


def test_every_change_is_counted() -> None:
    tangle = line(2)
    counts = [tangle.changes]
    tangle.erase("2")
    counts.append(tangle.changes)
    tangle.discard("2")
    counts.append(tangle.changes)
    tangle.add(node("3", Place(2, ("1",)), "r"))
    counts.append(tangle.changes)
    assert len(set(counts)) == 4
    tangle.discard("not here")
    assert tangle.changes == counts[-1]


def test_what_the_changes_were_about_is_known_for_a_while() -> None:
    tangle = line(2)
    assert tangle.changed_since(0) == ["r", "1", "2"]
    before = tangle.changes
    assert tangle.changed_since(before) == []
    tangle.erase("2")
    tangle.add(node("2", Place(2, ("1",)), "r"))
    tangle.discard("2")
    tangle.place("3", Place(2, ("1",)), has_data=True)
    assert tangle.changed_since(before) == ["2", "2", "2", "3"]
    for _ in range(200):
        tangle.discard("3")
        tangle.place("3", Place(2, ("1",)), has_data=True)
    assert tangle.changed_since(before) is None
    assert tangle.changed_since(tangle.changes - 20) == ["3"] * 20
    tangle.check()


def test_places_alone_make_the_same_structure() -> None:
    whole, bare = star(), Tangle("r", [node("r", None, "r")])
    for id in whole:
        if id != "r":
            bare.place(id, Place(whole.depth(id) or 0, whole.prev(id)), has_data=whole.has_data(id))
    assert bare.topological() == whole.topological()
    assert bare.tips() == whole.tips()
    bare.check()
    with pytest.raises(UnknownMessage):
        bare.prev("not here")


def test_the_root_is_kept_as_it_is_held() -> None:
    alice = Author("alice")
    thread = alice.root({"text": "root"})
    tangle = Tangle(thread.id, [thread.erased()])
    assert tangle.root is not None
    assert not tangle.root.has_data
    tangle.add(thread)
    assert tangle.root == thread
    tangle.erase(thread.id)
    assert tangle.root == thread.erased()
