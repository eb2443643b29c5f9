"""Text in, checked program out: every pass, in order, with all diagnostics at once.

A ``Lacegram`` value exists only for a program that passed: whoever holds one may evaluate it.
"""

from msgspec import Struct

from bobbin.datalog.algebra import Plan
from bobbin.datalog.canonicalise import canonicalise, check_canonical, identifier
from bobbin.datalog.check_predicates import check_predicates
from bobbin.datalog.check_safety import check_safety
from bobbin.datalog.diagnostics import Report
from bobbin.datalog.limits import DEFAULT, Limits
from bobbin.datalog.lower import lower
from bobbin.datalog.parse import parse
from bobbin.datalog.stratify import stratify
from bobbin.datalog.syntax import Program
from bobbin.datalog.vocabulary import Vocabulary


class Lacegram(Struct, frozen=True, kw_only=True):
    """A valid program: its rules as written, its canonical bytes and name, and what it computes."""

    program: Program
    canonical: bytes
    identifier: str
    plan: Plan


def compile(  # noqa: A001 (the pass is called what it does)
    text: str | bytes,
    vocabulary: Vocabulary,
    limits: Limits = DEFAULT,
    *,
    received: bool = False,
) -> Lacegram:
    """Compile a program or raise ``InvalidProgram`` with everything that is wrong.

    With ``received``, the text came from a peer and must be its own canonical form, byte for byte.
    """
    program = parse(text, limits)
    report = Report(limits.diagnostics_max)
    if received:
        check_canonical(text if isinstance(text, bytes) else text.encode(), program, report)
    check_predicates(program, vocabulary, report)
    check_safety(program, limits, report)
    strata = stratify(program, limits, report)
    report.raise_if_any()
    canonical = canonicalise(program)
    return Lacegram(program=program, canonical=canonical, identifier=identifier(canonical), plan=lower(strata))
