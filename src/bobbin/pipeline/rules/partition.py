"""Whether a recursive core falls apart by the value of one argument, and how its inputs are then dealt out.

Choose one argument place for each predicate of the core, its *key*. The core falls apart by it if in every rule that
reads the core's own predicates, the key of the head and the keys of all these reads are the same term. Then every
derivation of a tuple with key ``g`` uses tuples of the core with key ``g`` alone, all the way down: by induction over
the length of a derivation, the tuples with key ``g`` follow from the start tuples with key ``g`` and from the inputs.
So whoever holds all start tuples of some keys, and of the inputs

- those rows that have one of these keys at the place of the shared term, where the term stands in the input, or
- all rows, where it does not stand there (the input is *replicated*),

derives exactly the tuples with these keys. That includes negated inputs: a rule only ever runs for a key whose rows
are all there. Transitive closure falls apart by its source (the edges are replicated), closures inside a group or a
link fall apart by the group or the link, and nothing has to be replicated if each literal names it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct, structs

from bobbin.datalog.local.conjunction import Absent, Conjunction, Read, Source
from bobbin.datalog.syntax import Wildcard
from bobbin.pipeline.rules.core import Core

_TRIES_MAX: Final = 20_000
"""Choices of places that are looked at: enough for any cycle of a few predicates."""


class Deal(Struct, frozen=True):
    """How the rows of one input go to the partitions."""

    input: str
    place: int | None
    """The argument whose value says where a row goes; None where each partition gets every row."""


class Partitioning(Struct, frozen=True):
    """A way to take a core apart."""

    keys: Mapping[str, int]
    deals: tuple[Deal, ...]
    rules: tuple[Conjunction, ...]
    """The rules of the core; an input that is dealt out in two ways has two names in them."""

    def replicated(self) -> list[str]:
        """The inputs of which each partition gets a copy."""
        return [deal.input for deal in self.deals if deal.place is None]


def name_of(deal: Deal) -> str:
    """What the rules call an input that is dealt out in this way."""
    return f"{deal.input}.{'all' if deal.place is None else deal.place}"


def partitionings(core: Core) -> Iterator[Partitioning]:
    """Every way in which the core falls apart, within reason."""
    predicates = sorted(core.arities)
    repeated = [rule for rule in core.rules if _own(rule, core)]
    for keys in _choices(predicates, core, repeated):
        yield _deal(core, keys)


def find_partitioning(core: Core, rows: Mapping[str, int]) -> Partitioning | None:
    """The way that replicates the fewest rows, the number of rows of each input being known."""
    return min(
        partitionings(core), key=lambda found: sum(rows.get(name, 0) for name in found.replicated()), default=None
    )


def _choices(predicates: Sequence[str], core: Core, rules: Sequence[Conjunction]) -> Iterator[dict[str, int]]:
    tries = 0
    stack: list[dict[str, int]] = [{}]
    while stack and tries < _TRIES_MAX:
        tries += 1
        keys = stack.pop()
        if not all(_agrees(rule, keys, core) for rule in rules):
            continue
        if len(keys) == len(predicates):
            yield keys
            continue
        predicate = predicates[len(keys)]
        stack += [{**keys, predicate: place} for place in reversed(range(core.arities[predicate]))]


def _own(rule: Conjunction, core: Core) -> list[Read]:
    return [read for read in rule.reads if read.source.predicate in core.arities]


def _agrees(rule: Conjunction, keys: Mapping[str, int], core: Core) -> bool:
    """Whether the keys chosen so far are one term in a rule."""
    terms = [read.terms[keys[read.source.predicate]] for read in _own(rule, core) if read.source.predicate in keys]
    if any(isinstance(term, Wildcard) for term in terms):
        return False
    if rule.predicate in keys:
        terms.append(rule.head[keys[rule.predicate]])
    return len(set(terms)) <= 1


def _deal(core: Core, keys: Mapping[str, int]) -> Partitioning:
    deals: dict[Deal, None] = {}

    def dealt(read: Read, rule: Conjunction) -> Read:
        if read.source.predicate in core.arities:
            return read
        term = rule.head[keys[rule.predicate]]
        place = next((place for place, other in enumerate(read.terms) if other == term), None)
        deal = Deal(read.source.predicate, place)
        deals[deal] = None
        return Read(Source(name_of(deal)), read.terms)

    rules = tuple(
        structs.replace(
            rule,
            reads=tuple(dealt(read, rule) for read in rule.reads),
            guards=tuple(
                Absent(dealt(guard.read, rule)) if isinstance(guard, Absent) else guard for guard in rule.guards
            ),
        )
        for rule in core.rules
    )
    return Partitioning(keys, tuple(deals), rules)
