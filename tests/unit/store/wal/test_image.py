import pytest

from bobbin.cluster.names import Index, Term
from bobbin.cluster.raft.effects import Append, Cut, DurableRecord, Reset
from bobbin.cluster.raft.events import Recovered
from bobbin.errors import IntegrityError, UsageError
from bobbin.store.wal.image import LogImage, Outline, check_contiguous
from tests.support.log_records import HISTORY, NODE, OTHER, append, entry, expected, metadata, truncate, vote


def _image(*records: DurableRecord) -> LogImage:
    image = LogImage()
    for record in records:
        image.replay(record)
    return image


def cut(first_index: int, last_index: int, term: int = 1) -> Cut:
    return Cut(Index(first_index), metadata(last_index, term=term))


def test_a_history_adds_up() -> None:
    image = LogImage()
    assert image.recovered() == Recovered()
    for count, records in enumerate(HISTORY, 1):
        for record in records:
            image.replay(record)
        assert image.recovered() == expected(HISTORY[:count])
    assert (image.first_index, image.last_index, image.last_term) == (1, 5, 3)
    held = image.held()
    assert (held.term, held.voted_for, held.first_index, held.last_index) == (3, None, 1, 5)


def test_the_highest_term_wins_and_its_first_vote_stays() -> None:
    image = _image(vote(3, NODE), vote(2, OTHER))
    assert (image.term, image.voted_for) == (3, NODE)
    image.replay(vote(3, OTHER))
    assert (image.term, image.voted_for) == (3, NODE)
    image.replay(vote(3))
    assert (image.term, image.voted_for) == (3, NODE)
    image.replay(vote(4))
    assert (image.term, image.voted_for) == (4, None)
    image.replay(vote(4, OTHER))
    image.replay(vote(4, NODE))
    assert (image.term, image.voted_for) == (4, OTHER)


def test_truncations_count_in_their_order() -> None:
    assert _image(append(1, 5), truncate(3), append(3, 3, 2)).recovered() == Recovered(
        entries=(entry(1), entry(2), entry(3, 2))
    )
    assert _image(append(1, 5), truncate(6)).last_index == 5
    assert _image(append(1, 5), truncate(1)).entries == []


def test_an_entry_takes_the_place_of_an_older_one_and_of_what_followed() -> None:
    assert _image(append(1, 5), append(2, 3, 2)).entries == [entry(1), entry(2, 2), entry(3, 2)]


def test_a_cut_and_a_reset() -> None:
    image = _image(append(1, 10), cut(7, 9))
    assert (image.first_index, image.last_index, image.last_term) == (7, 10, 1)
    assert image.entries == [entry(7), entry(8), entry(9), entry(10)]
    image.replay(Reset(metadata(40, term=6)))
    assert (image.first_index, image.last_index, image.last_term, image.entries) == (41, 40, 6, [])
    image.replay(append(41, 41, 6))
    assert image.last_index == 41
    assert _image(append(1, 3), cut(4, 3)).last_term == 1


@pytest.mark.parametrize(
    "record",
    [
        append(7, 7),
        append(2, 2),
        Append((entry(6), entry(8))),
        truncate(2),
        truncate(7),
        cut(2, 4),
        cut(7, 6),
        cut(6, 4),
        cut(7, 9),
    ],
)
def test_what_leaves_a_gap_is_no_log(record: DurableRecord) -> None:
    image = _image(append(1, 5), cut(3, 4))
    with pytest.raises(IntegrityError):
        image.replay(record)


def test_a_copy_changes_on_its_own() -> None:
    image = _image(vote(1, NODE), append(1, 5))
    other = image.copy()
    other.replay(truncate(2))
    other.replay(vote(2))
    assert image.recovered() == expected([(vote(1, NODE), append(1, 5))])
    assert other.recovered() == expected([(vote(2), append(1, 1))])


def test_a_newer_snapshot_keeps_entries_where_the_log_agrees() -> None:
    image = _image(append(1, 10))
    image.stand_on(metadata(8))
    assert (image.first_index, image.last_index, image.snapshot) == (1, 10, metadata(8))


@pytest.mark.parametrize("newer", [metadata(11), metadata(40, term=5), metadata(8, term=5)])
def test_a_newer_snapshot_takes_the_place_of_a_log_that_disagrees_or_is_shorter(newer: object) -> None:
    image = _image(append(1, 10))
    assert isinstance(newer, type(metadata(1)))
    image.stand_on(newer)
    assert (image.first_index, image.entries, image.snapshot) == (newer.last_index + 1, [], newer)


def test_an_older_snapshot_right_before_the_entries_keeps_them() -> None:
    image = _image(append(1, 10), cut(7, 9))
    image.stand_on(metadata(6))
    assert (image.first_index, image.last_index, image.snapshot) == (7, 10, metadata(6))


def test_without_a_snapshot_entries_stay_only_if_all_are_there() -> None:
    whole = _image(append(1, 10), cut(1, 9))
    whole.lose_snapshot()
    assert (whole.last_index, whole.snapshot, whole.lost) == (10, None, None)
    image = _image(vote(3, NODE), append(1, 10), cut(7, 9))
    image.lose_snapshot()
    assert image.recovered() == Recovered(term=Term(3), voted_for=NODE, lost=(Term(1), Index(10)))
    bare = _image(Reset(metadata(40, term=6)))
    bare.lose_snapshot()
    assert (bare.lost, bare.last_index) == ((6, 40), 0)


def test_what_was_lost_is_missed_until_the_log_has_come_as_far_again() -> None:
    image = _image(append(1, 10), cut(7, 9))
    image.lose_snapshot()
    image.replay(append(1, 9))
    assert image.lost == (1, 10)
    longer, newer, jumped = image.copy(), image.copy(), image.copy()
    longer.replay(append(10, 10))
    newer.replay(append(10, 10, 2))
    jumped.replay(Reset(metadata(10)))
    assert (longer.lost, newer.lost, jumped.lost) == (None, None, None)
    image.replay(append(1, 1, 2))
    assert image.lost is None


def test_a_greater_loss_is_not_forgotten_for_a_smaller_one() -> None:
    image = _image(append(1, 10), cut(7, 9))
    image.lose_snapshot()
    image.replay(append(1, 5))
    image.replay(cut(5, 5))
    image.lose_snapshot()
    assert image.lost == (1, 10)


@pytest.mark.parametrize(
    "record",
    [
        vote(2, NODE),
        vote(3),
        vote(3, OTHER),
        append(12, 12),
        append(10, 10),
        Append((entry(11), entry(13))),
        truncate(9),
        truncate(12),
        cut(6, 9),
        cut(11, 9),
        cut(7, 11),
        cut(7, 8),
        cut(7, 0),
        Reset(metadata(8)),
    ],
)
def test_what_a_machine_must_not_write_is_refused(record: DurableRecord) -> None:
    outline = Outline(_image(vote(3, NODE), append(1, 10), cut(7, 9)))
    before = [getattr(outline, name) for name in Outline.__slots__]
    with pytest.raises(UsageError):
        outline.take(record)
    assert [getattr(outline, name) for name in Outline.__slots__] == before


@pytest.mark.parametrize(
    "record",
    [
        vote(3, NODE),
        vote(4),
        vote(4, OTHER),
        append(11, 13),
        Append(()),
        truncate(10),
        truncate(11),
        cut(7, 9),
        cut(10, 9),
        cut(11, 10),
        cut(8, 10),
        Reset(metadata(9)),
        Reset(metadata(40)),
    ],
)
def test_an_outline_and_an_image_go_the_same_way(record: DurableRecord) -> None:
    image = _image(vote(3, NODE), append(1, 10), cut(7, 9))
    outline = Outline(image)
    copied = outline.copy()
    outline.take(record)
    image.replay(record)
    assert all(getattr(outline, name) == getattr(Outline(image), name) for name in Outline.__slots__)
    assert (copied.last_index, copied.term, copied.first_index) == (10, 3, 7)


def test_a_first_vote_may_follow_in_a_term_that_has_none() -> None:
    outline = Outline(_image(vote(3)))
    outline.take(vote(3, OTHER))
    with pytest.raises(UsageError, match="must not follow"):
        outline.take(vote(3, NODE))


def test_entries_follow_one_another() -> None:
    check_contiguous((entry(4), entry(5)))
    with pytest.raises(IntegrityError, match="entry 6 follows entry 4"):
        check_contiguous((entry(4), entry(6)))
