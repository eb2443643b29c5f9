"""Advertisement records: the bytes that say what is claimed about one record, and their digest (Lace-050).

A canonical advertisement record is a fact block about one record and one source. ``Advertised`` comes first, then the
fields by name, bytewise, and by index as a number. Two sides that claim the same have the same bytes, so a digest
compares claims without sending them.
"""

from collections.abc import Iterable
from typing import Final

from blake3 import blake3

from bobbin import profile
from bobbin.facts import block
from bobbin.facts.text import is_plain
from bobbin.interlace.messages import Advertisement
from bobbin.policy.claims import ClaimedField
from bobbin.policy.operands import Origin
from bobbin.policy.vocabulary import ADVERTISED, ADVERTISED_FIELD

_RECORD: Final = b"lace-advertisement-record/v1"
_KNOWN_MAX: Final = 256


def canonical_fields(fields: Iterable[ClaimedField]) -> tuple[ClaimedField, ...]:
    """Fields in the order of the canonical record."""
    return tuple(sorted(fields, key=_place))


class Renderer:
    """Makes the canonical advertisement records of one source.

    Most records say the same of themselves. Then nothing but the name differs from one to the next, and all that stands
    between two occurrences of the name was made before.
    """

    def __init__(self, source: Origin) -> None:
        self._source: Final = source
        self._known: Final[dict[tuple[ClaimedField, ...], list[str]]] = {}
        """By fields: what stands before, between and after the names; nothing where values need a closer look."""

    def render(self, record: str, fields: tuple[ClaimedField, ...]) -> bytes:
        """The canonical advertisement record. ``fields`` are in canonical order."""
        pieces = self._known.get(fields)
        if pieces is None:
            pieces = self._cut(fields)
        # Printable ASCII without quote and backslash stands in quotes as it is.
        is_plain_name = record.isascii() and record.isprintable() and "'" not in record and "\\" not in record
        if pieces and is_plain_name and len(record) <= profile.FACT_VALUE_BYTES_MAX:
            return record.join(pieces).encode()
        claims = [(ADVERTISED_FIELD, (record, self._source, field.name, field.index, field.value)) for field in fields]
        return block.render([(ADVERTISED, (record, self._source)), *claims])

    def digest(self, record: str, fields: tuple[ClaimedField, ...]) -> bytes:
        """The digest of the canonical advertisement record."""
        return record_digest(self.render(record, fields))

    def _cut(self, fields: tuple[ClaimedField, ...]) -> list[str]:
        """The pieces for records with these fields."""
        if len(self._known) >= _KNOWN_MAX:
            self._known.clear()
        source = self._source
        said = "".join([source, *[part for field in fields for part in (field.name, field.index, field.value)]])
        pieces: list[str] = []
        # Nearly every record: no value needs an escape, none can be too long, and ASCII is always in form NFC.
        if said.isascii() and is_plain(said) and len(said) <= profile.FACT_VALUE_BYTES_MAX:
            lines = [f"','{source}','{field.name}','{field.index}','{field.value}')\n" for field in fields]
            between = f"{ADVERTISED_FIELD}('"
            pieces = [f"{ADVERTISED}('", *[f"{line}{between}" for line in (f"','{source}')\n", *lines)]]
            pieces[-1] = pieces[-1].removesuffix(between)
        self._known[fields] = pieces
        return pieces


def render(record: str, source: Origin, fields: tuple[ClaimedField, ...]) -> bytes:
    """The canonical advertisement record. ``fields`` are in canonical order."""
    return Renderer(source).render(record, fields)


def record_digest(canonical: bytes) -> bytes:
    """The digest of a canonical advertisement record."""
    return blake3(_RECORD + canonical).digest()


def advertisement(record: str, source: Origin, fields: Iterable[ClaimedField]) -> Advertisement:
    """One record as ``source`` advertises it, with fields in any order."""
    ordered = canonical_fields(fields)
    return Advertisement(record=record, fields=ordered, digest=record_digest(render(record, source, ordered)))


def digested(advertisement: Advertisement, source: Origin) -> Advertisement:
    """The same with its digest, which may not have been needed before."""
    if advertisement.digest:
        return advertisement
    digest = record_digest(render(advertisement.record, source, advertisement.fields))
    return Advertisement(record=advertisement.record, fields=advertisement.fields, digest=digest)


def _place(field: ClaimedField) -> tuple[str, int, str]:
    # Texts compare by code point, which is the order of their UTF-8 bytes. A decimal has no leading zero, so a longer
    # one is the larger.
    return field.name, len(field.index), field.index
