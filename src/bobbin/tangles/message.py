"""A message of pzp (msg-v4): what it says of itself, its name, and what is signed.

A message is JSON: ``data``, ``metadata``, ``sigkey``, ``sig``. Its *id* is the hash of the canonical metadata alone,
and the metadata holds the hash of the data; so data can be erased and the message keeps its name, and whoever has it
fills the gap again. ``sig`` is over the metadata as well.

A ``Message`` exists for every JSON value with the right keys, a key of the right length and data of a right type: the
first three steps of validation. Whether it is valid depends on the tangle that it is to stand in, and ``validation``
says that. Fields of the wrong type are read as absent: no valid message has any.

``raw`` is the text as JavaScript would write it, keys in the order in which they came, since that is what goes out
again byte for byte. Keys beside the four are dropped, and so is what stands for the signature of a moot and is none:
the id does not cover them and nobody checks them, so whoever passes a message on could write there what they like.
"""

import hashlib
from collections.abc import Mapping
from typing import Final, TypeAlias

from msgspec import Struct

from bobbin.tangles import base58, canonical, keys
from bobbin.tangles.canonical import SAFE_INTEGER_MAX, Json
from bobbin.tangles.errors import InvalidMessage, MalformedText, Rule

MessageId: TypeAlias = str
"""Base58 of 32 bytes. A tangle has the id of its root message."""

ID_BYTES: Final = 32
VERSION: Final = 4
SIGNATURE_TAG: Final = b":msg-v4:"
SELF: Final = "self"
"""The account of every message of an account tangle."""
ANY: Final = "any"
"""The account of a message that any key may sign."""
ACCOUNT_DOMAIN_PREFIX: Final = "account__"

MESSAGE_BYTES_MAX: Final = 4 * 1024 * 1024
"""The longest message that is read at all. A real peer has no bound of its own."""
MODERN_BYTES_MAX: Final = 65_535
"""The longest message that is written here, and that the modern mode takes: what the format promises."""

_KEYS: Final = frozenset({"data", "metadata", "sigkey", "sig"})
_SIGNER_CHARACTERS: Final = 44 + 88
"""How long a key and a signature are at most, as base58."""
_NO_SIGNATURE: Final = base58.encode(bytes(keys.SIGNATURE_BYTES))
_METADATA_KEYS: Final = ("dataHash", "dataSize", "account", "accountTips", "tangles", "domain")


class Place(Struct, frozen=True, gc=False):
    """Where a message stands in one tangle."""

    depth: int
    """At least 1."""
    prev: tuple[MessageId, ...]
    """The messages that it comes after, as it names them; not all of them need be held."""


class Message(Struct, frozen=True, kw_only=True, gc=False):
    """One message, with its data or without. See the module for what is certain about it."""

    id: MessageId
    raw: bytes
    """The whole message as JSON text in UTF-8."""

    account: str
    """The id of an account tangle, ``self`` or ``any``."""
    account_tips: tuple[MessageId, ...] | None
    domain: str
    places: Mapping[MessageId, Place]
    """By tangle. A root stands in its own tangle without an entry."""
    data_hash: str | None
    data_size: int
    sigkey: str
    sig: str

    has_data: bool
    is_root: bool
    """It stands in no tangle but its own."""
    is_moot: bool
    """It is the root of a feed: everything in it follows from account and domain."""

    @property
    def is_account(self) -> bool:
        """It belongs to an account tangle."""
        return self.account == SELF

    @property
    def data(self) -> Json:
        """An object, a text if it is encrypted, or ``None`` if it is erased."""
        return _object(canonical.parse(self.raw))["data"]

    @property
    def metadata(self) -> dict[str, Json]:
        return _object(_object(canonical.parse(self.raw))["metadata"])

    @property
    def signed(self) -> bytes:
        """The bytes that ``sig`` is a signature of."""
        return SIGNATURE_TAG + canonical.canonical(self.metadata)

    @property
    def whole_size(self) -> int:
        """The length of its text with the data, whoever has signed it: every copy of a message counts the same."""
        size = len(self.raw) - len(canonical.plain(self.sig)) - len(canonical.plain(self.sigkey))
        if not self.has_data and self.data_size:
            size += self.data_size - len(b"null")
        return size + len('""') * 2 + _SIGNER_CHARACTERS

    def depth_in(self, tangle: MessageId) -> int | None:
        """How deep it stands in a tangle; ``None`` where it does not stand in it."""
        if self.id == tangle:
            return 0
        place = self.places.get(tangle)
        return None if place is None else place.depth

    def erased(self) -> "Message":
        """The same message without its data."""
        if not self.has_data:
            return self
        value = _object(canonical.parse(self.raw))
        value["data"] = None
        return _read(value, self.id)

    def filled(self, data: Json) -> "Message":
        """The same message with its data, which must be the one that it names."""
        value = _object(canonical.parse(self.raw))
        value["data"] = data
        return _read(value, self.id)


def decode(raw: bytes | str) -> Message:
    """The message that a JSON text spells. Raises ``InvalidMessage`` with the first rule of shape that it breaks."""
    if len(raw) > MESSAGE_BYTES_MAX:
        raise InvalidMessage(Rule.TOO_LARGE, f"{len(raw)} bytes, and {MESSAGE_BYTES_MAX} at most")
    try:
        value = canonical.parse(raw)
    except MalformedText as error:
        raise InvalidMessage(Rule.TEXT, str(error)) from None
    return from_json(value)


def from_json(value: Json) -> Message:
    """The same for a JSON value that has been read already."""
    metadata = _check_shape(value)
    try:
        return _read(_object(value), message_id(metadata))
    except MalformedText as error:
        raise InvalidMessage(Rule.TEXT, str(error)) from None


def message_id(metadata: Json) -> MessageId:
    """The id of the message with this metadata."""
    return base58.encode(hashlib.sha512(canonical.canonical(metadata)).digest()[:ID_BYTES])


def data_hash_and_size(data: Json) -> tuple[str, int]:
    """What the metadata says of its data: ``dataHash`` and ``dataSize``."""
    text = canonical.canonical(data)
    return base58.encode(hashlib.sha512(text).digest()[:ID_BYTES]), len(text)


def is_message_id(text: str) -> bool:
    """Whether a text has the form of an id."""
    return base58.is_text_of(text, ID_BYTES)


def moot_metadata(account: MessageId, domain: str) -> dict[str, Json]:
    """The metadata of the root of a feed, in the order in which a real peer writes it."""
    return {
        "dataHash": None,
        "dataSize": 0,
        "account": account,
        "accountTips": None,
        "tangles": {},
        "domain": domain,
        "v": VERSION,
    }


def moot_id(account: MessageId, domain: str) -> MessageId:
    """The id of the feed that an account keeps under a domain: anybody can name it."""
    return message_id(moot_metadata(account, domain))


def safe_integer(value: Json) -> int | None:
    """A whole number that JavaScript holds exactly, however it was written; ``None`` for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if isinstance(value, float) and not value.is_integer():
        return None
    return int(value) if -SAFE_INTEGER_MAX <= value <= SAFE_INTEGER_MAX else None


def _check_shape(value: Json) -> dict[str, Json]:
    """Steps one to three of validation; gives the metadata."""
    if not isinstance(value, dict):
        raise InvalidMessage(Rule.SHAPE, "not an object")
    if "data" not in value:
        raise InvalidMessage(Rule.SHAPE, "no data")
    metadata = value.get("metadata")
    if not isinstance(metadata, dict):
        raise InvalidMessage(Rule.SHAPE, "no metadata")
    for key in _METADATA_KEYS:
        if key not in metadata:
            raise InvalidMessage(Rule.SHAPE, f"no metadata.{key}")
    if safe_integer(metadata.get("v")) != VERSION:
        raise InvalidMessage(Rule.VERSION, f"metadata.v is not {VERSION}")
    if not isinstance(value.get("sig"), str):
        raise InvalidMessage(Rule.SHAPE, "no sig")
    sigkey = value.get("sigkey")
    if not isinstance(sigkey, str):
        raise InvalidMessage(Rule.SIGKEY_FORMAT, "not a text")
    try:
        keys.public_bytes(sigkey)
    except MalformedText as error:
        raise InvalidMessage(Rule.SIGKEY_FORMAT, str(error)) from None
    if value["data"] is not None and not isinstance(value["data"], (dict, str)):
        raise InvalidMessage(Rule.DATA_TYPE, "neither an object nor a text nor null")
    return metadata


def _read(value: dict[str, Json], id: MessageId) -> Message:
    metadata = _object(value["metadata"])
    tips = metadata["accountTips"]
    hash_text = metadata["dataHash"]
    size = safe_integer(metadata["dataSize"])
    account, tangles = metadata["account"], metadata["tangles"]
    is_root = tangles == {}
    is_moot = is_root and value["data"] is None and hash_text is None and size == 0 and tips is None and account != SELF
    # What the id does not cover, and nobody has signed, is not part of the message.
    value = {key: content for key, content in value.items() if key in _KEYS}
    if is_moot and not base58.is_text_of(_text(value["sig"]), keys.SIGNATURE_BYTES):
        value["sig"] = _NO_SIGNATURE
    return Message(
        id=id,
        raw=canonical.plain(value),
        account=_text(account),
        account_tips=tuple(tip for tip in tips if isinstance(tip, str)) if isinstance(tips, list) else None,
        domain=_text(metadata["domain"]),
        places=_places(tangles),
        data_hash=hash_text if isinstance(hash_text, str) else None,
        data_size=0 if size is None else size,
        sigkey=_text(value["sigkey"]),
        sig=_text(value["sig"]),
        has_data=value["data"] is not None,
        is_root=is_root,
        is_moot=is_moot,
    )


def _places(tangles: Json) -> dict[MessageId, Place]:
    places: dict[MessageId, Place] = {}
    if isinstance(tangles, dict):
        for tangle, entry in tangles.items():
            if not isinstance(entry, dict):
                continue
            depth, prev = safe_integer(entry.get("depth")), entry.get("prev")
            if depth is None or depth < 1 or not isinstance(prev, list):
                continue
            texts = tuple([item for item in prev if isinstance(item, str)])
            if len(texts) == len(prev):
                places[tangle] = Place(depth=depth, prev=texts)
    return places


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""


def _object(value: Json) -> dict[str, Json]:
    assert isinstance(value, dict), "the shape has been checked"
    return value
