"""Every code that a command can end with, in one table. ``docs/cli.md`` shows it; a test holds the two together.

The rule behind the numbers: 1 means *look at what you gave me*, 2 *look at what you typed*, 3 *look at your lace*,
4 and 5 *look at the machine*.
"""

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final

from bobbin.errors import BobbinError, IntegrityError, PeerError, ProgramError, ResourceError, UsageError


class ExitCode(IntEnum):
    """The codes. Only ``OK`` says that everything that was asked for has happened."""

    OK = 0
    NOT_ALL = 1
    USAGE = 2
    INTEGRITY = 3
    RESOURCE = 4
    TRY_AGAIN = 5
    PEER = 6
    PROGRAM = 7
    BUG = 70
    INTERRUPTED = 130
    READER_GONE = 141
    TERMINATED = 143


MEANING: Final[Mapping[ExitCode, str]] = MappingProxyType(
    {
        ExitCode.OK: "Everything that was asked for was done, and nothing was found wrong.",
        ExitCode.NOT_ALL: "The work was done, but the answer is no or not all: something was not found, input "
        "records were rejected or refused, a case of a policy failed, policies differ, an exchange did not bring "
        "everything or stopped at a limit, a statement does not hold, a replay differs. What was accepted is stored.",
        ExitCode.USAGE: "The command line makes no sense as it stands, or names a lace or a key that is not there. "
        "Nothing was changed.",
        ExitCode.INTEGRITY: "The lace itself is not what it should be, `lace.toml` and key files included: "
        "damaged bytes, readable secrets. Or a known peer has proven another key than the known one.",
        ExitCode.RESOURCE: "The machine failed: disk full, no permission, a file to read or a folder to write to is "
        "missing. Or there is no such host, or a certificate is not the right one. What was acknowledged stays.",
        ExitCode.TRY_AGAIN: "The machine or the network failed in a way that may pass: another process holds the "
        "store, a peer cannot be reached, no node runs. Try again.",
        ExitCode.PEER: "A remote side broke the protocol, is not who it should be, or does not let us in. Nothing of "
        "its message was kept.",
        ExitCode.PROGRAM: "A policy text is wrong, or its rules went past a limit. Nothing of it was used.",
        ExitCode.BUG: "Bobbin has a bug. The traceback on stderr belongs in a report.",
        ExitCode.INTERRUPTED: "Interrupted (Ctrl-C). What was acknowledged stays.",
        ExitCode.READER_GONE: "Whoever read stdout went away (as in `bobbin … | head`).",
        ExitCode.TERMINATED: "Terminated (SIGTERM). What was acknowledged stays.",
    }
)


def of_error(error: BobbinError | OSError) -> ExitCode:
    """The code of a command that ended in this error."""
    match error:
        case UsageError():
            return ExitCode.USAGE
        case IntegrityError():
            return ExitCode.INTEGRITY
        case ResourceError() if _is_damage(error):
            return ExitCode.INTEGRITY
        case ResourceError():
            return ExitCode.TRY_AGAIN if error.retry else ExitCode.RESOURCE
        case PeerError():
            return ExitCode.PEER
        case ProgramError():
            return ExitCode.PROGRAM
        case OSError():
            return ExitCode.RESOURCE
        case _:
            raise AssertionError(f"{type(error).__name__} belongs to none of the five families")


def _is_damage(error: ResourceError) -> bool:
    # A store that cannot be read is the machine's affair; one that holds something else than was put there is not.
    from bobbin.store.base import DamagedStore

    return isinstance(error, DamagedStore)
