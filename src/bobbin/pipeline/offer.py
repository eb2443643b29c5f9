"""What a lake advertises, in terms of its tables: which records, under which label, with which fields.

An offer has two tables, ``advertisements/<key>`` and ``partitions/<key>``. The key follows from the offer alone; the
properties of the tables say the offer in clear, and which manifests the tables were made from.

A selection says what rules said of the records that there were then. A record that came since, a revocation for one,
may change every answer, so a selection that is behind is not used unless somebody asks for that.
"""

from typing import Final

import msgspec
from msgspec import Struct

from bobbin import profile
from bobbin.errors import UsageError
from bobbin.interlace.schema import Schema
from bobbin.pipeline.batches.advertise import Form
from bobbin.policy.operands import parse_origin
from bobbin.store.lake.built import ALL_FIELDS, LENGTHS, MAY_SEND, spell_fields
from bobbin.store.lake.keys import KEY, derived_key
from bobbin.store.lake.lake import Lake
from bobbin.store.lake.manifest import Manifest, number_in
from bobbin.store.lake.tables import ADVERTISEMENTS, FACTS, PARTITIONS, RECORDS, SELECTIONS

VISIBLE: Final = "visible"
"""What the report of a selection counts beside its predicates: the records that the peer's rules could look at."""
_INHERITED: Final = ("plan", "index", "query")
"""What the properties of a selection say, and those of its advertisements repeat."""
_DIGITS_MAX: Final = 19
_SELECTED: Final = "selected"
"""The property that says which manifest of its selection a table was made from."""


class StaleSelection(UsageError):
    """A selection was made before records came that its rules have not seen. Nothing was made from it."""


class Offer(Struct, frozen=True, kw_only=True):
    """Which records are advertised, by whom, and with which fields."""

    form: Form
    selection: str | None = None
    """The key of a table of selections; None stands for every stored record."""
    predicate: str = MAY_SEND
    """Which of the selections. Without a selection it says nothing."""

    @property
    def key(self) -> str:
        """The key of the offer's tables."""
        chosen = {"selection": self.selection, "predicate": self.predicate} if self.selection is not None else {}
        return derived_key(source=self.form.source, fields=spell_fields(self.form.schema), **chosen)

    @property
    def advertisements(self) -> str:
        """The name of the table of digests."""
        return f"{ADVERTISEMENTS.name}/{self.key}"

    @property
    def partitions(self) -> str:
        """The name of the table of summaries."""
        return f"{PARTITIONS.name}/{self.key}"


def selection_of(lake: Lake, offer: Offer) -> Manifest | None:
    """The table of selections that an offer is of, which must be there."""
    return None if offer.selection is None else find_selection(lake, offer.selection)


def find_selection(lake: Lake, key: str) -> Manifest:
    """The table of selections with a key, which must be there."""
    if not KEY.fullmatch(key):
        raise UsageError(f"the key of a selection has 16 hex digits: {key!r}")
    found = lake.manifest(f"{SELECTIONS.name}/{key}")
    if not found.number:
        known = ", ".join(name for name in lake.tables() if name.startswith(f"{SELECTIONS.name}/")) or "none"
        raise UsageError(f"the lake {lake.location} has no selection {key}; there are: {known}")
    return found


def check_predicate(lake: Lake, selection: Manifest, predicate: str) -> None:
    """Refuse a predicate that a selection has no answer for: it would be taken for one that selects nothing."""
    report = lake.report(selection.run)
    known = [] if report is None else [name for name in report.counts if name != VISIBLE]
    if known and predicate not in known:
        raise UsageError(f"{selection.table} says nothing of {predicate}; it has {', '.join(known)}")


def stale_notes(lake: Lake, selection: Manifest | None, *, allowed: bool) -> tuple[str, ...]:
    """What a report has to say of a selection that is behind; nothing for one that is not, or for none.

    Raises ``StaleSelection`` for one that is behind, unless that is allowed.
    """
    reason = None if selection is None else _behind(lake, selection)
    if selection is None or reason is None:
        return ()
    if not allowed:
        raise StaleSelection(
            f"{selection.table} of the lake {lake.location} is stale: {reason}. What was selected then may be denied "
            "now; run `bobbin pipeline select` again, or say --allow-stale"
        )
    return (f"{selection.table} is stale, and was used because --allow-stale was given: {reason}",)


def _behind(lake: Lake, selection: Manifest) -> str | None:
    """Why the rules of a selection may say something else of the records that there are now."""
    facts = lake.manifest(FACTS.name)
    if not is_from_current(lake, selection, FACTS.name):
        made = selection.properties.get(FACTS.name, "none that it names")
        return f"it was made from manifest {made} of {FACTS.name}, and {facts.number} is current"
    if not is_from_current(lake, facts, RECORDS.name):
        return f"records came after manifest {facts.properties.get(RECORDS.name, '0')}, which {FACTS.name} describes"
    return None


def is_from_current(lake: Lake, manifest: Manifest, table: str) -> bool:
    """Whether a table was made from the rows that another one has now, in whatever files it has them."""
    return lake.is_current(table, number_in(manifest, table, 0 if manifest.number == 0 else -1))


def properties_of(offer: Offer, *, facts: Manifest, selection: Manifest | None) -> dict[str, str]:
    """What the tables of an offer say of themselves when they are made from these."""
    properties = {
        "source": offer.form.source,
        "fields": spell_fields(offer.form.schema),
        RECORDS.name: facts.properties.get(RECORDS.name, "0"),
        FACTS.name: str(facts.number),
    }
    if selection is not None and offer.selection is not None:
        inherited = {name: selection.properties[name] for name in _INHERITED if name in selection.properties}
        chosen = {"selection": offer.selection, "predicate": offer.predicate, _SELECTED: str(selection.number)}
        if FACTS.name in selection.properties:
            chosen["selected_facts"] = selection.properties[FACTS.name]
        properties |= inherited | chosen
    return properties


def is_of(lake: Lake, manifest: Manifest, properties: dict[str, str]) -> bool:
    """Whether a table was made from what these properties say, or from the same rows in other files."""
    if not manifest.number:
        return False
    tables = {FACTS.name: FACTS.name, RECORDS.name: RECORDS.name}
    if "selection" in properties:
        tables[_SELECTED] = f"{SELECTIONS.name}/{properties['selection']}"
        tables["selected_facts"] = FACTS.name
    for name, value in properties.items():
        made = manifest.properties.get(name)
        if made == value:
            continue
        if name not in tables or not all(_is_current(lake, tables[name], number) for number in (made, value)):
            return False
    return True


def _is_current(lake: Lake, table: str, number: str | None) -> bool:
    is_number = number is not None and number.isascii() and number.isdecimal() and len(number) < _DIGITS_MAX
    return is_number and lake.is_current(table, int(number or 0))


def lengths_of(manifest: Manifest) -> tuple[int, ...]:
    """The prefix lengths that a table of partitions has."""
    return tuple(int(length) for length in manifest.properties.get(LENGTHS, "").split(",") if length)


def check_lengths(lengths: tuple[int, ...]) -> None:
    """Refuse prefix lengths that no partition can have."""
    if not lengths:
        raise UsageError("partitions need at least one prefix length")
    for length in lengths:
        if not 1 <= length <= profile.PARTITION_PREFIX_LENGTH_MAX:
            raise UsageError(f"a partition prefix has 1 to {profile.PARTITION_PREFIX_LENGTH_MAX} symbols, not {length}")


def parse_fields(text: str) -> Schema:
    """The schema that a property spells."""
    if text == ALL_FIELDS:
        return Schema(all=True)
    try:
        return Schema(names=frozenset(msgspec.json.decode(text, type=list[str])))
    except msgspec.MsgspecError as error:
        raise UsageError(f"{text[:80]!r} spells no field schema ({error})") from error


def form_of(properties: dict[str, str]) -> Form:
    """The form that the properties of a table say."""
    try:
        return Form(source=parse_origin(properties["source"]), schema=parse_fields(properties["fields"]))
    except KeyError as error:
        raise UsageError(f"advertisements must say their {error.args[0]}") from error
