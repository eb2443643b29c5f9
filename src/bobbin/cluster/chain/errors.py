"""What whoever works with a chain may have done wrong."""

from bobbin.errors import UsageError


class ChainError(UsageError):
    """The chain cannot do this. Store and chain are as they were."""


class SnapshotTooOld(ChainError):
    """What the store held at this height has been forgotten."""


class WrongState(ChainError):
    """The workspace is past what was asked of it, or not there yet."""


class AlreadyCoSigned(ChainError):
    """This validator has signed this block before. The first signature stays."""


class CommitFailed(ChainError):
    """A block could not be made, signed or put on. The workspace that led it has failed; the others wait on."""
