"""One moment for each, the earliest first."""

from random import Random

from bobbin.cluster.transactions.names import TxId, tx_id
from bobbin.cluster.transactions.timers import Timers
from tests.unit.cluster.transactions.driven import X, Y


def test_the_earliest_is_due_first_and_only_once() -> None:
    timers = Timers()
    assert (timers.due_ms, timers.take(10**9)) == (None, [])
    timers.set(X, 50)
    timers.set(Y, 20)
    assert timers.due_ms == 20
    assert timers.take(19) == []
    assert (timers.take(60), timers.take(60)) == ([Y, X], [])


def test_a_new_moment_takes_the_place_of_the_old_one() -> None:
    timers = Timers()
    timers.set(X, 50)
    timers.set(X, 80)
    assert (timers.due_ms, timers.take(70)) == (80, [])
    timers.set(X, 10)
    moments = [timers.due_ms]
    timers.set(X, None)
    timers.set(X, None)
    assert [*moments, timers.due_ms] == [10, None]


def test_against_a_plain_table() -> None:
    random, timers, plain = Random(5), Timers(), dict[TxId, int]()
    ids = [tx_id(number, b"8 bytes!") for number in range(8)]
    for _ in range(2_000):
        tx, moment = random.choice(ids), random.choice((None, random.randrange(100)))
        timers.set(tx, moment)
        if moment is None:
            plain.pop(tx, None)
        else:
            plain[tx] = moment
        assert timers.due_ms == min(plain.values(), default=None)
        now_ms = random.randrange(100)
        due = [tx for _, tx in sorted((moment, tx) for tx, moment in plain.items() if moment <= now_ms)]
        assert timers.take(now_ms) == due
        plain = {tx: moment for tx, moment in plain.items() if moment > now_ms}
