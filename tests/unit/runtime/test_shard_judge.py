"""How a follower of a shard judges blocks."""

import pytest
from msgspec.structs import replace

from bobbin.cluster.chain.block import Block
from bobbin.cluster.codebook.global_book import GlobalCodebook
from bobbin.cluster.geometry import Embedding
from bobbin.cluster.identity import Identity
from bobbin.cluster.names import Index, NodeId, Term
from bobbin.cluster.operations import Embed, Put, Transaction
from bobbin.cluster.raft.entries import Entry, Payload
from bobbin.cluster.raft.fast_path import Check, Meaning
from bobbin.cluster.raft.judging import Judgement
from bobbin.cluster.settings import RaftConfig
from bobbin.cluster.shard.commands import Append, Kind, Log, Prepare, ReplaceCodebook
from bobbin.cluster.transactions.messages import TxPrepareMsg
from bobbin.cluster.transactions.names import ShardId, tx_id
from bobbin.runtime.shard_judge import ShardJudge
from bobbin.wire.cluster.shard_commands import encode_command
from tests.support.shards import DIMENSION, SIGNER, block_of, new_shard

_LEADER = NodeId("the leader's seat")
_T = Term(3)


class _Follower:
    """A shard, and a second one by which a leader makes blocks."""

    def __init__(self, *, names: frozenset[NodeId] = frozenset({SIGNER.node})) -> None:
        self.shard = new_shard()
        self.read: dict[bytes, Append] = {}
        self.judge = ShardJudge(
            lambda: self.shard,
            RaftConfig(),
            secret=bytes(32),
            names_of=lambda _: names,
            read=self.read.__setitem__,
        )
        self.made = new_shard()
        self.index = 0

    def block(self, number: int, *, signer: Identity = SIGNER) -> Block:
        """The next block of the leader, which is put on its own chain."""
        block, _ = block_of(self.made, Put(b"key", b"%d" % number), number=number, signer=signer)
        assert self.made.do(Index(number), Append(block)).kind is Kind.APPENDED
        return block

    def hear(self, payload: Block | Payload, *, term: int = 3, leader: NodeId | None = _LEADER) -> Judgement:
        self.index += 1
        raw = encode_command(Append(payload)) if isinstance(payload, Block) else payload
        entry = Entry(Term(term), Index(self.index), raw)
        return self.judge.judge(entry, leader=leader, term=_T) if self.judge.wants(entry) else Judgement()


def _with(block: Block, **changes: object) -> Block:
    return replace(block, header=replace(block.header, **changes))


def test_blocks_pass_on_top_of_one_another_before_any_is_applied() -> None:
    follower = _Follower()
    blocks = [follower.block(number) for number in range(1, 6)]
    assert [follower.hear(block).fault for block in blocks] == [None] * 5
    assert follower.shard.ledger.height == 0
    for number, block in enumerate(blocks, start=1):
        assert follower.shard.do(Index(number), Append(block)).kind is Kind.APPENDED
    assert follower.shard.root == follower.made.root
    assert follower.judge.stats.refused == 0


def test_what_was_judged_need_not_be_read_again() -> None:
    follower = _Follower()
    block = follower.block(1)
    assert follower.hear(block).fault is None
    assert follower.hear(_with(follower.block(2), state_root=bytes(32))).fault is not None
    assert follower.read == {encode_command(Append(block)): Append(block)}


def test_a_block_that_is_wrong_is_refused_and_keeps_nothing() -> None:
    """CL-243."""
    follower = _Follower()
    block = follower.block(1)
    other = block_of(new_shard(), Put(b"key", b"other"), number=1)[0]
    for wrong in (
        _with(block, state_root=bytes(32)),
        _with(block, tx_root=bytes(32)),
        _with(block, signature=bytes(96)),
        _with(block, height=2),
        replace(block, transactions=other.transactions),
        block_of(new_shard(), Put(b"key", b"1"), number=1, signer=Identity(bytes([9]) * 32))[0],
    ):
        judged = follower.hear(wrong)
        assert judged.fault is not None
        assert not judged.is_lag
    assert follower.judge.stats.refused == 6
    assert follower.shard.draft_of(b"") is None
    assert follower.hear(block) == Judgement()


def test_a_node_whose_key_was_changed_signs_with_another_id() -> None:
    assert _Follower(names=frozenset()).hear(_Follower().block(1)).fault is not None
    alone = _Follower(names=frozenset())
    alone.judge._names_of = lambda _: frozenset({SIGNER.node})  # type: ignore[misc]
    assert alone.hear(alone.block(1)).fault is None


def test_an_entry_of_an_earlier_term_is_judged_without_the_fast_path() -> None:
    follower = _Follower(names=frozenset())
    old = Identity(bytes([5]) * 32)
    block = follower.block(1, signer=old)
    assert follower.hear(_with(block, state_root=bytes(32)), term=2).fault is not None
    assert follower.hear(block, term=2).fault is None
    assert follower.judge.stats.full_required == 0


def test_alike_blocks_take_the_fast_path_and_are_audited_later() -> None:
    follower = _Follower()
    judged = [follower.hear(follower.block(number)) for number in range(1, 10)]
    assert any(one.used_fast_path for one in judged[3:])
    assert follower.judge.stats.accepted == sum(one.used_fast_path for one in judged)
    assert follower.judge.audit(100) == []
    assert follower.judge.stats.audits == follower.judge.stats.accepted


def test_one_that_rests_on_nothing_here_is_let_through_for_it_will_not_be_put_on_the_chain() -> None:
    follower = _Follower()
    first, second = follower.block(1), follower.block(2)
    assert follower.hear(second) == Judgement()
    assert follower.shard.do(Index(1), Append(second)).kind is Kind.STALE_BLOCK
    assert follower.hear(first) == Judgement()


def test_other_entries_are_not_judged() -> None:
    follower = _Follower()
    payloads: list[Payload] = [None, b"", b"\x91\x20", b"\x92\x20\xc1", encode_command(Log(()))]
    assert [follower.hear(payload) for payload in payloads] == [Judgement()] * 5
    wanted = [follower.judge.wants(Entry(_T, Index(1), payload)) for payload in payloads]
    assert wanted == [False, False, True, True, False]


def test_a_codebook_that_is_not_applied_yet_is_nobodys_fault() -> None:
    follower = _Follower()
    book = GlobalCodebook(1, [Embedding.of(DIMENSION, {at: 1.0}) for at in range(DIMENSION)])
    replacing = ReplaceCodebook(1, book.encode())
    assert follower.made.do(Index(1), replacing).kind is Kind.REPLACED
    first, second = follower.block(1), follower.block(2)
    judged = follower.hear(first)
    assert (judged.fault is not None, judged.is_lag) == (True, True)
    # After a start it stands in the log, and what rests on it cannot be judged either until it is applied.
    follower.hear(first, leader=None)
    assert follower.hear(second).is_lag
    assert follower.shard.do(Index(1), replacing).kind is Kind.REPLACED
    assert follower.shard.do(Index(2), Append(first)).kind is Kind.APPENDED
    assert follower.hear(second).fault is None


def _with_a_promised_part() -> tuple[_Follower, Block]:
    """A block with a part that was promised before the codebook came that would not allow it. It is not applied."""
    follower = _Follower()
    tx = tx_id(0, b"promised")
    part = Transaction(tx, (Embed(b"k", Embedding.of(DIMENSION, {5: 1.0})),))
    nothing = Embedding.of(DIMENSION, {})
    message = TxPrepareMsg(tx, ShardId(1), ShardId(0), part, nothing, 1_000, (ShardId(0), ShardId(1)))
    book = GlobalCodebook(1, [Embedding.of(DIMENSION, {at: 1.0}) for at in (1, 2)])
    for shard in (follower.shard, follower.made):
        assert shard.do(Index(1), Prepare(message)).kind is Kind.VOTED
        assert shard.do(Index(2), ReplaceCodebook(1, book.encode())).kind is Kind.REPLACED
    made = follower.made
    draft = made.ledger.draft([part], proposer=SIGNER.node, timestamp_ms=1, promised=made.participant.promises)
    assert draft.clashes == ()
    return follower, made.ledger.seal(draft, SIGNER)


def test_an_audit_knows_what_was_promised_when_the_block_was_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once the block is applied nothing is promised any more; an honest leader was accused then."""
    follower, block = _with_a_promised_part()
    checks = follower.judge._validator._checks
    assert [checks.fault(check, block, leader=SIGNER.node, term=_T) for check in Check] == [None] * len(Check)
    assert follower.shard.do(Index(3), Append(block)).kind is Kind.APPENDED
    monkeypatch.setattr(follower.shard.participant, "ended", lambda _: None)  # It forgets, in time.
    assert [checks.meaning_fault(meaning, block) for meaning in Meaning] == [None, None]
    fault = checks.meaning_fault(Meaning.TRANSITION, block)
    assert fault is not None, "what was noted is kept for one audit"


def test_an_audit_knows_what_was_promised_after_the_block_was_judged() -> None:
    """The promise stood in the log below the block, and was not applied yet."""
    follower, block = _with_a_promised_part()
    checks = follower.judge._validator._checks
    assert follower.shard.do(Index(3), Append(block)).kind is Kind.APPENDED
    assert not follower.shard.participant.promises
    assert checks.meaning_fault(Meaning.TRANSITION, block) is None


def test_what_is_taken_back_is_forgotten() -> None:
    follower = _Follower()
    first = follower.block(1)
    follower.hear(first)
    assert follower.shard.draft_of(follower.made.ledger.tip) is not None
    follower.judge.forget()
    assert follower.shard.draft_of(follower.made.ledger.tip) is None
