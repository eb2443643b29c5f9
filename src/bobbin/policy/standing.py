"""A decision that stands: one plan on one side, kept up to date at the cost of what changed (Lace-040 lowering).

``decide`` computes a decision from everything; an exchange asks again after each record and each claim. Here the four
programs behind a decision stay in memory with what they derived, and a change flows through them in the order of
lowering (see ``decide``): the own module, the same without claims (the *offer*, kept apart only where claims can make
a difference), the query module, the peer's module. Where the peer's view moves, the facts of the records that came
into it or left it are a change for the peer's module like any other; it never feels the rest.

The programs have their numbers for texts in common, so that a relation goes from one to the next as columns: the store
is read once, and the peer's module gets the rows of the records that it may see, in relations of its own. Rules cannot
feel which numbers there are, but for one thing: texts that rules make up count against their budget only if they are
new. So a peer's module that makes up texts has numbers for itself. For the same reason a decision has numbers in common
with others (``numbers``) only if its own modules make up nothing.

What always holds after ``load`` and after each ``advance``: the decision and the view are exactly those that ``decide``
would compute from the facts, claims and runtime facts of this moment.
"""

from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from itertools import chain
from types import MappingProxyType
from typing import Final

import numpy as np
from msgspec import Struct, structs

from bobbin.datalog.local.changes import Changes
from bobbin.datalog.local.columns import Column
from bobbin.datalog.local.conjunction import Source
from bobbin.datalog.local.database import Facts
from bobbin.datalog.local.relation import Relation, relation_of
from bobbin.datalog.local.values import Values
from bobbin.errors import UsageError
from bobbin.facts import relations
from bobbin.facts.extract import Fact
from bobbin.facts.relations import FactSource, Tuple
from bobbin.policy import vocabulary
from bobbin.policy.claim_columns import ClaimColumns
from bobbin.policy.claims import ClaimedField
from bobbin.policy.executables import LocalPolicy, Part
from bobbin.policy.frozen import FORMAT, Frozen, Pool
from bobbin.policy.numbers import IDLE_TEXTS_MAX, Numbers
from bobbin.policy.resting import RestingSet
from bobbin.policy.running import Mask, Running, computes, fields_read, slice_of
from bobbin.policy.runtime_facts import RuntimeFacts
from bobbin.policy.told_fields import told_fields
from bobbin.policy.views import FilteredSource, TupleSource, supply
from bobbin.policy.wide_views import shown

_CLAIMS: Final = frozenset(vocabulary.CLAIM_ARITY)
_NONE: Final[Facts] = MappingProxyType({})
_MANY: Final = 4_096
"""From so many records on, whole relations are compared instead of asking for each record."""
_CLAIMS_ANEW_MIN: Final = 20_000
"""From so many changed claims on, and if they are half of all, everything that depends on claims is derived anew."""
_IDLE_TEXTS_MAX: Final = IDLE_TEXTS_MAX

ClaimedFields = Mapping[str, tuple[ClaimedField, ...]]
"""Records that the peer advertises, with the fields claimed for each."""


class Shift(Struct, frozen=True, kw_only=True):
    """How a decision has changed."""

    send_added: frozenset[str] = frozenset()
    send_removed: frozenset[str] = frozenset()
    request_added: frozenset[str] = frozenset()
    request_removed: frozenset[str] = frozenset()


class _News(Struct, frozen=True, kw_only=True):
    """What is different now: facts by predicate, and the records that they are about."""

    stored: dict[str, list[Tuple]]
    arrived: frozenset[str]
    removed: frozenset[str]
    claimed: Facts
    unclaimed: Facts
    advertisements: frozenset[str]
    """Records whose claims have changed."""
    began: Facts
    """Runtime facts that some program reads."""
    ended: Facts

    def __bool__(self) -> bool:
        return bool(self.stored or self.removed or self.advertisements or self.began or self.ended)


class Standing:
    """The decision of one policy. ``load`` first; after an error, again."""

    def __init__(self, policy: LocalPolicy, numbers: Numbers | None = None) -> None:
        """``numbers``: those that the decisions over one store have in common."""
        self.policy: Final = policy
        makes_up = computes(policy.own.program) or computes(policy.query.program)
        self._numbers = None if makes_up else numbers
        """None where this decision has numbers of its own."""
        self._values = Values()
        self._seen = 0
        """Numbers from this one on occur in no relation here."""
        self._known = 0
        """How many texts were known when the last change began."""
        self._brought = 0
        """How many texts this decision was the first to know."""
        self._own = Running(policy, Part.OWN_SELECTOR)
        self._offer = Running(policy, Part.OWN_SELECTOR) if policy.offer_reads_claims else self._own
        self._query = Running(policy, Part.QUERY)
        self._peer = Running(policy, Part.PEER_SELECTOR)
        self._peer_is_apart = computes(policy.peer.program)
        self._renew_values()
        self._runtime = RuntimeFacts()
        self._claims: dict[str, tuple[ClaimedField, ...]] = {}
        self._visible = RestingSet()
        self._may_send = RestingSet()
        self._may_request = RestingSet()
        self._is_usable = False
        self._frozen: Frozen | None = None
        """What the programs go on from, before the first change after ``restore``."""

    @property
    def may_send(self) -> AbstractSet[str]:
        """Records that are stored here and may go to the peer."""
        return self._may_send

    @property
    def may_request(self) -> AbstractSet[str]:
        """Records that the peer advertises and that may come here, whether or not they are stored already."""
        return self._may_request

    @property
    def visible(self) -> AbstractSet[str]:
        """The peer's view."""
        return self._visible

    @property
    def claimed(self) -> ClaimedFields:
        """What the peer advertises."""
        return self._claims

    def describe(self, records: Collection[str], names: frozenset[str]) -> list[tuple[ClaimedField, ...]] | None:
        """The fields of these names of records that may be sent, if the own module reads just these fields anyway."""
        sources = {name: Source(relations.FIELD, name) for name in names}
        is_known = self._is_usable and self._frozen is None and set(self._own.reads((relations.FIELD,)))
        if (
            not is_known
            or not is_known >= set(sources.values())
            or len(self._may_send.common(distinct := set(records))) < len(distinct)
        ):
            return None
        numbers = self._values.encode_many(list(records))
        block = self._own.state.database.block
        return told_fields(numbers, {name: block(source) for name, source in sources.items()}, self._values.texts)

    @property
    def is_usable(self) -> bool:
        """Whether it is up to date with anything, so that it can go on from there."""
        return self._is_usable

    @property
    def size(self) -> int:
        """How many records the decision speaks of: what freezing it costs."""
        return len(self._visible) + len(self._may_send) + len(self._may_request) + len(self._claims)

    # ---- at rest --------------------------------------------------------------------------------------------------

    def freeze(self) -> Frozen:
        """The decision at rest, to go on from with ``restore``."""
        self._require_usable()
        if self._frozen is not None:
            return structs.replace(self._frozen, runtime=self._runtime)
        pool = Pool()
        own, query, peer = (program.freeze(pool) for program in (self._own, self._query, self._peer))
        offer = None if self._offer is self._own else self._offer.freeze(pool)
        sets = (self._visible, self._may_send, self._may_request)
        visible, may_send, may_request = (pool.places_of_set(one.frozen()) for one in sets)
        return Frozen(
            format=FORMAT,
            texts=pool.texts,
            own=own,
            offer=offer,
            query=query,
            peer=peer,
            visible=visible,
            may_send=may_send,
            may_request=may_request,
            runtime=self._runtime,
            claims=dict(self._claims),
        )

    @classmethod
    def restore(cls, policy: LocalPolicy, frozen: Frozen, numbers: Numbers | None = None) -> "Standing":
        """The decision that was frozen, of the same policy. Its programs are taken up when something changes."""
        if frozen.format != FORMAT:
            raise UsageError(f"the decision was frozen in format {frozen.format}, this is {FORMAT}")
        standing = cls(policy, numbers)
        standing._visible = RestingSet(frozen.records(frozen.visible))
        standing._may_send = RestingSet(frozen.records(frozen.may_send))
        standing._may_request = RestingSet(frozen.records(frozen.may_request))
        standing._runtime, standing._claims = frozen.runtime, dict(frozen.claims)
        standing._frozen = frozen
        standing._is_usable = True
        return standing

    def _thaw(self) -> None:
        frozen, self._frozen = self._frozen, None
        if frozen is None:
            return
        numbers = self._values.encode_many(frozen.texts)
        self._seen = len(self._values)
        self._own.resume(frozen.own, frozen.texts, numbers)
        if frozen.offer is not None:
            self._offer.resume(frozen.offer, frozen.texts, numbers)
        self._query.resume(frozen.query, frozen.texts, numbers)
        self._peer.resume(frozen.peer, frozen.texts, None if self._peer_is_apart else numbers)

    # ---- numbers --------------------------------------------------------------------------------------------------

    def _renew_values(self) -> None:
        """Number texts anew. The programs still have to be evaluated, or taken up, with these numbers."""
        self._values = Values() if self._numbers is None else self._numbers.begin()
        self._seen, self._brought = len(self._values), 0
        for program in (self._own, self._offer, self._query, self._peer):
            program.values = self._values
        if self._peer_is_apart:
            self._peer.values = Values()

    @property
    def _is_idle(self) -> bool:
        """Whether most texts occur nowhere any more: a peer can claim and withdraw for ever."""
        programs = {id(program): program for program in (self._own, self._offer, self._query, self._peer)}
        cells = sum(program.cells for program in programs.values())
        texts = self._brought + (len(self._peer.values) if self._peer_is_apart else 0)
        if self._numbers is not None:
            self._numbers.note(self._values, cells)
        return texts > _IDLE_TEXTS_MAX + 2 * cells

    def _forget_idle_texts(self) -> None:
        """Where most texts occur nowhere any more, put the programs at rest, to be taken up with new numbers."""
        if self._frozen is None and self._is_idle:
            self._frozen = self.freeze()
            self._go_apart()

    def _go_apart(self) -> None:
        """Have numbers of its own from now on: who has brought so many texts in vain may do so again."""
        self._numbers = None
        self._renew_values()

    def _begin(self) -> None:
        """Something changes. Should it fail, nothing holds any more."""
        self._is_usable = False
        self._known = len(self._values)

    def _settle(self) -> None:
        """It has changed. The next change may be long in coming, so everything is held in little room."""
        for program in (self._own, self._offer, self._query, self._peer):
            program.settle()
        self._seen = len(self._values)
        self._brought += self._seen - self._known
        self._is_usable = True

    def _common(self, first: Column, *others: Column) -> Column:
        """The numbers that are in each of some columns."""
        for other in others:
            first = first[self._mask(other)[first]]
        return first

    def _mask(self, numbers: Column) -> Mask:
        mask = np.zeros(len(self._values), dtype=np.bool_)
        mask[numbers] = True
        return mask

    def _of_peer(self, export: str, *rest: str) -> Column:
        """What the peer's module derives, in the numbers of the others; without what none of them knows."""
        numbers = self._peer.column(export, *rest)
        if not self._peer_is_apart:
            return numbers
        found = map(self._values.find, self._peer.spell(numbers))
        return np.array([number for number in found if number is not None], dtype=np.int32)

    # ---- from nothing ---------------------------------------------------------------------------------------------

    def load(self, facts: FactSource, runtime: RuntimeFacts, claimed: ClaimedFields = MappingProxyType({})) -> Shift:
        """The whole evaluation. Answers with everything that may be sent or requested, as a change from nothing."""
        self.policy.check_proven(runtime.peer)
        self._load(facts, runtime, dict(claimed))
        return Shift(send_added=self._may_send.frozen(), request_added=self._may_request.frozen())

    def _load(self, facts: FactSource, runtime: RuntimeFacts, claims: dict[str, tuple[ClaimedField, ...]]) -> None:
        if not self._is_usable:
            self._renew_values()
        elif self._is_idle:
            self._go_apart()
        self._begin()
        self._frozen = None
        self._runtime, self._claims = runtime, claims
        for program in (self._own, self._offer, self._query, self._peer):
            program.forget()
        here = supply(vocabulary.RUNTIME_ARITY, TupleSource(runtime.tuples()))
        records = supply(relations.ARITY, facts)
        told = self._told(self._own)
        self._own.evaluate({**records, **here}, told.relations(self._own.reads(_CLAIMS)))
        if self._offer is not self._own:
            self._offer.evaluate({**records, **here}, self._own.part_of(self._offer.reads(relations.ARITY)))
        known = self._own.part_of(self._query.reads(relations.ARITY))
        self._query.evaluate({**records, **here}, {**known, **self._view_relations()})
        self._visible = RestingSet(self._query.spell(self._viewed()))
        self._load_peer(facts, here, told)
        self._decide(facts, told.records)
        self._settle()

    def _load_peer(self, facts: FactSource, here: Mapping[str, FactSource], told: ClaimColumns) -> None:
        """Let the peer's module see the records of its view, and nothing else."""
        reads = self._peer.reads(relations.ARITY)
        seen: dict[Source, Relation] = {}
        if self._peer_is_apart:
            told = self._told(self._peer)
        else:
            seen = self._own.part_of(reads, self._mask(self._viewed()))
        others = {} if seen.keys() >= set(reads) else supply(relations.ARITY, shown(facts, self._visible.frozen()))
        self._peer.evaluate({**others, **here}, {**seen, **told.relations(self._peer.reads(_CLAIMS))})

    def _told(self, program: Running) -> ClaimColumns:
        """What the peer claims, in the numbers of a program."""
        return ClaimColumns(self._claims, str(self.policy.peer_origin), program.values)

    def _view_relations(self) -> dict[Source, Relation]:
        """What a query module may read beyond records."""
        viewer = self._values.encode_many([str(self.policy.peer_origin)])
        columns = {vocabulary.VIEWER: viewer, vocabulary.OWN_SELECTED: self._offer.column(vocabulary.SELECT_HAVE)}
        return {source: relation_of([columns[source.predicate]]) for source in self._query.reads(vocabulary.VIEW_ARITY)}

    def _viewed(self) -> Column:
        """The peer's view, in numbers."""
        return self._query.column(vocabulary.QUERYABLE, str(self.policy.peer_origin))

    def _decide(self, facts: FactSource, claimed: Column) -> None:
        """The whole decision, from what the programs derive."""
        sendable = self._common(self._both(vocabulary.SELECT_HAVE), self._viewed())
        if self._own.reads((relations.HAVE,)):
            stored = self._common(sendable, self._own.column(relations.HAVE))
            self._may_send = RestingSet(self._own.spell(stored))
        else:
            self._may_send = RestingSet(self._stored(set(self._own.spell(sendable)), facts))
        requestable = self._common(self._both(vocabulary.SELECT_ADVERTISED), claimed)
        self._may_request = RestingSet(self._own.spell(requestable))

    def _both(self, export: str) -> Column:
        """The records that both sides select; of claims, those of the peer."""
        rest = () if export == vocabulary.SELECT_HAVE else (str(self.policy.peer_origin),)
        return self._common(self._own.column(export, *rest), self._of_peer(export, *rest))

    # ---- from what changed ----------------------------------------------------------------------------------------

    def advance(
        self,
        facts: FactSource,
        *,
        runtime: RuntimeFacts,
        stored: Iterable[Fact] = (),
        removed: Collection[str] = (),
        claimed: ClaimedFields = MappingProxyType({}),
        withdrawn: Collection[str] = (),
    ) -> Shift:
        """Take in what has changed, and answer how the decision has.

        ``facts`` answers for this moment, with the changes. ``stored`` has every fact of the records that were stored
        since, or of their fields only ``fields``; a record that was removed and stored again stands in both.
        ``claimed`` has records that the peer advertises now, with all that it claims; ``withdrawn`` those no longer.
        """
        self.policy.check_proven(runtime.peer)
        self._require_usable()
        known = self._claims
        new = (
            {record: fields for record, fields in claimed.items() if known.get(record) != fields} if known else claimed
        )
        gone = [record for record in dict.fromkeys(withdrawn) if record in self._claims and record not in claimed]
        is_anew = len(new) + len(gone) >= max(_CLAIMS_ANEW_MIN, len(self._claims) // 2)
        news = self._news(stored, removed, {} if is_anew else new, [] if is_anew else gone, runtime)
        if not news and not is_anew:
            self._runtime = runtime
            return Shift()
        if is_anew:
            return self._claim_anew(facts, runtime, new, gone, also_else=bool(news))
        self._forget_idle_texts()
        self._begin()
        self._thaw()
        self._runtime = runtime
        for record in gone:
            del self._claims[record]
        self._claims.update(new)
        shift = self._carry(facts, news)
        self._settle()
        return shift

    def _claim_anew(
        self, facts: FactSource, runtime: RuntimeFacts, new: ClaimedFields, gone: list[str], *, also_else: bool
    ) -> Shift:
        """Take in so many claims that all that depends on claims is derived anew. The view never depends on them."""
        sent, wanted = self._may_send.frozen(), self._may_request.frozen()
        claims = {**self._claims, **new}
        for record in gone:
            del claims[record]
        if also_else:
            self._load(facts, runtime, claims)
        else:
            self._forget_idle_texts()
            self._begin()
            self._thaw()
            self._runtime, self._claims = runtime, claims
            told = self._told(self._own)
            self._own.replace(told.relations(self._own.reads(_CLAIMS)))
            theirs = self._told(self._peer) if self._peer_is_apart else told
            self._peer.replace(theirs.relations(self._peer.reads(_CLAIMS)))
            self._decide(facts, told.records)
            self._settle()
        return Shift(
            send_added=self._may_send.frozen() - sent,
            send_removed=sent - self._may_send.frozen(),
            request_added=self._may_request.frozen() - wanted,
            request_removed=wanted - self._may_request.frozen(),
        )

    @property
    def fields(self) -> frozenset[str] | None:
        """See ``fields_read``."""
        return fields_read((self._own, self._offer, self._query, self._peer))

    def _news(
        self,
        stored: Iterable[Fact],
        removed: Collection[str],
        new: ClaimedFields,
        gone: list[str],
        runtime: RuntimeFacts,
    ) -> _News:
        facts: dict[str, list[Tuple]] = {}
        for predicate, values in stored:
            facts.setdefault(predicate, []).append(values)
        old = {record: self._claims[record] for record in (*gone, *new) if record in self._claims}
        before, after = self._runtime.tuples(), runtime.tuples()
        programs = (self._own, self._query, self._peer)
        read = {source.predicate for program in programs for source in program.reads(vocabulary.RUNTIME_ARITY)}
        return _News(
            stored=facts,
            arrived=frozenset(record for (record,) in facts.get(relations.HAVE, ())),
            removed=frozenset(removed),
            claimed=self._claim_facts(new),
            unclaimed=self._claim_facts(old),
            advertisements=frozenset(new).union(old),
            began=_differing(after, before, read),
            ended=_differing(before, after, read),
        )

    def _claim_facts(self, claims: ClaimedFields) -> Facts:
        if not claims:
            return _NONE
        source = str(self.policy.peer_origin)
        fields = [
            (record, source, field.name, field.index, field.value) for record, some in claims.items() for field in some
        ]
        return {vocabulary.ADVERTISED: [(record, source) for record in claims], vocabulary.ADVERTISED_FIELD: fields}

    def _carry(self, facts: FactSource, news: _News) -> Shift:
        fresh = self._seen
        own = self._own.advance(
            added={**news.stored, **news.claimed, **news.began},
            removed={**self._own.about(relations.ARITY, news.removed), **news.unclaimed, **news.ended},
            fresh=fresh,
        )
        offer = own
        if self._offer is not self._own:
            offer = self._offer.advance(
                added={**news.stored, **news.began},
                removed={**self._offer.about(relations.ARITY, news.removed), **news.ended},
                fresh=fresh,
            )
        entered, left = self._carry_view(news, offer, fresh)
        peer = self._carry_peer(facts, news, entered, left, None if self._peer_is_apart else fresh)
        sending = self._moved(self._own, own, vocabulary.SELECT_HAVE)
        sending |= self._moved(self._peer, peer, vocabulary.SELECT_HAVE)
        sending |= entered | left | news.arrived | news.removed
        requesting = self._moved(self._own, own, vocabulary.SELECT_ADVERTISED)
        requesting |= self._moved(self._peer, peer, vocabulary.SELECT_ADVERTISED)
        requesting |= news.advertisements
        sent, unsent = self._decide_sending(sending, news, facts)
        wanted, unwanted = self._decide_requesting(requesting)
        return Shift(send_added=sent, send_removed=unsent, request_added=wanted, request_removed=unwanted)

    def _carry_view(self, news: _News, offer: Changes, fresh: int) -> tuple[set[str], set[str]]:
        """Bring the view up to date; returns the records that came into it and those that left."""
        source = Source(vocabulary.SELECT_HAVE)
        offered = list(self._offer.texts(offer.added.get(source, ())))
        taken = list(self._offer.texts(offer.removed.get(source, ())))
        query = self._query.advance(
            added={**news.stored, **news.began, vocabulary.OWN_SELECTED: offered},
            removed={
                **self._query.about(relations.ARITY, news.removed),
                **news.ended,
                vocabulary.OWN_SELECTED: taken,
            },
            fresh=fresh,
        )
        entered, left = (
            self._query.subjects(rows.get(Source(vocabulary.QUERYABLE), ()), str(self.policy.peer_origin))
            for rows in (query.added, query.removed)
        )
        self._visible.change(entered, left)
        return entered, left

    def _carry_peer(
        self, facts: FactSource, news: _News, entered: set[str], left: set[str], fresh: int | None
    ) -> Changes:
        """Show the peer's module what has changed in its view, and nothing else."""
        seen: dict[str, list[Tuple]] = {
            predicate: [values for values in tuples if values[0] in self._visible]
            for predicate, tuples in news.stored.items()
        }
        late = entered - news.arrived
        if late:
            view = FilteredSource(facts, frozenset(late))
            for source in self._peer.reads(relations.ARITY):
                pattern = slice_of(source, relations.ARITY[source.predicate])
                seen.setdefault(source.predicate, []).extend(view.match(source.predicate, pattern))
        return self._peer.advance(
            added={**seen, **news.claimed, **news.began},
            removed={**self._peer.about(relations.ARITY, news.removed | left), **news.unclaimed, **news.ended},
            fresh=fresh,
        )

    def _moved(self, program: Running, changes: Changes, export: str) -> set[str]:
        """The records for which an export has changed."""
        source = Source(export)
        rest = () if export == vocabulary.SELECT_HAVE else (str(self.policy.peer_origin),)
        rows = chain(changes.added.get(source, ()), changes.removed.get(source, ()))
        return program.subjects(rows, *rest)

    # ---- the decision ---------------------------------------------------------------------------------------------

    def _decide_sending(
        self, records: set[str], news: _News, facts: FactSource
    ) -> tuple[frozenset[str], frozenset[str]]:
        candidates = self._chosen(vocabulary.SELECT_HAVE, self._visible.common(records))
        stored = {
            record
            for record in candidates
            if record in news.arrived or (record in self._may_send and record not in news.removed)
        }
        stored |= self._stored(candidates - stored, facts)
        return _settle(self._may_send, records, stored)

    def _chosen(self, export: str, records: AbstractSet[str]) -> AbstractSet[str]:
        """Of these records, those that both sides select."""
        if len(records) >= _MANY:
            return records & set(self._own.spell(self._both(export)))
        rest = () if export == vocabulary.SELECT_HAVE else (str(self.policy.peer_origin),)
        programs = (self._own, self._peer)
        if not all(program.derives(export) for program in programs):
            return set()
        return {record for record in records if all(program.holds(export, (record, *rest)) for program in programs)}

    def _stored(self, records: AbstractSet[str], facts: FactSource) -> set[str]:
        """Those that are stored at this moment."""
        if not records:
            return set()
        if not self._own.reads((relations.HAVE,)):
            return {record for (record,) in FilteredSource(facts, frozenset(records)).enumerate(relations.HAVE)}
        if len(records) >= _MANY:
            return set(records).intersection(self._own.spell(self._own.column(relations.HAVE)))
        return {record for record in records if self._own.holds(relations.HAVE, (record,))}

    def _decide_requesting(self, records: AbstractSet[str]) -> tuple[frozenset[str], frozenset[str]]:
        claimed = {record for record in records if record in self._claims}
        return _settle(self._may_request, records, self._chosen(vocabulary.SELECT_ADVERTISED, claimed))

    def _require_usable(self) -> None:
        if not self._is_usable:
            raise UsageError("this decision is not up to date with anything; load it first")


def _settle(
    held: RestingSet, records: AbstractSet[str], chosen: AbstractSet[str]
) -> tuple[frozenset[str], frozenset[str]]:
    """Make a set hold, of these records, exactly the chosen ones; returns what came and what went."""
    added = frozenset(chosen - held.common(chosen))
    removed = frozenset(held.common(records) - chosen)
    held.change(added, removed)
    return added, removed


def _differing(one: Mapping[str, frozenset[Tuple]], other: Mapping[str, frozenset[Tuple]], read: set[str]) -> Facts:
    """What one has and the other has not, of the predicates that are read."""
    return {
        predicate: tuples - other.get(predicate, frozenset())
        for predicate, tuples in one.items()
        if predicate in read and tuples != other.get(predicate)
    }
