"""Which claimed fields the rules of an exchange read: what both sides' advertisements must be able to say (Lace-040).

Derived from the rules, never written into a plan. Every rule counts, also one that nothing uses, and so does a negated
literal: a rule that asks for a field must not silently find it missing because nobody thought of sending it.
"""

from collections.abc import Collection
from typing import Final

from msgspec import Struct

from bobbin.datalog.syntax import Constant, Program
from bobbin.policy.vocabulary import ADVERTISED_FIELD

_NAME_POSITION: Final = 2


class FieldRequirements(Struct, frozen=True, kw_only=True):
    """Field names that must be advertised; with ``all``, every field that a record has."""

    names: frozenset[str] = frozenset()
    all: bool = False

    def __or__(self, other: "FieldRequirements") -> "FieldRequirements":
        return FieldRequirements(names=self.names | other.names, all=self.all or other.all)

    def are_met_by(self, names: Collection[str], *, all_fields: bool) -> bool:
        """Whether a negotiated schema is enough: one of names, or one of all fields."""
        return all_fields or (not self.all and self.names.issubset(names))


def required_fields(program: Program) -> FieldRequirements:
    """What the rules of one program read of the peer's claimed fields."""
    names: set[str] = set()
    every = False
    for rule in program.rules:
        for literal in rule.body:
            if literal.atom.predicate != ADVERTISED_FIELD:
                continue
            name = literal.atom.terms[_NAME_POSITION]
            if isinstance(name, Constant):
                names.add(name.value)
            else:
                every = True
    return FieldRequirements(names=frozenset(names), all=every)
