"""Policy texts in files: how commands read them, and how they name a mistake by file, line and column."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final

import typer

from bobbin.cli.sources import STDIN, read_whole
from bobbin.cli.text import count_text
from bobbin.errors import ProgramError

if TYPE_CHECKING:
    from bobbin.datalog.diagnostics import Diagnostic
    from bobbin.policy.check import Remark
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


class InvalidPolicyFile(ProgramError):
    """A policy text in a file is wrong. Nothing was evaluated. Every mistake has a line of the message."""

    def __init__(self, file: str, lines: list[str]) -> None:
        super().__init__("\n".join([f"{count_text(len(lines), 'mistake')} in {shown_name(file)}", *lines]))


def shown_name(file: str) -> str:
    """A file as messages name it."""
    return "stdin" if file == STDIN else file


def at_place(file: str, found: "Diagnostic | Remark") -> str:
    """One finding as ``file:line:column: message (fix)``."""
    return f"{shown_name(file)}:{found}"


@contextmanager
def naming(file: str) -> Iterator[None]:
    """Say in which file a mistake is."""
    from bobbin.datalog.diagnostics import InvalidProgram

    try:
        yield
    except InvalidProgram as error:
        raise InvalidPolicyFile(file, [at_place(file, found) for found in error.diagnostics]) from error


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
    """A valid selector from a file."""
    from bobbin.policy.modules import compile_selector

    text = read_policy(file)
    with naming(file):
        return compile_selector(text)


def load_query(file: str) -> "Query":
    """A valid query policy from a file."""
    from bobbin.policy.modules import compile_query

    text = read_policy(file)
    with naming(file):
        return compile_query(text)
