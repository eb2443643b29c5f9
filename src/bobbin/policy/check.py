"""What an author wants to know of a policy text before using it: mistakes, name, and remarks on what it will not do.

A mistake keeps a text from being used. A remark does not: the text is valid, and still perhaps not what was meant.
"""

from collections import Counter
from collections.abc import Iterator

from msgspec import Struct

from bobbin.datalog.diagnostics import Diagnostic, InvalidProgram
from bobbin.datalog.limits import DEFAULT, Limits
from bobbin.datalog.parse import parse
from bobbin.datalog.syntax import Constant, Place, Program
from bobbin.facts.relations import FIELD
from bobbin.policy import vocabulary
from bobbin.policy.advertised_fields import required_fields
from bobbin.policy.modules import Query, Role, Selector, compile_query, compile_selector, role_of


class Remark(Struct, frozen=True):
    """Something valid that may surprise its author."""

    message: str
    place: Place

    def __str__(self) -> str:
        return f"{self.place}: {self.message}"


class Checked(Struct, frozen=True, kw_only=True):
    """What checking a text found."""

    role: Role
    identifier: str | None
    """The name of the policy; None where it has mistakes."""
    diagnostics: tuple[Diagnostic, ...] = ()
    remarks: tuple[Remark, ...] = ()


def check(text: str | bytes, role: Role | None = None, limits: Limits = DEFAULT) -> Checked:
    """Check a text for its role; without one, for the role that it seems to be written for."""
    supposed = Role.SELECTOR if role is None else role
    try:
        if role is None:
            supposed = role_of(parse(text, limits))
        module = compile_module(text, supposed, limits)
    except InvalidProgram as error:
        return Checked(role=supposed, identifier=None, diagnostics=tuple(error.diagnostics))
    remarks = sorted(_remarks(module.program, supposed), key=lambda remark: (remark.place.line, remark.place.column))
    return Checked(role=supposed, identifier=module.identifier, remarks=tuple(remarks))


def identify(text: str | bytes, role: Role | None = None, limits: Limits = DEFAULT) -> str:
    """The ``R.`` identifier of a text, or ``InvalidProgram``."""
    supposed = role_of(parse(text, limits)) if role is None else role
    return compile_module(text, supposed, limits).identifier


def compile_module(text: str | bytes, role: Role, limits: Limits = DEFAULT) -> Selector | Query:
    """Compile a text for a role."""
    match role:
        case Role.SELECTOR:
            return compile_selector(text, limits=limits)
        case Role.QUERY:
            return compile_query(text, limits=limits)


def _remarks(program: Program, role: Role) -> Iterator[Remark]:
    start = Place(1, 1)
    heads = program.heads()
    if role is Role.SELECTOR:
        if vocabulary.SELECT_HAVE not in heads:
            yield Remark("nothing defines SelectHave, so neither side may send anything", start)
        if vocabulary.SELECT_ADVERTISED not in heads:
            yield Remark("nothing defines SelectAdvertised, so neither side may request anything", start)
        if required_fields(program).all:
            message = "AdvertisedField with an open field name: both sides must advertise all fields"
            yield Remark(message, _first_open_name(program))
    elif vocabulary.QUERYABLE not in heads:
        yield Remark("nothing defines Queryable, so a peer's rules will see no record", start)
    if role is Role.QUERY:
        for rule in program.rules:
            for literal in rule.body:
                if literal.atom.predicate in vocabulary.CLAIM_ARITY:
                    message = f"{literal.atom.predicate} is always empty in a query policy"
                    yield Remark(message, literal.place)
    yield from _unused(program, role)
    yield from _lonely(program)
    yield from _empty_texts(program)


def _unused(program: Program, role: Role) -> Iterator[Remark]:
    """Predicates that no export needs."""
    exports = vocabulary.SELECTOR.exports if role is Role.SELECTOR else vocabulary.QUERY.exports
    needs: dict[str, set[str]] = {}
    for rule in program.rules:
        needs.setdefault(rule.head.predicate, set()).update(literal.atom.predicate for literal in rule.body)
    reached: set[str] = set()
    waiting = [name for name in exports if name in needs]
    while waiting:
        name = waiting.pop()
        if name in needs and name not in reached:
            reached.add(name)
            waiting.extend(needs[name])
    told: set[str] = set()
    for rule in program.rules:
        name = rule.head.predicate
        if name not in reached and name not in told:
            told.add(name)
            yield Remark(f"nothing that this policy exports depends on {name}", rule.place)


def _lonely(program: Program) -> Iterator[Remark]:
    """Variables that stand once in their rule: often a constant without its quotes, and then the rule says far more."""
    for rule in program.rules:
        atoms = [rule.head, *(literal.atom for literal in rule.body)]
        counts = Counter(name for atom in atoms for name in atom.variables())
        for literal in rule.body:
            for name in literal.atom.variables():
                if counts[name] == 1:
                    message = f"the variable {name} stands only once; write '{name}' for the text, or _ for any value"
                    yield Remark(message, literal.place)


def _empty_texts(program: Program) -> Iterator[Remark]:
    """Literals that look for a field without a value, which no record has: often meant as "any value"."""
    for rule in program.rules:
        for literal in rule.body:
            atom = literal.atom
            if atom.predicate in (FIELD, vocabulary.ADVERTISED_FIELD) and atom.terms[-1] == Constant(""):
                yield Remark("no field has the empty value ''; write _ for any value", literal.place)


def _first_open_name(program: Program) -> Place:
    return next(
        literal.place
        for rule in program.rules
        if required_fields(Program((rule,))).all
        for literal in rule.body
        if literal.atom.predicate == vocabulary.ADVERTISED_FIELD
    )
