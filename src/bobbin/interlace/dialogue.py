"""Reconciling at the cost of what differs: how two sides with the capability talk about their claims as a whole.

Claims do not depend on who makes them, so what a side offers itself is the best guess of what the other offers. Each
phase begins with both *standings*: a count, a root, and the root of what is held of the peer. From these both sides
know which of them has to be told something. A side is told by the first of these that is possible:

* nothing, where it holds the peer's claims already, or where both offer the same;
* ``Changed``, where the peer knows what it has told last and what has changed since;
* ``Compared``, where the peer knows what this side offers, and so what is different in its own;
* plainly, by listing or partitions, where the counts alone say that nothing is cheaper;
* a sketch or a stretch, by which both sides are told in one talk (``joint``); plainly, if that is cheaper after all.

Nothing is believed. Whoever has put the peer's claims together compares their count and root with the standing before
they count as claimed. Where they differ, or a sketch does not come apart within its bounds, that side says
``Fallback``: both go on plainly, in the same phase and for the rest of the epoch. What is proven wrong there ends the
exchange, as it does everywhere. A side whose index began as one that was kept makes it anew on that occasion, and
tells its root once more if it was another.

A phase is over when both standings needed no more, or when both sides have sent a block that says nothing.
"""

from typing import Final, assert_never

from msgspec import structs

from bobbin.interlace.assembly import Assembly
from bobbin.interlace.choice import Strategy, agreed, begins_plainly, plain_way
from bobbin.interlace.claim_index import ClaimIndex
from bobbin.interlace.joint import Answering, Asking
from bobbin.interlace.learned import Learned
from bobbin.interlace.limits import Limits, Service
from bobbin.interlace.messages import Advertise
from bobbin.interlace.offers import News, Offers, Questions
from bobbin.interlace.plainly import Plainly
from bobbin.interlace.reasons import Abort, Reason
from bobbin.interlace.reconciliation import (
    HELD_BYTES,
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
from bobbin.interlace.ways import Unusable

_BLOCK_PART: Final = 32
"""A symbol, an id or a name has fewer than so many bytes in a block."""
_BLOCK_BYTES_MIN: Final = 4_096
"""A block that must be smaller may have no room for a probe."""


class _Phase:
    """What was said and found out in one advertise phase."""

    def __init__(self) -> None:
        self.news = News()
        self.spoke = False
        """Whether our standing was said."""
        self.was_told = False
        """Whether the peer knows all that we offer, or says that it does not."""
        self.knows = False
        """Whether we know all that the peer offers, but for open questions about partitions."""
        self.tells_plainly = False
        self.hears_plainly = False
        self.has_restarted = False
        self.blocks = 0
        self.said = Advertise()
        self.heard = Advertise()
        self.is_proven = False
        """Whether what was told plainly is what the peer stands for."""
        self.new_root: bytes | None = None
        """Of what we offer, where that of our standing was not true."""
        self.failure: str | None = None
        """Why the plain way has to be taken; to be said next."""
        self.asking: Asking | None = None
        self.answering: Answering | None = None
        self.way: str | None = None
        self.why: str | None = None


class Dialogue:
    """The advertise phases of one epoch (``plainly.Reconciling``)."""

    def __init__(
        self,
        key: bytes,
        offers: Offers,
        learned: Learned,
        limits: Limits,
        service: Service,
        *,
        initiator: bool,
        strategy: Strategy = Strategy.AUTO,
    ) -> None:
        """``key``: of the short ids. ``offers`` keep their index."""
        self.fell_back = False
        """Whether sketches were given up in this epoch."""
        self._key: Final = key
        self._offers: Final = offers
        self._learned: Final = learned
        self._limits: Final = limits
        self._service: Final = service
        self._initiator: Final = initiator
        self._strategy: Final = strategy
        self._plainly: Final = Plainly(offers, learned, limits, service)
        room = limits.max_fact_block_size // _BLOCK_PART
        self._symbols_max: Final = min(service.sketch_symbols_max, room)
        self._assembly: Final = Assembly(offers, learned, limits, ids_max=min(service.sketch_ids_max, room))
        self._own: Standing | None = None
        self._peer: Standing | None = None
        """The last standings that were said and heard."""
        self._phase = _Phase()

    @property
    def _is_plain(self) -> bool:
        """Whether this phase began plainly: sketches were given up in an earlier one."""
        return self.fell_back and not self._phase.has_restarted

    # ---- the first blocks -----------------------------------------------------------------------------------------

    def opening(self) -> Advertise:
        """Our standing, unless nothing has changed since the last one."""
        phase = self._phase = _Phase()
        if self.fell_back:
            return self._plainly.opening()
        if self._own is None or self._offers.has_news:
            phase.spoke = True
            phase.news = self._offers.announce()
            index, held = self._offers.index, self._learned.root[:HELD_BYTES]
            phase.said = Advertise(part=Standing(count=len(index), root=index.root(), held=held, wish=self._strategy))
        return phase.said

    def hear_opening(self, block: Advertise) -> None:
        """The peer's standing, or that nothing has changed."""
        phase = self._phase
        phase.heard = block
        if self.fell_back:
            self._plainly.hear_opening(block)
            return
        if block.records or block.partitions or block.lists or block.narrows or block.direct is not None:
            raise Abort(Reason.OUT_OF_PHASE, "the first block of an iteration has more than a standing")
        own, peer = _standing(phase.said, self._own, self._peer), _standing(block, self._peer, self._own)
        if own is None or peer is None:
            raise Abort(Reason.OUT_OF_PHASE, "the first block of an exchange has no standing")
        self._own, self._peer = own, peer
        phase.was_told = not phase.spoke or _settles(own, peer)
        phase.knows = block.part is None
        if not phase.knows and _settles(peer, own):
            self._take_standing(own, peer)

    def _take_standing(self, own: Standing, peer: Standing) -> None:
        """Take what needs nothing but the standings. What they say must be true."""
        phase = self._phase
        try:
            if peer.root[:HELD_BYTES] == own.held:
                phase.way = "known"
                self._assembly.expect_held(peer)
            elif not peer.count:
                phase.way = "nothing"
                self._assembly.take_nothing(peer)
            else:
                phase.way = "equal"
                self._assembly.take_own(peer)
        except Unusable as error:
            raise Abort(Reason.ROOT_MISMATCH, str(error)) from error
        phase.knows = True

    # ---- the blocks after them ------------------------------------------------------------------------------------

    @property
    def is_over(self) -> bool:
        """Whether the last two blocks end the phase. Raises ``Abort`` where they cannot."""
        phase = self._phase
        if self._is_plain:
            return self._plainly.is_over
        if not phase.blocks:
            return phase.was_told and phase.knows
        if not (phase.said.says_nothing and phase.heard.says_nothing):
            return False
        if not phase.was_told or not phase.knows or phase.failure is not None:
            raise Abort(Reason.OUT_OF_PHASE, "the advertise phase ended with something left to tell")
        return True

    def hear(self, block: Advertise) -> None:
        """Take what the peer says next."""
        if self._is_plain:
            self._plainly.hear(block)
            return
        phase = self._phase
        phase.blocks += 1
        phase.heard = block
        if isinstance(block.part, Fallback) or isinstance(phase.said.part, Fallback):
            # Nothing of it counts, and its questions are not answered in the block that tells everything anew.
            phase.heard = structs.replace(block, lists=(), narrows=())
            self._restart(block.part)
            return
        if (block.lists or block.narrows) and not phase.tells_plainly:
            raise Abort(Reason.OUT_OF_PHASE, "the peer asks about partitions that nobody spoke of")
        if isinstance(block.part, Plain):
            self._begin_to_hear_plainly(block.part, block)
        elif block.part is not None:
            self._hear_part(block.part, block)
        elif phase.hears_plainly:
            self._learned.hear(block, self._limits)
        elif block.records or block.partitions:
            raise Abort(Reason.OUT_OF_PHASE, "advertisements came that nobody spoke of")

    def next_block(self) -> Advertise:
        """Answer, ask, and tell what is to be told."""
        if self._is_plain:
            return self._plainly.next_block()
        phase = self._phase
        try:
            if phase.failure is not None:
                raise Unusable(phase.failure)
            if phase.hears_plainly and not phase.has_restarted and self._learned.is_settled:
                self._prove_held()
            phase.said = self._ask(self._answer(self._tell()))
        except Unusable as error:
            phase.failure, phase.why = None, str(error)
            phase.said = Advertise(part=Fallback(why=phase.why))
        return phase.said

    def end_phase(self) -> None:
        """What was told plainly is proven against the standing, as the rest was before."""
        self._learned.end_phase()
        phase = self._phase
        # What is held for a talk is as large as the sets are, and a link may be idle for long.
        phase.asking = phase.answering = None
        if not self.fell_back:
            self._offers.index.forget_picture()
        if phase.hears_plainly:
            try:
                self._prove_held()
            except Unusable as error:
                raise Abort(Reason.ROOT_MISMATCH, str(error)) from error

    def _prove_held(self) -> None:
        """What was told plainly is what the peer stands for. Raises ``Unusable`` if it is not."""
        phase = self._phase
        assert self._peer is not None, "both have said how they stand"
        if not phase.is_proven:
            self._assembly.expect_held(self._peer)
            phase.is_proven = True

    def account(self) -> tuple[str | None, str | None]:
        """How the last phase went: the strategy, and why it was given up."""
        return self._plainly.account() if self._is_plain else (self._phase.way, self._phase.why)

    def check(self) -> None:
        """Assert what always holds."""
        phase = self._phase
        assert not (phase.has_restarted and not self.fell_back), "a restart is for good"
        assert phase.failure is None or not self.fell_back, "the plain way is not given up"
        assert phase.asking is None or self._initiator, "the initiator asks"
        assert phase.answering is None or not self._initiator, "the responder answers"

    # ---- what is heard --------------------------------------------------------------------------------------------

    def _hear_part(self, part: Part, block: Advertise) -> None:
        phase, peer = self._phase, self._peer
        assert peer is not None, "both have said how they stand"
        if isinstance(part, Probe) and phase.was_told and phase.blocks == 1:
            # It was on its way when we told what it asks for.
            return
        if phase.knows or block.partitions or phase.has_restarted:
            raise Abort(Reason.OUT_OF_PHASE, f"{type(part).__name__} has no place here")
        self._learned.check_listing(block.records, self._limits)
        try:
            match part:
                case Changed():
                    phase.way = "changes"
                    self._assembly.hear_changed(part, block.records, peer, phase.news.gone.values())
                    phase.knows = True
                case Compared():
                    phase.way = "comparison"
                    self._assembly.hear_compared(part, block.records, peer)
                    phase.knows = True
                case Sketched() | Ranged() | Supplied() if phase.asking is not None:
                    self._hear_answer(part, block, phase.asking, peer)
                case Probe() | More() | Lacking() if not self._initiator:
                    self._hear_question(part, block, peer)
                case _:
                    raise Abort(Reason.OUT_OF_PHASE, f"{type(part).__name__} has no place here")
        except Unusable as error:
            phase.failure = str(error)

    def _hear_answer(
        self, part: Sketched | Ranged | Supplied, block: Advertise, asking: Asking, peer: Standing
    ) -> None:
        phase = self._phase
        if isinstance(part, Supplied):
            asking.hear_supplied(block.records, peer)
            phase.knows = True
            return
        _expect_no_records(block)
        asking.hear(part)
        phase.way = asking.way

    def _hear_question(self, part: Probe | More | Lacking, block: Advertise, peer: Standing) -> None:
        phase = self._phase
        if phase.answering is None:
            phase.answering = Answering(
                self._offers.index.keyed(self._key),
                self._assembly,
                peer,
                wish=self._wish,
                symbols_max=self._symbols_max,
                turns_max=self._service.sketch_turns_max,
            )
        match part:
            case Probe():
                _expect_no_records(block)
                phase.answering.hear_probe(part)
            case More():
                _expect_no_records(block)
                phase.answering.hear_more(part)
            case Lacking():
                phase.answering.hear_lacking(part, block.records)
                phase.knows = True
            case _:
                assert_never(part)

    def _begin_to_hear_plainly(self, part: Plain, block: Advertise) -> None:
        phase = self._phase
        if phase.knows or phase.hears_plainly:
            raise Abort(Reason.OUT_OF_PHASE, "a peer tells once more what it has told")
        if not (block.records or block.partitions):
            raise Abort(Reason.OUT_OF_PHASE, "a peer that offers something tells nothing")
        if part.root is not None:
            if not phase.has_restarted:
                raise Abort(Reason.OUT_OF_PHASE, "a standing is taken back that nobody has doubted")
            assert self._peer is not None, "both have said how they stand"
            self._peer = structs.replace(self._peer, root=part.root)
        phase.knows = phase.hears_plainly = True
        phase.way = Strategy.LISTING.value if block.records else Strategy.PARTITIONS.value
        bare = Advertise(records=block.records, partitions=block.partitions)
        self._learned.open(bare, self._limits, self._offers.under, complete=True)

    def _restart(self, part: Part | None) -> None:
        """Somebody has given up. Everything is told once more, plainly."""
        phase, own, peer = self._phase, self._own, self._peer
        assert own is not None, "both have said how they stand"
        assert peer is not None, "both have said how they stand"
        if self.fell_back:
            raise Abort(Reason.OUT_OF_PHASE, "the plain way was given up as well")
        if phase.why is None and isinstance(part, Fallback):
            phase.why = f"the peer could not use it: {part.why}"
        self.fell_back = phase.has_restarted = True
        phase.failure = None
        phase.tells_plainly = phase.hears_plainly = phase.is_proven = False
        phase.was_told, phase.knows = not own.count, not peer.count
        if phase.knows:
            self._assembly.take_nothing(peer)
        if self._offers.renew_index():
            # What was kept of an earlier exchange was not true, and so neither was our standing.
            phase.new_root = self._offers.index.root()
            self._own = structs.replace(own, root=phase.new_root)

    # ---- what is said ---------------------------------------------------------------------------------------------

    def _tell(self) -> Advertise:
        """What makes the peer know what we offer, or the next step of it."""
        phase, peer = self._phase, self._peer
        assert peer is not None, "both have said how they stand"
        if phase.was_told:
            return Advertise()
        if phase.has_restarted:
            return self._tell_plainly()
        if phase.answering is not None:
            return self._answer_probe(phase.answering)
        if phase.asking is not None and not phase.knows:
            return self._go_on(phase.asking)
        short = self._assembly.changed(phase.news, peer)
        if short is None and phase.knows and self._learned.is_settled:
            short = self._assembly.compared()
        if short is not None:
            phase.was_told = True
            return short
        if phase.knows or self._begins_plainly:
            return self._tell_plainly()
        if not self._initiator:
            # The initiator is about to ask, or to tell.
            return Advertise()
        phase.asking = Asking(
            self._offers.index.keyed(self._key),
            self._assembly,
            symbols_max=self._symbols_max,
            turns_max=self._service.sketch_turns_max,
        )
        return self._go_on(phase.asking)

    def _answer_probe(self, answering: Answering) -> Advertise:
        if answering.is_asked and not answering.choose():
            return self._tell_plainly()
        self._phase.way = answering.way
        return self._go_on(answering)

    def _go_on(self, talk: Asking | Answering) -> Advertise:
        block, self._phase.was_told = talk.next_block()
        return block

    def _tell_plainly(self) -> Advertise:
        phase = self._phase
        phase.was_told = phase.tells_plainly = True
        return structs.replace(
            self._offers.tell_all(self._limits, self._service, self._plain_way), part=Plain(root=phase.new_root)
        )

    def _answer(self, block: Advertise) -> Advertise:
        """With what the peer asks about our partitions."""
        heard = self._phase.heard
        if not (heard.lists or heard.narrows):
            return block
        answer = self._offers.answer(Questions(lists=heard.lists, narrows=heard.narrows), self._limits)
        return structs.replace(block, records=answer.records, partitions=answer.partitions)

    def _ask(self, block: Advertise) -> Advertise:
        """With what we ask about the peer's partitions."""
        if not self._phase.hears_plainly:
            return block
        questions = self._learned.ask(self._limits, self._service)
        return structs.replace(block, lists=questions.lists, narrows=questions.narrows)

    @property
    def _plain_way(self) -> Strategy:
        """How to tell plainly: as it was chosen, or as the peer does it. After a fallback, as every peer would."""
        phase, peer = self._phase, self._peer
        assert peer is not None, "both have said how they stand"
        if phase.has_restarted:
            return Strategy.AUTO
        if phase.answering is not None and phase.answering.way is not None:
            chosen = Strategy(phase.answering.way)
        elif phase.hears_plainly:
            chosen = Strategy(phase.way or Strategy.AUTO)
        elif self._begins_plainly:
            chosen = Strategy.LISTING if self._wish is Strategy.AUTO else self._wish
        else:
            chosen = Strategy.AUTO
        is_held = peer.held != ClaimIndex().root()[:HELD_BYTES]
        return plain_way(chosen, len(self._offers), self._assembly.records_max, is_held=is_held)

    @property
    def _wish(self) -> Strategy:
        assert self._own is not None, "both have said how they stand"
        assert self._peer is not None, "both have said how they stand"
        wishes = (self._own.wish, self._peer.wish)
        return agreed(*wishes) if self._initiator else agreed(*reversed(wishes))

    @property
    def _begins_plainly(self) -> bool:
        """Whether both sides know from the counts alone that they go the plain way."""
        assert self._own is not None, "both have said how they stand"
        assert self._peer is not None, "both have said how they stand"
        has_room = self._limits.max_fact_block_size >= _BLOCK_BYTES_MIN
        return not has_room or begins_plainly(self._own.count, self._peer.count, self._wish)


def _standing(block: Advertise, last: Standing | None, other: Standing | None) -> Standing | None:
    """How a side stands after its first block. Who says nothing stands as before, and holds what it was told then."""
    if isinstance(block.part, Standing):
        return block.part
    if block.part is not None or last is None or other is None:
        return None
    return structs.replace(last, held=other.root[:HELD_BYTES])


def _settles(speaker: Standing, hearer: Standing) -> bool:
    """Whether a side knows what the other offers from the standings alone."""
    is_same = (speaker.count, speaker.root) == (hearer.count, hearer.root)
    return is_same or not speaker.count or speaker.root[:HELD_BYTES] == hearer.held


def _expect_no_records(block: Advertise) -> None:
    if block.records:
        raise Abort(Reason.OUT_OF_PHASE, "advertisements came that nobody spoke of")
