"""Account messages that have come in a run, and of which nobody can tell yet whether anything here needs them.

A sender puts the messages of all accounts first. What speaks for an account may come in a later parcel; and what speaks
for it in the same one may turn out wrong, or be something that was removed here on purpose, while a later parcel has
more of the same author. So account messages wait here, as far as there is room, until something needs them: those that
nothing speaks for, and those that only messages speak for of which nobody knows yet whether they are taken. The store
lets go of the latter where none is (``Commit.vouched``), and they go again with the next commit that has something of
their author. The run takes with it at its end what is still here.

Each time that account messages go again they are checked again, and the peer has sent them once. So in one run no more
than ``AGAIN_BYTES_MAX`` of them go again for nothing; after that, what is not needed at once is lost to the run.
"""

from collections.abc import Callable, Collection, Iterable
from typing import Final

from bobbin.tangles.accounts import account_of
from bobbin.tangles.message import Message, MessageId
from bobbin.tangles.modern_parcels import sort_accounts
from bobbin.tangles.session_effects import UNNEEDED
from bobbin.tangles.session_events import Refused
from bobbin.tangles.tangle import Tangle

AGAIN_BYTES_MAX: Final = 16 * 1024 * 1024
"""Of account messages that are kept in a run although they have gone to the store, each as often as it is."""


class EarlyAccounts:
    """The account messages that wait in one run."""

    def __init__(self) -> None:
        self._waiting: list[Message] = []
        self._cut: set[MessageId] = set()
        """Accounts of which something that came early had no room."""
        self._again_bytes = AGAIN_BYTES_MAX
        """How much may still be kept that has gone to the store."""

    def __len__(self) -> int:
        return len(self._waiting)

    def sort(
        self,
        messages: Collection[Message],
        known: Collection[MessageId],
        structure_of: Callable[[MessageId], Tangle | None],
    ) -> tuple[tuple[Message, ...], frozenset[MessageId]]:
        """What to store of messages that have come and of what waits; and the accounts that only these speak for.

        ``known`` are the accounts that are needed whatever comes; so are those of which something is held. An account
        that is longer than there is room for is not among those that only these messages speak for: its beginning has
        to rest somewhere until the next run brings the end.
        """
        came = [one for one in messages if one.is_account]
        held = {id: structure_of(id) for id in {_account(one) for one in (*self._waiting, *came)}}
        early = [*self._not_held(held), *came]
        others = [one for one in messages if not one.is_account]
        speaking = {one.account for one in others if one.account_tips}
        needed_anyway = {*known, *(id for id, structure in held.items() if structure is not None)}
        needed, later = sort_accounts(early, (needed_anyway | speaking).__contains__)
        kept = {one.id for one in (*needed, *later)}
        self._cut.update(_account(one) for one in early if one.id not in kept)
        vouched = frozenset(speaking - needed_anyway - self._cut)
        in_doubt = (one for one in needed if _account(one) in vouched)
        _, self._waiting = sort_accounts([*later, *filter(self._may_go_again, in_doubt)], lambda _: False)
        return (*needed, *others), vouched

    def _not_held(self, held: dict[MessageId, Tangle | None]) -> list[Message]:
        """What waits and has not been stored meanwhile. What has gone to the store and was taken did not go in vain."""
        left: list[Message] = []
        for one in self._waiting:
            structure = held[_account(one)]
            if structure is None or not structure.has_data(one.id):
                left.append(one)
            else:
                self._again_bytes = min(AGAIN_BYTES_MAX, self._again_bytes + len(one.raw))
        return left

    def _may_go_again(self, message: Message) -> bool:
        if len(message.raw) > self._again_bytes:
            return False
        self._again_bytes -= len(message.raw)
        return True

    def refused(self, refused: Iterable[Refused]) -> list[Refused]:
        """Of what a commit has refused, that which does not wait here for the next one."""
        waiting = {one.id for one in self._waiting}
        return [one for one in refused if one.detail != UNNEEDED or one.message not in waiting]


def _account(message: Message) -> MessageId:
    return account_of(message) or message.id
