"""What a real pzp peer lets into its database: the interop level of acceptance.

Around the validation of a message stand a few rules of the database. A message that is held already changes nothing,
unless it comes with data for a copy without. An account that is not held vouches for nobody. A message that was made a
ghost does not come back with its data. A key is added to an account only by one that holds the power to add.

What is refused is refused with the rule that it breaks. What is accepted is not thereby true: anybody may remove a key,
tips that nobody knows widen the set of keys, and an unknown predecessor frees a message from its depth. The modern mode
relies on none of it, see ``judgement``.
"""

from enum import StrEnum

from bobbin.tangles.accounts import Accounts, Act, account_of, action_of
from bobbin.tangles.errors import InvalidMessage, Rule
from bobbin.tangles.message import Message, MessageId
from bobbin.tangles.ports import MessageStore
from bobbin.tangles.tangle import Tangle
from bobbin.tangles.validation import validate


class Admission(StrEnum):
    """What becomes of a message that is accepted."""

    ADDED = "added"
    FILLED = "filled"
    """It was held without its data, and now has it."""
    REPLACED = "replaced"
    """It was held as signed by somebody who may not, and is now as signed by somebody who may (``judgement``)."""
    KNOWN = "known"
    """It changes nothing."""


def admit(store: MessageStore, accounts: Accounts, message: Message, tangle: MessageId) -> Admission:
    """Whether a real peer would take a message, as one of this tangle. Raises ``InvalidMessage``; changes nothing.

    A ghost that comes back without its data is a ghost no more: whoever stores it by these rules drops it from the
    registry. In the modern mode it stays one, so that its data stays away.
    """
    held = store.message(message.id)
    if held is not None and (held.has_data or not message.has_data):
        return Admission.KNOWN
    structure = store.tangle(tangle)
    if message.id == tangle and structure.root is None:
        structure = Tangle(tangle, [message])
    if message.is_moot:
        validate(message, structure, ())
    else:
        _check_around(store, accounts, message, structure)
    return Admission.ADDED if held is None else Admission.FILLED


def _check_around(store: MessageStore, accounts: Accounts, message: Message, structure: Tangle) -> None:
    account = account_of(message)
    sigkeys: frozenset[str] = frozenset()
    if account is not None and account != message.id:
        if store.message(account) is None:
            raise InvalidMessage(Rule.UNKNOWN_ACCOUNT, account)
        sigkeys = accounts.interop_keys(account, message.account_tips)
    if message.has_data and message.id in store.ghosts(structure.id):
        raise InvalidMessage(Rule.GHOST)
    validate(message, structure, sigkeys)
    if account is not None and message.is_account and not message.is_root:
        action = action_of(message)
        if (
            action is not None
            and action.act is Act.ADD
            and Act.ADD not in accounts.interop_powers(account, message.sigkey)
        ):
            raise InvalidMessage(Rule.POWER, f"{message.sigkey} may not add keys")
