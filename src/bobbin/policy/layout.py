"""A policy text in house layout: every rule in its canonical spelling on one line, every comment kept where it stands.

Rules stay in the order in which they were written. A comment behind a rule stays behind it, one on a line of its own
keeps that. Runs of empty lines become one. Neither the meaning nor the identifier of a policy changes.
"""

import re
from typing import Final

from bobbin.datalog.limits import DEFAULT, Limits
from bobbin.datalog.parse import parse
from bobbin.facts.text import CONSTANT

_TOKEN: Final = re.compile(rf"(?P<constant>{CONSTANT})|(?P<comment>[#%][^\n]*)|(?P<stop>\.)|(?P<break>\n)|(?P<other>.)")


def lay_out(text: str, limits: Limits = DEFAULT) -> str:
    """The text in house layout, or ``InvalidProgram`` where it cannot be read."""
    rules = iter(parse(text, limits).rules)
    lines: list[str] = []
    inside = False
    """Whether a rule has begun and not ended."""
    breaks = 0
    """Line breaks since the last rule or comment."""
    for token in _TOKEN.finditer(text):
        kind, value = token.lastgroup, token[0]
        if kind == "break":
            breaks += 1
        elif kind == "comment":
            comment = value.rstrip()
            if lines and not breaks:
                lines[-1] += f"  {comment}"
            else:
                _leave_space(lines, breaks)
                lines.append(comment)
            breaks = 0
        elif kind == "stop":
            # Outside constants and comments a full stop ends a rule and is nothing else, so stops count rules.
            lines.append(str(next(rules)))
            inside, breaks = False, 0
        elif value not in " \t" and not inside:
            _leave_space(lines, breaks)
            inside = True
    return "".join(f"{line}\n" for line in lines)


def _leave_space(lines: list[str], breaks: int) -> None:
    """One empty line where the author left at least one; none at the beginning."""
    if lines and breaks > 1:
        lines.append("")
