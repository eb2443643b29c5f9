"""New messages: the roots of accounts, feeds and threads, posts, and keys that are added or removed.

What a message says of its place follows from the tangles as they are known: it comes after all tips, and after the
messages of the long way back. Whoever keeps messages of both levels passes the tangles of the full ones, or of those
that only wait for predecessors as well, so that nothing new builds on what breaks a rule of the modern mode.

Keys are written in the order in which a real peer writes them.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from bobbin.errors import UsageError
from bobbin.tangles import accounts
from bobbin.tangles.canonical import Json, canonical
from bobbin.tangles.errors import InvalidMessage, MalformedText
from bobbin.tangles.keys import Keypair
from bobbin.tangles.message import (
    ACCOUNT_DOMAIN_PREFIX,
    ANY,
    MODERN_BYTES_MAX,
    SELF,
    SIGNATURE_TAG,
    VERSION,
    Message,
    MessageId,
    data_hash_and_size,
    from_json,
    moot_metadata,
)
from bobbin.tangles.tangle import Tangle
from bobbin.tangles.validation import check_domain

POWERS: Final = ("add", "del", "external-encryption", "internal-encryption")
"""All powers that a key can have, and that the first key of an account has."""


def account_root(keypair: Keypair, *, nonce: str, subdomain: str = "person") -> Message:
    """A new account with one key, which has all powers. The nonce tells it from others of the same key."""
    data: dict[str, Json] = {
        "action": "add",
        "key": {"purpose": "shs-and-sig", "algorithm": "ed25519", "bytes": keypair.public},
        "nonce": nonce,
        "powers": list(POWERS),
    }
    return _signed(keypair, data, SELF, None, (), ACCOUNT_DOMAIN_PREFIX + subdomain)


def account_add(
    keypair: Keypair, account: Tangle, *, key: str, consent: str, powers: Sequence[str] | None = None
) -> Message:
    """Add a key that has agreed to it. ``keypair`` must hold the power to add."""
    if powers is not None and not set(powers) <= set(POWERS):
        raise UsageError(f"a power is one of {', '.join(POWERS)}")
    if not accounts.is_consent(consent, key, account.id):
        raise UsageError("the key has not agreed to be added to this account")
    data: dict[str, Json] = {
        "action": "add",
        "key": {"purpose": "sig", "algorithm": "ed25519", "bytes": key},
        "consent": consent,
    }
    if powers is not None:
        data["powers"] = list(powers)
    return _signed(keypair, data, SELF, None, (account,), _domain(account))


def account_del(keypair: Keypair, account: Tangle, *, key: str) -> Message:
    """Remove a key. ``keypair`` must hold the power to remove."""
    data: dict[str, Json] = {"action": "del", "key": {"purpose": "sig", "algorithm": "ed25519", "bytes": key}}
    return _signed(keypair, data, SELF, None, (account,), _domain(account))


def moot(keypair: Keypair, account: MessageId, domain: str) -> Message:
    """The root of the feed that an account keeps under a domain."""
    _require_domain(domain)
    return _finished(keypair, None, moot_metadata(account, domain))


def post(
    keypair: Keypair,
    data: Mapping[str, Json] | str,
    *,
    account: Tangle | None,
    domain: str,
    tangles: Iterable[Tangle] = (),
) -> Message:
    """A message with data, after everything in the tangles given: a feed and a thread, say. In none, it is a root.

    ``account`` is the account tangle that it speaks for; without, any key may have signed it.
    """
    body: Json = data if isinstance(data, str) else dict(data)
    tips = None if account is None else sorted(account.tips())
    return _signed(keypair, body, ANY if account is None else account.id, tips, tangles, domain)


def _signed(
    keypair: Keypair, data: Json, account: str, tips: list[str] | None, tangles: Iterable[Tangle], domain: str
) -> Message:
    _require_domain(domain)
    try:
        hash_text, size = data_hash_and_size(data)
    except MalformedText as problem:
        raise UsageError(f"this data cannot be sent: {problem}") from None
    entries: dict[str, Json] = {}
    for tangle in tangles:
        place = tangle.next_place()
        entries[tangle.id] = {"depth": place.depth, "prev": list(place.prev)}
    metadata: dict[str, Json] = {
        "dataHash": hash_text,
        "dataSize": size,
        "account": account,
        "accountTips": None if tips is None else list(tips),
        "tangles": entries,
        "domain": domain,
        "v": VERSION,
    }
    return _finished(keypair, data, metadata)


def _finished(keypair: Keypair, data: Json, metadata: dict[str, Json]) -> Message:
    sig = keypair.sign(SIGNATURE_TAG + canonical(metadata))
    message = from_json({"data": data, "metadata": metadata, "sigkey": keypair.public, "sig": sig})
    if len(message.raw) > MODERN_BYTES_MAX:
        raise UsageError(f"a message has {MODERN_BYTES_MAX} bytes at most, and this would have {len(message.raw)}")
    return message


def _domain(account: Tangle) -> str:
    if account.root is None:
        raise UsageError(f"the root of the account {account.id} is not held")
    return account.root.domain


def _require_domain(domain: str) -> None:
    try:
        check_domain(domain)
    except InvalidMessage as problem:
        raise UsageError(str(problem)) from None
