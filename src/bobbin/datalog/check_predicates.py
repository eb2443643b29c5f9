"""Every predicate is used as what it is: one arity each, no name that is taken, none that nobody defines."""

import difflib
from collections.abc import Collection
from typing import Final

from bobbin.datalog.builtins import BUILTINS
from bobbin.datalog.diagnostics import Fault, Report
from bobbin.datalog.syntax import Atom, Place, Program, Rule
from bobbin.datalog.vocabulary import Vocabulary

_SUGGESTIONS_MAX: Final = 10
_COMPARED_MAX: Final = 100
_LENGTH_DIFFERENCE_MAX: Final = 3


class _Suggestions:
    """The known name nearest to an unknown one. Comparing names is slow and a peer may send many, so it ends soon."""

    def __init__(self, known: Collection[str]) -> None:
        self._known = sorted(known)
        self._left = _SUGGESTIONS_MAX

    def nearest(self, name: str) -> str | None:
        if not self._left:
            return None
        self._left -= 1
        alike = [known for known in self._known if abs(len(known) - len(name)) <= _LENGTH_DIFFERENCE_MAX]
        found = difflib.get_close_matches(name, alike[:_COMPARED_MAX], n=1)
        return found[0] if found else None


def check_predicates(program: Program, vocabulary: Vocabulary, report: Report) -> None:
    """Report shadowed, reserved and unknown predicates, and every use with the wrong number of arguments."""
    arities: dict[str, int] = {}
    heads = program.heads()
    suggestions = _Suggestions({*heads, *vocabulary.base, *BUILTINS})
    if vocabulary.export_required and heads.isdisjoint(vocabulary.exports):
        wanted = " or ".join(f"{name}/{arity}" for name, arity in vocabulary.exports.items())
        report.add(Fault.FACET, f"no rule defines {wanted}, so the program selects nothing", Place(1, 1))
    for rule in program.rules:
        _check_head(rule, vocabulary, report)
        _check_arity(rule.head, rule.place, vocabulary, arities, report)
        for literal in rule.body:
            if not _check_body(literal.atom, literal.place, heads, vocabulary, report):
                near = suggestions.nearest(literal.atom.predicate)
                fix = f"did you mean {near}?" if near else "define it by a rule"
                sentence = f"nothing defines {literal.atom.predicate}"
                report.add(Fault.UNKNOWN_PREDICATE, sentence, literal.place, fix)
            _check_arity(literal.atom, literal.place, vocabulary, arities, report)


def _check_head(rule: Rule, vocabulary: Vocabulary, report: Report) -> None:
    name = rule.head.predicate
    if name in BUILTINS:
        report.add(Fault.SHADOWING, f"{name} is built in and cannot be defined", rule.place, "choose another name")
    elif name in vocabulary.base or name in vocabulary.foreign_facts:
        sentence = f"{name} holds facts that the system supplies and cannot be defined"
        report.add(Fault.SHADOWING, sentence, rule.place, "choose another name")
    elif vocabulary.is_reserved(name):
        report.add(Fault.SHADOWING, f"{name} belongs to the protocol and cannot be defined", rule.place)
    elif name in vocabulary.foreign_heads:
        report.add(Fault.SHADOWING, f"{name} cannot be defined in a program of this role", rule.place)


def _check_body(atom: Atom, place: Place, heads: frozenset[str], vocabulary: Vocabulary, report: Report) -> bool:
    """Report what may not be read. False where nothing supplies the predicate."""
    name = atom.predicate
    if vocabulary.is_reserved(name):
        report.add(Fault.FORBIDDEN_PREDICATE, f"{name} belongs to the protocol; rules cannot read it", place)
    elif name in vocabulary.foreign_facts:
        report.add(Fault.FORBIDDEN_PREDICATE, f"{name} holds facts that a program of this role cannot read", place)
    else:
        return name in heads or name in vocabulary.base or name in BUILTINS
    return True


def _check_arity(atom: Atom, place: Place, vocabulary: Vocabulary, arities: dict[str, int], report: Report) -> None:
    declared = vocabulary.declared_arity(atom.predicate)
    expected = arities.setdefault(atom.predicate, atom.arity) if declared is None else declared
    if atom.arity != expected:
        origin = "here it was used before with" if declared is None else "it has"
        sentence = f"{atom.predicate} stands with {atom.arity} arguments; {origin} {expected}"
        report.add(Fault.ARITY, sentence, place)
