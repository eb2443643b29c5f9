"""Every variable gets its value from a fact: otherwise a rule could mean infinitely many tuples.

A variable is *bound* when a positive literal over facts or derived predicates mentions it, or when a built-in yields it
from bound inputs. Head variables, variables under negation and inputs of built-ins must be bound.
"""

from bobbin.datalog.builtins import BUILTINS, Function
from bobbin.datalog.diagnostics import Fault, Report
from bobbin.datalog.limits import Limits
from bobbin.datalog.syntax import Atom, Literal, Program, Rule, Variable, Wildcard


def check_safety(program: Program, limits: Limits, report: Report) -> None:
    """Report unsafe rules, wildcards in heads, facts with variables, and rules with too many variables."""
    for rule in program.rules:
        _check_head(rule, report)
        _check_body(rule, report)
        names = {name for atom in (rule.head, *(literal.atom for literal in rule.body)) for name in atom.variables()}
        if len(names) > limits.variables_max:
            sentence = f"at most {limits.variables_max} variables in a rule, not {len(names)}"
            report.add(Fault.LIMIT, sentence, rule.place)


def bound_variables(body: tuple[Literal, ...]) -> frozenset[str]:
    """The variables that the positive literals of a body give a value."""
    bound = {
        name
        for literal in body
        if not literal.negated and literal.atom.predicate not in BUILTINS
        for name in literal.atom.variables()
    }
    pending = [literal.atom for literal in body if not literal.negated and _yields(literal.atom)]
    while ready := [atom for atom in pending if _inputs(atom) <= bound]:
        pending = [atom for atom in pending if atom not in ready]
        bound |= {name for atom in ready for name in atom.variables()}
    return frozenset(bound)


def _yields(atom: Atom) -> bool:
    return isinstance(BUILTINS.get(atom.predicate), Function)


def _inputs(atom: Atom) -> set[str]:
    terms = atom.terms[:-1] if _yields(atom) else atom.terms
    return {term.name for term in terms if isinstance(term, Variable)}


def _check_head(rule: Rule, report: Report) -> None:
    if any(isinstance(term, Wildcard) for term in rule.head.terms):
        sentence = f"'_' in the head of {rule.head.predicate} has no value"
        report.add(Fault.WILDCARD_IN_HEAD, sentence, rule.place, "name it and bind it in the body")
    elif not rule.body and any(isinstance(term, Variable) for term in rule.head.terms):
        sentence = f"the fact {rule.head} holds a variable"
        report.add(Fault.NOT_GROUND, sentence, rule.place, "write constants, or give the rule a body")


def _check_body(rule: Rule, report: Report) -> None:
    if not rule.body:
        return
    bound = bound_variables(rule.body)
    for name in dict.fromkeys(rule.head.variables()):
        if name not in bound:
            sentence = f"nothing in the body gives {name} of the head a value"
            report.add(Fault.UNSAFE, sentence, rule.place, f"add a positive literal with {name}")
    for literal in rule.body:
        atom = literal.atom
        builtin = atom.predicate in BUILTINS
        if builtin and any(isinstance(term, Wildcard) for term in (atom.terms[:-1] if _yields(atom) else atom.terms)):
            report.add(Fault.UNSAFE, f"'_' has no value that {atom.predicate} could read", literal.place)
        if not (builtin or literal.negated):
            continue
        needed = set(atom.variables()) if literal.negated else _inputs(atom)
        for name in sorted(needed - bound):
            role = "the negated literal" if literal.negated else f"the built-in {atom.predicate}"
            sentence = f"{role} reads {name}, which no positive literal gives a value"
            report.add(Fault.UNSAFE, sentence, literal.place, f"add a positive literal with {name}")
