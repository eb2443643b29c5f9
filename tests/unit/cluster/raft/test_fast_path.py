from collections import Counter
from hashlib import sha256
from math import acos, cos, sin

import pytest
from msgspec import Struct
from msgspec.structs import replace

from bobbin.cluster.geometry import Embedding, cosine
from bobbin.cluster.names import NodeId, Term
from bobbin.cluster.raft import fast_path
from bobbin.cluster.raft.fast_path import (
    AUDIT_EACH,
    AUDITS_WAITING_MAX,
    HISTORY_MAX,
    MIN_HISTORY,
    SAMPLE_ONE_IN,
    Check,
    FastPathStats,
    FastPathValidator,
    Meaning,
    Mode,
    Verdict,
)
from bobbin.cluster.settings import RaftConfig
from bobbin.errors import UsageError

_ANN, _BEN = NodeId("ann"), NodeId("ben")
_TERM = Term(5)
_SECRET = b"known to this test only"
_EAST = Embedding.dense((1.0, 0.0))


class _Block(Struct, frozen=True):
    """A double: it says of itself what is wrong with it."""

    height: int
    delta: Embedding = _EAST
    """What its operations make."""
    header: Embedding = _EAST
    """What its header claims."""
    wrong: frozenset[Check | Meaning] = frozenset()
    leader: NodeId = _ANN
    term: Term = _TERM
    nonce: int = 0


class _Checks:
    """Looks at doubles, and counts what it was asked."""

    def __init__(self) -> None:
        self.asked: Counter[Check | Meaning] = Counter()

    def fault(self, check: Check, block: _Block, *, leader: NodeId, term: Term) -> str | None:
        self.asked[check] += 1
        wrong = check in block.wrong
        match check:
            case Check.LEADER:
                wrong |= block.leader != leader
            case Check.TERM:
                wrong |= block.term != term
            case Check.DELTA:
                wrong |= block.header != block.delta
            case _:
                pass
        return "wrong" if wrong else None

    def meaning_fault(self, meaning: Meaning, block: _Block) -> str | None:
        self.asked[meaning] += 1
        return "wrong" if meaning in block.wrong else None

    def delta(self, block: _Block) -> Embedding:
        return block.delta

    def digest(self, block: _Block) -> bytes:
        return sha256(repr(block).encode()).digest()


class _Follower:
    """A validator that follows Ann and has accepted some blocks of hers; it draws no sample unless asked to."""

    def __init__(
        self,
        accepted: int = 0,
        config: RaftConfig | None = None,
        secret: bytes = _SECRET,
        sample_one_in: int = 2**64,
    ) -> None:
        self.checks = _Checks()
        self.validator = FastPathValidator(
            config or RaftConfig(), self.checks, secret=secret, sample_one_in=sample_one_in
        )
        self.validator.follow(_ANN, _TERM)
        self.height = 0
        for _ in range(accepted):
            assert self.next().is_accepted

    def next(self, *wrong: Check | Meaning, delta: Embedding = _EAST, header: Embedding | None = None) -> Verdict:
        return self.judge(_Block(self.height, delta, header or delta, frozenset(wrong)))

    def judge(self, block: _Block, leader: NodeId = _ANN, term: Term = _TERM) -> Verdict:
        self.height += 1
        return self.validator.validate(block, leader=leader, term=term)


# ---- which blocks qualify -------------------------------------------------------------------------------------------


def test_fewer_blocks_than_the_history_needs_are_validated_in_full() -> None:
    follower = _Follower()
    modes = [follower.next().mode for _ in range(4)]
    assert MIN_HISTORY == 3
    assert modes == [Mode.FULL, Mode.FULL, Mode.FULL, Mode.FAST_PATH]


def test_another_leader_begins_without_history_and_so_does_the_first_when_it_comes_back() -> None:
    follower = _Follower(5)
    follower.validator.follow(_BEN, Term(6))
    verdict = follower.judge(_Block(0, leader=_BEN, term=Term(6)), _BEN, Term(6))
    assert verdict == Verdict(fault=None, mode=Mode.FULL)
    follower.validator.follow(_ANN, Term(7))
    assert follower.judge(_Block(0, term=Term(7)), term=Term(7)).mode is Mode.FULL


def test_the_same_leader_in_another_term_keeps_its_history() -> None:
    follower = _Follower(3)
    follower.validator.follow(_ANN, Term(6))
    assert follower.judge(_Block(0, term=Term(6)), term=Term(6)).used_fast_path


def test_the_history_is_the_last_ten_blocks() -> None:
    """One block that is unlike all others keeps ten from the fast path, and no more."""
    follower = _Follower(3)
    assert follower.next(delta=Embedding.dense((0.0, 1.0))) == Verdict(fault=None, mode=Mode.FULL)
    modes = [follower.next().mode for _ in range(11)]
    assert HISTORY_MAX == 10
    assert modes == [Mode.FULL] * 10 + [Mode.FAST_PATH]


def _at(likeness: float) -> Embedding:
    return Embedding.dense((likeness, sin(acos(likeness))))


@pytest.mark.parametrize(("likeness", "mode"), [(0.96, Mode.FAST_PATH), (0.94, Mode.FULL)])
def test_a_block_must_be_like_the_recent_ones(likeness: float, mode: Mode) -> None:
    follower = _Follower(3)
    assert follower.next(delta=_at(likeness)).mode is mode


def test_a_likeness_of_exactly_the_threshold_is_not_enough() -> None:
    """Two unit vectors whose cosine is exact in binary, and a threshold at exactly that."""
    exact = Embedding(4, (0, 1, 2, 3), (1.0, 1.0, 1.0, 1.0))
    axis = Embedding(4, (0,), (2.0,))
    assert cosine(exact, axis) == 0.5
    for threshold, mode in ((0.5, Mode.FULL), (0.4999, Mode.FAST_PATH)):
        follower = _Follower(config=RaftConfig(similarity_threshold=threshold))
        for _ in range(3):
            follower.next(delta=axis)
        assert follower.next(delta=exact).mode is mode


def test_one_unlike_block_among_the_recent_ones_is_enough_to_refuse_the_fast_path() -> None:
    """Like three of four, and at 0.94 to the fourth: all count, not the best and not the mean."""
    apart = acos(0.94)
    half = Embedding.dense((cos(apart / 2), sin(apart / 2)))
    follower = _Follower(3)
    assert follower.next(delta=half).mode is Mode.FAST_PATH
    assert follower.next(delta=_at(0.94)).mode is Mode.FULL


def test_the_fast_path_can_be_turned_off() -> None:
    follower = _Follower(20, RaftConfig(enable_fast_path=False))
    assert follower.validator.stats == FastPathStats(full_required=20)
    assert follower.checks.asked[Meaning.CODEBOOK] == 20


def test_a_zero_delta_is_like_nothing() -> None:
    zero = Embedding(2, (), ())
    follower = _Follower()
    assert [follower.next(delta=zero).mode for _ in range(6)] == [Mode.FULL] * 6


# ---- what is never skipped ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("accepted", [0, 3])
@pytest.mark.parametrize("check", list(Check))
def test_what_is_never_skipped_refuses_a_block_on_both_ways(check: Check, accepted: int) -> None:
    follower = _Follower(accepted)
    verdict = follower.next(check)
    assert verdict.fault == f"{check.value}: wrong"
    assert not verdict.is_accepted
    assert not verdict.used_fast_path
    assert follower.validator.stats.refused == 1
    assert follower.validator.audits_waiting == 0
    # It left nothing behind: the next good block goes the way it would have gone.
    assert follower.next().mode is (Mode.FAST_PATH if accepted else Mode.FULL)


def test_every_check_is_made_once_for_every_block_whatever_its_way() -> None:
    follower = _Follower(9)
    assert follower.validator.stats.accepted == 6
    assert {follower.checks.asked[check] for check in Check} == {9}


@pytest.mark.parametrize("accepted", [0, 3])
def test_a_header_that_claims_another_delta_is_refused_on_both_ways(accepted: int) -> None:
    follower = _Follower(accepted)
    north = Embedding.dense((0.0, 1.0))
    assert follower.next(delta=north, header=_EAST).fault == "delta: wrong"


def test_a_block_from_another_leader_or_term_is_refused_before_anything_is_looked_at() -> None:
    follower = _Follower(3)
    asked = follower.checks.asked.total()
    assert not follower.judge(_Block(9, leader=_BEN), _BEN).is_accepted
    assert not follower.judge(_Block(9, term=Term(4)), term=Term(4)).is_accepted
    assert not follower.judge(_Block(9, term=Term(6)), term=Term(6)).is_accepted
    assert follower.checks.asked.total() == asked
    follower.validator.follow(None, Term(6))
    assert not follower.next().is_accepted


def test_a_block_that_another_leader_proposed_is_refused_though_the_present_one_sent_it() -> None:
    follower = _Follower(3)
    assert follower.judge(_Block(9, leader=_BEN)).fault == "leader: wrong"
    assert follower.judge(_Block(9, term=Term(4))).fault == "term: wrong"


def test_only_the_checks_of_meaning_are_skipped_and_they_really_are() -> None:
    follower = _Follower(3)
    follower.checks.asked.clear()
    assert follower.next().mode is Mode.FAST_PATH
    assert [follower.checks.asked[meaning] for meaning in Meaning] == [0, 0]
    assert follower.next(delta=Embedding.dense((0.0, 1.0))).mode is Mode.FULL
    assert [follower.checks.asked[meaning] for meaning in Meaning] == [1, 1]
    assert {follower.checks.asked[check] for check in Check} == {2}


@pytest.mark.parametrize("meaning", list(Meaning))
def test_full_validation_refuses_what_has_no_meaning(meaning: Meaning) -> None:
    follower = _Follower(1)
    assert follower.next(meaning).fault == f"{meaning.value}: wrong"
    assert follower.validator.stats.refused == 1
    assert follower.validator.shut_off == set()


# ---- audits ---------------------------------------------------------------------------------------------------------


def test_every_tenth_accepted_block_is_validated_in_full_at_once() -> None:
    follower = _Follower()
    modes = [follower.next().mode for _ in range(30)]
    assert AUDIT_EACH == 10
    assert [number for number, mode in enumerate(modes, 1) if mode is Mode.FULL] == [1, 2, 3, 10, 20, 30]


def test_a_tenth_block_that_fails_is_refused_and_turns_the_fast_path_off() -> None:
    follower = _Follower(9)
    assert follower.next(Meaning.CODEBOOK).fault == "codebook: wrong"
    assert follower.validator.shut_off == {_ANN}
    assert follower.validator.stats.audits_failed == 1
    assert [follower.next().mode for _ in range(5)] == [Mode.FULL] * 5


def _sampled(secret: bytes) -> list[int]:
    follower = _Follower(secret=secret, sample_one_in=SAMPLE_ONE_IN)
    drawn = []
    for number in range(1_000):
        mode = follower.next().mode
        follower.validator.audit()
        if mode is Mode.FULL and number >= MIN_HISTORY and (number + 1) % AUDIT_EACH:
            drawn.append(number)
    return drawn


def test_a_sample_by_the_secret_is_validated_in_full_at_once() -> None:
    """About one in twenty of the blocks that would have been skipped, and others under another secret."""
    one, other = _sampled(b"1" * 16), _sampled(b"2" * 16)
    assert 20 < len(one) < 90
    assert 20 < len(other) < 90
    assert len(set(one) & set(other)) < len(one) / 2
    assert _sampled(b"1" * 16) == one


def test_the_sample_follows_the_content_of_a_block_and_not_its_height() -> None:
    """At one and the same height, some blocks are drawn and others are not; which, depends on the secret."""
    ways = [
        [_Follower(3, None, secret, 2).judge(_Block(3, nonce=nonce)).mode for nonce in range(40)]
        for secret in (b"1" * 16, b"2" * 16)
    ]
    assert set(ways[0]) == set(ways[1]) == {Mode.FULL, Mode.FAST_PATH}
    assert ways[0] != ways[1]


def test_every_skipped_block_is_audited_later() -> None:
    follower = _Follower(9)
    assert follower.validator.audits_waiting == 6
    follower.checks.asked.clear()
    assert follower.validator.audit(4) == []
    assert follower.validator.audit(4) == []
    assert follower.validator.audits_waiting == 0
    assert [follower.checks.asked[meaning] for meaning in Meaning] == [6, 6]
    assert follower.validator.stats.audits == 6


@pytest.mark.parametrize("meaning", list(Meaning))
def test_one_failed_audit_turns_the_fast_path_off_for_that_leader(meaning: Meaning) -> None:
    follower = _Follower(3)
    assert follower.next(meaning).used_fast_path
    (failed,) = follower.validator.audit()
    assert (failed.leader, failed.fault) == (_ANN, f"{meaning.value}: wrong")
    assert [follower.next().mode for _ in range(5)] == [Mode.FULL] * 5
    # For that leader, and also after others have led meanwhile.
    follower.validator.follow(_BEN, Term(6))
    modes = [follower.judge(_Block(n, leader=_BEN, term=Term(6)), _BEN, Term(6)).mode for n in range(4)]
    assert modes[-1] is Mode.FAST_PATH
    follower.validator.follow(_ANN, Term(7))
    assert [follower.judge(_Block(n, term=Term(7)), term=Term(7)).mode for n in range(5)] == [Mode.FULL] * 5


def test_a_leader_is_audited_for_what_it_did_before_another_led() -> None:
    follower = _Follower(3)
    follower.next(Meaning.CODEBOOK)
    follower.validator.follow(_BEN, Term(6))
    assert [failed.leader for failed in follower.validator.audit()] == [_ANN]
    assert follower.validator.shut_off == {_ANN}


def test_an_operator_may_allow_the_fast_path_again() -> None:
    follower = _Follower(3)
    follower.next(Meaning.CODEBOOK)
    follower.validator.audit()
    follower.validator.allow(_ANN)
    assert [follower.next().mode for _ in range(4)] == [Mode.FULL] * 3 + [Mode.FAST_PATH]


def test_nothing_is_skipped_that_cannot_be_audited(monkeypatch: pytest.MonkeyPatch) -> None:
    assert AUDITS_WAITING_MAX == 1_000
    monkeypatch.setattr(fast_path, "AUDITS_WAITING_MAX", 2)
    follower = _Follower(3)
    assert [follower.next().mode for _ in range(3)] == [Mode.FAST_PATH, Mode.FAST_PATH, Mode.FULL]
    follower.validator.audit()
    assert follower.next().mode is Mode.FAST_PATH


# ---- counters -------------------------------------------------------------------------------------------------------


def test_each_block_is_counted_once_by_the_way_it_went() -> None:
    follower = _Follower(10)
    follower.next(delta=Embedding.dense((0.0, 1.0)))
    stats = follower.validator.stats
    assert stats == FastPathStats(accepted=6, rejected=1, full_required=4)
    assert stats.rate == 6 / 11
    follower.validator.audit(10)
    assert replace(stats) == FastPathStats(accepted=6, rejected=1, full_required=4, audits=6)
    assert FastPathStats().rate is None


def test_the_answer_says_whether_the_fast_path_was_used() -> None:
    follower = _Follower(3)
    assert follower.next().used_fast_path
    assert not follower.next(Check.STATE_ROOT).used_fast_path
    assert not _Follower().next().used_fast_path


def test_a_short_secret_is_refused() -> None:
    with pytest.raises(UsageError):
        _Follower(secret=b"short")
