"""A follower with the judge of the fast path over a real ledger."""

from typing import Any

import pytest
from msgspec.structs import replace

from bobbin.cluster.chain.block import Block
from bobbin.cluster.chain.checks import ChainChecks
from bobbin.cluster.chain.draft import Draft
from bobbin.cluster.chain.encoding import header_hash
from bobbin.cluster.chain.ledger import Appended, Ledger
from bobbin.cluster.codebook.global_book import GlobalCodebook
from bobbin.cluster.geometry import Embedding
from bobbin.cluster.names import Term
from bobbin.cluster.operations import Embed, Put
from bobbin.cluster.raft.fast_path import Check, FastPathValidator, Meaning, Mode
from bobbin.cluster.settings import RaftConfig
from tests.support.chains import ALICE, BOB, drafted, fingerprint, forged, new_ledger, transaction, unit

TERM = Term(3)
BOOK = GlobalCodebook(1, [unit(1), unit(2)])


class _Follower:
    """Judges what comes, keeps drafts, and puts on what is decided."""

    def __init__(self, promised: frozenset[bytes] = frozenset(), *, book: GlobalCodebook | None = None) -> None:
        self.ledger = new_ledger()
        if book is not None:
            assert self.ledger.replace_codebook(book) is None
        self.drafts: dict[bytes, Draft] = {}
        self.checks = ChainChecks(self.ledger, below=self.drafts.get, keep=self._keep, promised=promised)
        self.validator: FastPathValidator[Block] = FastPathValidator(
            RaftConfig(), self.checks, secret=bytes(16), sample_one_in=1_000_000
        )
        self.validator.follow(ALICE.node, TERM)

    def _keep(self, draft: Draft) -> None:
        self.drafts[draft.hash] = draft

    def judge(self, block: Block) -> str | None:
        return self.validator.validate(block, leader=ALICE.node, term=TERM).fault

    def decide(self, block: Block) -> None:
        assert isinstance(self.ledger.append(block, self.drafts.pop(header_hash(block.header), None)), Appended)


def _leader(book: GlobalCodebook | None = None) -> Ledger:
    ledger = new_ledger()
    if book is not None:
        assert ledger.replace_codebook(book) is None
    return ledger


def _blocks(ledger: Ledger, count: int) -> list[Block]:
    """Blocks that look alike, none of them decided."""
    blocks, on = [], None
    for number in range(count):
        on = drafted(ledger, transaction(Embed(b"%d" % number, unit(1)), since=number), on=on)
        blocks.append(on.block)
    return blocks


def test_blocks_are_judged_before_those_below_them_are_decided() -> None:
    leader, follower = _leader(), _Follower()
    blocks = _blocks(leader, 6)
    assert [follower.judge(block) for block in blocks] == [None] * 6
    assert follower.ledger.height == 0
    for block in blocks:
        follower.decide(block)
        leader.append(block)
    assert fingerprint(follower.ledger) == fingerprint(leader)
    assert follower.validator.stats.accepted == 3


def test_a_block_on_something_unknown_is_not_acknowledged() -> None:
    leader, follower = _leader(), _Follower()
    first, second = _blocks(leader, 2)
    fault = follower.judge(second)
    assert fault is not None
    assert fault.startswith("height:")
    assert follower.judge(first) is None
    assert follower.judge(second) is None


def test_a_block_of_somebody_else_than_the_leader_is_refused() -> None:
    follower = _Follower()
    ledger = _leader()
    draft = ledger.draft([transaction(Put(b"k", b""))], proposer=BOB.node, timestamp_ms=0)
    fault = follower.judge(ledger.seal(draft, BOB))
    assert fault is not None
    assert fault.startswith("leader:")


@pytest.mark.parametrize(
    ("check", "changes"),
    [
        (Check.LIMITS, {"codebook_version": 7}),
        (Check.HEIGHT, {"height": 9}),
        (Check.PREVIOUS_HASH, {"prev_hash": bytes(32)}),
        (Check.TRANSACTION_ROOT, {"tx_root": bytes(32)}),
        (Check.DELTA, {"delta_embedding": unit(2)}),
        (Check.STATE_ROOT, {"state_root": bytes(32)}),
    ],
)
def test_a_block_that_looks_like_all_before_it_is_refused_for_what_is_never_skipped(
    check: Check, changes: dict[str, Any]
) -> None:
    leader, follower = _leader(), _Follower()
    blocks = _blocks(leader, 5)
    for block in blocks[:4]:
        assert follower.judge(block) is None
        follower.decide(block)
    before = fingerprint(follower.ledger)
    fault = follower.judge(forged(blocks[4], **changes))
    assert fault is not None
    assert fault.startswith(check.value)
    unsigned = replace(blocks[4], header=replace(blocks[4].header, signature=b""))
    assert (follower.judge(unsigned) or "").startswith("signature")
    assert fingerprint(follower.ledger) == before
    assert follower.judge(blocks[4]) is None


def _with_wrong_codes(block: Block) -> Block:
    return forged(block, quantized_codes=(1,))


def test_wrong_codes_pass_on_the_fast_path_and_are_found_by_the_audit() -> None:
    leader, follower = _leader(BOOK), _Follower(book=BOOK)
    for number in range(3):
        [block] = _one(leader, number)
        assert follower.judge(block) is None
        follower.decide(block)
        leader.append(block)
    [block] = _one(leader, 3)
    wrong = _with_wrong_codes(block)
    assert follower.validator.validate(wrong, leader=ALICE.node, term=TERM).mode is Mode.FAST_PATH
    follower.decide(wrong)
    [failed] = follower.validator.audit(10)
    assert (failed.digest, "codebook" in failed.fault) == (header_hash(wrong.header), True)
    assert follower.validator.shut_off == {ALICE.node}


def _one(ledger: Ledger, number: int, vector: Embedding | None = None) -> list[Block]:
    return [drafted(ledger, transaction(Embed(b"%d" % number, vector or unit(1)), since=ledger.height)).block]


def test_wrong_codes_and_wild_moves_are_refused_in_full_validation() -> None:
    leader, follower = _leader(BOOK), _Follower(book=BOOK)
    [block] = _one(leader, 0)
    assert (follower.judge(_with_wrong_codes(block)) or "").startswith("codebook")
    lawless = new_ledger()
    wild = transaction(Embed(b"k", unit(5)))
    draft = lawless.draft([wild], proposer=ALICE.node, timestamp_ms=0)
    header = replace(draft.header, codebook_version=1, quantized_codes=BOOK.codes(draft.delta))
    made = forged(Block(header, draft.transactions))
    assert (follower.judge(made) or "").startswith("transition")
    promised = _Follower(frozenset({wild.id}), book=BOOK)
    assert promised.judge(made) is None


def test_an_audit_of_the_block_that_was_judged_last_looks_at_what_it_stood_on() -> None:
    """It is on the chain by now, so the state that it was judged on has its own change in it."""
    follower = _Follower()
    ledger = new_ledger()
    blocks = []
    for vector in (unit(1), unit(1, 9.0)):
        draft = drafted(ledger, transaction(Embed(b"k", vector), since=ledger.height))
        block = draft.block
        ledger.append(block, draft)
        assert follower.judge(block) is None
        follower.decide(block)
        blocks.append(block)
    follower.ledger.codebook = GlobalCodebook(0, BOOK.centroids)
    faults = [follower.checks.meaning_fault(Meaning.TRANSITION, block) for block in blocks]
    assert [fault is None for fault in faults] == [True, False]


def test_an_audit_looks_at_what_the_block_stood_on() -> None:
    """Later blocks have moved the vector on; the step of the block itself was too long."""
    follower = _Follower()
    ledger = new_ledger()
    for vector in (unit(1), unit(1, 9.0), unit(1, 9.5)):
        draft = drafted(ledger, transaction(Embed(b"k", vector), since=ledger.height))
        ledger.append(draft.block, draft)
        follower.ledger.append(draft.block)
    blocks = ledger.blocks(1, 3)
    for one in (ledger, follower.ledger):
        one.codebook = GlobalCodebook(0, BOOK.centroids)
    faults = [follower.checks.meaning_fault(Meaning.TRANSITION, block) for block in blocks]
    assert [fault is None for fault in faults] == [True, False, True]
    follower.ledger.codebook = GlobalCodebook(1, BOOK.centroids)
    assert [follower.checks.meaning_fault(Meaning.TRANSITION, block) for block in blocks] == [None] * 3


def test_an_audit_of_a_block_that_never_came_asks_nothing() -> None:
    follower = _Follower()
    lost = _blocks(_leader(), 1)
    other = drafted(follower.ledger, transaction(Put(b"k", b"")))
    assert isinstance(follower.ledger.append(other.block, other), Appended)
    follower.drafts[lost[0].header.prev_hash] = other
    follower.ledger.codebook = GlobalCodebook(0, BOOK.centroids)
    assert follower.checks.meaning_fault(Meaning.TRANSITION, lost[0]) is None


def test_the_checks_of_a_block_begin_with_its_limits() -> None:
    follower = _Follower()
    [block] = _blocks(_leader(), 1)
    assert follower.checks.fault(Check.HEIGHT, block, leader=ALICE.node, term=TERM) is not None
    assert follower.checks.fault(Check.LIMITS, block, leader=ALICE.node, term=TERM) is None
    assert follower.checks.fault(Check.TERM, block, leader=ALICE.node, term=TERM) is None
    assert follower.checks.digest(block) == header_hash(block.header)
