"""Recursive cores of small programs, for tests of what is done with them."""

from bobbin.datalog.compile import compile as compile_program
from bobbin.datalog.local import conjunction
from bobbin.datalog.vocabulary import Vocabulary
from bobbin.facts import relations
from bobbin.pipeline.rules.core import Core, split

VOCABULARY = Vocabulary(base={**relations.ARITY, "Edge": 2, "Revoked": 1, "Root": 1, "Node": 1})


def core_of(text: str) -> Core:
    """The core of a program's one recursive stratum."""
    plan = compile_program(text, VOCABULARY).plan
    return split(next(stratum for stratum in plan.strata if stratum.recursive), relations.ARITY)


def spelled(core: Core) -> list[str]:
    """The rules of a core, as text."""
    lines = []
    for rule in core.rules:
        parts = [f"{read.source.predicate}({','.join(map(str, read.terms))})" for read in rule.reads]
        for guard in rule.guards:
            match guard:
                case conjunction.Absent(read):
                    parts.append(f"not {read.source.predicate}({','.join(map(str, read.terms))})")
                case conjunction.Tested(builtin) | conjunction.Computed(builtin):
                    parts.append(builtin)
        lines.append(f"{rule.predicate}({','.join(map(str, rule.head))}) :- {', '.join(parts)}")
    return lines
