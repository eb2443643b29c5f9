"""Claims put together from what is known: by names, proven by their root, and never taken on trust."""

import pytest
from msgspec import structs

from bobbin.interlace.assembly import Assembly
from bobbin.interlace.limits import Limits
from bobbin.interlace.messages import Advertise, Advertisement
from bobbin.interlace.offers import News
from bobbin.interlace.reconciliation import HELD_BYTES, Changed, Compared, Standing
from bobbin.interlace.ways import Unusable
from tests.unit.interlace.dialogues import Talker, claim, name


def standing(talker: Talker) -> Standing:
    index = talker.offers.index
    return Standing(count=len(index), root=index.root(), held=talker.learned.index.root()[:HELD_BYTES])


def assembly(talker: Talker, **limits: int) -> Assembly:
    return Assembly(talker.offers, talker.learned, Limits(**limits), ids_max=20)


def sides(ours: range, theirs: range) -> tuple[Talker, Talker]:
    return Talker(map(claim, ours), initiator=True), Talker(map(claim, theirs), initiator=False)


def test_the_same_is_taken_as_it_is() -> None:
    one, other = sides(range(50), range(50))
    assembly(one).take_own(standing(other))
    assert one.knows() == other.offered()
    with pytest.raises(Unusable, match="another root"):
        assembly(one).take_own(structs.replace(standing(other), root=bytes(32)))


def test_nothing_is_taken_only_where_it_is_nothing() -> None:
    one, other = sides(range(50), range(0))
    one.learned.open(Advertise(records=(claim(3),)), Limits(), complete=True)
    assembly(one).take_nothing(standing(other))
    assert one.knows() == {}
    with pytest.raises(Unusable):
        assembly(one).take_nothing(Standing(count=0, root=bytes(32), held=bytes(16)))


def test_a_difference_is_told_and_taken() -> None:
    one, other = sides(range(50), range(5, 52))
    assembly(other).take_own(standing(one), [name(50), name(51)], list(map(claim, range(5))))
    block = assembly(other).compared()
    assert block is not None
    assert isinstance(block.part, Compared)
    assembly(one).hear_compared(block.part, block.records, standing(other))
    assert one.knows() == other.offered()


def test_what_would_fill_a_listing_is_not_compared() -> None:
    one, other = sides(range(100), range(50, 150))
    assembly(one).take_own(standing(other), list(map(name, range(50))), list(map(claim, range(100, 150))))
    assert assembly(one).compared() is None
    assert Assembly(one.offers, one.learned, Limits(), ids_max=200).compared() is None


def test_changes_need_a_common_beginning() -> None:
    one, other = sides(range(50), range(50))
    root = one.offers.index.root()
    news = News(base=root, added=(name(3),), gone={name(90): claim(90)})
    assert assembly(one).changed(news, standing(other)) is None, "the peer holds something else"
    assert assembly(one).changed(News(), standing(other)) is None, "nobody knows what was said last"
    knowing = structs.replace(standing(other), held=root[:HELD_BYTES])
    assert assembly(one).changed(news, knowing) is not None
    assert Assembly(one.offers, one.learned, Limits(), ids_max=0).changed(news, knowing) is None


def test_names_that_stand_for_nothing_are_of_no_use() -> None:
    one, other = sides(range(50), range(50))
    with pytest.raises(Unusable, match="0 records"):
        assembly(one).hear_compared(Compared(removed=("00000000000",)), (), standing(other))
    with pytest.raises(Unusable, match="0 records"):
        assembly(one).hear_changed(Changed(added=("00000000000",)), (), standing(other), ())
    with pytest.raises(Unusable, match="the most"):
        assembly(one).hear_compared(Compared(removed=tuple(map(str, range(30)))), (), standing(other))
    assert one.knows() == {}


def test_what_has_no_name_of_its_own_cannot_be_told() -> None:
    one, other = sides(range(50), range(50))
    twins = [Advertisement(record=f"{kind}{'0' * 43}.H3", fields=()) for kind in ("B.", "P.")]
    for strays in (twins, [Advertisement(record="P.short.H9", fields=())]):
        held = Talker(map(claim, range(50)), initiator=True, held=[*other.offers.current().values(), *strays])
        assert assembly(held).compared() is None
    news = News(base=one.offers.index.root(), gone={stray.record: stray for stray in twins})
    knowing = structs.replace(standing(other), held=one.offers.index.root()[:HELD_BYTES])
    assert assembly(one).changed(news, knowing) is None


@pytest.mark.parametrize("length", [1, 2, 11, 12, 43])
def test_names_are_found_whatever_partitions_start_with(length: int) -> None:
    """A plan may have partitions that begin with more symbols than a name has."""
    one, other = (
        Talker(map(claim, numbers), initiator=initiator, length=length)
        for numbers, initiator in ((range(50), True), (range(5, 52), False))
    )
    assembly(other).take_own(standing(one), [name(50), name(51)], list(map(claim, range(5))))
    block = assembly(other).compared()
    assert block is not None
    assert isinstance(block.part, Compared)
    assembly(one).hear_compared(block.part, block.records, standing(other))
    assert one.knows() == other.offered()
    told = assembly(one).changed(
        News(base=b"base" * 4, added=(name(7),), gone={name(60): claim(60)}),
        structs.replace(standing(other), held=b"base" * 4),
    )
    assert told is not None
    assert isinstance(told.part, Changed)
    with pytest.raises(Unusable, match="0 records"):
        assembly(other).hear_changed(told.part, told.records, standing(one), ())
    with pytest.raises(Unusable, match="11 symbols"):
        assembly(one).hear_compared(Compared(removed=("0",)), (), standing(other))


def test_a_listing_has_room_for_so_many() -> None:
    one, _ = sides(range(50), range(50))
    assert len(assembly(one).listing([name(1), name(2)])) == 2
    with pytest.raises(Unusable, match="room for 1"):
        assembly(one, max_advertisement_records_listed=1).listing([name(1), name(2)])
