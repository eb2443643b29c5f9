"""What a lace does with another one: the part of ``Lace`` that exchanges records, in this process or elsewhere.

Each method is an operation of ``runtime.operations`` with the two laces filled in. A policy is a text of rules, or
compiled already.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack
from typing import TYPE_CHECKING, Final, Self

from msgspec import structs

from bobbin.errors import UsageError
from bobbin.records import coordinate
from bobbin.records.coordinate import Address, Coordinate, Prefix
from bobbin.records.ids import HashText
from bobbin.records.record import Record
from bobbin.records.signing import SigningKey
from bobbin.store.base import Listed, Store

if TYPE_CHECKING:
    from bobbin.interlace.limits import Limits
    from bobbin.policy.executables import Budgets
    from bobbin.policy.modules import Query, Selector
    from bobbin.runtime.accounts import SyncReport
    from bobbin.runtime.connection import Connection, Destination
    from bobbin.runtime.following import Following, ResultRule
    from bobbin.runtime.local_peer import Manner
    from bobbin.runtime.operations import Got, Listing, Participant, Placed
    from bobbin.runtime.pair import Observer
    from bobbin.runtime.recording import Recorder
    from bobbin.runtime.statements import StatementCheck
    from bobbin.wire.address import Address as PeerAddress


class Exchanging(ABC):
    """Whatever has records, keys and copies of itself can exchange."""

    @property
    @abstractmethod
    def store(self) -> Store: ...

    @abstractmethod
    def participant(
        self,
        policy: "str | Selector",
        query_policy: "str | Query | None" = None,
        *,
        budgets: "Budgets | None" = None,
    ) -> "Participant": ...

    @abstractmethod
    def copied(self) -> AbstractContextManager[Self]: ...

    @abstractmethod
    def get(self, what: HashText | str | Address | Coordinate) -> Record | None: ...

    @abstractmethod
    def list(
        self, place: str | Coordinate | Prefix | None = None, *, tips: bool = False, limit: int | None = None
    ) -> Iterator[Listed]: ...

    @abstractmethod
    def put_record(self, record: Record) -> HashText: ...

    @abstractmethod
    def connect(
        self,
        peer: "str | PeerAddress | Destination",
        policy: "str | Selector | None" = None,
        *,
        query_policy: "str | Query | None" = None,
        limits: "Limits | None" = None,
        budgets: "Budgets | None" = None,
        strategy: str = "auto",
    ) -> "Connection": ...

    @abstractmethod
    def key(self, name: str | None = None) -> SigningKey: ...

    @abstractmethod
    def key_names(self) -> tuple[str, ...]: ...

    def sync(
        self,
        peer: "Exchanging | str | PeerAddress | Destination",
        policy: "str | Selector | None" = None,
        *,
        peer_policy: "str | Selector | None" = None,
        query_policy: "str | Query | None" = None,
        peer_query_policy: "str | Query | None" = None,
        limits: "Limits | None" = None,
        budgets: "Budgets | None" = None,
        strategy: str = "auto",
        rounds: int = 1,
        through_codec: bool = False,
        dry_run: bool = False,
        explain: Iterable[str] = (),
        look_for: Iterable[str] = (),
        statement: bool = False,
        receipts: bool = False,
        observers: "Iterable[Observer]" = (),
        recorder: "Recorder | None" = None,
    ) -> "SyncReport":
        """Converge the records that both policies select with another lace; returns the account of it.

        The other lace is an open one, or elsewhere: then ``peer`` is its address, the name of a known peer, or a
        ``Destination``. What its policies are and what it does is its own affair there, and nothing here can be a dry
        run; without ``policy`` the one that is noted for a known peer holds.

        A policy is a text of rules, or compiled. Without ``peer_policy`` the peer has the same one. The query policies
        say what the other side's rules may see; without one, what the own policy selects. Where both laces have their
        default key, each side knows the other by it. With ``dry_run`` two copies exchange, and neither lace changes.
        ``limits`` bound what moves, ``budgets`` what evaluating the rules of both sides may cost. ``strategy`` says how
        the sides find out what the other offers, where they do not read it: ``auto`` takes what is cheapest.
        ``explain`` and ``look_for`` name records: why they moved or did not, and whether the peer offers them.
        """
        from bobbin.interlace.limits import Limits  # noqa: PLC0415 -- many programs never exchange
        from bobbin.runtime import operations  # noqa: PLC0415 -- as above
        from bobbin.runtime.connection import run  # noqa: PLC0415 -- as above

        if limits is not None and not isinstance(limits, Limits):
            raise UsageError("limits are a bobbin.interlace.limits.Limits, such as its LARGE")
        wishes = operations.Wishes(
            rounds=rounds,
            explain=tuple(explain),
            look_for=tuple(look_for),
            statement=statement,
            receipts=receipts,
        )
        if not isinstance(peer, Exchanging):
            if through_codec or dry_run or peer_policy is not None or peer_query_policy is not None:
                raise UsageError(
                    "what a peer elsewhere does is its own affair: it has its own policies, and no dry run"
                )
            connection = self.connect(
                peer, policy, query_policy=query_policy, limits=limits, budgets=budgets, strategy=strategy
            )
            return run(connection.synchronise(wishes, observers=observers, recorder=recorder))
        if policy is None:
            raise UsageError("an exchange with a lace in this process needs a policy")
        if dry_run and (statement or receipts):
            raise UsageError("a dry run changes nothing, so it leaves no statement and no receipts")
        own = self.participant(policy, query_policy, budgets=budgets)
        chosen = own.selector if peer_policy is None else peer_policy
        other = peer.participant(chosen, peer_query_policy, budgets=budgets)
        with ExitStack() as stack:
            if dry_run:
                here, there = (stack.enter_context(lace.copied()) for lace in (self, peer))
                copies = (
                    here.participant(own.selector, query_policy, budgets=budgets),
                    there.participant(other.selector, peer_query_policy, budgets=budgets),
                )
                own = structs.replace(copies[0], key=own.key, name=own.name)
                other = structs.replace(copies[1], key=other.key, name=other.name)
            return operations.synchronise(
                own,
                other,
                manner=_manner(limits, strategy, through_codec=through_codec),
                wishes=wishes,
                observers=observers,
                recorder=recorder,
            )

    def get_from(
        self,
        peer: "Exchanging | str | PeerAddress | Destination",
        what: HashText | str | Address | Coordinate,
        *,
        peer_policy: "str | Selector | None" = None,
        policy: "str | Selector | None" = None,
    ) -> "Got":
        """Fetch one record: by hash, or the newest of a coordinate. The rest of the lace has no part in it.

        Of what ``policy`` selects, if there is one. The peer gives it if its policy does; nothing is sent to it. A lace
        in this process follows ``peer_policy``, one elsewhere its own.
        """
        from bobbin.runtime import operations  # noqa: PLC0415 -- as above
        from bobbin.runtime.connection import run  # noqa: PLC0415 -- as above

        if not isinstance(peer, Exchanging):
            _check_elsewhere(peer_policy)
            return run(self.connect(peer, policy).get(what))
        parsed = operations.one_of(what)
        constraint = operations.only([parsed.hash]) if isinstance(parsed, Address) else operations.at(parsed)
        report = self._fetch(peer, constraint, policy, peer_policy)
        return operations.Got(record=self.get(parsed), report=report)

    def list_from(
        self,
        peer: "Exchanging | str | PeerAddress | Destination",
        place: str | Coordinate | Prefix,
        *,
        peer_policy: "str | Selector | None" = None,
        policy: "str | Selector | None" = None,
    ) -> "Listing":
        """Fetch the records at a coordinate or below a prefix, and list what is here then."""
        from bobbin.runtime import operations  # noqa: PLC0415 -- as above
        from bobbin.runtime.connection import run  # noqa: PLC0415 -- as above

        if not isinstance(peer, Exchanging):
            _check_elsewhere(peer_policy)
            return run(self.connect(peer, policy).list(place))
        parsed = operations.place_of(place)
        report = self._fetch(peer, operations.at(parsed), policy, peer_policy)
        return operations.Listing(records=tuple(self.list(parsed)), report=report)

    def store_to(
        self,
        peer: "Exchanging | str | PeerAddress | Destination",
        records: "Iterable[Record | HashText | str]",
        *,
        peer_policy: "str | Selector | None" = None,
        policy: "str | Selector | None" = None,
    ) -> "Placed":
        """Hand records over: exactly these, stored here first where they are not yet.

        The peer takes what its policy selects.
        """
        from bobbin.runtime import operations  # noqa: PLC0415 -- as above
        from bobbin.runtime.connection import run  # noqa: PLC0415 -- as above

        if not isinstance(peer, Exchanging):
            _check_elsewhere(peer_policy)
            return run(self.connect(peer, policy).store(records))
        if peer_policy is None:
            raise UsageError(_NEEDS_POLICY)
        names = self.keep(records)
        chosen = operations.narrowed(operations.only(names), policy)
        return operations.placed(names, self.sync(peer, chosen, peer_policy=peer_policy, look_for=names))

    def keep(self, records: "Iterable[Record | HashText | str]") -> tuple[HashText, ...]:
        """Store those that are not stored yet; returns the names of all. One that is only named must be here."""
        from bobbin.runtime import operations  # noqa: PLC0415 -- as above

        names = tuple(operations.hash_of(one) if isinstance(one, str) else self.put_record(one) for one in records)
        if absent := [name for name in names if not self.store.have(name)]:
            raise UsageError(f"{absent[0]} is not stored here")
        return names

    def follow(
        self,
        peer: "Exchanging",
        policy: "str | Selector",
        *,
        peer_policy: "str | Selector | None" = None,
        query_policy: "str | Query | None" = None,
        peer_query_policy: "str | Query | None" = None,
        matching: "str | Coordinate | Prefix | ResultRule | None" = None,
    ) -> "Following":
        """An exchange that stays open, for ``async with``; iterating over it gives the records that come and match.

        ``matching``: a place, or a function of a record; without it, every record that comes. A peer elsewhere is
        followed through ``connect``.
        """
        from bobbin.runtime import following  # noqa: PLC0415 -- as above

        if not isinstance(peer, Exchanging):
            raise UsageError(f"an open lace is followed directly; {peer!r} through `connect`")
        own = self.participant(policy, query_policy)
        return following.follow(
            own,
            peer.participant(own.selector if peer_policy is None else peer_policy, peer_query_policy),
            matches=following.result_rule(coordinate.parse(matching) if isinstance(matching, str) else matching),
        )

    def check_statement(
        self,
        hash: HashText | str,
        *,
        policy: "str | Selector",
        peer_policy: "str | Selector | None" = None,
        query_policy: "str | Query | None" = None,
        as_issuer: bool | None = None,
        budgets: "Budgets | None" = None,
    ) -> "StatementCheck":
        """Whether a stored completion statement follows from the records here.

        ``policy`` and ``query_policy`` are this lace's. Whose lace it is, its keys say, unless ``as_issuer`` does: the
        issuer's if one of them has sealed the statement, the peer's if one is named as the peer. Where it is neither
        side's, only the names, the signature and the policies can be checked. ``budgets`` is what evaluating the rules
        may cost, as in ``sync``: an exchange that needed large ones needs them again. Raises ``LimitExceeded``.
        """
        from bobbin.runtime import statements  # noqa: PLC0415 -- as above
        from bobbin.runtime.operations import compiled_query, compiled_selector  # noqa: PLC0415 -- as above

        record = self.get(hash)
        if record is None:
            raise UsageError(f"{hash} is not stored here")
        stated = statements.read_statement(record)
        own = compiled_selector(policy)
        if as_issuer is None:
            as_issuer = statements.whose_store(stated, [self.key(name).verifier for name in self.key_names()])
        return statements.check_statement(
            self.store,
            stated,
            own=own,
            peer=own if peer_policy is None else compiled_selector(peer_policy),
            query=compiled_query(query_policy),
            as_issuer=as_issuer,
            budgets=budgets,
        )

    def _fetch(
        self,
        peer: "Exchanging",
        constraint: "Selector",
        policy: "str | Selector | None",
        peer_policy: "str | Selector | None",
    ) -> "SyncReport":
        from bobbin.policy.modules import deny_all_query  # noqa: PLC0415 -- as above
        from bobbin.runtime.operations import narrowed  # noqa: PLC0415 -- as above

        if peer_policy is None:
            raise UsageError(_NEEDS_POLICY)
        return self.sync(peer, narrowed(constraint, policy), peer_policy=peer_policy, query_policy=deny_all_query())


_NEEDS_POLICY: Final = "a peer in this process has no policy of its own; say which one it follows (peer_policy)"


def _check_elsewhere(peer_policy: "str | Selector | None") -> None:
    if peer_policy is not None:
        raise UsageError("a peer elsewhere has its own policy")


def _manner(limits: "Limits | None", strategy: str, *, through_codec: bool) -> "Manner":
    """How an exchange with a lace in this process is run."""
    from bobbin.interlace.choice import Strategy, parse_strategy  # noqa: PLC0415 -- many programs never exchange
    from bobbin.interlace.limits import Limits  # noqa: PLC0415 -- as above
    from bobbin.runtime.local_peer import Manner  # noqa: PLC0415 -- as above

    wanted = parse_strategy(strategy)
    # A strategy is for sides that do not read each other's memory.
    direct = wanted is Strategy.AUTO
    return Manner(limits=limits or Limits(), through_codec=through_codec, direct=direct, strategy=wanted)
