"""Policy texts in files: how commands read them, and how they name a mistake by file, line and column."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final

import typer
from msgspec import Struct

from bobbin.cli.output import Json
from bobbin.cli.sources import STDIN, read_whole
from bobbin.cli.text import count_text
from bobbin.errors import ProgramError, UsageError

if TYPE_CHECKING:
    from bobbin.datalog.diagnostics import Diagnostic
    from bobbin.policy.check import Remark
    from bobbin.policy.executables import Part
    from bobbin.policy.modules import Query, Role, Selector

_BYTES_MAX: Final = 16 * 1024 * 1024
"""Far more than a policy may have, so that what is too long is said like any other mistake, with its place."""

PolicyFile = Annotated[
    str, typer.Argument(metavar="FILE", help="Policy text; - for stdin.", show_default=False, allow_dash=True)
]


class RoleChoice(StrEnum):
    """What a policy is for, as the user says it."""

    AUTO = "auto"
    SELECTOR = "selector"
    QUERY = "query"


AsRole = Annotated[
    RoleChoice,
    typer.Option("--role", help="What the policy is for. auto: query if it defines Queryable, else selector."),
]


class Mistake(Struct, frozen=True, kw_only=True):
    """One mistake in a file, with its place counted from 1."""

    file: str
    line: int
    column: int
    message: str
    fault: str | None = None
    fix: str | None = None

    def __str__(self) -> str:
        hint = f" ({self.fix})" if self.fix else ""
        return f"{self.file}:{self.line}:{self.column}: {self.message}{hint}"

    def value(self) -> dict[str, Json]:
        return {
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "fault": self.fault,
            "message": self.message,
            "fix": self.fix,
        }


class InvalidPolicyFile(ProgramError):
    """A policy text in a file is wrong. Nothing was evaluated. Every mistake has a line of the message."""

    def __init__(self, file: str, mistakes: Sequence[Mistake]) -> None:
        head = f"{count_text(len(mistakes), 'mistake')} in {shown_name(file)}"
        super().__init__("\n".join([head, *map(str, mistakes)]))
        self.mistakes = tuple(mistakes)


def shown_name(file: str) -> str:
    """A file as messages name it."""
    return "stdin" if file == STDIN else file


def at_place(file: str, found: "Diagnostic | Remark") -> str:
    """One finding as ``file:line:column: message (fix)``."""
    return f"{shown_name(file)}:{found}"


def texts_of(own: str, peer: str | None = None, query: str | None = None) -> "dict[Part, str]":
    """The files that the programs of a decision were read from, for explanations that cite lines."""
    from bobbin.policy.executables import Part

    files = {Part.OWN_SELECTOR: own, Part.PEER_SELECTOR: peer, Part.QUERY: query}
    return {part: shown_name(file) for part, file in files.items() if file is not None}


@contextmanager
def naming(file: str) -> Iterator[None]:
    """Say in which file a mistake is."""
    from bobbin.datalog.diagnostics import InvalidProgram

    try:
        yield
    except InvalidProgram as error:
        raise InvalidPolicyFile(file, [_mistake(file, found) for found in error.diagnostics]) from error


def _mistake(file: str, found: "Diagnostic") -> Mistake:
    return Mistake(
        file=shown_name(file),
        line=found.place.line,
        column=found.place.column,
        message=found.message,
        fault=found.fault.value,
        fix=found.fix,
    )


def read_policy(file: str) -> bytes:
    """The bytes of a policy text, not checked yet."""
    return read_whole(file, bytes_max=_BYTES_MAX, what="a policy")


def chosen_role(choice: RoleChoice) -> "Role | None":
    """The role that the user named; None where the text itself shall say."""
    from bobbin.policy.modules import Role

    return None if choice is RoleChoice.AUTO else Role(choice.value)


def load_module(file: str, role: "Role | None" = None) -> "Selector | Query":
    """A valid policy from a file, for a role or for the one that it seems to be written for."""
    from bobbin.datalog.parse import parse
    from bobbin.policy.check import compile_module
    from bobbin.policy.modules import role_of

    text = read_policy(file)
    with naming(file):
        return compile_module(text, role_of(parse(text)) if role is None else role)


def load_selector(file: str) -> "Selector":
    """A valid selector from a file. A query policy in its place is named as what it is."""
    from bobbin.datalog.parse import parse
    from bobbin.policy.modules import compile_selector
    from bobbin.policy.vocabulary import QUERYABLE, SELECTOR

    text = read_policy(file)
    with naming(file):
        heads = parse(text).heads()
        if QUERYABLE in heads and heads.isdisjoint(SELECTOR.exports):
            raise UsageError(
                f"{shown_name(file)} is a query policy (it defines {QUERYABLE}), and a policy that says which records "
                f"are exchanged is wanted (it defines {' or '.join(sorted(SELECTOR.exports))}). What the other side's "
                "rules may see is given with --query-policy"
            )
        return compile_selector(text)


def load_query(file: str) -> "Query":
    """A valid query policy from a file. One with rules that show nothing is most likely another file than was meant."""
    from bobbin.policy.modules import compile_query
    from bobbin.policy.vocabulary import QUERYABLE, SELECTOR

    text = read_policy(file)
    with naming(file):
        query = compile_query(text)
    heads = query.program.heads()
    if heads and QUERYABLE not in heads:
        chosen = sorted(heads & SELECTOR.exports.keys())
        what = f"a selector (it defines {' and '.join(chosen)})" if chosen else "no query policy"
        raise UsageError(
            f"{shown_name(file)} is {what}: nothing in it defines {QUERYABLE}(P,O), which says what the peer's rules "
            "may see of our records. A query policy that shows nothing at all is an empty file"
        )
    return query
