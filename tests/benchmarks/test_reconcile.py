"""The two sides of the reconciliation benchmark differ as they are said to, and what is counted is what was carried."""

from xml.etree import ElementTree as ET

import pytest

from benchmarks.reconcile import index_ratios, side_ratios
from benchmarks.reconcile_index import main as measure_index
from benchmarks.reconcile_plot import draw
from benchmarks.reconcile_sides import Kind, Told, listing_bytes, make, sides_of, talk
from bobbin.interlace.choice import Strategy


@pytest.mark.parametrize("kind", [Kind.SCATTERED, Kind.RECENT])
@pytest.mark.parametrize("differences", [0, 1, 2, 11])
def test_so_many_names_are_only_on_one_side(kind: Kind, differences: int) -> None:
    material = make(100, differences, kind)
    left, right = (set(names) for names in material.sides)
    assert len(left ^ right) == differences
    assert abs(len(left - right) - len(right - left)) <= 1
    assert set(material.moments) == left | right
    newest = sorted(material.moments.values())[-differences:] if differences else []
    apart = sorted(material.moments[name] for name in left ^ right)
    assert (apart == newest) is (kind is Kind.RECENT or not differences)


def test_one_side_has_nothing() -> None:
    left, right = make(10, 0, Kind.EMPTY).sides
    assert (len(left), len(right)) == (0, 10)


@pytest.mark.parametrize("strategy", list(Strategy))
def test_every_strategy_finds_out_and_is_counted(strategy: Strategy) -> None:
    material = make(400, 20, Kind.SCATTERED)
    told = talk(sides_of(material), strategy)
    assert told.records_listed >= 20
    assert told.identify_bytes > 0
    assert told.list_bytes > 20 * 30
    assert 1 <= told.identify_turns <= told.turns
    if strategy is Strategy.LISTING:
        assert told.list_bytes == listing_bytes(material)
        assert told.records_listed == 800


@pytest.mark.parametrize("strategy", [Strategy.PARTITIONS, Strategy.LISTING])
def test_the_plot_compares_ways_that_are_all_compressed(strategy: Strategy) -> None:
    material = make(400, 20, Kind.SCATTERED)
    plain, capable = (talk(sides_of(material), strategy, capable=one) for one in (False, True))
    assert capable.way == strategy.value
    assert 2 * capable.bytes < plain.bytes
    assert talk(sides_of(material), Strategy.AUTO).bytes < capable.bytes


def test_times_are_told_where_rules_read_them() -> None:
    same, timed = make(1_500, 200, Kind.RECENT), make(1_500, 200, Kind.RECENT, Told.TIME)
    assert len({same.fields(name) for name in same.moments}) == 1
    assert len({timed.fields(name) for name in timed.sides[0]}) == 1_500
    assert not same.times(same.sides[0]).any()
    assert talk(sides_of(same), Strategy.AUTO).way == "sketch"
    assert talk(sides_of(timed), Strategy.AUTO).way == "ranges"


def test_each_side_is_held_against_the_same_side_of_the_peer() -> None:
    ours, theirs = [[1.0, 2.0], [3.0, 1.0]], [[4.0, 4.0], [4.0, 5.0]]
    assert side_ratios(ours, theirs, 0) == [0.25, 0.75]
    assert side_ratios(ours, theirs, 1) == [0.2, 0.5]


def test_both_readings_of_the_bar_of_the_index() -> None:
    assert index_ratios({"build": [7.0], "blake3": [2.0], "sort": [1.0], "add": [0.7]}) == (3.0, 2.33, 0.1)


def test_an_exchange_after_another_starts_from_its_cursor() -> None:
    sides = sides_of(make(400, 0, Kind.UNCHANGED))
    talk(sides, Strategy.AUTO)
    told = talk(sides, Strategy.AUTO)
    assert (told.way, told.records_listed) == ("known", 0)


@pytest.mark.parametrize("told", Told)
def test_the_index_is_measured_in_every_round(told: Told) -> None:
    seconds = measure_index(50, 2, told)
    assert {name: len(some) for name, some in seconds.items()} == dict.fromkeys(("blake3", "sort", "build", "add"), 2)


def test_the_picture_is_an_svg_with_a_line_for_each_strategy() -> None:
    lines = {"a & b": [(2, 100), (200, 5_000)], "choice": [(2, 90), (200, 4_000)]}
    image = ET.fromstring(draw({"one": lines, "another": lines}, emphasised="choice"))
    names = [element.tag.rpartition("}")[2] for element in image.iter()]
    assert names.count("polyline") == 4
    assert names.count("circle") == 8
    texts = [element.text for element in image.iter() if element.tag.endswith("text")]
    assert {"a & b", "choice", "one", "another", "10 kB", "100"} <= set(texts)
