"""What goes on after a run: messages that come to be later go out at once, to a peer that wants them.

A session tells which messages both sides are known to have, because one has sent them to the other; those never go out
as news. What comes into the store while a run is under way waits until the run's own messages have gone out, since the
run may send it as well.
"""

from collections.abc import Iterable
from typing import Final, TypeVar

from bobbin.tangles.exchange import Exchange
from bobbin.tangles.message import Message, MessageId

_Id = TypeVar("_Id")


class _Audience:
    """What is known about the peer's interest in one tangle."""

    def __init__(self) -> None:
        self.listens = False
        """The peer wants what comes to be from now on: a run has sent it what it lacked."""
        self.waiting: dict[MessageId, None] = {}


class News:
    """The news of one stream, for all its tangles."""

    def __init__(
        self, exchange: Exchange, told_max: int, *, whole_accounts: bool = False, bytes_max: int | None = None
    ) -> None:
        """``whole_accounts``: every account message goes along that the peer is not known to have.

        ``bytes_max``: of account messages that go along with one message. What needs more is left to a run.
        """
        self._exchange: Final = exchange
        self._told_max: Final = told_max
        self._whole_accounts: Final = whole_accounts
        self._bytes_max: Final = bytes_max
        self._audiences: dict[MessageId, _Audience] = {}
        self._told: dict[tuple[MessageId, MessageId], None] = {}
        """What both sides are known to have, each in a tangle. The oldest goes first."""
        self._told_accounts: dict[MessageId, None] = {}
        """The same for account messages, whichever tangle they went along with."""
        self._fresh_accounts: dict[MessageId, None] = {}
        """Account messages that came while this stream was open: a later message may need one."""
        self._bulky: list[tuple[MessageId, MessageId]] = []

    def follow(self, tangle: MessageId) -> None:
        """A run on a tangle has begun: what comes from now on is noted."""
        self._audiences.setdefault(tangle, _Audience())

    def tell(self, tangle: MessageId, ids: Iterable[MessageId]) -> None:
        """These have been sent to the peer as messages of a tangle, or came from it."""
        self._audiences.setdefault(tangle, _Audience())
        self._told.update(dict.fromkeys((tangle, id) for id in ids))
        self._bound(self._told)

    def tell_accounts(self, ids: Iterable[MessageId]) -> None:
        """The peer has these account messages, or they have been sent to it with messages of any tangle."""
        self._told_accounts.update(dict.fromkeys(ids))
        self._bound(self._told_accounts)

    def hear(self, tangle: MessageId, messages: Iterable[Message]) -> None:
        """These came from the peer, which has them in every tangle that they stand in: none goes back as news."""
        for message in messages:
            for known in {tangle: None, **dict.fromkeys(message.places)}:
                if known == tangle or known in self._audiences:
                    self.tell(known, (message.id,))
            if message.is_account:
                self.tell_accounts((message.id,))

    def serve(self, tangle: MessageId, *, listens: bool) -> list[list[bytes]]:
        """The messages of a run have gone out. Gives what has waited for it."""
        audience = self._audiences.setdefault(tangle, _Audience())
        audience.listens = listens
        waiting, audience.waiting = audience.waiting, {}
        return [texts for id in waiting if (texts := self._news(tangle, audience, id))]

    def came(self, ids: Iterable[MessageId]) -> list[tuple[MessageId, list[bytes]]]:
        """Messages have come into the store. Gives what is to be sent, by tangle: one message, with what it needs."""
        out: list[tuple[MessageId, list[bytes]]] = []
        for id in ids:
            message = self._exchange.message(id)
            if message is None:
                continue
            if message.is_account:
                self._fresh_accounts[id] = None
                self._bound(self._fresh_accounts)
            for tangle in (id, *message.places):
                audience = self._audiences.get(tangle)
                if audience is None:
                    continue
                if not audience.listens:
                    self.wait(tangle, id)
                elif texts := self._news(tangle, audience, id):
                    out.append((tangle, texts))
        return out

    def wait(self, tangle: MessageId, id: MessageId) -> None:
        """A message of a tangle that is followed goes out when the next run on that tangle is over."""
        waiting = self._audiences[tangle].waiting
        waiting[id] = None
        self._bound(waiting)

    def take_bulky(self) -> list[tuple[MessageId, MessageId]]:
        """What would have been news, by tangle, and has too long an account for that; each is given once."""
        bulky, self._bulky = self._bulky, []
        return bulky

    def _news(self, tangle: MessageId, audience: _Audience, id: MessageId) -> list[bytes]:
        message = self._exchange.message(id)
        if message is None or (tangle, id) in self._told or not audience.listens:
            return []
        structure = self._exchange.structure(tangle)
        if structure is None or id not in structure:
            # In the modern mode, what breaks a rule of it is held and not offered.
            return []
        account = self._account_of(tangle, message)
        if self._is_bulky(account):
            self._bulky.append((tangle, id))
            return []
        self.tell(tangle, (id,))
        self.tell_accounts(one.id for one in (*account, message) if one.is_account)
        return [one.raw for one in (*account, message)]

    def _account_of(self, tangle: MessageId, message: Message) -> list[Message]:
        """Account messages that the peer needs for this one and cannot have: a key that is new, for its first message.

        Or all that it may not have: somebody writes here for the first time, and their account is older than the
        stream. A pzp peer leaves them out and has the message refused.
        """
        if message.account_tips is None or not (self._fresh_accounts or self._whole_accounts):
            return []
        needed = [
            id
            for id in self._exchange.account_messages_for([message.id])
            if id not in self._told_accounts and (tangle, id) not in self._told
        ]
        if not self._whole_accounts:
            needed = [id for id in needed if id in self._fresh_accounts]
        return [held for held in map(self._exchange.message, needed) if held is not None]

    def _is_bulky(self, account: list[Message]) -> bool:
        return self._bytes_max is not None and sum(len(one.raw) for one in account) > self._bytes_max

    def _bound(self, ids: dict[_Id, None]) -> None:
        """Forget the oldest. What waited so long is found by the next run."""
        while len(ids) > self._told_max:
            del ids[next(iter(ids))]

    def check(self) -> None:
        """Assert what always holds."""
        for audience in self._audiences.values():
            assert len(audience.waiting) <= self._told_max
        assert max(len(self._told), len(self._told_accounts), len(self._fresh_accounts)) <= self._told_max
