"""A lace and one peer elsewhere: where that is, what is demanded of it, and what a program does with it.

::

    async with lace.connect("tls:lab.example:4791", policy=rules, verifier=theirs) as link:
        report = await link.sync()
        async for record in link.open():
            ...

Nothing is dialled before the first operation, and each operation has a link of its own: a peer does not wait for what a
program may want to do later.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Protocol, Self, TypeVar

from msgspec import Struct, structs

from bobbin.errors import UsageError
from bobbin.interlace.choice import Strategy, parse_strategy
from bobbin.interlace.limits import Limits
from bobbin.policy.modules import Query, Selector, deny_all_query
from bobbin.records import coordinate
from bobbin.records.coordinate import Address as RecordAddress
from bobbin.records.coordinate import Coordinate, Prefix
from bobbin.records.ids import HashText, Verifier
from bobbin.records.record import Record
from bobbin.runtime import operations, remote
from bobbin.runtime.accounts import SyncReport
from bobbin.runtime.following import ResultRule, result_rule
from bobbin.runtime.introduction import NotAdmitted
from bobbin.runtime.local_peer import Manner
from bobbin.runtime.operations import Got, Listing, Participant, Placed, Wishes
from bobbin.runtime.pair import Observer
from bobbin.runtime.reconnect import Lost
from bobbin.runtime.recording import Recorder
from bobbin.runtime.remote import Line, RemoteFollowing, RemotePeer
from bobbin.runtime.roster import Way
from bobbin.store.base import Listed
from bobbin.transport.base import ByteStream
from bobbin.wire.address import Address, Scheme

if TYPE_CHECKING:
    from bobbin.policy.executables import Budgets

_WORKERS_MAX: Final = 4
_ENCRYPTED: Final = frozenset({Scheme.TLS, Scheme.WSS})

T = TypeVar("T")


class Owner(Protocol):
    """What a lace has to do for a connection."""

    def participant(
        self,
        policy: str | Selector,
        query_policy: str | Query | None = None,
        *,
        budgets: "Budgets | None" = None,
    ) -> Participant: ...

    def keep(self, records: Iterable[Record | HashText | str]) -> tuple[HashText, ...]:
        """Store what is not stored yet; returns the names of all."""
        ...

    def get(self, what: HashText | str | RecordAddress | Coordinate) -> Record | None: ...

    def list(
        self, place: str | Coordinate | Prefix | None = None, *, tips: bool = False, limit: int | None = None
    ) -> Iterator[Listed]: ...


class Destination(Struct, frozen=True, kw_only=True):
    """Where a peer is, and what is demanded of whoever answers there."""

    address: Address
    name: str = ""
    """What the peer is remembered under where nothing is proven; its address, if there is no other."""
    verifier: Verifier | None = None
    """The key that it must prove; then its certificate may be anything that the proof is bound to."""
    certificate: bytes | None = None
    """SHA-256 of the only certificate that will do."""
    authorities: Path | None = None
    """A file with the authorities that may vouch for the certificate, instead of those of the system."""
    allow_insecure: bool = False
    """Off this machine, do without encryption and without proof. A key that is named is demanded all the same."""
    otherwise: tuple[Way, ...] = ()
    """Further addresses of the same peer, each with its own pin, tried in this order. They need a key that is named."""

    @classmethod
    def by(cls, ways: tuple[Way, ...], *, name: str = "", verifier: Verifier | None = None) -> "Destination":
        """A peer that has at least one address."""
        first, *others = ways
        return cls(
            address=first.address,
            certificate=first.certificate,
            otherwise=tuple(others),
            name=name,
            verifier=verifier,
        )

    def demanding(self, verifier: Verifier) -> "Destination":
        """The same, and this key must be proven. One that is named already is not set aside by another."""
        if self.verifier not in (None, verifier):
            raise UsageError(f"{self.name or self.address} is known by another key, {self.verifier}")
        return structs.replace(self, verifier=verifier)

    def peer(self) -> RemotePeer:
        """The peer, ready to be dialled."""
        if self.otherwise and self.verifier is None:
            raise UsageError(
                f"{self.name or self.address} has several addresses: only a key that is named makes them one peer"
            )
        return RemotePeer(
            dial=self.dial,
            address=str(self.address),
            otherwise=tuple(
                Line(
                    dial=structs.replace(self, address=way.address, certificate=way.certificate, otherwise=()).dial,
                    address=str(way.address),
                )
                for way in self.otherwise
            ),
            admit=remote.expecting(self.verifier, allow_insecure=self.allow_insecure),
            name=f"peer {self.name or self.address}",
            allow_insecure=self.allow_insecure,
        )

    async def dial(self) -> ByteStream:
        """A stream to the peer, at its first address.

        A pinned certificate must be that one. Without a pin, a key that is named vouches by its bound proof, so the
        certificate itself may be anything; and where no key is named either, an authority must vouch for it.

        Raises ``NotAdmitted`` for a way that nothing may be said on, before anything is.
        """
        from bobbin.transport.dial import InsecureRoute, dial  # noqa: PLC0415 -- TLS and WebSocket take a while
        from bobbin.transport.tls import TlsClient  # noqa: PLC0415 -- as above

        demands = None
        if self.address.scheme in _ENCRYPTED:
            unseen = self.certificate is None and self.authorities is None and self.verifier is not None
            demands = TlsClient(pin=self.certificate, authorities=self.authorities, unverified=unseen)
        try:
            return await dial(self.address, tls=demands, allow_insecure=self.allow_insecure)
        except InsecureRoute as error:
            raise NotAdmitted(remote.INSECURE, str(error)) from error


class Connection(AbstractAsyncContextManager["Connection"]):
    """A lace and one peer elsewhere. Get one from ``Lace.connect``."""

    def __init__(
        self,
        lace: Owner,
        peer: RemotePeer,
        policy: str | Selector | None,
        *,
        query_policy: str | Query | None = None,
        limits: Limits | None = None,
        budgets: "Budgets | None" = None,
        workers: int | None = None,
        strategy: str = Strategy.AUTO,
    ) -> None:
        """Without ``policy`` only single records and places can be asked for, and exactly those.

        ``workers``: how many processes check what arrives, once that is much; without a number, as many as there are
        other cores, up to four. ``strategy``: how advertisements are reconciled.
        """
        self._lace = lace
        self._peer = peer
        self._selector = None if policy is None else operations.compiled_selector(policy)
        self._query_policy = query_policy
        count = min((os.cpu_count() or 1) - 1, _WORKERS_MAX) if workers is None else workers
        self._manner = Manner(limits=limits or Limits(), workers=count, strategy=parse_strategy(strategy))
        self._budgets = budgets
        self._open: set[RemoteFollowing] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        del kind, error, trace
        for following in tuple(self._open):
            await following.close()
        self._open.clear()

    async def sync(
        self,
        *,
        rounds: int = 1,
        explain: Iterable[str] = (),
        look_for: Iterable[str] = (),
        statement: bool = False,
        receipts: bool = False,
        observers: Iterable[Observer] = (),
        recorder: Recorder | None = None,
    ) -> SyncReport:
        """Converge the records that both policies select; returns the account of it, as far as it is known here."""
        wishes = Wishes(
            rounds=rounds,
            explain=tuple(explain),
            look_for=tuple(look_for),
            statement=statement,
            receipts=receipts,
        )
        return await self.synchronise(wishes, observers=observers, recorder=recorder)

    async def synchronise(
        self, wishes: Wishes, *, observers: Iterable[Observer] = (), recorder: Recorder | None = None
    ) -> SyncReport:
        """The same, with the wishes in one value."""
        return await self._run(self._policy(), self._query_policy, wishes, observers=observers, recorder=recorder)

    async def get(
        self, what: HashText | str | RecordAddress | Coordinate, *, observers: Iterable[Observer] = ()
    ) -> Got:
        """Fetch one record: by hash, or the newest of a coordinate. Nothing is sent to the peer."""
        parsed = operations.one_of(what)
        constraint = operations.only([parsed.hash]) if isinstance(parsed, RecordAddress) else operations.at(parsed)
        chosen = operations.narrowed(constraint, self._selector)
        report = await self._run(chosen, deny_all_query(), Wishes(), observers=observers)
        return Got(record=self._lace.get(parsed), report=report)

    async def list(self, place: str | Coordinate | Prefix, *, observers: Iterable[Observer] = ()) -> Listing:
        """Fetch the records at a coordinate or below a prefix, and list what is here then."""
        parsed = operations.place_of(place)
        chosen = operations.narrowed(operations.at(parsed), self._selector)
        report = await self._run(chosen, deny_all_query(), Wishes(), observers=observers)
        return Listing(records=tuple(self._lace.list(parsed)), report=report)

    async def store(self, records: Iterable[Record | HashText | str], *, observers: Iterable[Observer] = ()) -> Placed:
        """Hand records over: exactly these, stored here first where they are not yet.

        One counts as stored by the peer when the peer offers it back; what is sent and not offered is unconfirmed.
        """
        names = self._lace.keep(records)
        chosen = operations.narrowed(operations.only(names), self._selector)
        wishes = Wishes(look_for=names)
        return operations.placed(names, await self._run(chosen, self._query_policy, wishes, observers=observers))

    def follow(
        self,
        matching: str | Coordinate | Prefix | ResultRule | None = None,
        *,
        tell: Callable[[Lost], None] = lambda _: None,
        observers: Iterable[Observer] = (),
    ) -> RemoteFollowing:
        """An exchange that stays open, for ``async with``; iterating over it gives the records that come and match.

        A link that is lost is dialled again, and ``tell`` hears of it.
        """
        following = remote.follow_remote(
            self._lace.participant(self._policy(), self._query_policy, budgets=self._budgets),
            self._peer,
            matches=result_rule(coordinate.parse(matching) if isinstance(matching, str) else matching),
            manner=self._manner,
            tell=tell,
            observers=observers,
        )
        self._open.add(following)
        return following

    async def open(self, matching: str | Coordinate | Prefix | ResultRule | None = None) -> AsyncIterator[Record]:
        """The records that come in an exchange that stays open, as long as somebody takes them."""
        following = self.follow(matching)
        try:
            async with following:
                async for record in following:
                    yield record
        finally:
            self._open.discard(following)

    async def _run(
        self,
        selector: Selector,
        query_policy: str | Query | None,
        wishes: Wishes,
        *,
        observers: Iterable[Observer] = (),
        recorder: Recorder | None = None,
    ) -> SyncReport:
        return await remote.synchronise_remote(
            self._lace.participant(selector, query_policy, budgets=self._budgets),
            self._peer,
            manner=self._manner,
            wishes=wishes,
            observers=observers,
            recorder=recorder,
        )

    def _policy(self) -> Selector:
        if self._selector is None:
            raise UsageError("an exchange has a policy, and this connection was given none")
        return self._selector


def is_address(text: str) -> bool:
    """Whether a text is meant as an address; else it is the name of a known peer."""
    return ":" in text or text == Scheme.STDIO.value


def run(work: Coroutine[None, None, T]) -> T:
    """Run one operation to its end, for a program that has no event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    work.close()
    raise UsageError("an event loop is running here already; use `async with lace.connect(…)`")
