"""Modules: policy texts compiled for the role that they play (Lace-040 facets).

============  =======================================  ==================  ==============
role          exports                                  runs where          sent to a peer
============  =======================================  ==================  ==============
``selector``  ``SelectHave/1``, ``SelectAdvertised/2``  on both machines    yes
``query``     ``Queryable/2`` (record, viewer)         on its own machine  never
============  =======================================  ==================  ==============

A selector defines at least one of its exports; the other one is then the empty set. A query module may define nothing:
the empty program shows a peer's rules no record at all. A module that exists is valid, so whoever holds one may run
it. The rest of the program (helper predicates) stays inside: two modules never share a derived predicate.
"""

from enum import StrEnum
from functools import cache
from typing import Final

from msgspec import Struct

from bobbin import profile
from bobbin.datalog.canonicalise import identifier as identify
from bobbin.datalog.compile import Lacegram
from bobbin.datalog.compile import compile as compile_program
from bobbin.datalog.diagnostics import Diagnostic, InvalidProgram
from bobbin.datalog.limits import DEFAULT, Limits
from bobbin.datalog.syntax import Program
from bobbin.errors import PeerError
from bobbin.policy import vocabulary
from bobbin.policy.advertised_fields import FieldRequirements, required_fields

MALFORMED_MODULE: Final = "malformed-exchange-module"


class Role(StrEnum):
    """What a module is for; ``selector`` also stands in setup facts and plans."""

    SELECTOR = "selector"
    QUERY = "query"


class MalformedModule(PeerError):
    """A peer's module does not pass. Nothing of it was evaluated. ``diagnostics`` says what is wrong with it."""

    def __init__(self, message: str, diagnostics: tuple[Diagnostic, ...] = ()) -> None:
        super().__init__(MALFORMED_MODULE, message)
        self.diagnostics = diagnostics


class Selector(Struct, frozen=True, kw_only=True):
    """A valid selector module."""

    lacegram: Lacegram
    fields: FieldRequirements
    """The claimed fields that its rules read."""

    @property
    def identifier(self) -> str:
        return self.lacegram.identifier

    @property
    def canonical(self) -> bytes:
        return self.lacegram.canonical

    @property
    def program(self) -> Program:
        return self.lacegram.program


class Query(Struct, frozen=True, kw_only=True):
    """A valid query module."""

    lacegram: Lacegram

    @property
    def identifier(self) -> str:
        return self.lacegram.identifier

    @property
    def program(self) -> Program:
        return self.lacegram.program


def compile_selector(text: str | bytes, *, received: bool = False, limits: Limits = DEFAULT) -> Selector:
    """Compile a selector, or raise ``InvalidProgram`` with everything that is wrong.

    With ``received``, the text must be its own canonical form, byte for byte.
    """
    lacegram = compile_program(text, vocabulary.SELECTOR, limits, received=received)
    return Selector(lacegram=lacegram, fields=required_fields(lacegram.program))


def compile_query(text: str | bytes, *, limits: Limits = DEFAULT) -> Query:
    """Compile a query module, or raise ``InvalidProgram`` with everything that is wrong."""
    return Query(lacegram=compile_program(text, vocabulary.QUERY, limits))


@cache
def default_query() -> Query:
    """What holds where the application gives no query module: a peer's rules may see what this side offers anyway."""
    return compile_query(profile.QUERY_POLICY_DEFAULT)


@cache
def deny_all_query() -> Query:
    """The empty program: a peer's rules see no record."""
    return compile_query("")


@cache
def deny_all_selector() -> Selector:
    """A selector that selects nothing: what a side contributes that has no policy."""
    return compile_selector(profile.SELECTOR_DENY_ALL)


def receive_selector(raw: bytes, announced: str, *, limits: Limits = DEFAULT) -> Selector:
    """The selector that a peer announced under this identifier, from the bytes that it sent."""
    check_identity(raw, announced)
    try:
        return compile_selector(raw, received=True, limits=limits)
    except InvalidProgram as error:
        message = f"the module {announced} is not valid: {error.diagnostics[0]}"
        raise MalformedModule(message, tuple(error.diagnostics)) from error


def check_identity(raw: bytes, announced: str) -> None:
    """Refuse bytes that are not the module that this identifier names."""
    actual = identify(raw)
    if actual != announced:
        raise MalformedModule(f"the bytes sent for module {announced[:60]} are those of {actual}")


def role_of(program: Program) -> Role:
    """The role that a text was most likely written for: only a query module defines ``Queryable``."""
    return Role.QUERY if vocabulary.QUERYABLE in program.heads() else Role.SELECTOR


def base_predicates(program: Program, export: str) -> frozenset[str]:
    """The predicates without rules that an export depends on, directly or through other rules."""
    bodies: dict[str, set[str]] = {}
    for rule in program.rules:
        bodies.setdefault(rule.head.predicate, set()).update(literal.atom.predicate for literal in rule.body)
    reached: set[str] = set()
    waiting = [export]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting.extend(bodies.get(name, ()))
    return frozenset(reached - bodies.keys() - {export})
