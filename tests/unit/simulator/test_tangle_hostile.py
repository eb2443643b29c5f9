"""A hostile peer: every vice is practised, in both modes, and what it says is bytes."""

from collections import Counter
from random import Random

from bobbin.simulator.tangle_forgery import Forger
from bobbin.simulator.tangle_hostile import Hostile, encode
from bobbin.simulator.tangle_keepers import MemoryKeeper
from bobbin.simulator.tangle_people import FEED, Pen, Person
from bobbin.tangles import modern_frames, phases
from bobbin.tangles.bloom import Bloom, items_of
from bobbin.tangles.message import Message, MessageId
from bobbin.tangles.modern_frames import Answer, Ask, Mark, ModernFrame, Parcel, Turn, WireWish, id_bytes
from bobbin.tangles.phases import Frame, FrameLimits, Have, HaveAndWant, IdsAndFilter, Messages, WantAndFilter
from bobbin.tangles.ranges import Range


def hostile(learned: list[Message]) -> tuple[Hostile, MessageId, Counter[str]]:
    random = Random(6)
    person, keeper, tally = Person("alice", random), MemoryKeeper(), Counter[str]()
    keeper.put(person.root, person.account)

    def take_down(message: Message, tangle: MessageId) -> None:
        keeper.put(message, tangle)

    pen = Pen(random, keeper, take_down)
    pen.begin(person, FEED)
    for _ in range(10):
        pen.write(person, [])
    feed = person.feeds[FEED]
    forger = Forger(random, person, [person])
    return Hostile(random, forger, keeper, learned.append, lambda: [feed], tally), feed, tally


def frames(feed: MessageId) -> list[Frame | ModernFrame]:
    bloom = Bloom.create(10, items_of(0, [feed]))
    raw, nonce, wish = id_bytes(feed), bytes(8), WireWish(1)
    mark = Mark(1, 1, bytes(16))
    return [
        Have(feed, Range(0, 3)),
        HaveAndWant(feed, Range(0, 3), Range(0, 2)),
        WantAndFilter(feed, bloom, Range(0, 3)),
        IdsAndFilter(feed, 4, bloom, (feed,)),
        Messages(feed, ()),
        Ask(tangle=raw, run=1, nonce=nonce, wish=wish, low=0, high=3, top=3, marks=(mark,)),
        Answer(tangle=raw, run=1, nonce=nonce, low=0, high=3, wish=wish, floor=0, root=bytes(16)),
        Turn(tangle=raw, run=1),
        Parcel(tangle=raw, run=1, messages=()),
    ]


def test_every_vice_is_practised_and_forgeries_are_made_known() -> None:
    learned: list[Message] = []
    peer, feed, tally = hostile(learned)
    for _ in range(40):
        for frame in frames(feed):
            assert all(isinstance(raw, bytes) for raw in peer.twist(frame))
    assert len(tally) == 12
    assert len({message.id for message in learned}) > 20


def test_frames_of_both_modes_are_written() -> None:
    _, feed, _ = hostile([])
    have, *_, parcel = frames(feed)
    assert isinstance(have, Have)
    assert isinstance(parcel, Parcel)
    assert phases.decode(encode(have), FrameLimits()) == have
    assert modern_frames.decode(encode(parcel), modern_frames.ModernLimits()) == parcel
