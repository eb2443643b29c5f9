"""Accounts: which keys may speak for somebody, and with which powers.

An account is a tangle whose messages add and remove keys. Every other message names its account and the tips of the
account tangle as its author knew it, so that keys added later do not count, and keys removed later still do.

There are two ways to read an account. A real peer takes everything that does not come after one of the tips, counts the
whole account if it knows none of them, and heeds whoever removes a key (``interop_keys``). The modern way is in
``judgement``: it takes exactly what the tips build on, and heeds only those who hold the power. Both apply messages in
topological order, through ``KeyRing``.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from msgspec import Struct

from bobbin.tangles import base58, keys
from bobbin.tangles.errors import MalformedText
from bobbin.tangles.keys import Keypair
from bobbin.tangles.message import ANY, ID_BYTES, SELF, Message, MessageId
from bobbin.tangles.ports import MessageStore

CONSENT_TAG: Final = ":account-add:"
_SIGNING_PURPOSES: Final = frozenset({"sig", "shs-and-sig"})
_ALGORITHM: Final = "ed25519"
_KEPT_MAX: Final = 4096


class Act(StrEnum):
    """What an account message does with a key; at the same time the power that it takes."""

    ADD = "add"
    DEL = "del"


class Action(Struct, frozen=True, kw_only=True, gc=False):
    """One account message, as far as keys that sign are concerned."""

    act: Act
    key: str | None
    """The public key; ``None`` if it is not of the algorithm that is known here."""
    signs: bool
    """The key is one for signatures."""
    powers: frozenset[str]
    consent: str | None


class KeyRing:
    """The keys of an account and the powers of each, as one message after another leaves them."""

    def __init__(self) -> None:
        self._powers: dict[str, frozenset[str]] = {}

    def apply(self, action: Action) -> None:
        """Add or remove the key of an action. Adding a key again gives it the new powers as well."""
        if action.key is None or not action.signs:
            return
        if action.act is Act.ADD:
            self._powers[action.key] = self._powers.get(action.key, frozenset()) | action.powers
        else:
            self._powers.pop(action.key, None)

    @property
    def keys(self) -> frozenset[str]:
        return frozenset(self._powers)

    def has_power(self, key: str, power: Act) -> bool:
        """Whether a key belongs to the account and may do this."""
        return power in self._powers.get(key, ())


def account_of(message: Message) -> MessageId | None:
    """The account tangle that a message belongs to or speaks for; ``None`` if any key may sign it."""
    if message.account == SELF:
        tangles = message.metadata["tangles"]
        return next(iter(tangles), message.id) if isinstance(tangles, dict) else message.id
    return None if message.account == ANY else message.account


def action_of(message: Message) -> Action | None:
    """What an account message does; ``None`` if its data is gone, or says nothing about keys."""
    data = message.data if message.has_data else None
    if not isinstance(data, dict) or data.get("action") not in ("add", "del"):
        return None
    powers, agreed, key = data.get("powers"), data.get("consent"), data.get("key")
    if not isinstance(key, dict):
        key = {}
    text, purpose = key.get("bytes"), key.get("purpose")
    return Action(
        act=Act(str(data["action"])),
        key=text if isinstance(text, str) and key.get("algorithm") == _ALGORITHM else None,
        signs=isinstance(purpose, str) and purpose in _SIGNING_PURPOSES,
        powers=frozenset([power for power in powers if isinstance(power, str)] if isinstance(powers, list) else ()),
        consent=agreed if isinstance(agreed, str) else None,
    )


def consent_text(account: MessageId) -> bytes:
    """What a key signs to agree to be added to an account: the bytes of the id as decimal numbers, not as base58."""
    return (CONSENT_TAG + ",".join(str(byte) for byte in base58.decode(account, ID_BYTES))).encode()


def consent(keypair: Keypair, account: MessageId) -> str:
    """The agreement of a key to be added to an account."""
    return keypair.sign(consent_text(account))


def is_consent(text: str, key: str, account: MessageId) -> bool:
    """Whether a text is the agreement of a key to be added to an account."""
    try:
        signature = base58.decode(text, keys.SIGNATURE_BYTES)
        return keys.is_signature(key, consent_text(account), signature)
    except MalformedText:
        return False


def account_messages(store: MessageStore, messages: Iterable[Message]) -> list[MessageId]:
    """The account messages that are needed to check these messages: per account, everything up to their tips.

    Accounts come in the order in which they are first named, the messages of one in topological order.
    """
    tips: dict[MessageId, dict[MessageId, None]] = {}
    for message in messages:
        if message.account_tips is not None and message.account not in (SELF, ANY):
            tips.setdefault(message.account, {}).update(dict.fromkeys(message.account_tips))
    return [piece.id for account, ends in tips.items() for piece in store.tangle(account).slice((), ends)]


class Accounts:
    """Answers about the accounts of a store, as a real peer would give them; kept until the account changes."""

    def __init__(self, store: MessageStore) -> None:
        self._store: Final = store
        self._keys: dict[tuple[MessageId, tuple[MessageId, ...]], tuple[int, frozenset[str]]] = {}
        self._actions: dict[MessageId, Action | None] = {}

    def interop_keys(self, account: MessageId, tips: tuple[MessageId, ...] | None) -> frozenset[str]:
        """The keys of an account at some tips; of the whole account where none of the tips is held."""
        tangle = self._store.tangle(account)
        found = self._keys.get((account, tips or ()))
        if found is None or found[0] != tangle.changes:
            ring = KeyRing()
            for piece in tangle.slice((), tips or ()):
                action = self._action(piece.id) if tangle.has_data(piece.id) else None
                if action is not None:
                    ring.apply(action)
            if len(self._keys) >= _KEPT_MAX:
                self._keys.clear()
            found = self._keys[account, tips or ()] = (tangle.changes, ring.keys)
        return found[1]

    def interop_powers(self, account: MessageId, key: str) -> frozenset[str]:
        """All powers that a key was ever given in an account, whether it was removed since or not."""
        powers: frozenset[str] = frozenset()
        tangle = self._store.tangle(account)
        for id in tangle.topological():
            action = self._action(id) if tangle.has_data(id) else None
            if action is not None and action.act is Act.ADD and action.key == key:
                powers |= action.powers
        return powers

    def _action(self, id: MessageId) -> Action | None:
        known = self._actions.get(id)
        if known is None:
            message = self._store.message(id)
            known = None if message is None else action_of(message)
            if known is not None:
                if len(self._actions) >= _KEPT_MAX:
                    self._actions.clear()
                self._actions[id] = known
        return known
