"""Parts and whether they join."""

from bobbin.pipeline.reading.parts import (
    PART_BYTES_MAX,
    PART_BYTES_MIN,
    TASK_FILES_MAX,
    UNREAD,
    Part,
    Tally,
    cut,
    judge,
    part_bytes,
    tasks,
)
from bobbin.pipeline.reading.sources import Form, Source


def part(number: int, begin: int, end: int, spent: int = 0) -> Part:
    return Part(number=number, source=0, begin=begin, end=end, spent=spent)


def tally(number: int, end: int, spent: int = 0, slack: int = 1000) -> Tally:
    return Tally(part=number, records=0, rejected=0, end=end, spent=spent, slack=slack)


def test_parts_that_join_are_left_alone() -> None:
    parts = [part(0, 0, 10), part(1, 10, 20), part(2, 20, 30)]
    assert judge(parts, {0: tally(0, 10), 1: tally(1, 20), 2: tally(2, 30)}) == parts


def test_a_part_that_begins_too_early_is_read_again_from_the_end_of_the_one_before() -> None:
    parts = [part(0, 0, 10), part(1, 10, 20), part(2, 20, 30)]
    again = judge(parts, {0: tally(0, 13), 1: tally(1, 20), 2: tally(2, 30)})
    assert again == [parts[0], part(UNREAD, 13, 20), parts[2]]


def test_a_part_inside_the_one_before_is_gone() -> None:
    parts = [part(0, 0, 10), part(1, 10, 20), part(2, 20, 30)]
    assert judge(parts, {0: tally(0, 25), 1: tally(1, 20), 2: tally(2, 30)}) == [parts[0], part(UNREAD, 25, 30)]


def test_a_part_behind_an_unsettled_one_is_kept_until_that_one_is_settled() -> None:
    parts = [part(0, 0, 10), part(1, 10, 20), part(2, 20, 30)]
    first = judge(parts, {0: tally(0, 15), 1: tally(1, 30), 2: tally(2, 30)})
    assert first == [parts[0], part(UNREAD, 15, 20), parts[2]]
    read = [parts[0], part(3, 15, 20), parts[2]]
    assert judge(read, {0: tally(0, 15), 3: tally(3, 20), 2: tally(2, 30)}) == read


def test_what_was_spent_before_must_be_within_the_slack() -> None:
    parts = [part(0, 0, 10), part(1, 10, 20)]
    assert judge(parts, {0: tally(0, 10, spent=5), 1: tally(1, 20, slack=5)}) == parts
    again = judge(parts, {0: tally(0, 10, spent=6), 1: tally(1, 20, slack=5)})
    assert again == [parts[0], part(UNREAD, 10, 20, spent=6)]
    exact = [parts[0], part(2, 10, 20, spent=6)]
    assert judge(exact, {0: tally(0, 10, spent=6), 2: tally(2, 20, slack=0)}) == exact
    # More was taken into account than was spent: the answers may be others.
    assert judge(exact, {0: tally(0, 10, spent=5), 2: tally(2, 20)})[1].number == UNREAD


def test_ranges_tile_a_source() -> None:
    source = Source(name="x", form=Form.BUNDLE, size=25, stamp=1)
    assert cut(source, 10) == [(0, 10), (10, 20), (20, 25)]
    assert cut(Source(name="x", form=Form.BUNDLE, size=0, stamp=1), 10) == []


def test_a_lace_is_cut_by_positions() -> None:
    lace = Source(name="x", form=Form.LACE, size=1000, stamp=0, positions=50)
    assert cut(lace, 500) == [(0, 25), (25, 50)]
    assert cut(Source(name="x", form=Form.LACE, size=4096, stamp=0), 500) == []


def test_parts_are_neither_tiny_nor_huge() -> None:
    assert part_bytes(0, 2) == PART_BYTES_MIN
    assert part_bytes(1 << 40, 2) == PART_BYTES_MAX
    assert part_bytes(160 << 20, 2) == 20 << 20


def test_small_files_share_a_task_and_no_task_has_too_many() -> None:
    files = [part(number, 0, 3) for number in range(5)]
    assert [len(task) for task in tasks(files, 7)] == [2, 2, 1]
    assert [len(task) for task in tasks([part(0, 0, 100), part(1, 0, 1)], 7)] == [1, 1]
    many = [part(number, 0, 0) for number in range(TASK_FILES_MAX + 1)]
    assert [len(task) for task in tasks(many, 7)] == [TASK_FILES_MAX, 1]
    assert list(tasks([], 7)) == []
