"""Whether a message may stand in a tangle, by the rules of a real pzp peer, in its order.

The first rule that a message breaks is the one that is reported. The steps one to three have been taken when a
``Message`` exists (``message.decode``); here are the others:

4. in a feed, a moot is accepted as it is, and the root of every tangle must be held;
5. the data, where it is there, is the one that the metadata names;
6. the domain is well formed;
7. the account suits the kind of tangle, and the key that signed belongs to it;
8. the message has a proper place: right after the deepest of its predecessors, as far as all of them are known;
9. the signature is right.

What a real peer does not check is not checked here either: the links of the long way, that every tip is named, the
length of a message, the order of ``accountTips``, whether a key agreed to be added. The modern mode asks for more
(``judgement``).
"""

import re
from collections.abc import Container
from typing import Final

from bobbin.tangles import base58, keys
from bobbin.tangles.canonical import Json
from bobbin.tangles.errors import InvalidMessage, MalformedText, Rule
from bobbin.tangles.message import ANY, SELF, Message, data_hash_and_size, safe_integer
from bobbin.tangles.tangle import Kind, Tangle

_DOMAIN: Final = re.compile(r"[A-Za-z0-9_]{3,100}")
_URI_PREFIX: Final = "pzp:"


def validate(message: Message, tangle: Tangle, sigkeys: Container[str]) -> None:
    """Raise ``InvalidMessage`` unless a message may stand in a tangle.

    ``sigkeys`` are the keys of its account. The message that is to be the root must have been added to the tangle, as
    without it nobody can say what kind of tangle it is.
    """
    kind = tangle.kind
    if kind is Kind.FEED and message.is_moot:
        return
    if kind is None:
        raise InvalidMessage(Rule.TANGLE_TYPE, f"the root of {tangle.id} is not held")
    metadata = message.metadata
    check_data(message)
    check_domain(metadata["domain"])
    _check_account(message, metadata, kind, sigkeys)
    _check_place(message, metadata, tangle)
    check_signature(message)


def check_standing(message: Message, tangle: Tangle, sigkeys: Container[str]) -> None:
    """Raise ``InvalidMessage`` where a message breaks a rule that depends on the tangle: the steps 4, 6, 7 and 8.

    For a message of which the other steps are known to be right, since it was validated in another tangle.
    """
    kind = tangle.kind
    if kind is None:
        raise InvalidMessage(Rule.TANGLE_TYPE, f"the root of {tangle.id} is not held")
    metadata = message.metadata
    check_domain(metadata["domain"])
    if not message.is_moot:
        _check_account(message, metadata, kind, sigkeys)
    _check_place(message, metadata, tangle)


def check_domain(domain: Json) -> None:
    """Raise ``InvalidMessage`` for a text that is no domain."""
    if not isinstance(domain, str) or _DOMAIN.fullmatch(domain) is None:
        raise InvalidMessage(Rule.DOMAIN, "a domain is 3 to 100 letters, digits and underscores")


def check_data(message: Message) -> None:
    """Raise ``InvalidMessage`` unless the data of a message, where it is there, is the one that it names."""
    metadata = message.metadata
    size = safe_integer(metadata["dataSize"])
    if size is None or size < 0:
        raise InvalidMessage(Rule.DATA_SIZE_TYPE, "not a whole number from 0 on")
    if not message.has_data:
        return
    hash_found, size_found = data_hash_and_size(message.data)
    if metadata["dataHash"] != hash_found:
        raise InvalidMessage(Rule.DATA_HASH, f"the data has the hash {hash_found}")
    if size != size_found:
        raise InvalidMessage(Rule.DATA_SIZE, f"the data has {size_found} bytes, not {size}")


def check_signature(message: Message) -> None:
    """Raise ``InvalidMessage`` unless the key that a message names has signed it."""
    try:
        signature = base58.decode(message.sig, keys.SIGNATURE_BYTES)
    except MalformedText as error:
        raise InvalidMessage(Rule.SIG_FORMAT, str(error)) from None
    if not keys.is_signature(message.sigkey, message.signed, signature):
        raise InvalidMessage(Rule.SIGNATURE)


def _check_account(message: Message, metadata: dict[str, Json], kind: Kind, sigkeys: Container[str]) -> None:
    account = metadata["account"]
    if kind is Kind.ACCOUNT:
        if account != SELF:
            raise InvalidMessage(Rule.ACCOUNT_KIND, "in an account tangle the account is self")
        if metadata["accountTips"] is not None:
            raise InvalidMessage(Rule.ACCOUNT_TIPS, "in an account tangle there are none")
        return
    if account == SELF:
        raise InvalidMessage(Rule.ACCOUNT_KIND, f"in a {kind} the account is not self")
    if account != ANY and message.sigkey not in sigkeys:
        raise InvalidMessage(Rule.SIGKEY_UNAUTHORISED, f"{message.sigkey} is no key of the account at its tips")


def _check_place(message: Message, metadata: dict[str, Json], tangle: Tangle) -> None:
    tangles = metadata["tangles"]
    entry = tangles.get(tangle.id) if isinstance(tangles, dict) else None
    if message.id == tangle.id:
        if _says_something(entry):
            raise InvalidMessage(Rule.ROOT_ENTRY)
        return
    if not _says_something(entry):
        raise InvalidMessage(Rule.NO_ENTRY, tangle.id)
    prev = entry.get("prev") if isinstance(entry, dict) else None
    if not isinstance(entry, dict) or not isinstance(prev, list):
        raise InvalidMessage(Rule.PREV_TYPE)
    depth = safe_integer(entry.get("depth"))
    if depth is None or depth < 1:
        raise InvalidMessage(Rule.DEPTH_TYPE)
    root = tangle.root
    if root is not None and root.is_moot:
        if metadata["domain"] != root.domain:
            raise InvalidMessage(Rule.FEED_DOMAIN)
        if metadata["account"] != root.account:
            raise InvalidMessage(Rule.FEED_ACCOUNT)
    _check_predecessors(prev, depth, tangle)


def _check_predecessors(prev: list[Json], depth: int, tangle: Tangle) -> None:
    last: str | None = None
    deepest = -1
    unknown = 0
    for item in prev:
        if not isinstance(item, str):
            raise InvalidMessage(Rule.PREV_ITEM, "not a text")
        if item.startswith(_URI_PREFIX):
            raise InvalidMessage(Rule.PREV_URI)
        if last is not None:
            if item == last:
                raise InvalidMessage(Rule.PREV_DUPLICATES, item)
            if item.encode("utf-16-be") < last.encode("utf-16-be"):
                raise InvalidMessage(Rule.PREV_UNSORTED, f"{item} after {last}")
        last = item
        known = tangle.depth(item)
        if known is None:
            unknown += 1
        elif known >= depth:
            raise InvalidMessage(Rule.PREV_DEPTH, f"{item} is at depth {known}")
        else:
            deepest = max(deepest, known)
    if unknown == len(prev):
        raise InvalidMessage(Rule.PREV_UNKNOWN)
    if not unknown and depth != deepest + 1:
        raise InvalidMessage(Rule.DEPTH, f"{depth} after {deepest}")


def _says_something(entry: Json) -> bool:
    """What JavaScript takes for true: every object and array, and all but a few other values."""
    return isinstance(entry, (dict, list)) or bool(entry)
