"""What a peer says about its records: claims, for discovery only (Lace-050 advertisements).

Claims are a type of their own. They cannot stand where record facts are asked for: they have no ``enumerate`` and no
``match``, and the only source made from them (``claim_source``) answers for ``Advertised`` and ``AdvertisedField`` and
nothing else. A record becomes facts when its bytes have arrived and passed, whatever was claimed before.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from bobbin import profile
from bobbin.errors import UsageError
from bobbin.facts.relations import FactSource, Pattern, Tuple, agrees
from bobbin.policy.operands import Origin, parse_origin
from bobbin.policy.vocabulary import ADVERTISED, ADVERTISED_FIELD, CLAIM_ARITY
from bobbin.records import b64a, ids

_RECORD: Final = re.compile(r"([BPS])\.([0-9A-Z_a-z~]+)\.([A-Z][A-Z0-9]*)", re.ASCII)
_DECIMAL: Final = re.compile(r"0|[1-9][0-9]{0,18}", re.ASCII)


class ClaimError(UsageError):
    """A claim is not of the right form. The set of claims is as it was before."""


class ClaimedField(Struct, frozen=True, gc=False):
    """One field that a peer says a record has; ``index`` counts equal names from 0, in decimal."""

    name: str
    index: str
    value: str


class Claims:
    """What one source advertises, at one moment. Never changes; a new state of the peer is a new value."""

    __slots__ = ("_fields", "source")

    def __init__(self, source: Origin, fields: Mapping[str, Iterable[ClaimedField]] = MappingProxyType({})) -> None:
        """``fields`` has every advertised record, with the fields claimed for it."""
        self.source: Final = parse_origin(source)
        self._fields: Final = {_check_record(record): _check_fields(claimed) for record, claimed in fields.items()}

    def __len__(self) -> int:
        return len(self._fields)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Claims):
            return NotImplemented
        return self.source == other.source and self._fields == other._fields

    def __hash__(self) -> int:
        return hash((self.source, frozenset(self._fields)))

    def advertises(self, record: str) -> bool:
        return record in self._fields

    def records(self) -> Iterator[str]:
        """The advertised hash texts; some may have a format that is not supported here."""
        return iter(self._fields)

    def fields(self, record: str) -> tuple[ClaimedField, ...]:
        """What is claimed about one record; nothing for one that is not advertised."""
        return self._fields.get(record, ())


def claim_source(claims: Claims) -> FactSource:
    """The claims as rules read them."""
    return _ClaimSource(claims)


class _ClaimSource:
    """Answers for the two predicates of advertisements and refuses every other one."""

    def __init__(self, claims: Claims) -> None:
        self._claims = claims

    def enumerate(self, predicate: str) -> Iterator[Tuple]:
        return self.match(predicate, (None,) * _arity(predicate))

    def match(self, predicate: str, pattern: Pattern) -> Iterator[Tuple]:
        if len(pattern) != _arity(predicate):
            raise UsageError(f"{predicate} has {_arity(predicate)} arguments, not {len(pattern)}")
        wanted = pattern[0]
        if wanted is None:
            records = self._claims.records()
        else:
            records = iter((wanted,) if self._claims.advertises(wanted) else ())
        source = self._claims.source
        if predicate == ADVERTISED:
            rows: Iterator[Tuple] = ((record, source) for record in records)
        else:
            rows = (
                (record, source, field.name, field.index, field.value)
                for record in records
                for field in self._claims.fields(record)
            )
        return (row for row in rows if agrees(row, pattern))


def _arity(predicate: str) -> int:
    if predicate not in CLAIM_ARITY:
        raise UsageError(f"claims say nothing about {predicate}; only {ADVERTISED} and {ADVERTISED_FIELD}")
    return CLAIM_ARITY[predicate]


def _check_record(text: str) -> str:
    match = _RECORD.fullmatch(text)
    if match is None or len(text) > profile.FACT_VALUE_BYTES_MAX:
        raise ClaimError(f"not the hash text of a record: {text[:80]!r}")
    if match[3] == ids.SUFFIX:
        try:
            ids.parse_hash(text)
        except (ids.IdentifierError, b64a.B64aError) as error:
            raise ClaimError(str(error)) from error
    return text


def _check_fields(fields: Iterable[ClaimedField]) -> tuple[ClaimedField, ...]:
    kept = tuple(fields)
    for field in kept:
        if not _DECIMAL.fullmatch(field.index):
            raise ClaimError(f"the index of a claimed field is a decimal, not {field.index[:80]!r}")
        for text in (field.name, field.value):
            if not _is_text(text):
                raise ClaimError(f"a claimed field holds {text[:80]!r}, which no record can say")
    if len({(field.name, field.index) for field in kept}) != len(kept):
        raise ClaimError("a claimed field stands twice")
    return kept


def _is_text(text: str) -> bool:
    # ASCII without control characters is the common case, and always right.
    if not text or (text.isascii() and text.isprintable()):
        return 0 < len(text) <= profile.FACT_VALUE_BYTES_MAX
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        return False
    control = any(character < " " or character == "\x7f" for character in text)
    return size <= profile.FACT_VALUE_BYTES_MAX and not control and unicodedata.is_normalized("NFC", text)
