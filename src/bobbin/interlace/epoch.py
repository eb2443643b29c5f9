"""What holds as long as a plan does: the agreement, what both sides offer, what is wanted, the shared time.

Every evaluation of a link goes through ``evaluate``: one snapshot of the store, the claims as they stand, the runtime
facts of this moment. What it changes is carried into the advertisements and into what is wanted.
"""

from collections.abc import Collection, Sequence
from typing import Final

from bobbin import profile
from bobbin.interlace.advertise import Renderer, claim_digests
from bobbin.interlace.built import Built
from bobbin.interlace.claim_index import Claim
from bobbin.interlace.config import Bounded, Config
from bobbin.interlace.cursor import Cursor
from bobbin.interlace.dialogue import Dialogue
from bobbin.interlace.events import Now
from bobbin.interlace.learned import Learned
from bobbin.interlace.messages import Advertisement
from bobbin.interlace.negotiation import Agreement
from bobbin.interlace.offers import Offers
from bobbin.interlace.plainly import Plainly, Reconciling
from bobbin.interlace.ports import Evaluated, Holdings, Memory, Question
from bobbin.interlace.ticks import Ticks
from bobbin.interlace.wants import Wants
from bobbin.policy.claims import ClaimedField
from bobbin.policy.runtime_facts import RuntimeFacts
from bobbin.records import tai

STANDARD_PREFIX_LENGTH: Final = 2
"""Of partition prefixes, unless the plan has a parameter for it."""
_TAI: Final = "TAI"


class Epoch:
    """One link under one agreed plan."""

    def __init__(self, agreement: Agreement, config: Config, holdings: Holdings) -> None:
        self.agreement: Final = agreement
        self.terms: Final = agreement.terms
        self.key: Final = agreement.terms.link or config.cursor_key
        """What the cursor of this link is kept under."""
        self._config = config
        self._holdings = holdings
        self.built: str | None = None
        """Where digests of what is offered were found, or why they were computed; None where that was no question."""
        memory = holdings.begin(agreement.policy, agreement.terms.schema, self.key) or self._recall()
        self.offers: Final = memory.offers
        self.learned: Final = memory.learned
        self.wants: Final = memory.wants
        self._undescribed = memory.undescribed
        self.ticks: Final = Ticks(self.terms.start_tai, self.terms.tick_interval_ns)
        self._evaluated_tick: str | None = None
        self._evaluated_passed = 0
        self.claims_are_whole = False
        """Whether the last advertise phase came to its end."""
        for part in (self.offers, self.learned, self.wants):
            part.begin_exchange()
        self.reconciling: Final = self._begin_reconciling()
        self.begin_round()

    def begin_round(self) -> None:
        """Limits that count by the round start anew."""
        self.offers.begin_round()
        self.learned.begin_round()

    def check(self) -> None:
        """Assert what always holds."""
        self.ticks.check()
        self.offers.check()
        self.learned.check()
        self.wants.check()
        self.reconciling.check()
        assert not any(record in self.offers for record in self._undescribed), "what is offered was described"

    # ---- evaluation -----------------------------------------------------------------------------------------------

    def evaluate(self) -> None:
        """Evaluate the policy over this moment, and follow what has changed."""
        changes = self.learned.changes()
        self._evaluated_tick, self._evaluated_passed = self.ticks.tick, self.ticks.passed
        question = Question(runtime=self.runtime_facts(), claimed=changes.claimed, withdrawn=changes.withdrawn)
        self._follow(self._holdings.evaluate(question))

    @property
    def is_outdated(self) -> bool:
        """Whether the shared time has moved since the last evaluation."""
        return self._evaluated_tick != self.ticks.tick

    def choose(self, at_most: int) -> tuple[str, ...]:
        """What to request now, after the last evaluation."""
        chosen = self.wants.choose(self.learned, self.terms.formats, at_most, self._holdings.absent)
        assert len(self.learned.having(chosen)) == len(chosen), "what is requested is advertised"
        assert all(map(self.wants.may_request.__contains__, chosen)), "what is requested may be requested"
        return chosen

    def expect(self, records: Sequence[str]) -> None:
        """These are loaded next, in this step."""
        self._holdings.expect(records)

    def load_sendable(self, record: str) -> bytes | None:
        """The bytes of a record if it is announced, may be sent and is stored, at this moment."""
        return self._holdings.load(record) if self.offers.was_announced(record) else None

    def _follow(self, evaluated: Evaluated) -> None:
        # An evaluation is of a snapshot, a description of the present. What has left in between may be back before the
        # next snapshot, which then tells no change of it. So it is asked for again as long as it may be sent.
        added = sorted(evaluated.send_added | (self._undescribed - evaluated.send_removed))
        described = self._holdings.describe(added, self.terms.schema) if added else []
        told = [(record, fields) for record, fields in zip(added, described, strict=True) if fields is not None]
        # Nobody on the other side of the same process will ask for a digest; a sketch is made from those of claims.
        needs_none = self._config.direct or self.agreement.sketch_key is not None
        built = None if needs_none or not told else self._find_built(told)
        known = {} if built is None else built.digests
        digest = _no_digest if needs_none else Renderer(self.agreement.policy.own_origin).digest
        fresh = [
            Advertisement(record=record, fields=fields, digest=known.get(record) or digest(record, fields))
            for record, fields in told
        ]
        self._undescribed = frozenset(record for record, fields in zip(added, described, strict=True) if fields is None)
        self.offers.update(fresh, evaluated.send_removed)
        if built is not None:
            self.offers.note_built(built)
        self.wants.update(evaluated.request_added, evaluated.request_removed, evaluated.moved, self._find_absent)

    def _find_built(self, told: Sequence[tuple[str, tuple[ClaimedField, ...]]]) -> Built | None:
        """What was computed beforehand of some advertisements, if that is worth anything."""
        found = self._holdings.built([record for record, _ in told], self.terms.schema, self.offers.length)
        if found is None:
            return None
        self.built = found.said
        if not found.is_true(told, self.agreement.policy.own_origin):
            self.built = f"computed: {found.said}, where other digests stand than those of the records"
            return None
        return found

    def _find_absent(self, records: Collection[str]) -> frozenset[str]:
        """Of some records, those that are neither stored nor refused. What is offered is stored."""
        doubtful = set(records) - self.offers.having(records)
        return self._holdings.absent(doubtful) if doubtful else frozenset()

    def runtime_facts(self) -> RuntimeFacts:
        """What the rules of this side are told about the exchange, at this moment."""
        return RuntimeFacts(
            here=self._config.own.verifier,
            peer=self.terms.peer,
            transport=self._config.transport,
            transport_encrypted=self._config.encrypted,
            start_tai=self.terms.start_tai,
            tick_tai=self.ticks.tick,
            clock_skew_seconds=self.terms.clock_skew_seconds,
        )

    # ---- reconciliation -------------------------------------------------------------------------------------------

    def _begin_reconciling(self) -> Reconciling:
        config, key = self._config, self.agreement.sketch_key
        if key is None:
            self.offers.drop_index()
            return Plainly(
                self.offers,
                self.learned,
                self.terms.limits,
                config.service,
                direct=config.direct,
                strategy=config.strategy,
            )
        kept = self._holdings.kept_index(self.terms.schema) if self.offers.standing_index is None else None
        self.offers.keep_index(self._claims, kept)
        self.offers.find_built = self._find_built
        return Dialogue(
            key,
            self.offers,
            self.learned,
            self.terms.limits,
            config.service,
            initiator=config.initiator,
            strategy=config.strategy,
        )

    def _claims(self, advertisements: Collection[Advertisement]) -> list[Claim]:
        """What the index keeps of some advertisements: their digests, and when they say that their records were made.

        A probe tells moments. So those of records whose advertisements do not say them are left out of it.
        """
        digests = claim_digests([(one.record, one.fields) for one in advertisements])
        tells_tai = _TAI in self.terms.schema
        return [
            Claim(one.record, digest, _moment(one.fields) if tells_tai else 0)
            for one, digest in zip(advertisements, digests, strict=True)
        ]

    # ---- time -----------------------------------------------------------------------------------------------------

    @property
    def is_ticking(self) -> bool:
        """Whether time moves in this exchange. In a plain bounded one it stands at the start."""
        lifecycle = self._config.lifecycle
        return not isinstance(lifecycle, Bounded) or lifecycle.ticks > 0

    @property
    def may_close(self) -> bool:
        """Whether a fixed point is the end: the time that was to be waited for has been evaluated."""
        lifecycle = self._config.lifecycle
        return isinstance(lifecycle, Bounded) and self._evaluated_passed >= lifecycle.ticks

    def tick(self, now: Now) -> str | None:
        """Our latest readiness, to ride on a block.

        Our clock is looked at only here, when a block of the advertise phase goes out. So after each such block both
        sides compute the shared time from the same two values.
        """
        if not self.is_ticking:
            return None
        self.ticks.reach(now.tai_ns)
        return self.ticks.local_ready

    def hear_tick(self, tick: str | None) -> str | None:
        """Take the peer's readiness; returns why it was ignored, if it was."""
        return None if tick is None or not self.is_ticking else self.ticks.accept(tick)

    # ---- memory ---------------------------------------------------------------------------------------------------

    def cursor(self) -> Cursor | None:
        """What is to be saved of the peer's claims now; None if nothing is."""
        if self.key is None or not self.learned.unsaved or not self.claims_are_whole:
            return None
        self.learned.unsaved = False
        return Cursor(
            key=self.key,
            plan=self.terms.plan,
            source=self.agreement.policy.peer_origin,
            schema=self.terms.schema,
            advertisements=self.learned.advertisements(),
            root=self.learned.known_root,
        )

    def memory(self) -> Memory:
        """Everything that the next exchange on this link can go on from."""
        return Memory(offers=self.offers, learned=self.learned, wants=self.wants, undescribed=self._undescribed)

    def _recall(self) -> Memory:
        """A new memory, with the claims of the cursor if that speaks of this plan, this source and these fields."""
        plan = self.agreement.plan
        length = int(plan.parameter(profile.PARTITION_PREFIX_LENGTH) or STANDARD_PREFIX_LENGTH)
        cursor = None if self.key is None else self._holdings.cursor(self.key)
        fits = cursor is not None and (cursor.plan, cursor.source, cursor.schema) == (
            plan.identifier,
            self.agreement.policy.peer_origin,
            self.terms.schema,
        )
        held, root = (cursor.advertisements, cursor.root) if cursor is not None and fits else ((), b"")
        policy = self.agreement.policy
        return Memory(
            offers=Offers(length, policy.own_origin),
            learned=Learned(length, held, policy.peer_origin, claims_max=self._config.service.claims_max, root=root),
            wants=Wants(),
        )


def _moment(fields: tuple[ClaimedField, ...]) -> int:
    """When a record says that it was made; 0 for one that does not say."""
    said = [field.value for field in fields if field.name == _TAI]
    return tai.parse(said[0]) if len(said) == 1 else 0


def _no_digest(record: str, fields: tuple[ClaimedField, ...]) -> bytes:
    del record, fields
    return b""
