"""Operands: a selector module and where it came from (Lace-040 origins).

An origin is assigned by whoever sets the exchange up; nothing in a module can claim one. It is a verifier text, whose
owner must be proven before the module runs here, or an opaque label, which proves nothing. Both sides number the two
operands alike without a word about it: the smaller of two verifiers is operand 0, whoever dialled.
"""

import re
import unicodedata
from typing import Final, Literal, NewType, TypeAlias

from msgspec import Struct

from bobbin import profile
from bobbin.datalog.canonicalise import IDENTIFIER_PREFIX
from bobbin.errors import PeerError, UsageError
from bobbin.facts.extract import Fact
from bobbin.policy import vocabulary
from bobbin.policy.modules import Role
from bobbin.records import b64a, ids

Origin = NewType("Origin", str)
"""A verifier text or ``source:<label>``: who an operand, and the advertisements of its side, come from."""

Index: TypeAlias = Literal[0, 1]

EXCHANGE_OPERAND: Final = vocabulary.EXCHANGE_OPERAND
MALFORMED_OPERAND: Final = "exchange-plan-compilation-failure"
_ARITY: Final = 4
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


class OriginError(UsageError):
    """A text is not an origin. Nothing was changed."""


class MalformedOperand(PeerError):
    """A peer's operand fact does not say what an operand is. Nothing of it was kept."""

    def __init__(self, message: str) -> None:
        super().__init__(MALFORMED_OPERAND, message)


class Operand(Struct, frozen=True, kw_only=True):
    """What a plan says of one side: the name of its selector, and its origin."""

    module: str
    """``R.`` and 43 symbols."""
    origin: Origin


def parse_origin(text: str) -> Origin:
    """The origin that a text spells. ``local`` is reserved and never one."""
    if text == profile.ORIGIN_LOCAL:
        raise OriginError("the origin 'local' is reserved and stands in no exchange; name a side as source:LABEL")
    if text.startswith(profile.ORIGIN_LABEL_PREFIX):
        return label_origin(text.removeprefix(profile.ORIGIN_LABEL_PREFIX))
    try:
        ids.parse_verifier(text)
    except ids.IdentifierError as error:
        raise OriginError(
            f"{text[:80]!r} is no origin. An origin is who a policy comes from: a verifier (V.<43 symbols>.H3), or "
            "source:LABEL for a side that has proven nothing"
        ) from error
    return Origin(text)


def label_origin(label: str) -> Origin:
    """The origin of a side that has proven nothing, under an opaque label."""
    if not label or _CONTROL.search(label) or not unicodedata.is_normalized("NFC", label):
        raise OriginError("the label of an origin is not empty, in form NFC, without control characters")
    try:
        size = len(label.encode())
    except UnicodeEncodeError as error:
        raise OriginError("the label of an origin is not Unicode text") from error
    if size + len(profile.ORIGIN_LABEL_PREFIX) > profile.FACT_VALUE_BYTES_MAX:
        raise OriginError(f"an origin has at most {profile.FACT_VALUE_BYTES_MAX} bytes")
    return Origin(profile.ORIGIN_LABEL_PREFIX + label)


def anonymous_origin(index: Index) -> Origin:
    """The origin of a side without verifier on a link that has no better label."""
    return label_origin(str(index))


def is_verifier(origin: Origin) -> bool:
    """Whether an origin names a verifier. A label that is spelled like one does not."""
    return not origin.startswith(profile.ORIGIN_LABEL_PREFIX)


def own_index(own: Origin, peer: Origin, *, initiator: bool) -> Index:
    """The index of this side's operand: the same answer, mirrored, on the other side."""
    if is_verifier(own) and is_verifier(peer) and own != peer:
        return 0 if own < peer else 1
    return 0 if initiator else 1


def other(index: Index) -> Index:
    """The index of the other side."""
    return 1 if index == 0 else 0


def check_module_identifier(text: str) -> str:
    """Refuse a text that no module can have as its name."""
    symbols = text.removeprefix(IDENTIFIER_PREFIX)
    if symbols == text or len(symbols) != b64a.length(ids.DIGEST_SIZE):
        raise UsageError(f"not a module identifier (R.<43 symbols>): {text[:80]!r}")
    try:
        b64a.decode(symbols)
    except b64a.B64aError as error:
        raise UsageError(f"not a module identifier: {error}: {text[:80]!r}") from error
    return text


def operand_fact(index: Index, operand: Operand) -> Fact:
    """The fact that announces an operand, in setup and in plan bytes."""
    return EXCHANGE_OPERAND, (str(index), operand.module, operand.origin, Role.SELECTOR.value)


def read_operand(fact: Fact) -> tuple[Index, Operand]:
    """The operand that a peer's fact announces, with its index."""
    predicate, values = fact
    if predicate != EXCHANGE_OPERAND or len(values) != _ARITY:
        raise MalformedOperand(f"expected {EXCHANGE_OPERAND}/{_ARITY}, found {predicate}/{len(values)}")
    index, module, origin, role = values
    if index not in ("0", "1"):
        raise MalformedOperand(f"the index of an operand is '0' or '1', not {index[:80]!r}")
    if role != Role.SELECTOR:
        raise MalformedOperand(f"the role of an operand is 'selector', not {role[:80]!r}")
    try:
        operand = Operand(module=check_module_identifier(module), origin=parse_origin(origin))
    except UsageError as error:
        raise MalformedOperand(str(error)) from error
    return (0 if index == "0" else 1), operand
