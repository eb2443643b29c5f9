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
from bobbin.interlace.messages import Advertisement
from bobbin.policy.claims import ClaimedField
from bobbin.policy.operands import Origin
from bobbin.policy.vocabulary import ADVERTISED, ADVERTISED_FIELD

_RECORD: Final = b"lace-advertisement-record/v1"
_CLAIM: Final = "bobbin-claim/v1"
_NOBODY: Final = Origin("")
"""Who claims, where the digest is not to depend on it."""
_KNOWN_MAX: Final = 256


def canonical_fields(fields: Iterable[ClaimedField]) -> tuple[ClaimedField, ...]:
    """Fields in the order of the canonical record."""
    return tuple(sorted(fields, key=_place))


class Renderer:
    """Makes the canonical advertisement records of one source.

    Most records say the same of themselves. Then nothing but the name differs from one to the next, and all that stands
    between two occurrences of the name was made before.
    """

    def __init__(self, source: Origin, tag: str = "") -> None:
        """``tag``: what stands before each record, for whoever hashes them; ASCII."""
        self._source: Final = source
        self._tag: Final = tag
        self._is_plain_source: Final = _is_plain(source)
        self._known: Final[dict[tuple[ClaimedField, ...], list[str]]] = {}
        """By fields: what stands before, between and after the names; nothing where values need a closer look."""
        self._last: tuple[ClaimedField, ...] | None = None
        self._last_pieces: list[str] = []
        """Of the fields that were rendered last: very often they are the same object again."""

    def render(self, record: str, fields: tuple[ClaimedField, ...]) -> bytes:
        """The canonical advertisement record. ``fields`` are in canonical order."""
        if fields is not self._last:
            known = self._known.get(fields)
            self._last, self._last_pieces = fields, self._pieces(fields) if known is None else known
        pieces = self._last_pieces
        # Printable ASCII without quote and backslash stands in quotes as it is.
        is_plain_name = record.isascii() and record.isprintable() and "'" not in record and "\\" not in record
        if pieces and is_plain_name and len(record) <= profile.FACT_VALUE_BYTES_MAX:
            return record.join(pieces).encode()
        claims = [(ADVERTISED_FIELD, (record, self._source, field.name, field.index, field.value)) for field in fields]
        return self._tag.encode() + block.render([(ADVERTISED, (record, self._source)), *claims])

    def digest(self, record: str, fields: tuple[ClaimedField, ...]) -> bytes:
        """The digest of the canonical advertisement record."""
        return record_digest(self.render(record, fields))

    def _pieces(self, fields: tuple[ClaimedField, ...]) -> list[str]:
        if len(self._known) >= _KNOWN_MAX:
            self._known.clear()
        pieces = self._known[fields] = self._cut(fields)
        return pieces

    def _cut(self, fields: tuple[ClaimedField, ...]) -> list[str]:
        """The pieces for records with these fields."""
        source = self._source
        said = "".join([part for field in fields for part in (field.name, field.index, field.value)])
        # Nearly every record: no value needs an escape, none can be too long, and ASCII is always in form NFC.
        if not self._is_plain_source or not _is_plain(said) or len(said) + len(source) > profile.FACT_VALUE_BYTES_MAX:
            return []
        head = f"{self._tag}{ADVERTISED}('"
        if not fields:
            return [head, f"','{source}')\n"]
        between = f"')\n{ADVERTISED_FIELD}('"
        lines = [f"','{source}','{field.name}','{field.index}','{field.value}{between}" for field in fields]
        lines[-1] = f"{lines[-1][: -len(between)]}')\n"
        return [head, f"','{source}{between}", *lines]


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


def claim_digests(claims: Iterable[tuple[str, tuple[ClaimedField, ...]]]) -> list[bytes]:
    """The digest of each claim, the same whoever makes it. Fields are in canonical order.

    It is taken over the canonical advertisement record with an empty source label. So one pass over what a side offers
    gives both its own digests and those that it expects of a peer.
    """
    render = Renderer(_NOBODY, _CLAIM).render
    return [blake3(render(record, fields)).digest() for record, fields in claims]


def claim_digest(record: str, fields: tuple[ClaimedField, ...]) -> bytes:
    """The digest of one claim (``claim_digests``)."""
    return claim_digests([(record, fields)])[0]


def _is_plain(text: str) -> bool:
    """Whether a text is printable ASCII that stands in quotes as it is."""
    return text.isascii() and text.isprintable() and "'" not in text and "\\" not in text


def _place(field: ClaimedField) -> tuple[str, int, str]:
    # Texts compare by code point, which is the order of their UTF-8 bytes. A decimal has no leading zero, so a longer
    # one is the larger.
    return field.name, len(field.index), field.index
