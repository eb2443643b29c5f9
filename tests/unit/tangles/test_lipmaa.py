"""The long way back, against the table of a real peer."""

from bobbin.tangles.lipmaa import lipmaa, lipmaa_depth
from tests.vectors.load import load


def test_the_table_of_a_real_peer() -> None:
    rows = load("pzp/lipmaa/lipmaa.json")["rows"]
    assert len(rows) == 300
    assert [[depth, lipmaa_depth(depth)] for depth, _ in rows] == rows


def test_the_values_that_are_written_down() -> None:
    known = {1: 0, 2: 1, 3: 0, 4: 3, 5: 4, 6: 5, 7: 3, 8: 7, 11: 7, 12: 3, 16: 12, 25: 12, 39: 12}
    assert {depth: lipmaa_depth(depth) for depth in known} == known


def test_the_way_back_is_short() -> None:
    depth, steps = 1_000_000, 0
    while depth:
        assert 0 <= lipmaa_depth(depth) < depth
        depth, steps = lipmaa_depth(depth), steps + 1
    assert steps < 60
    assert lipmaa(1) == 0
