"""From rules to algebra.

Each rule becomes one projection: its positive literals joined, then its functions in an order in which each finds its
inputs bound, then its tests, then its negations.
"""

from bobbin.datalog.algebra import AntiJoin, Body, Compute, Filter, Fixpoint, Join, Plan, Project, Scan, Union
from bobbin.datalog.builtins import BUILTINS, Function
from bobbin.datalog.stratify import Stratum
from bobbin.datalog.syntax import Constant, Literal, Rule, Variable, Wildcard


def lower(strata: tuple[Stratum, ...]) -> Plan:
    """The algebra of a checked and stratified program."""
    return Plan(tuple(_lower_stratum(stratum) for stratum in strata))


def _lower_stratum(stratum: Stratum) -> Fixpoint:
    rules: dict[str, list[Project]] = {name: [] for name in sorted(stratum.predicates)}
    for rule in stratum.rules:
        rules[rule.head.predicate].append(_lower_rule(rule))
    unions = tuple(Union(name, tuple(projects)) for name, projects in rules.items())
    return Fixpoint(unions, stratum.recursive)


def _lower_rule(rule: Rule) -> Project:
    positive = [literal for literal in rule.body if not literal.negated]
    scans = tuple(_scan(literal) for literal in positive if literal.atom.predicate not in BUILTINS)
    body: Body = Join(scans)
    bound = {name for scan in scans for name in scan.variables()}
    body = _lower_functions(body, bound, [literal for literal in positive if _is_function(literal)])
    for literal in rule.body:
        if literal.atom.predicate in BUILTINS and (literal.negated or not _is_function(literal)):
            body = Filter(body, literal.atom.predicate, literal.atom.terms, literal.negated)
    for literal in rule.body:
        if literal.negated and literal.atom.predicate not in BUILTINS:
            body = AntiJoin(body, _scan(literal))
    head = tuple(term for term in rule.head.terms if not isinstance(term, Wildcard))
    return Project(body, head, rule)


def _lower_functions(body: Body, bound: set[str], functions: list[Literal]) -> Body:
    while functions:
        ready = next(
            literal
            for literal in functions
            if all(term.name in bound for term in literal.atom.terms[:-1] if isinstance(term, Variable))
        )
        functions.remove(ready)
        *inputs, result = ready.atom.terms
        arguments = tuple(term for term in inputs if isinstance(term, Constant | Variable))
        body = Compute(body, ready.atom.predicate, arguments, result)
        if isinstance(result, Variable):
            bound.add(result.name)
    return body


def _scan(literal: Literal) -> Scan:
    return Scan(literal.atom.predicate, literal.atom.terms)


def _is_function(literal: Literal) -> bool:
    return isinstance(BUILTINS[literal.atom.predicate], Function) if literal.atom.predicate in BUILTINS else False
