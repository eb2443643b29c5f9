"""Which fields advertisements carry (Lace-050, record format and advertisement field schema)."""

from msgspec import Struct, structs

from bobbin.policy.advertised_fields import FieldRequirements


class Schema(Struct, frozen=True, kw_only=True):
    """Field names, matched exactly; with ``all``, every field that a record has, and no name is kept."""

    names: frozenset[str] = frozenset()
    all: bool = False

    def __post_init__(self) -> None:
        if self.all and self.names:
            # Two schemas that mean the same are equal.
            structs.force_setattr(self, "names", frozenset())

    def __and__(self, other: "Schema") -> "Schema":
        """What both sides can do. All fields with explicit names gives the names."""
        if self.all:
            return other
        return self if other.all else Schema(names=self.names & other.names)

    def __contains__(self, name: str) -> bool:
        return self.all or name in self.names

    def satisfies(self, required: FieldRequirements) -> bool:
        """Whether rules that read these fields get an answer for every one of them."""
        return required.are_met_by(self.names, all_fields=self.all)


def schema_for(required: FieldRequirements) -> Schema:
    """The smallest schema that a plan can do with: what no rule reads, nobody needs to tell."""
    return Schema(all=True) if required.all else Schema(names=required.names)
