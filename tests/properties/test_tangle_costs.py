"""What the modern mode costs, and that it does not miss what the reference misses."""

import pytest

from bobbin.tangles.tangle import Tangle
from tests.tangle_cases import AUTHOR, assert_converged, pair_of, round_trips, sent_by
from tests.tangle_pairs import sync


@pytest.mark.parametrize("opener", [0, 1])
def test_what_was_appended_takes_one_round_trip_for_the_side_that_lacks_it(opener: int) -> None:
    messages = AUTHOR.line(50)
    pair = pair_of(messages[:-5], messages)
    sync(pair, messages[0].id, opener)
    assert_converged(pair, messages[0].id, 51)
    assert round_trips(pair) <= (1 if opener == 0 else 1.5)
    assert [message.id for message in sent_by(pair, 1)] == [message.id for message in messages[-5:]]


def test_replies_that_have_nothing_in_common() -> None:
    replies = AUTHOR.star(320)
    pair = pair_of(replies[:161], [replies[0], *replies[161:]])
    sync(pair, replies[0].id)
    assert_converged(pair, replies[0].id, 321)
    assert pair.message_texts == 320


@pytest.mark.parametrize("opener", [0, 1])
def test_nothing_goes_out_before_what_it_comes_after(opener: int) -> None:
    """One side has a branch of its own; the other one is deeper and lacks nothing else, so its top seems to be free."""
    root, short, long = AUTHOR.star(2)
    tangle = root.id
    branch = Tangle(tangle, [root, long])
    deeper = [AUTHOR.say("deeper", branch)]
    branch.add(deeper[0])
    deeper.append(AUTHOR.say("deeper still", branch))
    pair = pair_of([root, short], [root, long, *deeper])
    sync(pair, tangle, opener)
    assert_converged(pair, tangle, 5)
    assert [len(side.finished) for side in pair.sides] == [1, 1]
    assert [message.id for message in sent_by(pair, 1)] == [message.id for message in (long, *deeper)]


@pytest.mark.slow
def test_twelve_thousand_messages_in_range() -> None:
    replies = AUTHOR.star(12_000)
    pair = pair_of(replies[:11_991], [replies[0], *replies[11:]])
    sync(pair, replies[0].id)
    assert_converged(pair, replies[0].id, 12_001)
    assert [len(sent_by(pair, number)) for number in (0, 1)] == [10, 10]
    assert pair.metadata_bytes < 2500
