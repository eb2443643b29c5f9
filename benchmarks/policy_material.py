"""Facts and programs for the benchmarks of rule evaluation.

*Evidence closure* is a policy with recursion and two negations: who is a member follows from membership records that
members signed; selected are the membership records and what members signed. *Reach* is plain transitive closure over
chains of small, dense groups.
"""

from collections.abc import Iterator
from random import Random

from bobbin.facts.relations import Pattern, Tuple, agrees

EVIDENCE = """
Member(V) :- Root(V).
Member(V) :- Member(W), Field(P,'Signed-By',_,W), Field(P,'App',_,'member'), Field(P,'Group',_,'u'), Have(P),
    Field(P,'Name',_,V), not Revoked(V).
SelectHave(P) :- Have(P), Field(P,'Group',_,'u'), Field(P,'App',_,'member').
SelectHave(P) :- Have(P), Field(P,'Group',_,'u'), Field(P,'App',_,'ding'), Field(P,'Signed-By',_,V), Member(V).
Offered(P) :- SelectHave(P), not Blocked(P).
"""
EVIDENCE_ARITIES = {"Have": 1, "Field": 4, "Root": 1, "Revoked": 1, "Blocked": 1}
FIELDS = ("Group", "App", "Signed-By", "Name", "TAI", "Type", "Data-Length")

REACH = "Reach(X,Y) :- Edge(X,Y). Reach(X,Z) :- Reach(X,Y), Edge(Y,Z)."


class Evidence:
    """The facts of a store with this many records, made up on demand: nothing is kept but a few numbers."""

    def __init__(self, records: int, *, fields: tuple[str, ...] = FIELDS[:5]) -> None:
        self.records = records
        self.fields = fields
        self.members = max(2, records // 20)

    def record(self, number: int) -> dict[str, str]:
        """The fields of one record."""
        random = Random(number)
        is_membership = number < self.members
        signer = random.randrange(max(1, number)) if is_membership else random.randrange(self.members * 2)
        return {
            "Group": "u" if random.random() < 0.8 else "x",
            "App": "member" if is_membership else "ding",
            "Signed-By": f"V.{signer}",
            "Name": f"V.{number + 1}" if is_membership else f"notes/{number}",
            "TAI": f"{1_640_995_200 + number:010d}:000000000",
            "Type": "S",
            "Data-Length": str(random.randrange(1000)),
        }

    @staticmethod
    def hash(number: int) -> str:
        """The name of one record."""
        return f"S.{number:043d}.H3"

    def facts(self, number: int) -> dict[str, list[Tuple]]:
        """What one record says."""
        own = self.hash(number)
        fields = self.record(number)
        return {"Have": [(own,)], "Field": [(own, name, "0", fields[name]) for name in self.fields]}

    def enumerate(self, predicate: str) -> Iterator[Tuple]:
        """Every tuple of a predicate."""
        match predicate:
            case "Have":
                return ((self.hash(number),) for number in range(self.records))
            case "Field":
                return (row for number in range(self.records) for row in self.facts(number)["Field"])
            case "Root":
                return iter([("V.0",)])
            case "Revoked":
                return iter([("V.5",)])
            case _:
                return iter([(self.hash(7),)])

    def match(self, predicate: str, pattern: Pattern) -> Iterator[Tuple]:
        """The tuples that agree with a pattern; one field name is asked for by most rules."""
        if predicate == "Field" and pattern[1] is not None and set(pattern) == {None, pattern[1]}:
            name = pattern[1]
            return ((self.hash(number), name, "0", self.record(number)[name]) for number in range(self.records))
        return (row for row in self.enumerate(predicate) if agrees(row, pattern))

    def wide_fields(self) -> frozenset[str]:
        """Every field stands once."""
        return frozenset(self.fields)

    def wide(self, fields: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        """Each record with these fields, in one pass."""
        for number in range(self.records):
            found = self.record(number)
            yield self.hash(number), *(found[name] for name in fields)


def edges(count: int) -> list[tuple[str, str]]:
    """About this many edges: chains of ten groups of ten, everyone in a group tied to everyone."""
    found: list[tuple[str, str]] = []
    chain = 0
    while len(found) < count:
        for group in range(10):
            names = [f"{chain}.{group}.{place}" for place in range(10)]
            found += [(one, other) for one in names for other in names if one != other]
            if group:
                found.append((f"{chain}.{group - 1}.0", names[0]))
        chain += 1
    return found[:count]
