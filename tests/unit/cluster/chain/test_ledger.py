import sys
import tracemalloc
from types import FrameType

import pytest
from msgspec.structs import replace

from bobbin.cluster.chain.block import ZERO
from bobbin.cluster.chain.draft import ClashKind, Draft
from bobbin.cluster.chain.errors import ChainError, SnapshotTooOld
from bobbin.cluster.chain.holdings import Holds
from bobbin.cluster.chain.ledger import Appended, Ledger
from bobbin.cluster.chain.versions import Item
from bobbin.cluster.codebook.global_book import GlobalCodebook
from bobbin.cluster.content_tree import ContentTree
from bobbin.cluster.names import NodeId
from bobbin.cluster.operations import (
    CompareAndSwap,
    CounterAdd,
    Delete,
    Embed,
    Operation,
    Put,
    TableInsert,
    Transaction,
    Update,
    VectorAdd,
)
from bobbin.cluster.settings import ChainConfig
from tests.support.chains import (
    ALICE,
    BOB,
    drafted,
    fingerprint,
    made,
    new_ledger,
    put_on,
    transaction,
    unit,
)


def test_a_new_ledger_is_genesis_and_nothing_else() -> None:
    ledger = new_ledger()
    assert (ledger.height, ledger.floor, ledger.state_root) == (0, 0, ZERO)
    assert ledger.block(0) == ledger.genesis == ledger.tip_block
    assert list(ledger) == [ledger.genesis]
    assert ledger.get(b"k") is None
    assert ledger.get(b"k", 0) is None
    assert ledger.verify() is None


def test_values_versions_and_the_past() -> None:
    ledger = new_ledger()
    put_on(ledger, Put(b"k", b"1"))
    put_on(ledger, Put(b"k", b"2"), CounterAdd(b"n", 5))
    put_on(ledger, Delete(b"k"))
    assert [ledger.get(b"k", height) for height in range(4)] == [
        None,
        Item(b"k", b"1", 1),
        Item(b"k", b"2", 2),
        None,
    ]
    assert ledger.get(b"k") is None
    assert ledger.get(b"n") == Item(b"n", b"5", 2, Holds.NUMBER)
    assert [ledger.version(key) for key in (b"k", b"n", b"never")] == [0, 2, 0]
    with pytest.raises(ChainError):
        ledger.get(b"k", 4)


def test_blocks_are_read_by_height_tip_range_and_iteration() -> None:
    ledger = new_ledger()
    for number in range(5):
        put_on(ledger, Put(b"%d" % number, b""))
    assert [block.header.height for block in ledger] == [0, 1, 2, 3, 4, 5]
    assert [block.header.height for block in ledger.blocks(2, 4)] == [2, 3, 4]
    assert [block.header.height for block in ledger.blocks(-3, 99)] == [0, 1, 2, 3, 4, 5]
    assert ledger.blocks(6, 9) == []
    assert ledger.tip_block == ledger.block(5)
    assert ledger.block(6) is None
    assert ledger.block(-1) is None
    assert ledger.block(3).header.prev_hash != ledger.block(4).header.prev_hash  # type: ignore[union-attr]


def test_a_delete_of_an_absent_key_succeeds_and_changes_nothing() -> None:
    ledger = new_ledger()
    put_on(ledger, Put(b"k", b"1"))
    root = ledger.state_root
    assert put_on(ledger, Delete(b"absent")).refusals == ()
    assert ledger.state_root == root
    assert ledger.version(b"absent") == 0


def test_a_swap_that_does_not_match_is_recorded_and_the_rest_is_done() -> None:
    ledger = new_ledger()
    put_on(ledger, Put(b"k", b"1"))
    appended = put_on(ledger, CompareAndSwap(b"k", b"other", b"2"), Put(b"x", b""), Update(b"absent", b""))
    assert [(place, number) for place, number, _ in appended.refusals] == [(0, 0), (0, 2)]
    assert ledger.refusals(2) == appended.refusals
    assert ledger.get(b"k") == Item(b"k", b"1", 1)
    assert ledger.version(b"x") == 2
    assert put_on(ledger, CompareAndSwap(b"new", b"", b"made")).refusals == ()
    assert ledger.get(b"new") == Item(b"new", b"made", 3)


def _from_scratch(ledger: Ledger) -> bytes:
    """The state root of all items, in a tree that knows nothing of how they came about."""
    tree = ContentTree()
    keys = {key for block in ledger for one in block.transactions for key in (op.key for op in one.operations)}  # type: ignore[union-attr]
    for key in keys:
        item = ledger.get(key)
        if item is not None:
            name, value = key.ljust(len(key)), item.value
            fields = b"\0\0\0\x02\0\0\0\x05holds\0\0\0\x01" + bytes([item.holds]) + b"\0\0\0\x05value"
            text = len(name).to_bytes(4, "big") + name + fields + len(value).to_bytes(4, "big") + value
            tree.update([(key, text)])
    return tree.top


def test_the_state_root_is_the_one_from_scratch_whatever_came_before() -> None:
    ledger = new_ledger()
    put_on(ledger, Put(b"a", b"1"), Put(b"b", b"2"))
    put_on(ledger, Put(b"a", b"3"), Put(b"c", b"4"))
    put_on(ledger, Delete(b"b"))
    assert ledger.state_root == _from_scratch(ledger) == ledger.tip_block.header.state_root
    other = new_ledger()
    put_on(other, Put(b"c", b"4"), Put(b"a", b"3"))
    assert other.state_root == ledger.state_root
    put_on(other, Put(b"b", b"2"))
    assert other.state_root != ledger.state_root
    put_on(other, Delete(b"b"))
    assert other.state_root == ledger.state_root
    assert other.root != ledger.root


def test_several_blocks_are_drafted_before_the_first_is_decided() -> None:
    ledger, straight = new_ledger(), new_ledger()
    before = fingerprint(ledger)
    batches: list[tuple[Operation, ...]] = [
        (Put(b"a", b"1"), Put(b"b", b"1")),
        (Delete(b"a"), Put(b"c", b"2")),
        (CounterAdd(b"n", 1), Put(b"a", b"3")),
    ]
    drafts = []
    on = None
    for height, batch in enumerate(batches):
        on = drafted(ledger, transaction(*batch, since=height), on=on)
        drafts.append(on)
    assert fingerprint(ledger) == before
    for draft in drafts:
        assert ledger.stands(drafts[-1])
        assert ledger.append(draft.block, draft) == straight.append(draft.block)
    assert fingerprint(ledger) == fingerprint(straight)
    assert ledger.state_root == _from_scratch(ledger)
    assert drafts[-1].on is None


def test_drafts_stand_when_the_block_below_was_put_on_without_its_draft() -> None:
    ledger = new_ledger()
    first = drafted(ledger, transaction(Put(b"a", b"1")))
    second = drafted(ledger, transaction(Put(b"b", b"2"), since=1), on=first)
    third = drafted(ledger, transaction(Put(b"a", b"3"), since=2), on=second)
    assert isinstance(ledger.append(first.block), Appended)
    assert ledger.stands(third)
    fourth = drafted(ledger, transaction(Delete(b"b"), since=3), on=third)
    for draft in (second, third, fourth):
        assert isinstance(ledger.append(draft.block, draft), Appended)
    assert ledger.state_root == _from_scratch(ledger)
    assert ledger.verify() is None


def test_drafts_decide_who_may_commit_like_blocks_do() -> None:
    ledger = new_ledger()
    below = drafted(ledger, transaction(Put(b"k", b"1"), CounterAdd(b"n", 1)))
    assert ledger.clash(transaction(Put(b"k", b"2")), on=None) is None
    clash = ledger.clash(transaction(Put(b"k", b"2")), on=below)
    assert clash is not None
    assert clash.kind is ClashKind.OVERTAKEN
    assert ledger.clash(transaction(Put(b"k", b"2"), since=1), on=below) is None
    assert ledger.clash(transaction(CounterAdd(b"n", 1)), on=below) is None
    assert ledger.clash(transaction(since=1, reads={b"k": 1}), on=below) is None
    assert ledger.clash(transaction(reads={b"k": 0}), on=below) is not None


def test_a_draft_of_what_never_came_is_of_no_use() -> None:
    ledger = new_ledger()
    lost = drafted(ledger, transaction(Put(b"k", b"lost")))
    above = drafted(ledger, transaction(Put(b"x", b"above"), since=1), on=lost)
    put_on(ledger, Put(b"k", b"won"))
    before = fingerprint(ledger)
    assert not ledger.stands(lost)
    assert not ledger.stands(above)
    for draft in (lost, above):
        assert isinstance(ledger.append(draft.block, draft), str)
        with pytest.raises(ChainError):
            ledger.draft([], proposer=ALICE.node, timestamp_ms=0, on=draft)
        with pytest.raises(ChainError):
            ledger.judge(above.block, on=draft)
    assert fingerprint(ledger) == before


def test_a_draft_is_late_even_if_the_store_is_the_same() -> None:
    ledger = new_ledger()
    late = drafted(ledger, transaction(Put(b"k", b"late")))
    root = ledger.state_root
    put_on(ledger, Delete(b"absent"))
    assert ledger.state_root == root
    assert isinstance(ledger.append(late.block, late), str)
    assert (ledger.height, ledger.get(b"k")) == (1, None)


def test_a_draft_of_another_block_is_not_merged() -> None:
    """The block is what was decided; the draft only spares work."""
    ledger, other = new_ledger(), new_ledger()
    mine, decided = drafted(ledger, transaction(Put(b"k", b"mine"))), made(ledger, transaction(Put(b"k", b"decided")))
    assert ledger.append(decided, mine) == other.append(decided)
    assert ledger.get(b"k") == Item(b"k", b"decided", 1)
    assert fingerprint(ledger) == fingerprint(other)


def test_a_draft_does_not_speak_for_a_block_that_only_looks_like_its_own() -> None:
    ledger = new_ledger()
    draft = drafted(ledger, transaction(Put(b"k", b"mine")))
    before = fingerprint(ledger)
    other = replace(draft.transactions[0], operations=(Put(b"k", b"other"),))
    renamed = replace(draft.transactions[0], id=b"x" * 16)
    later = replace(draft.header, timestamp_ms=draft.header.timestamp_ms + 1)
    for block in (
        replace(draft.block, transactions=(other,)),
        replace(draft.block, transactions=(renamed,)),
        replace(draft.block, header=later),
        replace(draft.block, header=replace(draft.header, signature=b"")),
    ):
        assert isinstance(ledger.append(block, draft), str)
    assert fingerprint(ledger) == before
    assert isinstance(ledger.append(draft.block, draft), Appended)


def test_a_draft_that_was_judged_is_merged_with_the_same_end() -> None:
    ledger, follower, late = new_ledger(), new_ledger(), new_ledger()
    on: Draft | None = None
    for height in range(4):
        block = made(ledger, transaction(Put(b"k", b"%d" % height), Embed(b"k", unit(height)), since=height))
        ledger.append(block)
        judged = follower.judge(block, on=on)
        assert not isinstance(judged, str)
        on = judged
        late.append(block)
    for height in range(1, 5):
        [block] = ledger.blocks(height, height)
        judged = follower.judge(block)
        assert not isinstance(judged, str)
        assert isinstance(follower.append(block, judged), Appended)
    assert fingerprint(ledger) == fingerprint(follower) == fingerprint(late)


def test_the_time_of_a_block_never_falls() -> None:
    ledger = new_ledger()
    for at_ms, expected in ((50, 50), (40, 50), (60, 60)):
        put_on(ledger, Put(b"k", b""), at_ms=at_ms)
        assert ledger.tip_block.header.timestamp_ms == expected


def test_only_the_proposer_seals_and_only_what_holds_something() -> None:
    ledger = new_ledger()
    draft = ledger.draft([transaction(Put(b"k", b""))], proposer=ALICE.node, timestamp_ms=0)
    with pytest.raises(ChainError):
        ledger.seal(draft, BOB)
    assert isinstance(ledger.append(draft.block, draft), str)
    with pytest.raises(ChainError):
        ledger.seal(ledger.draft([], proposer=ALICE.node, timestamp_ms=0), ALICE)
    with pytest.raises(ChainError):
        ledger.draft([], proposer=NodeId("x" * 300), timestamp_ms=0)
    assert ledger.height == 0


def test_an_error_while_a_block_is_put_on_leaves_tip_and_height(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tip, link and height are one list that grows last: the chain reads as before or as after."""
    ledger = new_ledger()
    put_on(ledger, Put(b"a", b"1"))
    draft = drafted(ledger, transaction(Put(b"b", b"2"), since=1))
    tip = ledger.tip
    for part in ("_tree", "_versions", "_history", "_vectors"):
        method = {"_tree": "merge", "_versions": "put"}.get(part, "add")

        def stop(*_: object) -> None:
            raise RuntimeError("power cut")

        with monkeypatch.context() as patched:
            patched.setattr(type(getattr(ledger, part)), method, stop)
            with pytest.raises(RuntimeError):
                ledger.append(draft.block, draft)
        assert (ledger.height, ledger.tip, ledger.tip_block.header.height) == (1, tip, 1)
        assert [block.header.height for block in ledger] == [0, 1]
        ledger = new_ledger()
        put_on(ledger, Put(b"a", b"1"))
        draft = drafted(ledger, transaction(Put(b"b", b"2"), since=1))
        tip = ledger.tip
    assert isinstance(ledger.append(draft.block, draft), Appended)
    assert (ledger.height, ledger.tip) == (2, draft.hash)


def test_the_history_of_a_key_has_every_block_that_touched_it() -> None:
    ledger = new_ledger()
    put_on(ledger, Put(b"k", b"1"))
    put_on(ledger, Put(b"other", b""))
    put_on(ledger, Delete(b"k"), CompareAndSwap(b"k", b"x", b""), Embed(b"k", unit(1)))
    put_on(ledger, TableInsert(b"k", (b"1",)))
    assert list(ledger.heights_of(b"k")) == [1, 3, 4]
    found = ledger.history(b"k")
    assert [(touch.height, type(touch.operation)) for touch in found] == [
        (1, Put),
        (3, Delete),
        (3, CompareAndSwap),
        (3, Embed),
        (4, TableInsert),
    ]
    assert [bool(touch.refusal) for touch in found] == [False, False, True, False, False]
    assert [touch.height for touch in ledger.history(b"emb:k")] == [3]
    assert ledger.history(b"never") == []


def _short(keep: int) -> Ledger:
    return Ledger(config=ChainConfig(embedding_dimension=8), keep_heights=keep)


def test_a_transaction_from_below_the_floor_commits_only_if_it_was_promised() -> None:
    ledger = _short(3)
    for number in range(6):
        put_on(ledger, Put(b"%d" % number, b""))
    old = transaction(Put(b"fresh", b""), since=1)
    assert ledger.floor == 3
    clash = ledger.clash(old)
    assert clash is not None
    assert (clash.kind, clash.is_final) == (ClashKind.TOO_OLD, True)
    assert ledger.clash(old, promised=True) is None
    draft = ledger.draft([old], proposer=ALICE.node, timestamp_ms=0, promised={old.id})
    block = ledger.seal(draft, ALICE)
    before = fingerprint(ledger)
    assert isinstance(ledger.append(block, draft), str)
    assert isinstance(ledger.append(block), str)
    assert fingerprint(ledger) == before
    assert isinstance(ledger.append(block, promised={old.id}), Appended)
    with pytest.raises(SnapshotTooOld):
        ledger.get(b"0", 2)


def _with_clashes(ledger: Ledger) -> list[Transaction]:
    """Transactions that make sense, some of which may not commit, and two that may."""
    height = ledger.height
    twice = transaction(Put(b"twice", b""), since=height)
    return [
        transaction(Put(b"fresh", b""), since=height),
        transaction(Put(b"old", b""), since=ledger.floor - 1),
        transaction(Put(b"old", b""), Put(b"older", b""), since=ledger.floor - 1),
        transaction(Put(b"new", b""), since=height + 1),
        transaction(Put(b"0", b"overtaken"), since=height - 1),
        transaction(Put(b"read", b""), since=height, reads={b"0": 1}),
        transaction(since=height, reads={b"0": height + 1}),
        transaction(Embed(b"known", unit(1)), since=height),
        transaction(Embed(b"unknown", unit(3)), since=height),
        transaction(VectorAdd(b"unknown", unit(3)), since=height),
        transaction(*[Put(b"long-%d" % number, b"") for number in range(7)], since=height),
        transaction(*[Put(b"promised-%d" % number, b"") for number in range(7)], since=height),
        twice,
        twice,
    ]


@pytest.mark.parametrize("below", [0, 1, 2])
@pytest.mark.parametrize("with_book", [True, False])
def test_who_knows_that_transactions_make_sense_is_spared_no_other_look(*, with_book: bool, below: int) -> None:
    """Neither codebook nor floor, nor any other rule, asks less of those that were looked at before."""
    ledger = Ledger(config=ChainConfig(embedding_dimension=8, max_transactions=6), keep_heights=3)
    if with_book:
        assert ledger.replace_codebook(GlobalCodebook(1, [unit(1), unit(2)])) is None
    for _ in range(6):
        put_on(ledger, Put(b"0", b""))
    given = _with_clashes(ledger)
    promised = {one.id for one in given if one.operations[:1] == (Put(b"promised-0", b""),)}
    on = None
    for number in range(below):
        # What began at the height of the floor is too old for a block that rests on others.
        on = drafted(ledger, transaction(Put(b"below-%d" % number, b""), since=ledger.height), on=on)
        given.append(transaction(Put(b"at-floor-%d" % number, b""), since=ledger.floor + number))
    plain, spared = (
        ledger.draft(given, proposer=ALICE.node, timestamp_ms=0, on=on, promised=promised, are_valid=are_valid)
        for are_valid in (False, True)
    )
    assert (spared.clashes, spared.transactions, spared.hash) == (plain.clashes, plain.transactions, plain.hash)
    kinds = [clash.kind for _, clash in spared.clashes]
    assert kinds.count(ClashKind.TOO_OLD) == 2 + below
    assert kinds.count(ClashKind.MEANING) == 2 * with_book
    assert set(kinds) > {ClashKind.STALE_READ, ClashKind.OVERTAKEN, ClashKind.MALFORMED, ClashKind.NO_ROOM}
    assert (ClashKind.AHEAD in kinds) == (below == 0), "what rests on other blocks has them below it"


def test_what_a_block_stood_on_can_be_looked_at_again() -> None:
    ledger = _short(3)
    for number in range(6):
        put_on(ledger, Put(b"k", b"%d" % number))
    overlay = ledger.before(5)
    version = overlay.newest(b"k")
    assert version is not None
    assert version.value == b"3"
    for height in (3, 7):
        with pytest.raises(SnapshotTooOld):
            ledger.before(height)


def test_blocks_are_found_by_likeness() -> None:
    ledger = new_ledger()
    put_on(ledger, Embed(b"a", unit(1)))
    put_on(ledger, Embed(b"b", unit(2)))
    put_on(ledger, Embed(b"c", unit(1, 3.0)))
    found = ledger.similar(unit(1), 2)
    assert [(one.height, one.similarity) for one in found] == [(1, 1.0), (3, 1.0)]


def test_a_codebook_is_replaced_by_the_next_version_only() -> None:
    ledger = new_ledger()
    book = GlobalCodebook(1, [unit(1), unit(2)])
    draft = drafted(ledger, transaction(Put(b"k", b"")))
    root = ledger.root
    assert ledger.replace_codebook(GlobalCodebook(2, [unit(1)])) is not None
    assert ledger.replace_codebook(GlobalCodebook(1, [unit(1, dimension=9)])) is not None
    assert (ledger.codebook.version, ledger.root) == (0, root)
    assert ledger.replace_codebook(book) is None
    assert ledger.root != root
    assert isinstance(ledger.append(draft.block, draft), str), "it was made with another codebook"
    put_on(ledger, Embed(b"a", unit(2, 0.9)))
    header = ledger.tip_block.header
    assert (header.codebook_version, header.quantized_codes) == (1, (1,))


def _cost_of_commits(ledger: Ledger) -> tuple[int, int]:
    """Calls made and bytes taken by the cheapest of some commits: a dictionary grows in jumps, now and then."""
    calls, taken = [], []
    for number in range(6):
        given = [
            transaction(Put(b"cost-%d-%d-%d" % (ledger.height, number, place), b"value"), since=ledger.height)
            for place in range(10)
        ]
        count = 0

        def event(_frame: FrameType, kind: str, _argument: object) -> None:
            nonlocal count
            count += kind in {"call", "c_call"}

        tracemalloc.start()
        sys.setprofile(event)
        try:
            draft = drafted(ledger, *given)
            appended = ledger.append(draft.block, draft)
        finally:
            sys.setprofile(None)
            taken.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
        assert isinstance(appended, Appended)
        calls.append(count)
    return min(calls), min(taken)


def test_a_commit_costs_the_same_whatever_the_store_holds() -> None:
    """Counted, not timed. One that copied the store would take memory, one that hashed it anew would make calls."""
    ledger = new_ledger(dimension=128)
    few_calls, few_bytes = _cost_of_commits(ledger)
    for number in range(8):
        put_on(ledger, *[Put(b"%d-%d" % (number, place), bytes(20)) for place in range(500)])
    many_calls, many_bytes = _cost_of_commits(ledger)
    assert many_calls < 1.1 * few_calls
    assert many_bytes < 1.5 * few_bytes
