"""The second opinion on sketches agrees with the machine, and finds what does not follow from what is offered."""

from collections.abc import Callable

import pytest
from msgspec import structs

from bobbin.interlace.capability import agree_key
from bobbin.interlace.choice import Strategy
from bobbin.interlace.claim_index import ClaimIndex
from bobbin.interlace.learned import claims_of
from bobbin.interlace.messages import Advertise, Hello
from bobbin.interlace.reconciliation import (
    Changed,
    Compared,
    Cut,
    Fallback,
    Lacking,
    Part,
    Plain,
    Probe,
    Ranged,
    Sketched,
    Standing,
    Supplied,
)
from bobbin.interlace.schema import Schema
from bobbin.reconcile.estimate import COUNTERS
from bobbin.simulator import sketch_model
from bobbin.simulator.claim_model import Table
from bobbin.simulator.sketch_model import SketchModel
from tests.unit.interlace.dialogues import KEY, NUMBERS, SOURCES, Talker, claim, name, talk

MOMENTS = {record: 1 + number for record, number in NUMBERS.items()}


def test_roots_are_those_of_the_index() -> None:
    for count in (0, 1, 300):
        claims = [claim(number) for number in range(count)]
        table = {one.record: one.fields for one in claims}
        assert sketch_model.root(table) == ClaimIndex(claims_of(claims)).root()


def test_keys_are_those_of_the_machine() -> None:
    own, peer = (
        Hello(plan="E", tai="0", tick_interval_ns=1, formats=frozenset(), schema=Schema(), reconcile=share)
        for share in (3, 9)
    )
    for initiator in (True, False):
        assert sketch_model.key_of(own, peer, initiator=initiator) == agree_key(own, peer, initiator=initiator)
    assert sketch_model.key_of(own, structs.replace(peer, reconcile=None), initiator=True) is None


def followed(strategy: Strategy, twist: Callable[[Part], Part] = lambda part: part) -> list[str]:
    """What a model complains of, where the responder's parts were twisted before it looks at them."""
    one = Talker(map(claim, range(10, 150)), initiator=True, strategy=strategy)
    other = Talker(map(claim, range(143)), initiator=False, strategy=strategy)
    talk(one, other)
    offered = other.offered()
    model = SketchModel(KEY, SOURCES[1], 2, MOMENTS)
    model.begin_phase({})
    first = other.said[0]
    found = [] if model.stands(structs.replace(first, part=twist(first.part)), offered, None, {}) else ["standing"]  # type: ignore[arg-type]
    assert model.open(one.said[0]) is None
    for said, heard, before in zip(other.said[1:], one.said[1:], one.said, strict=False):
        block = said if said.part is None else structs.replace(said, part=twist(said.part))
        wrong = model.misspeaks(block, before, offered, other.knows())
        found += [] if wrong is None else [wrong]
        model.hear(heard)
    assert model.proves(one.offered())
    assert not model.proves({})
    return found


@pytest.mark.parametrize("strategy", [Strategy.SKETCH, Strategy.RANGES, Strategy.AUTO])
def test_an_honest_talk_passes(strategy: Strategy) -> None:
    assert followed(strategy) == []


def test_a_twisted_standing_is_found() -> None:
    def twist(part: Part) -> Part:
        return structs.replace(part, count=7) if isinstance(part, Standing) else part

    assert followed(Strategy.SKETCH, twist) == ["standing"]


def test_symbols_of_something_else_are_found() -> None:
    def twist(part: Part) -> Part:
        return structs.replace(part, raw=part.raw[:-1] + b"?") if isinstance(part, Sketched) else part

    assert followed(Strategy.SKETCH, twist) == ["Sketched does not follow from what is offered"]


def test_a_stretch_of_something_else_is_found() -> None:
    def twist(part: Part) -> Part:
        return structs.replace(part, ids=part.ids[8:]) if isinstance(part, Ranged) else part

    assert followed(Strategy.RANGES, twist) == ["Ranged does not follow from what is offered"]


def model_of(numbers: range) -> tuple[SketchModel, Table]:
    model = SketchModel(KEY, SOURCES[0], 2, MOMENTS)
    model.begin_phase({one.record: one.fields for one in map(claim, range(20))})
    return model, {one.record: one.fields for one in map(claim, numbers)}


@pytest.mark.parametrize(
    "block",
    [
        Advertise(part=Probe(bulk=b"", cuts=())),
        Advertise(part=Probe(bulk=bytes(COUNTERS), cuts=(Cut(moment=3, sum=1),))),
        Advertise(part=Changed()),
        Advertise(part=Compared()),
        Advertise(part=Supplied()),
        Advertise(part=Plain()),
        Advertise(part=Standing(count=0, root=bytes(32), held=bytes(16))),
        Advertise(part=Plain(), records=(claim(500),)),
        Advertise(records=(claim(3),)),
        Advertise(part=Supplied(), lists=("00",)),
    ],
)
def test_what_does_not_follow_is_named(block: Advertise) -> None:
    model, offered = model_of(range(21))
    assert model.misspeaks(block, Advertise(), offered, {}) is not None


def test_a_change_leads_from_what_was_announced_before() -> None:
    model, offered = model_of(range(1, 21))
    gone = name(0)[2:13]
    block = Advertise(part=Changed(removed=(gone,)), records=(claim(20),))
    assert model.misspeaks(block, Advertise(), offered, {}) is None
    assert model.misspeaks(structs.replace(block, records=()), Advertise(), offered, {}) is not None


def test_a_change_leads_from_what_the_peer_holds_since_an_earlier_link() -> None:
    model, offered = model_of(range(20))
    model.begin_phase({})
    block = Advertise(part=Changed(removed=(name(77)[2:13],)), records=(claim(19),))
    held = {one.record: one.fields for one in map(claim, [*range(19), 77])}
    assert model.misspeaks(block, Advertise(), offered, {}, held) is None
    assert model.misspeaks(block, Advertise(), offered, {}) is not None
    # Where nobody knows what the peer holds, the root in its standing tells.
    _, rest = model_of(range(19))
    model.open(Advertise(part=Standing(count=0, root=bytes(32), held=sketch_model.root(rest)[:16])))
    only = structs.replace(block, part=Changed())
    assert model.misspeaks(only, Advertise(), offered, {}) is None
    assert model.misspeaks(structs.replace(only, records=()), Advertise(), offered, {}) is not None


def test_ids_of_its_own_are_not_lacking() -> None:
    model, offered = model_of(range(20))
    own = sketch_model._array(model._ids(offered).values()).astype("<u8").tobytes()[:8]
    assert model.misspeaks(Advertise(part=Lacking(ids=b"12345678")), Advertise(), offered, {}) is None
    assert model.misspeaks(Advertise(part=Lacking(ids=own)), Advertise(), offered, {}) is not None


def test_after_giving_up_the_next_phase_is_plain() -> None:
    model, _ = model_of(range(20))
    model.hear(Advertise(part=Fallback(why="no reason")))
    before = model.fell_back
    model.begin_phase({})
    assert (before, model.fell_back) == (False, True)
    assert model.drops(Advertise(part=Fallback(why="x")), ())
    assert model.drops(Advertise(), [Advertise(part=Fallback(why="x"))])
    assert not model.drops(Advertise(), [Advertise()])


def test_a_first_block_has_a_standing() -> None:
    model, _ = model_of(range(20))
    assert model.open(Advertise()) is not None
    assert model.open(Advertise(records=(claim(1),))) is not None
    assert model.open(Advertise(part=Plain())) is not None
    assert model.open(Advertise(part=Standing(count=0, root=bytes(32), held=bytes(16)))) is None
    assert model.open(Advertise()) is None
