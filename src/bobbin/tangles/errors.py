"""What can be wrong with a message, by the name of the rule that it breaks.

The rules up to ``SIGNATURE`` are those of a real pzp peer, in the order in which it checks them: the first one that a
message breaks is the one that is reported. Those after them are checked around a message: by what a database accepts,
or by the modern mode alone.
"""

from enum import StrEnum

from bobbin.errors import IntegrityError, UsageError


class Rule(StrEnum):
    """A rule that a message can break."""

    TEXT = "text"
    """Not JSON, or JSON without a canonical form: a lone surrogate, a number beyond doubles, nesting without end."""
    TOO_LARGE = "too large"
    SHAPE = "shape"
    VERSION = "shape: version"
    SIGKEY_FORMAT = "sigkey format"
    DATA_TYPE = "data type"
    DATA_SIZE_TYPE = "dataSize type"
    DATA_HASH = "dataHash mismatch"
    DATA_SIZE = "dataSize mismatch"
    DOMAIN = "domain format"
    TANGLE_TYPE = "tangle type unknown"
    """The root of the tangle is not held, so nobody knows what kind of tangle it is."""
    ACCOUNT_KIND = "account kind for tangle"
    SIGKEY_UNAUTHORISED = "sigkey not authorised by account"
    ACCOUNT_TIPS = "accountTips in an account tangle"
    ROOT_ENTRY = "tangle: root has an entry for itself"
    NO_ENTRY = "tangle: no entry for this tangle"
    PREV_TYPE = "tangle: prev not an array"
    DEPTH_TYPE = "tangle: depth not a positive safe integer"
    FEED_DOMAIN = "tangle: feed domain differs"
    FEED_ACCOUNT = "tangle: feed account differs"
    PREV_ITEM = "tangle: prev item type"
    PREV_URI = "tangle: prev item is a uri"
    PREV_DUPLICATES = "tangle: prev duplicates"
    PREV_UNSORTED = "tangle: prev unsorted"
    PREV_DEPTH = "tangle: prev not shallower"
    PREV_UNKNOWN = "tangle: every prev unknown"
    DEPTH = "tangle: depth is not max prev depth + 1"
    SIG_FORMAT = "sig format"
    SIGNATURE = "signature invalid"

    UNKNOWN_ACCOUNT = "account unknown"
    GHOST = "ghost comes back"
    ACCOUNT_ACTION = "account action"
    """What an account message does is neither adding nor removing a key."""
    POWER = "account power"
    """The signer of an account message does not hold the power that it needs."""
    PREV_UNPROVEN = "tangle: prev not proven"
    CONSENT = "account consent"
    """The key that is added has not agreed to it."""


class InvalidMessage(IntegrityError):
    """A message breaks a rule. Nothing of it was stored."""

    def __init__(self, rule: Rule, detail: str = "") -> None:
        super().__init__(f"{rule}: {detail}" if detail else str(rule))
        self.rule = rule


class MalformedText(IntegrityError):
    """A text is not what it should spell: base58 of so many bytes, or JSON with a canonical form."""


class UnknownMessage(UsageError):
    """A message was asked for that is not here. Nothing was changed."""
