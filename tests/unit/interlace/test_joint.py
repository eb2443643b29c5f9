"""The talk by which both sides find out at once, one part at a time."""

import pytest

from bobbin.interlace.assembly import Assembly
from bobbin.interlace.choice import Strategy
from bobbin.interlace.claim_index import Keyed
from bobbin.interlace.joint import Answering, Asking
from bobbin.interlace.limits import Limits
from bobbin.interlace.reconciliation import HELD_BYTES, Lacking, More, Probe, Ranged, Sketched, Standing, Supplied
from bobbin.interlace.ways import Unusable
from bobbin.reconcile import MalformedBulk
from tests.unit.interlace.dialogues import KEY, Talker, claim


def standing(talker: Talker) -> Standing:
    index = talker.offers.index
    return Standing(count=len(index), root=index.root(), held=bytes(HELD_BYTES))


class Sides:
    """An initiator that asks, and a responder that answers."""

    def __init__(self, wish: Strategy = Strategy.SKETCH, *, ids_max: int = 1_000, symbols_max: int = 1_000) -> None:
        self.one = Talker(map(claim, range(10, 300)), initiator=True)
        self.other = Talker(map(claim, range(293)), initiator=False)
        assemblies = [Assembly(side.offers, side.learned, Limits(), ids_max=ids_max) for side in (self.one, self.other)]
        keyed = [side.offers.index.keyed(KEY) for side in (self.one, self.other)]
        self.asking = Asking(keyed[0], assemblies[0], symbols_max=symbols_max, turns_max=2)
        self.answering = Answering(
            keyed[1], assemblies[1], standing(self.one), wish=wish, symbols_max=symbols_max, turns_max=2
        )

    def probe(self) -> Probe:
        block, is_told = self.asking.next_block()
        assert isinstance(block.part, Probe)
        assert not is_told
        return block.part

    def answer(self) -> Sketched | Ranged:
        self.answering.hear_probe(self.probe())
        assert self.answering.is_asked
        assert self.answering.choose()
        block, is_told = self.answering.next_block()
        assert isinstance(block.part, Sketched | Ranged)
        assert not is_told
        return block.part


@pytest.mark.parametrize("wish", [Strategy.SKETCH, Strategy.RANGES])
def test_both_know_at_the_end(wish: Strategy) -> None:
    sides = Sides(wish)
    sides.asking.hear(sides.answer())
    lacking, is_told = sides.asking.next_block()
    assert is_told
    assert isinstance(lacking.part, Lacking)
    sides.answering.hear_lacking(lacking.part, lacking.records)
    supplied, is_told = sides.answering.next_block()
    assert is_told
    assert isinstance(supplied.part, Supplied)
    sides.asking.hear_supplied(supplied.records, standing(sides.other))
    assert sides.one.knows() == sides.other.offered()
    assert sides.other.knows() == sides.one.offered()
    assert sides.asking.way == sides.answering.way == wish.value


def test_more_is_asked_for_and_told_while_the_turns_last() -> None:
    sides = Sides()
    told = sides.answer()
    assert isinstance(told, Sketched)
    few = Sketched(first=0, raw=told.raw[:40])
    sides.asking.hear(few)
    block, _ = sides.asking.next_block()
    assert isinstance(block.part, More)
    for _ in range(2):
        sides.answering.hear_more(More(symbols=3))
        assert isinstance(sides.answering.next_block()[0].part, Sketched)
    with pytest.raises(Unusable):
        sides.answering.hear_more(More(symbols=3))


def test_where_the_plain_way_is_cheaper_nothing_is_told() -> None:
    sides = Sides(Strategy.AUTO, symbols_max=3, ids_max=3)
    sides.answering.hear_probe(sides.probe())
    assert not sides.answering.choose()
    assert sides.answering.way in ("listing", "partitions")


def test_a_probe_that_is_none_is_an_error() -> None:
    sides = Sides()
    sides.answering.hear_probe(Probe(bulk=b"123", cuts=()))
    with pytest.raises(MalformedBulk):
        sides.answering.choose()


def test_nothing_is_heard_out_of_turn() -> None:
    sides = Sides()
    with pytest.raises(Unusable):
        sides.asking.hear(Sketched(first=0, raw=bytes(10)))
    with pytest.raises(Unusable):
        sides.asking.hear_supplied((), standing(sides.other))
    with pytest.raises(Unusable):
        sides.answering.hear_more(More(symbols=1))
    with pytest.raises(Unusable):
        sides.answering.hear_lacking(Lacking(ids=b""), ())
    sides.answering.hear_probe(sides.probe())
    with pytest.raises(Unusable):
        sides.answering.hear_probe(Probe(bulk=b"", cuts=()))


def test_an_answer_counts_once() -> None:
    sides = Sides()
    told = sides.answer()
    sides.asking.hear(told)
    with pytest.raises(Unusable):
        sides.asking.hear(told)


def test_ids_that_are_nobodys_are_of_no_use() -> None:
    sides = Sides()
    sides.answer()
    for ids in (b"nonsense", b"odd", bytes(8 * 2_000)):
        with pytest.raises(Unusable):
            sides.answering.hear_lacking(Lacking(ids=ids), ())
    assert sides.other.knows() == {}


def test_more_ids_than_the_bound_are_not_looked_at() -> None:
    sides = Sides(ids_max=20)
    sides.probe()
    with pytest.raises(Unusable, match="more than 20"):
        sides.asking.hear(Ranged(moment=0, ids=bytes(8 * 21)))


def test_what_has_no_room_is_not_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stretch of nothing says that the peer lacks everything: a peer must not have it all looked up for that."""
    sides = Sides()
    sides.probe()
    limited = Assembly(sides.one.offers, sides.one.learned, Limits(max_advertisement_records_listed=2), ids_max=9)
    asking = Asking(sides.one.offers.index.keyed(KEY), limited, symbols_max=9, turns_max=1)
    asking.next_block()
    monkeypatch.setattr(Keyed, "records", None)
    with pytest.raises(Unusable, match="290 advertisement records differ"):
        asking.hear(Ranged(moment=0, ids=b""))
