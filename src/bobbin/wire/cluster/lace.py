"""What clients ask of a node of a replicated lace, beyond what every node of a cluster is asked."""

from typing import Annotated, Final, TypeAlias

from msgspec import Meta, Struct

from bobbin.errors import UsageError

COMMAND_BYTES_MAX: Final = 3 * 1_048_576
"""As much as the log takes in one entry."""

_Number = Annotated[int, Meta(ge=0)]


class LaceWrite(Struct, frozen=True, array_like=True, tag=48, gc=False, forbid_unknown_fields=True):
    """A command for the lace. It has a token, and may be sent again; ``Done`` says where in the log it stands."""

    number: _Number
    command: Annotated[bytes, Meta(min_length=2, max_length=COMMAND_BYTES_MAX)]


class LaceSettle(Struct, frozen=True, array_like=True, tag=49, gc=False, forbid_unknown_fields=True):
    """``Done`` when the store of this very node holds all that was committed when this was asked."""

    number: _Number


LaceRequest: TypeAlias = LaceWrite | LaceSettle


def check_lace_request(request: LaceRequest) -> None:
    """Refuse a request that a node would not take, before it is sent."""
    if isinstance(request, LaceWrite) and not 2 <= len(request.command) <= COMMAND_BYTES_MAX:
        raise UsageError(f"a command has 2 to {COMMAND_BYTES_MAX} bytes, not {len(request.command)}")
