"""A peer that says anything at any time: the machine answers or ends, keeps its invariants, and stores only records."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from bobbin.interlace.choice import Strategy
from bobbin.interlace.claim_index import ClaimIndex
from bobbin.interlace.config import Open
from bobbin.interlace.events import Cancelled, Flushed, LinkClosed, OperandChanged, StoreChanged
from bobbin.interlace.learned import claims_of
from bobbin.interlace.limits import Limits, Service
from bobbin.interlace.messages import (
    Advertise,
    Delivered,
    Hello,
    Message,
    Partition,
    Request,
    Response,
    Transfer,
    Unavailable,
)
from bobbin.interlace.partitions import payload
from bobbin.interlace.reconciliation import (
    Changed,
    Compared,
    Cut,
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
from bobbin.interlace.state import Awaits
from bobbin.reconcile.estimate import COUNTERS
from bobbin.records import tai
from bobbin.records.record import validate
from tests.policy_worlds import EVERYTHING
from tests.properties.effort import scaled
from tests.support.exchanges import BY_GROUP, START_NS, Against, Watched, config, record, selector

_POOL = [record(number) for number in range(24)]
_PREFIXES = sorted({payload(one.hash)[:2] for one in _POOL})


def _some(random: Random, most: int = 4) -> list[int]:
    return sorted(random.sample(range(len(_POOL)), random.randint(0, most)), key=lambda at: _POOL[at].hash)


def _partitions(random: Random) -> tuple[Partition, ...]:
    prefixes = sorted(random.sample(_PREFIXES, random.randint(1, 3)))
    deeper = random.random() < 0.3
    return tuple(
        Partition(
            prefix=prefix + ("a" if deeper else ""),
            count=random.choice((0, 1, 2, 10**6)),
            root=random.choice((bytes(32), b"\x01" * 32)),
        )
        for prefix in prefixes
    )


def _response(random: Random, at: int) -> Response:
    one = _POOL[at]
    return random.choice(
        (
            Delivered(record=one.hash, raw=one.raw),
            Delivered(record=one.hash, raw=_POOL[at - 1].raw),
            Delivered(record=one.hash, raw=b""),
            Unavailable(record=one.hash),
        )
    )


def _tick(random: Random) -> str | None:
    return random.choice((None, tai.render(START_NS), tai.render(START_NS + random.choice((1, 10**10, 10**12)))))


def _advertise(random: Random, against: Against) -> Advertise:
    block = random.choice(
        (
            Advertise(),
            Advertise(records=tuple(against.claim(_POOL[at]) for at in _some(random))),
            Advertise(partitions=_partitions(random)),
            Advertise(
                lists=tuple(random.sample([*_PREFIXES, "a", "a" * 15], 2)),
                narrows=tuple(random.sample([*_PREFIXES, "", "a" * 14], 2)),
            ),
        )
    )
    return structs.replace(block, tick=_tick(random))


def _anything(random: Random, against: Against) -> Message:
    kind = random.randint(0, 4)
    if kind == 0:
        return against.setup()
    if kind == 1 and any(isinstance(message, Hello) for message in against.said):
        return against.hello()
    if kind == 2:
        asked = [_POOL[at].hash for at in _some(random)]
        random.shuffle(asked)
        return Request(records=tuple(asked if random.random() < 0.2 else sorted(asked)), tick=_tick(random))
    if kind == 3:
        responses = tuple(_response(random, at) for at in _some(random))
        return Transfer(responses=responses, last=random.random() < 0.6, tick=_tick(random))
    return _advertise(random, against)


def _polite(random: Random, against: Against) -> Message:
    """What the machine waits for, so that it gets somewhere; the records themselves may still be wrong."""
    match against.machine.awaits:
        case Awaits.SETUP:
            return against.setup()
        case Awaits.HELLO:
            return against.hello()
        case Awaits.REQUEST:
            return Request(records=tuple(_POOL[at].hash for at in _some(random)), tick=_tick(random))
        case Awaits.TRANSFER:
            last = next(message for message in reversed(against.said) if isinstance(message, Request))
            served = [at for at, one in enumerate(_POOL) if one.hash in last.records and random.random() < 0.8]
            return Transfer(responses=tuple(_response(random, at) for at in served), last=True)
        case _:
            claims = tuple(against.claim(_POOL[at]) for at in _some(random, 3))
            return Advertise(records=claims if random.random() < 0.5 else (), tick=_tick(random))


@scaled(1)
@given(st.integers(0, 2**32))
def test_whatever_a_peer_says_ends_in_effects(seed: int) -> None:
    """IL-037, IL-047, IL-256, IL-273: no exception, no invariant broken, nothing stored that is no record."""
    random = Random(seed)
    own = config(
        random.choice((EVERYTHING, BY_GROUP)),
        lifecycle=Open(),
        limits=Limits(
            max_advertisement_records_listed=3, max_partition_summaries=20, max_total_transferred_bytes=1_500
        ),
        service=Service(chunk_records_max=2, list_outright_max=random.choice((1, 100)), list_partition_max=1),
    )
    against = Against(own, Watched(_POOL[at] for at in _some(random, 12)))
    before = set(against.holdings.records)
    against.to_hello()
    against.say(against.hello())
    for _ in range(30):
        if against.closed:
            break
        against.clock.move(random.choice((0, 0, 1, 10)))
        choice = random.random()
        if choice < 0.85:
            against.say(_polite(random, against))
        elif choice < 0.9:
            against.say(_anything(random, against))
        else:
            event = random.choice((StoreChanged(), Flushed(), OperandChanged(selector(EVERYTHING))))
            against.give(event)
        against.machine.check()
    against.give(random.choice((Cancelled(), LinkClosed())))
    result = against.result
    assert result is not None
    assert against.closed
    assert not against.waiting
    for name, one in against.holdings.records.items():
        assert validate(one.raw).hash == name
    assert result.received <= set(against.holdings.records) - before
    assert result.bytes_received + result.bytes_sent <= 1_500


def _standing(random: Random, against: Against) -> Standing:
    """Of some claims, true or not."""
    index = ClaimIndex(claims_of([against.claim(_POOL[at]) for at in _some(random, 12)]))
    root = index.root() if random.random() < 0.8 else random.randbytes(32)
    return Standing(count=len(index), root=root, held=random.choice((ClaimIndex().root()[:16], random.randbytes(16))))


def _part(random: Random, against: Against) -> Part | None:
    """Something that is said about all claims together, of the right form and seldom in its place."""
    names = tuple(sorted(payload(_POOL[at].hash)[:11] for at in _some(random)))
    parts: tuple[Part | None, ...] = (
        None,
        None,
        _standing(random, against),
        Probe(bulk=bytes(COUNTERS), cuts=(Cut(moment=START_NS + 9, sum=random.getrandbits(64)),)),
        Sketched(first=random.choice((0, 0, 16)), raw=random.randbytes(10 * random.randint(1, 40))),
        Ranged(moment=random.choice((0, START_NS + 9)), ids=random.randbytes(8 * random.randint(0, 5))),
        More(symbols=random.choice((1, 16, 10**6))),
        Lacking(ids=random.randbytes(8 * random.randint(0, 3))),
        Supplied(),
        Changed(added=names[:1], removed=names[1:]),
        Compared(removed=names),
        Plain(),
        Fallback(why="no reason"),
    )
    return random.choice(parts)


@scaled(0.5)
@given(st.integers(0, 2**32))
def test_whatever_a_peer_says_of_its_claims_ends_in_effects(seed: int) -> None:
    """IL-037, IL-047, IL-195: sketches that are none are given up on, or end the exchange; nothing else is raised."""
    random = Random(seed)
    strategy = random.choice((Strategy.AUTO, Strategy.SKETCH, Strategy.RANGES))
    own = config(EVERYTHING, lifecycle=Open(), strategy=strategy, share=7, initiator=random.random() < 0.5)
    against = Against(own, Watched(_POOL[at] for at in _some(random, 12)))
    against.to_hello()
    against.say(against.hello())
    against.say(Advertise(part=_standing(random, against)))
    for _ in range(20):
        if against.closed:
            break
        if against.machine.awaits is Awaits.ADVERTISE:
            block = _advertise(random, against) if random.random() < 0.3 else Advertise()
            against.say(structs.replace(block, part=_part(random, against)))
        else:
            against.say(_polite(random, against))
        against.machine.check()
    against.give(Cancelled())
    assert against.result is not None
    assert against.closed
