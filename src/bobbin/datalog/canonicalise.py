"""The one spelling of a program, and its name.

Layout and comments go, each rule stands on one line, equal lines collapse, lines sort bytewise. Variable names,
wildcards and the order of literals stay as the author wrote them. The name is a hash of that text, so two parties
that hold one name hold one program.
"""

from itertools import zip_longest
from typing import Final

from blake3 import blake3

from bobbin import profile
from bobbin.datalog.diagnostics import Fault, Report
from bobbin.datalog.syntax import Place, Program
from bobbin.records import b64a

IDENTIFIER_PREFIX: Final = "R."


def canonicalise(program: Program) -> bytes:
    """The canonical bytes of a program."""
    lines = {f"{rule}\n".encode() for rule in program.rules}
    return b"".join(sorted(lines))


def identifier(canonical: bytes) -> str:
    """``R.`` and the hash of canonical bytes."""
    digest = blake3(profile.LACEGRAM_DOMAIN + canonical).digest()
    return IDENTIFIER_PREFIX + b64a.encode(digest)


def check_canonical(text: bytes, program: Program, report: Report) -> None:
    """Report text that parses but is not its own canonical form, at the first line that differs."""
    expected = canonicalise(program)
    if text == expected:
        return
    pairs = zip_longest(text.splitlines(keepends=True), expected.splitlines(keepends=True))
    line = next(number for number, (left, right) in enumerate(pairs, start=1) if left != right)
    report.add(Fault.NOT_CANONICAL, "the text is not the canonical form of its own rules", Place(line, 1))
