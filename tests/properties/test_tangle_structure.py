"""Laws of tangles: each operation against its plain definition, on graphs with branches, gaps and wrong depths."""

from collections.abc import Sequence
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from bobbin.tangles.lipmaa import lipmaa_depth
from bobbin.tangles.message import Message, MessageId, Place
from bobbin.tangles.tangle import Piece, Removable, Tangle, collation

ROOT = "R"
NAMES = [first + second for first in "aBcDeF1" for second in "xY2"]


class Node(NamedTuple):
    """One message, as far as structure goes."""

    id: MessageId
    depth: int
    prev: tuple[MessageId, ...]
    has_data: bool

    def message(self) -> Message:
        is_root = self.id == ROOT
        return Message(
            id=self.id,
            raw=b"{}",
            account="account",
            account_tips=None,
            domain="post",
            places={} if is_root else {ROOT: Place(self.depth, self.prev)},
            data_hash=None,
            data_size=0,
            sigkey="",
            sig="",
            has_data=self.has_data,
            is_root=is_root,
            is_moot=False,
        )


@st.composite
def graphs(draw: st.DrawFn) -> list[Node]:
    """A root and messages after it, some with wrong depths, some after messages that nobody has."""
    nodes = [Node(ROOT, 0, (), has_data=True)]
    for name in draw(st.permutations(NAMES))[: draw(st.integers(0, 14))]:
        before = draw(st.lists(st.sampled_from(nodes), min_size=1, max_size=3, unique=True))
        prev = {node.id for node in before}
        depth = 1 + max(node.depth for node in before)
        if draw(st.integers(0, 5)) == 0:
            prev.add(draw(st.sampled_from(["unknown", "zz"])))
            depth += draw(st.integers(-1, 3))
        nodes.append(Node(name, max(1, depth), tuple(sorted(prev)), has_data=draw(st.integers(0, 4)) > 0))
    return draw(st.permutations(nodes))


class Plain:
    """The definitions, taken literally."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = {node.id: node for node in nodes}
        self.order = [
            node.id for node in sorted(nodes, key=lambda node: (node.depth, collation(node.id))) if ROOT in self.nodes
        ]

    def precedes(self, first: MessageId, second: MessageId) -> bool:
        node = self.nodes.get(second)
        if ROOT not in self.nodes or node is None:
            return False
        return any(before == first or self.precedes(first, before) for before in node.prev)

    def minimum(self, ids: Sequence[MessageId]) -> list[MessageId]:
        return [id for id in dict.fromkeys(ids) if not any(self.precedes(other, id) for other in ids)]

    def path(self, id: MessageId) -> list[MessageId]:
        found: list[MessageId] = []
        while ROOT in self.nodes and id in self.nodes and id != ROOT:
            ranked = [(self.nodes[one].depth, collation(one), one) for one in self.nodes[id].prev if one in self.nodes]
            best = min([*ranked, (self.nodes[id].depth, collation(id), id)])[2]
            if best == id:
                break
            found.append(best)
            id = best
        return found

    def trail(self, ids: Sequence[MessageId]) -> set[MessageId]:
        return {step for id in self.minimum(ids) for step in self.path(id)}

    def slice(self, least: Sequence[MessageId], greatest: Sequence[MessageId]) -> list[Piece]:
        least = [id for id in least if id in self.nodes]
        greatest = [id for id in greatest if id in self.nodes]
        trail = self.trail(least)
        pieces: list[Piece] = []
        for id in self.order:
            if id in trail:
                pieces.append(Piece(id, erased=True))
            if id not in least and any(self.precedes(id, one) for one in least):
                continue
            if id not in greatest and any(self.precedes(one, id) for one in greatest):
                continue
            pieces.append(Piece(id, erased=False))
        return pieces


def some_ids(nodes: Sequence[Node]) -> st.SearchStrategy[list[MessageId]]:
    return st.lists(st.sampled_from([node.id for node in nodes]), max_size=5)


def check_against(tangle: Tangle, nodes: Sequence[Node], data: st.DataObject) -> None:
    plain = Plain(nodes)
    tangle.check()
    assert list(tangle.topological()) == plain.order
    assert len(tangle) == len(nodes)
    named = {before for node in nodes for before in node.prev}
    assert tangle.tips() == ({node.id for node in nodes if node.id not in named} if ROOT in plain.nodes else set())
    assert tangle.missing_predecessors() == named - set(plain.nodes)
    assert tangle.max_depth == max((node.depth for node in nodes), default=0)
    assert tangle.max_depth_with_data() == max((node.depth for node in nodes if node.has_data), default=0)
    low, high = sorted(data.draw(st.tuples(st.integers(0, 9), st.integers(0, 9))))
    assert set(tangle.between(low, high)) == {node.id for node in nodes if low <= node.depth <= high}
    if not nodes:
        return
    least, greatest = data.draw(some_ids(nodes)), data.draw(some_ids(nodes))
    for first in least:
        for second in greatest:
            assert tangle.precedes(first, second) == plain.precedes(first, second)
    assert [tangle.shortest_path(id) for id in least] == [plain.path(id) for id in least]
    if ROOT in plain.nodes:
        assert tangle.minimum(least) == plain.minimum(least)
        trail = plain.trail(least)
        assert tangle.removable(least) == Removable(
            [
                id
                for id in plain.order
                if id not in trail and any(plain.precedes(id, one) for one in plain.minimum(least))
            ],
            tangle.trail(least),
        )
        assert set(tangle.trail(least)) == trail
    assert tangle.slice(least, greatest) == plain.slice(least, greatest)


@given(graphs(), st.data())
def test_every_operation_is_what_it_is_defined_to_be(nodes: list[Node], data: st.DataObject) -> None:
    tangle = Tangle(ROOT)
    for node in nodes:
        assert tangle.add(node.message())
    check_against(tangle, nodes, data)


@given(graphs(), st.data())
def test_what_went_was_never_there(nodes: list[Node], data: st.DataObject) -> None:
    tangle = Tangle(ROOT, [node.message() for node in nodes])
    gone = data.draw(st.sets(st.sampled_from([node.id for node in nodes])))
    # The texts of these messages are empty, so the root, which a tangle keeps whole, cannot be erased.
    erased = data.draw(st.sets(st.sampled_from([node.id for node in nodes]))) - {ROOT}
    for id in sorted(gone | erased):
        if id in erased:
            tangle.erase(id)
        if id in gone:
            assert tangle.discard(id)
    left = [node._replace(has_data=node.has_data and node.id not in erased) for node in nodes if node.id not in gone]
    check_against(tangle, left, data)
    for node in nodes:
        if node.id in gone:
            tangle.add(node.message())
    check_against(tangle, [*left, *(node for node in nodes if node.id in gone)], data)


@given(st.integers(1, 60), st.integers(0, 2**32))
def test_every_message_written_in_order_reaches_the_root_in_few_steps(count: int, seed: int) -> None:
    tangle = Tangle(ROOT, [Node(ROOT, 0, (), has_data=True).message()])
    for number in range(count):
        place = tangle.next_place()
        assert place.depth == number + 1
        assert list(place.prev) == sorted(place.prev)
        assert {tangle.depth(before) for before in place.prev} == {number, lipmaa_depth(place.depth)}
        tangle.add(Node(f"m{(number * 7919 + seed) % 1_000_003}", place.depth, place.prev, has_data=True).message())
    (tip,) = tangle.tips()
    path = tangle.shortest_path(tip)
    assert path[-1] == ROOT
    assert len(path) <= 2 * count.bit_length() + 2
