"""Two dialogues that talk to each other, block by block, and whatever a test puts between them."""

from collections.abc import Callable, Iterable

from blake3 import blake3

from bobbin.interlace.advertise import claim_digests
from bobbin.interlace.choice import Strategy
from bobbin.interlace.claim_index import Claim, ClaimIndex
from bobbin.interlace.dialogue import Dialogue
from bobbin.interlace.learned import Learned
from bobbin.interlace.limits import Limits, Service
from bobbin.interlace.messages import Advertise, Advertisement
from bobbin.interlace.offers import Offers
from bobbin.interlace.reconciliation import Part
from bobbin.policy.claims import ClaimedField
from bobbin.policy.operands import Origin
from bobbin.records import ids

KEY = bytes(range(16))
SOURCES = (Origin("source:0"), Origin("source:1"))
BLOCKS_MAX = 40

Twist = Callable[[Advertise], Advertise]


def name(number: int) -> str:
    """The name of one of many records, as different as names are."""
    return str(ids.hash_text(ids.Kind.PLEX, blake3(b"%d" % number).digest()))


def claim(number: int, app: str = "ding") -> Advertisement:
    """What is said about one of many records."""
    return Advertisement(record=name(number), fields=(ClaimedField("App", "0", app),))


NUMBERS = {name(number): number for number in range(2_000)}


def make_claims(advertisements: Iterable[Advertisement]) -> list[Claim]:
    """Records that are made one after the other."""
    some = list(advertisements)
    digests = claim_digests([(one.record, one.fields) for one in some])
    return [Claim(one.record, digest, 1 + NUMBERS[one.record]) for one, digest in zip(some, digests, strict=True)]


class Talker:
    """One side."""

    def __init__(
        self,
        offered: Iterable[Advertisement],
        *,
        initiator: bool,
        strategy: Strategy = Strategy.AUTO,
        limits: Limits = Limits(),  # noqa: B008 (a frozen value)
        service: Service = Service(),  # noqa: B008 (a frozen value)
        held: Iterable[Advertisement] = (),
        length: int = 2,
        kept: ClaimIndex | None = None,
    ) -> None:
        own, peer = SOURCES if initiator else reversed(SOURCES)
        self.offers = Offers(length, own)
        self.learned = Learned(length, held, peer)
        self.offers.keep_index(make_claims, kept)
        self.offers.update(tuple(offered), ())
        self._manner = (limits, service, initiator, strategy)
        self.dialogue = self._begin()
        self.said: list[Advertise] = []

    def _begin(self) -> Dialogue:
        limits, service, initiator, strategy = self._manner
        return Dialogue(KEY, self.offers, self.learned, limits, service, initiator=initiator, strategy=strategy)

    def begin_exchange(self) -> None:
        """Another link, with what this side knows in memory."""
        for part in (self.offers, self.learned):
            part.begin_exchange()
        self.dialogue = self._begin()

    def say(self, block: Advertise) -> Advertise:
        self.said.append(block)
        return block

    def parts(self) -> list[type[Part] | None]:
        """The kinds of what was said, block by block."""
        return [None if block.part is None else type(block.part) for block in self.said]

    def knows(self) -> dict[str, tuple[ClaimedField, ...]]:
        """What it takes the other side to claim."""
        return {one.record: one.fields for one in self.learned.advertisements()}

    def offered(self) -> dict[str, tuple[ClaimedField, ...]]:
        return {record: one.fields for record, one in self.offers.current().items()}


def talk(one: Talker, other: Talker, twist: Twist = lambda block: block) -> None:
    """One phase, to its end. ``twist`` changes what the other one says, on its way."""
    one.said, other.said = [], []
    ours, theirs = one.say(one.dialogue.opening()), twist(other.say(other.dialogue.opening()))
    one.dialogue.hear_opening(theirs)
    other.dialogue.hear_opening(ours)
    for _ in range(BLOCKS_MAX):
        ends = (one.dialogue.is_over, other.dialogue.is_over)
        assert ends[0] == ends[1], "both sides see the same end"
        if ends[0]:
            break
        ours, theirs = one.say(one.dialogue.next_block()), twist(other.say(other.dialogue.next_block()))
        one.dialogue.hear(theirs)
        other.dialogue.hear(ours)
        for talker in (one, other):
            talker.dialogue.check()
    else:
        raise AssertionError("a phase without end")
    for talker in (one, other):
        talker.dialogue.end_phase()
        talker.learned.check()
        talker.offers.check()
