"""What is true of the messages of a world, whoever knows it: the rules of the modern mode, read over all of them.

A node judges by what it holds. Here everything is known that was ever written or forged in a world, so every message
that can be proven is, and no node may call proven what is not. The rules are written down once more, plainly, as
statements over plain dictionaries: what a node keeps up to date with care is worked out from nothing here.
"""

import json
import re
from functools import cache
from typing import Final

from bobbin.tangles import base58
from bobbin.tangles.accounts import is_consent
from bobbin.tangles.canonical import Json, canonical
from bobbin.tangles.errors import MalformedText
from bobbin.tangles.keys import SIGNATURE_BYTES, is_signature
from bobbin.tangles.message import ANY, SELF, Message, MessageId, data_hash_and_size

MODERN_BYTES_MAX: Final = 65_535
_DOMAIN: Final = re.compile(r"[A-Za-z0-9_]{3,100}")
_SIGNING: Final = ("sig", "shs-and-sig")

Keys = dict[str, frozenset[str]]
"""The keys of an account, each with its powers."""


@cache
def is_sound(raw: bytes) -> str | None:
    """What is wrong with the text of a message, whatever tangle it stands in; None if nothing is."""
    value = json.loads(raw)
    metadata, data = value["metadata"], value["data"]
    moot = not metadata["tangles"] and metadata["dataHash"] is None and metadata["dataSize"] == 0
    if moot and metadata["accountTips"] is None and metadata["account"] != SELF:
        return None
    if data is not None:
        hash_text, size = data_hash_and_size(data)
        if (metadata["dataHash"], metadata["dataSize"]) != (hash_text, size):
            return "its data is not what it names"
    if _DOMAIN.fullmatch(metadata["domain"]) is None:
        return "its domain is none"
    try:
        signature = base58.decode(value["sig"], SIGNATURE_BYTES)
        signed = b":msg-v4:" + canonical(metadata)
        return None if is_signature(value["sigkey"], signed, signature) else "its signature is wrong"
    except MalformedText as error:
        return str(error)


class Truth:
    """Everything that exists in one world, and what can be proven of it."""

    def __init__(self) -> None:
        self._messages: dict[MessageId, Message] = {}
        self._signers: dict[MessageId, set[str]] = {}
        """The keys that have signed each: an id does not cover the signature, so one id may have several copies."""
        self._full: dict[tuple[MessageId, MessageId, str | None], bool] = {}

    def learn(self, message: Message) -> None:
        """A message exists. Of one that exists with and without data, the one with data counts."""
        known = self._messages.get(message.id)
        if is_sound(message.raw) is not None:
            return
        signers = self._signers.setdefault(message.id, set())
        if known is None or (message.has_data and not known.has_data):
            self._messages[message.id] = message
        elif message.sigkey in signers:
            return
        signers.add(message.sigkey)
        self._full.clear()

    def __contains__(self, id: object) -> bool:
        return id in self._messages

    def __getitem__(self, id: MessageId) -> Message:
        return self._messages[id]

    def is_full(self, tangle: MessageId, id: MessageId, signer: str | None = None) -> bool:
        """Whether a message can be proven in a tangle: the copy that a key has signed, or any."""
        spot = (tangle, id, signer)
        if spot not in self._full:
            self._full[spot] = False
            self._full[spot] = self._prove(tangle, id, self._signers.get(id, set()) if signer is None else {signer})
        return self._full[spot]

    def is_true(self, id: MessageId) -> bool:
        """Whether a message can be proven in any tangle."""
        message = self._messages.get(id)
        return message is not None and any(self.is_full(tangle, id) for tangle in (id, *message.places))

    def ancestors(self, tangle: MessageId, ids: tuple[MessageId, ...]) -> set[MessageId]:
        """What some messages build on in a tangle, these included."""
        found: set[MessageId] = set()
        left = list(ids)
        while left:
            id = left.pop()
            if id not in found:
                found.add(id)
                place = self._messages[id].places.get(tangle) if id in self._messages else None
                left += () if place is None else place.prev
        return found

    def _prove(self, tangle: MessageId, id: MessageId, signers: set[str]) -> bool:
        message, root = self._messages.get(id), self._messages.get(tangle)
        if message is None or root is None or size_of(message) > MODERN_BYTES_MAX:
            return False
        if id == tangle:
            if message.places:
                elsewhere = (self.is_full(other, id, signer) for other in message.places for signer in signers)
                return message.account != SELF and any(elsewhere)
            if message.is_account:
                # An account begins with a key that is added by itself.
                action = account_action(message)
                return action is not None and action[0] == "add" and action[1] in signers
            return self._is_signed_rightly(message, signers)
        if not self._stands_rightly(message, root) or not self._suits(message, root):
            return False
        if message.is_account:
            return self._acts_rightly(message, tangle, signers)
        return self._is_signed_rightly(message, signers)

    def _stands_rightly(self, message: Message, root: Message) -> bool:
        place = message.places.get(root.id)
        if place is None or not place.prev or not self.is_full(root.id, root.id):
            return False
        if list(place.prev) != sorted(set(place.prev), key=lambda id: id.encode("utf-16-be")):
            return False
        if not all(self.is_full(root.id, before) for before in place.prev):
            return False
        depths = [self._messages[before].depth_in(root.id) or 0 for before in place.prev]
        return place.depth == max(depths) + 1

    @staticmethod
    def _suits(message: Message, root: Message) -> bool:
        if root.account == SELF:
            return message.account == SELF and message.account_tips is None
        is_feed = root.is_moot
        same = not is_feed or (message.domain, message.account) == (root.domain, root.account)
        return message.account != SELF and same

    def _is_signed_rightly(self, message: Message, signers: set[str]) -> bool:
        if message.is_moot or message.account in (ANY, SELF):
            return True
        if not message.account_tips or not all(self.is_full(message.account, tip) for tip in message.account_tips):
            return False
        return not signers.isdisjoint(self._keys(message.account, message.account_tips))

    def _acts_rightly(self, message: Message, account: MessageId, signers: set[str]) -> bool:
        action = account_action(message)
        if action is None:
            return False
        act, key, powers, consent = action
        del powers
        keys = self._keys(account, message.places[account].prev)
        if not any(act in keys.get(signer, ()) for signer in signers):
            return False
        return act == "del" or key is None or (consent is not None and is_consent(consent, key, account))

    def _keys(self, account: MessageId, tips: tuple[MessageId, ...]) -> Keys:
        """The keys of an account after what some messages of it build on."""
        keys: Keys = {}
        ids = [id for id in self.ancestors(account, tips) if id in self._messages]
        # By depth, and inside one depth as real peers collate.
        for id in sorted(ids, key=lambda id: (self._messages[id].depth_in(account), id.lower(), id.swapcase())):
            action = account_action(self._messages[id])
            if action is None:
                continue
            act, key, powers, _ = action
            if key is not None:
                if act == "add":
                    keys[key] = keys.get(key, frozenset()) | powers
                else:
                    keys.pop(key, None)
        return keys


def size_of(message: Message) -> int:
    """The length of a message with its data, whether or not the data is at hand."""
    return len(message.raw) if message.has_data else len(message.raw) - len(b"null") + message.data_size


def account_action(message: Message) -> tuple[str, str | None, frozenset[str], str | None] | None:
    """What an account message does, the key for signatures that it does it to, its powers and its consent."""
    data: Json = message.data
    if not isinstance(data, dict) or data.get("action") not in ("add", "del"):
        return None
    key, powers, consent = data.get("key"), data.get("powers"), data.get("consent")
    signs = isinstance(key, dict) and key.get("purpose") in _SIGNING and key.get("algorithm") == "ed25519"
    text = key.get("bytes") if signs and isinstance(key, dict) else None
    return (
        str(data["action"]),
        text if isinstance(text, str) else None,
        frozenset(str(power) for power in powers) if isinstance(powers, list) else frozenset(),
        consent if isinstance(consent, str) else None,
    )
