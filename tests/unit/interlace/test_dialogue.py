"""How two sides talk about their claims as a whole: what is said, when it ends, and what a liar gets out of it."""

from collections.abc import Iterable

import pytest
from msgspec import structs

from bobbin.interlace import offers
from bobbin.interlace.choice import Strategy
from bobbin.interlace.claim_index import ClaimIndex
from bobbin.interlace.limits import Limits, Service
from bobbin.interlace.messages import Advertise
from bobbin.interlace.reasons import Abort, LimitReached, Reason
from bobbin.interlace.reconciliation import (
    Changed,
    Compared,
    Fallback,
    Lacking,
    More,
    Part,
    Plain,
    Probe,
    Ranged,
    Sketched,
    Standing,
    Supplied,
)
from bobbin.reconcile.symbols import SYMBOL_BYTES
from tests.unit.interlace.dialogues import Talker, claim, make_claims, name, talk


def pair(
    ours: Iterable[int], theirs: Iterable[int], strategy: Strategy = Strategy.AUTO, service: Service | None = None
) -> tuple[Talker, Talker]:
    """The initiator, and the responder."""
    service = service or Service()
    one = Talker(map(claim, ours), initiator=True, strategy=strategy, service=service)
    return one, Talker(map(claim, theirs), initiator=False, strategy=strategy, service=service)


def expect_known(one: Talker, other: Talker) -> None:
    assert one.knows() == other.offered()
    assert other.knows() == one.offered()


# ---- what is said ---------------------------------------------------------------------------------------------------


def test_equal_sets_cost_a_standing_each() -> None:
    one, other = pair(range(300), range(300))
    talk(one, other)
    expect_known(one, other)
    assert one.parts() == other.parts() == [Standing]
    assert one.dialogue.account() == ("equal", None)


def test_a_sketch_tells_both_sides_in_four_blocks() -> None:
    one, other = pair(range(10, 1_000), range(993))
    talk(one, other)
    expect_known(one, other)
    assert one.parts() == [Standing, Probe, None, Lacking, None, None]
    assert other.parts() == [Standing, None, Sketched, None, Supplied, None]
    assert one.dialogue.account() == other.dialogue.account() == ("sketch", None)
    assert len(one.said[3].records) == 7
    assert len(other.said[4].records) == 10


def test_recent_differences_go_by_a_stretch() -> None:
    one, other = pair(range(1_300), range(1_500))
    talk(one, other)
    expect_known(one, other)
    assert other.parts() == [Standing, None, Ranged, None, Supplied, None]
    assert other.dialogue.account() == ("ranges", None)


@pytest.mark.parametrize("strategy", [Strategy.SKETCH, Strategy.RANGES])
def test_a_strategy_can_be_wished_for(strategy: Strategy) -> None:
    one, other = pair(range(40), range(20, 60), strategy)
    talk(one, other)
    expect_known(one, other)
    assert one.dialogue.account() == (strategy.value, None)


def test_little_is_listed_at_once() -> None:
    one, other = pair(range(6), range(4, 9))
    talk(one, other)
    expect_known(one, other)
    assert one.parts() == other.parts() == [Standing, Plain, None]
    assert one.dialogue.account() == ("listing", None)


def test_sets_with_little_in_common_are_listed_whatever_is_listed_unasked() -> None:
    one, other = pair(range(700), range(1_100, 1_800), service=Service(list_outright_max=10))
    talk(one, other)
    expect_known(one, other)
    assert other.parts() == [Standing, None, Plain, None, None], "the choice comes after the probe"
    assert one.dialogue.account() == other.dialogue.account() == ("listing", None)
    assert [sum(len(block.records) for block in side.said) for side in (one, other)] == [700, 700]
    assert not any(block.partitions for side in (one, other) for block in side.said)


def test_where_much_differs_all_ids_take_less_than_symbols() -> None:
    one, other = pair(range(0, 1_500, 3), range(0, 1_500, 2))
    talk(one, other)
    expect_known(one, other)
    assert other.dialogue.account() == ("ranges", None)
    assert [block.part.moment for block in other.said if isinstance(block.part, Ranged)] == [0]


def test_where_one_side_has_much_more_both_list_at_once() -> None:
    one, other = pair(range(900), range(850, 860), service=Service(list_outright_max=10))
    talk(one, other)
    expect_known(one, other)
    assert one.parts() == other.parts() == [Standing, Plain, None]
    assert not any(block.partitions for side in (one, other) for block in side.said)


def test_sets_with_little_in_common_go_by_partitions_where_a_listing_has_no_room() -> None:
    limits = Limits(max_advertisement_records_listed=600)
    one = Talker(map(claim, range(700)), initiator=True, limits=limits)
    other = Talker(map(claim, range(1_100, 1_800)), initiator=False, limits=limits)
    talk(one, other)
    expect_known(one, other)
    assert Plain in one.parts()
    assert other.dialogue.account() == ("partitions", None)


def test_a_listing_is_not_told_to_a_peer_that_holds_most_of_it() -> None:
    one = Talker((), initiator=True, held=map(claim, range(1_000)))
    other = Talker(map(claim, range(1_001)), initiator=False)
    talk(one, other)
    expect_known(one, other)
    assert one.dialogue.account() == ("partitions", None)
    assert sum(len(block.records) for block in other.said) < 10


def test_who_offers_nothing_needs_no_word() -> None:
    one = Talker((), initiator=True)
    other = Talker(map(claim, range(30)), initiator=False, held=[claim(1)])
    talk(one, other)
    expect_known(one, other)
    assert one.parts() == [Standing, None, None]
    assert other.dialogue.account() == ("nothing", None)


def test_the_next_exchange_of_a_known_link_costs_what_has_changed() -> None:
    one, other = pair(range(500), range(20, 500))
    talk(one, other)
    for side in (one, other):
        side.begin_exchange()
    talk(one, other)
    assert one.parts() == [Standing]
    assert one.dialogue.account() == ("known", None)
    one.offers.update([claim(600)], [name(3)])
    for side in (one, other):
        side.begin_exchange()
    talk(one, other)
    expect_known(one, other)
    assert one.parts() == [Standing, Changed, None]
    assert other.parts() == [Standing, None, None]
    assert other.dialogue.account() == ("changes", None)
    assert [block.records for block in one.said][1] == one.offers.list_some([name(600)], Limits())


def test_what_the_peer_offers_itself_is_told_by_name() -> None:
    one, other = pair(range(500), range(400, 600))
    talk(one, other)
    one.offers.update(map(claim, range(500, 560)), ())
    talk(one, other)
    expect_known(one, other)
    assert one.parts() == [Standing, Changed, None]
    assert not one.said[1].records
    assert isinstance(one.said[1].part, Changed)
    assert len(one.said[1].part.added) == 60


def test_what_is_withdrawn_while_the_peer_counts_on_it_is_still_understood() -> None:
    one, other = pair(range(500), range(400, 600))
    talk(one, other)
    one.offers.update(map(claim, range(500, 510)), ())
    other.offers.update((), [name(503)])
    talk(one, other)
    expect_known(one, other)
    assert one.dialogue.account() == other.dialogue.account() == ("changes", None)


def test_a_side_that_knows_the_other_tells_what_differs() -> None:
    theirs = [claim(number) for number in range(500)]
    # A cursor knows what the other has said; what it was told is forgotten with its process.
    one = Talker(map(claim, range(520)), initiator=True, held=theirs)
    other = Talker(theirs, initiator=False, held=[claim(number) for number in range(100)])
    talk(one, other)
    expect_known(one, other)
    assert one.parts() == [Standing, Compared, None]
    assert len(one.said[1].records) == 20
    assert one.dialogue.account()[0] == "known"
    assert other.dialogue.account()[0] == "comparison"


def test_other_fields_are_another_claim() -> None:
    one = Talker([claim(number) for number in range(300)], initiator=True)
    other = Talker([claim(number, "other" if number == 7 else "ding") for number in range(300)], initiator=False)
    talk(one, other)
    expect_known(one, other)
    assert one.knows()[name(7)] != one.offered()[name(7)]


# ---- what does not work ---------------------------------------------------------------------------------------------


def crafted(block: Advertise) -> Advertise:
    if not isinstance(block.part, Sketched):
        return block
    return structs.replace(
        block, part=structs.replace(block.part, raw=bytes(range(1, 11)) * (len(block.part.raw) // 10))
    )


def short(block: Advertise) -> Advertise:
    return structs.replace(block, records=block.records[1:]) if isinstance(block.part, Supplied) else block


def lacking_nonsense(block: Advertise) -> Advertise:
    return structs.replace(block, part=Lacking(ids=b"nonsense")) if isinstance(block.part, Lacking) else block


@pytest.mark.parametrize("twist", [crafted, short])
def test_what_is_of_no_use_is_done_again_plainly(twist: object) -> None:
    one, other = pair(range(10, 300), range(293), Strategy.SKETCH)
    talk(one, other, twist)  # type: ignore[arg-type]
    expect_known(one, other)
    assert one.dialogue.fell_back
    assert other.dialogue.fell_back
    assert Fallback in one.parts()
    assert Plain in other.parts()
    way, why = one.dialogue.account()
    assert way in ("partitions", "listing")
    assert why
    assert other.dialogue.account()[1] == f"the peer could not use it: {why}"


def test_after_that_the_epoch_stays_plain() -> None:
    one, other = pair(range(10, 300), range(293), Strategy.SKETCH)
    talk(one, other, crafted)
    one.offers.update([claim(900)], [name(40)])
    talk(one, other)
    expect_known(one, other)
    assert set(one.parts()) == set(other.parts()) == {None}


def test_the_responder_gives_up_too() -> None:
    responder = Talker(map(claim, range(293)), initiator=False, strategy=Strategy.SKETCH)
    initiator = Talker(map(claim, range(10, 300)), initiator=True, strategy=Strategy.SKETCH)
    talk(responder, initiator, lacking_nonsense)
    expect_known(responder, initiator)
    assert Fallback in responder.parts()


@pytest.mark.parametrize(
    "bounds",
    [
        {"sketch_symbols_max": 12},
        {"sketch_ids_max": 3},
        {"sketch_turns_max": 1, "sketch_symbols_max": 40},
    ],
)
def test_every_bound_leads_to_the_same_claims(bounds: dict[str, int]) -> None:
    for strategy in (Strategy.SKETCH, Strategy.RANGES, Strategy.AUTO):
        one, other = pair(range(100, 400), range(300), strategy, Service(**bounds))
        talk(one, other)
        expect_known(one, other)


def test_small_blocks_have_no_room_for_a_probe() -> None:
    limits = Limits(max_fact_block_size=4_000)
    one = Talker(map(claim, range(40)), initiator=True, limits=limits)
    other = Talker(map(claim, range(5, 40)), initiator=False, limits=limits)
    talk(one, other)
    expect_known(one, other)
    assert Probe not in one.parts()


def lied(**changes: object) -> object:
    def twist(block: Advertise) -> Advertise:
        if not isinstance(block.part, Standing):
            return block
        return structs.replace(block, part=structs.replace(block.part, **changes))

    return twist


@pytest.mark.parametrize("changes", [{"root": bytes(32)}, {"count": 291}, {"count": 0}])
def test_a_standing_that_is_not_true_ends_the_exchange(changes: dict[str, object]) -> None:
    """Lacking a true one, no strategy can be proven, and partitions neither."""
    one, other = pair(range(10, 300), range(293), Strategy.SKETCH)
    with pytest.raises(Abort) as abort:
        talk(one, other, lied(**changes))  # type: ignore[arg-type]
    assert abort.value.reason in (Reason.ROOT_MISMATCH, Reason.OUT_OF_PHASE)


def test_what_is_held_and_not_announced_is_found_out() -> None:
    one, other = pair(range(200), range(180))
    talk(one, other)
    for side in (one, other):
        side.begin_exchange()
    root = other.offers.index.root()

    def twist(block: Advertise) -> Advertise:
        part = block.part
        return block if not isinstance(part, Standing) else Advertise(part=structs.replace(part, count=7, root=root))

    with pytest.raises(Abort) as abort:
        talk(one, other, twist)
    assert abort.value.reason is Reason.ROOT_MISMATCH


def test_nothing_is_said_on_the_strength_of_an_unproven_listing() -> None:
    """A liar lists half of what it stands for; what it lacks itself would be told against the other half."""
    one = Talker(map(claim, range(200)), initiator=True)
    other = Talker(map(claim, range(150, 900)), initiator=False, service=Service(list_outright_max=10_000))

    def twist(block: Advertise) -> Advertise:
        return structs.replace(block, records=block.records[1:]) if isinstance(block.part, Plain) else block

    with pytest.raises(Abort) as abort:
        talk(one, other, twist)
    assert abort.value.reason is Reason.ROOT_MISMATCH
    assert Compared not in one.parts()


# ---- an index that was kept -----------------------------------------------------------------------------------------


def stale(numbers: Iterable[int], wrong: int) -> ClaimIndex:
    """An index that says something else of one record than its fields do."""
    claims = {one.record: one for one in make_claims(map(claim, numbers))}
    claims[name(wrong)] = claims[name(wrong)]._replace(digest=bytes(32))
    return ClaimIndex(claims.values())


@pytest.mark.parametrize("strategy", [Strategy.SKETCH, Strategy.RANGES, Strategy.AUTO])
@pytest.mark.parametrize("count", [20, 300])
@pytest.mark.parametrize("initiator", [True, False])
def test_an_index_that_is_not_true_is_made_anew_and_the_exchange_goes_on(
    monkeypatch: pytest.MonkeyPatch, strategy: Strategy, count: int, *, initiator: bool
) -> None:
    monkeypatch.setattr(offers, "_SAMPLE", 1)
    numbers = range(count)
    one = Talker(map(claim, numbers), initiator=initiator, strategy=strategy, kept=stale(numbers, 7))
    other = Talker(map(claim, range(5, count + 3)), initiator=not initiator, strategy=strategy)
    before = one.offers.index.root()
    talk(one, other)
    expect_known(one, other)
    assert one.dialogue.fell_back
    [said] = [block.part.root for block in one.said if isinstance(block.part, Plain) and block.part.root]
    assert said == one.offers.index.root() == ClaimIndex(make_claims(map(claim, numbers))).root() != before
    for side in (one, other):
        side.begin_exchange()
    talk(one, other)
    assert (one.parts(), other.parts()) == ([Standing], [Standing]), "now both hold what the other stands for"


def test_a_root_is_taken_back_only_after_a_fallback() -> None:
    one, other = pair(range(20), range(3, 23))

    def twist(block: Advertise) -> Advertise:
        return structs.replace(block, part=Plain(root=bytes(32))) if isinstance(block.part, Plain) else block

    with pytest.raises(Abort) as abort:
        talk(one, other, twist)
    assert abort.value.reason is Reason.OUT_OF_PHASE


def test_what_was_held_for_a_talk_is_let_go() -> None:
    one, other = pair(range(10, 1_000), range(993))
    talk(one, other)
    assert Probe in one.parts()
    assert one.offers.index._keyed is None
    assert other.offers.index._keyed is None


# ---- what has no place ----------------------------------------------------------------------------------------------


def opened(*, initiator: bool, strategy: Strategy = Strategy.SKETCH) -> Talker:
    """A side that has heard a standing of something else, and said its second block."""
    one = Talker(map(claim, range(300)), initiator=initiator, strategy=strategy)
    other = Talker(map(claim, range(5, 300)), initiator=not initiator, strategy=strategy)
    one.dialogue.opening()
    one.dialogue.hear_opening(other.dialogue.opening())
    assert not one.dialogue.is_over
    one.dialogue.next_block()
    return one


@pytest.mark.parametrize(
    ("initiator", "part"),
    [
        (True, Probe(bulk=b"", cuts=())),
        (True, More(symbols=1)),
        (True, Lacking(ids=b"")),
        (True, Standing(count=0, root=bytes(32), held=bytes(16))),
        (False, Sketched(first=0, raw=bytes(10))),
        (False, Ranged(moment=0, ids=b"")),
        (False, Supplied()),
        (False, Plain()),
    ],
)
def test_a_part_of_the_other_role_has_no_place(*, initiator: bool, part: Part) -> None:
    with pytest.raises(Abort) as abort:
        opened(initiator=initiator).dialogue.hear(Advertise(part=part))
    assert abort.value.reason is Reason.OUT_OF_PHASE


@pytest.mark.parametrize(
    "block",
    [
        Advertise(records=(claim(1),)),
        Advertise(lists=("00",)),
        Advertise(part=Probe(bulk=b"x", cuts=()), records=(claim(1),)),
    ],
)
def test_what_nobody_spoke_of_has_no_place(block: Advertise) -> None:
    with pytest.raises(Abort) as abort:
        opened(initiator=False).dialogue.hear(block)
    assert abort.value.reason is Reason.OUT_OF_PHASE


@pytest.mark.parametrize(
    "block", [Advertise(), Advertise(part=Plain()), Advertise(records=(claim(1),)), Advertise(lists=("00",))]
)
def test_an_exchange_begins_with_a_standing(block: Advertise) -> None:
    one = Talker(map(claim, range(300)), initiator=True)
    one.dialogue.opening()
    with pytest.raises(Abort) as abort:
        one.dialogue.hear_opening(block)
    assert abort.value.reason is Reason.OUT_OF_PHASE


def test_a_side_that_falls_silent_with_something_left_to_tell_ends_the_exchange() -> None:
    one = opened(initiator=False)
    one.dialogue.hear(Advertise())
    with pytest.raises(Abort) as abort:
        assert not one.dialogue.is_over
    assert abort.value.reason is Reason.OUT_OF_PHASE


def test_nobody_gives_up_twice() -> None:
    one = opened(initiator=True)
    one.dialogue.hear(Advertise(part=Fallback(why="no reason")))
    assert isinstance(one.dialogue.next_block().part, Plain)
    with pytest.raises(Abort) as abort:
        one.dialogue.hear(Advertise(part=Fallback(why="no reason")))
    assert abort.value.reason is Reason.OUT_OF_PHASE


def test_questions_of_a_block_that_gives_up_are_not_answered_in_place_of_what_is_told_anew() -> None:
    one = opened(initiator=True)
    one.dialogue.hear(Advertise(part=Fallback(why="no reason"), lists=("X78",), narrows=("2BX",)))
    block = one.dialogue.next_block()
    assert isinstance(block.part, Plain)
    assert sum(partition.count for partition in block.partitions) == len(one.offered())


def test_a_stream_without_end_is_given_up() -> None:
    one = opened(initiator=True)
    first = turns = 0
    while True:
        turns += 1
        one.dialogue.hear(Advertise(part=Sketched(first=first, raw=bytes([7]) * 16 * SYMBOL_BYTES)))
        first += 16
        if isinstance(one.dialogue.next_block().part, Fallback):
            break
        one.dialogue.hear(Advertise())
        one.dialogue.next_block()
    assert turns <= Service().sketch_turns_max + 1


def test_more_records_than_agreed_end_the_exchange() -> None:
    one = Talker(map(claim, range(30)), initiator=False, limits=Limits(max_advertisement_records_listed=2))
    other = Talker(map(claim, range(60)), initiator=True)
    one.dialogue.opening()
    one.dialogue.hear_opening(other.dialogue.opening())
    one.dialogue.next_block()
    with pytest.raises(LimitReached):
        one.dialogue.hear(Advertise(part=Compared(), records=tuple(map(claim, range(30, 60)))))
