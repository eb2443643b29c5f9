"""The talk in which both sides find out at once: a probe, an answer, what the initiator lacks, and what it is supplied.

The initiator says what its claims look like. The responder estimates the difference from that, chooses (``choice``) and
tells symbols or a stretch. The initiator finds what differs, and knows both directions. It says which of the peer's
claims it lacks, by their ids, and lists what the peer lacks: then the responder knows both directions too, and lists
what was lacking.
"""

from collections.abc import Sequence
from typing import Final

from bobbin.interlace import ranging
from bobbin.interlace.assembly import Assembly
from bobbin.interlace.choice import ID_BYTES, Situation, Strategy, choose
from bobbin.interlace.claim_index import Keyed
from bobbin.interlace.messages import Advertise, Advertisement
from bobbin.interlace.reconciliation import Lacking, More, Probe, Ranged, Sketched, Standing, Supplied
from bobbin.interlace.sketching import SketchFinding, SketchTelling
from bobbin.interlace.ways import Finding, Telling, Unusable
from bobbin.reconcile import Bulk, Ids, estimate


class Asking:
    """The initiator's part, in one phase."""

    def __init__(self, keyed: Keyed, assembly: Assembly, *, symbols_max: int, turns_max: int) -> None:
        self.way: str | None = None
        """The strategy that the responder has chosen, once it is known."""
        self._keyed: Final = keyed
        self._assembly: Final = assembly
        self._symbols_max: Final = symbols_max
        self._turns_max: Final = turns_max
        self._finding: Finding | None = None
        self._said_probe = False
        self._is_answered = False
        self._extra: list[str] | None = None
        """Of our records, those that the peer does not claim, once that was told."""
        self._next: Advertise | None = None

    def hear(self, part: Sketched | Ranged) -> None:
        """The responder's answer, or more of it. Raises ``Unusable``."""
        if not self._said_probe or self._is_answered or self._extra is not None:
            raise Unusable("an answer came that nobody asked for")
        self._is_answered = True
        finding = self._finding = self._finding or self._begin(part)
        found = finding.hear(part)
        if found is None:
            self._next = Advertise(part=finding.ask())
            return
        if len(found.missing) > min(self._assembly.ids_max, self._assembly.records_max):
            raise Unusable(f"{len(found.missing)} advertisements are lacking, too many to be listed at once")
        self._assembly.expect_room(len(found.extra))
        records = self._assembly.listing(_known(self._keyed, found.extra))
        self._next = Advertise(part=Lacking(ids=ranging.ids_bytes(found.missing)), records=records)

    def next_block(self) -> tuple[Advertise, bool]:
        """What to say, if anything; and whether the peer then knows everything."""
        if not self._said_probe:
            self._said_probe = True
            bulk = self._keyed.bulk().encode()
            return Advertise(part=Probe(bulk=bulk, cuts=ranging.cuts_of(self._keyed))), False
        block, self._next = self._next or Advertise(), None
        if isinstance(block.part, More):
            self._is_answered = False
        is_told = isinstance(block.part, Lacking)
        if is_told:
            self._extra = [one.record for one in block.records]
        return block, is_told

    def hear_supplied(self, records: Sequence[Advertisement], standing: Standing) -> None:
        """What was lacking. Raises ``Unusable``."""
        if self._extra is None:
            raise Unusable("records came that were not lacking")
        self._assembly.take_own(standing, self._extra, records)

    def _begin(self, part: Sketched | Ranged) -> Finding:
        if isinstance(part, Ranged):
            self.way = Strategy.RANGES.value
            if len(part.ids) > ID_BYTES * self._assembly.ids_max:
                raise Unusable(f"more than {self._assembly.ids_max} ids came")
            return ranging.RangeFinding(self._keyed)
        self.way = Strategy.SKETCH.value
        return SketchFinding(self._keyed, symbols_max=self._symbols_max, turns_max=self._turns_max)


class Answering:
    """The responder's part, in one phase."""

    def __init__(
        self, keyed: Keyed, assembly: Assembly, peer: Standing, *, wish: Strategy, symbols_max: int, turns_max: int
    ) -> None:
        self.way: str | None = None
        self._keyed: Final = keyed
        self._assembly: Final = assembly
        self._peer: Final = peer
        self._wish: Final = wish
        self._symbols_max: Final = symbols_max
        self._turns_left = turns_max
        self._probe: Probe | None = None
        self._telling: Telling | None = None
        self._next: Sketched | Ranged | None = None
        self._supply: list[str] | None = None

    @property
    def is_asked(self) -> bool:
        """Whether the initiator has sent its probe, and nothing was chosen yet."""
        return self._probe is not None and self._telling is None

    def hear_probe(self, probe: Probe) -> None:
        """What the initiator's claims look like."""
        if self._probe is not None:
            raise Unusable("a second probe came")
        self._probe = probe

    def choose(self) -> bool:
        """Choose the way; whether it is one of ours. Raises ``PeerError`` for a probe that is none."""
        assert self._probe is not None, "the initiator speaks first"
        difference = estimate(self._keyed.bulk(), Bulk.decode(self._peer.count, self._probe.bulk))
        # Without such a moment everything is a stretch. Where much differs its ids take less than symbols would.
        moment = ranging.recent_from(self._keyed, self._probe.cuts) or 0
        own = len(self._keyed.ids)
        situation = Situation(
            own=own,
            peer=self._peer.count,
            difference=difference,
            recent=ranging.count_from(self._keyed, moment) if moment else own,
            symbols_max=self._symbols_max,
            ids_max=self._assembly.ids_max,
            records_max=self._assembly.records_max,
        )
        way = choose(situation, self._wish)
        self.way = way.value
        if way is Strategy.RANGES:
            self._telling = ranging.RangeTelling(self._keyed, moment)
        elif way is Strategy.SKETCH:
            self._telling = SketchTelling(self._keyed, difference, self._symbols_max)
        else:
            return False
        self._next = self._telling.tell()
        return True

    def hear_more(self, more: More) -> None:
        """The initiator needs more. Raises ``Unusable``."""
        self._turns_left -= 1
        if self._telling is None or self._supply is not None or self._turns_left < 0 or self._next is not None:
            raise Unusable("more was asked for than was agreed on")
        self._next = self._telling.tell_more(more)

    def hear_lacking(self, part: Lacking, records: Sequence[Advertisement]) -> None:
        """What the initiator lacks, and what it has more. Raises ``Unusable``."""
        if self._telling is None or self._supply is not None or self._next is not None:
            raise Unusable("something is lacking that was never told")
        if len(part.ids) > ID_BYTES * self._assembly.ids_max:
            raise Unusable(f"more than {self._assembly.ids_max} advertisements are lacking")
        lacking = _known(self._keyed, ranging.ids_of(part.ids))
        self._assembly.take_own(self._peer, lacking, records)
        self._supply = lacking

    def next_block(self) -> tuple[Advertise, bool]:
        """What to say, if anything; and whether the peer then knows everything."""
        if self._supply is not None:
            return Advertise(part=Supplied(), records=self._assembly.listing(self._supply)), True
        part, self._next = self._next, None
        return Advertise(part=part), False


def _known(keyed: Keyed, ids: Ids) -> list[str]:
    """The own records behind some ids, each once."""
    found = keyed.records(ids)
    records = [record for record in found if record is not None]
    if len(set(records)) != len(found):
        raise Unusable("an id stands for no advertisement, or for two")
    return records
