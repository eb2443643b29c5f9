"""What a collection never takes, whatever the goals say: who one is, and what one has just said.

Goals say what is wanted of others. They were never meant to give up

* the accounts that a key of this lace belongs to, as it has signed in them or has agreed to be added: without them
  nothing can be signed or proven any more, and no peer may have them;
* under ``newest-N``, a message that a key of this lace has signed and that nothing comes after yet. Others may have
  gone on beside it, so that it lies below the newest, and nothing shows that anybody else has it. What leads from it to
  the root stays without its data, as with any message that is kept.

A goal of ``none``, or a tangle without a goal when only goals count, gives up messages of one's own like any other:
that is what was asked for.
"""

from collections.abc import Collection, Iterable

from bobbin.runtime.tangle_shelf import Shelf
from bobbin.tangles.accounts import Act, account_of, action_of, is_consent
from bobbin.tangles.goals import GoalKind
from bobbin.tangles.message import Message, MessageId
from bobbin.tangles.upkeep import Sweep


def spare(shelf: Shelf, held: Iterable[Message], found: Sweep, keys: Collection[str]) -> Sweep:
    """What goes of ``found`` where these are the public keys of whoever collects. ``held`` are all messages."""
    if not keys or not (found.deleted or found.erased):
        return found
    messages = {message.id: message for message in held}
    last, trail = _last_words(shelf, messages, keys)
    accounts = {account_of(message) for message in messages.values() if message.is_account and _concerns(message, keys)}
    accounts |= {account_of(messages[id]) for id in last | trail}
    whole = last | {id for account in accounts if account is not None for id in shelf.tangle(account)}
    deleted = tuple(id for id in found.deleted if id not in whole | trail)
    led = tuple(id for id in found.deleted if id in trail - whole and messages[id].has_data)
    gone = frozenset(deleted)
    return Sweep(
        deleted=deleted,
        erased=tuple(id for id in found.erased if id not in whole) + led,
        ghosts=tuple(ghost for ghost in found.ghosts if ghost.id in gone),
    )


def _last_words(
    shelf: Shelf, messages: dict[MessageId, Message], keys: Collection[str]
) -> tuple[set[MessageId], set[MessageId]]:
    """Messages signed by these keys that nothing comes after, where the newest are kept; and what leads to them."""
    last: set[MessageId] = set()
    trail: set[MessageId] = set()
    for root, goal in shelf.goals().items():
        if goal.kind is GoalKind.NEWEST:
            tangle = shelf.tangle(root)
            own = {id for id in tangle.tips() if id in messages and messages[id].sigkey in keys}
            last |= own
            trail.update(before for id in own for before in tangle.shortest_path(id))
    return last, trail & messages.keys()


def _concerns(message: Message, keys: Collection[str]) -> bool:
    """Whether one of these keys has signed a message of an account, or has agreed to be added by it.

    Anybody can name any key in an account of their own. That alone must not keep it here.
    """
    if message.sigkey in keys:
        return True
    action, account = action_of(message), account_of(message)
    if action is None or account is None or action.act is not Act.ADD or action.key not in keys:
        return False
    return action.key is not None and action.consent is not None and is_consent(action.consent, action.key, account)
