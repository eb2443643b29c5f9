"""Which predicates a program may use and define: what surrounds the rule language.

The core gives no predicate a meaning of its own. A profile says which facts exist (their arity), which names are
taken (so that no rule may define them) and which a body may not even mention. Built-ins are taken everywhere.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from bobbin.datalog.builtins import BUILTINS
from bobbin.facts import relations


class Vocabulary(Struct, frozen=True, kw_only=True):
    """The predicates around a program."""

    base: Mapping[str, int]
    """Predicates that facts supply, with their arity: usable in bodies, never as heads."""
    reserved: frozenset[str] = frozenset()
    """Names of the protocol: neither heads nor bodies."""
    reserved_prefixes: tuple[str, ...] = ()
    exports: Mapping[str, int] = MappingProxyType({})
    """Predicates with a declared arity that rules may define."""
    foreign_heads: frozenset[str] = frozenset()
    """Names that only programs of another role may define."""
    foreign_facts: frozenset[str] = frozenset()
    """Facts that only programs of another role may read: here neither heads nor bodies."""
    export_required: bool = False
    """Whether a program that defines none of the exports is refused."""

    def is_reserved(self, predicate: str) -> bool:
        return predicate in self.reserved or predicate.startswith(self.reserved_prefixes or ("\0",))

    def declared_arity(self, predicate: str) -> int | None:
        """The arity that facts, built-ins or exports fix, or None for a predicate of the program's own."""
        if predicate in BUILTINS:
            return BUILTINS[predicate].arity
        return self.base.get(predicate, self.exports.get(predicate))


RECORD_FACTS: Final = Vocabulary(base=relations.ARITY)
"""The smallest useful vocabulary: the five relations of stored records."""
