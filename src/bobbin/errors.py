"""The root exception and its five families, sorted by whose fault it is.

Every error that leaves Bobbin is one of the families below, so a caller can decide what to do from the class alone:

====================  ======================  =========================================================
family                whose fault             what it promises
====================  ======================  =========================================================
``UsageError``        the caller's            nothing was changed; the call can be corrected and repeated
``PeerError``         the remote side's       nothing of the peer's message was kept; carries the wire code
``ProgramError``      the policy text's       nothing was evaluated; carries every diagnostic with its place
``IntegrityError``    the bytes'              nothing was stored; carries the reason code
``ResourceError``     disk, network, Spark    what was acknowledged stays; says whether a retry makes sense
====================  ======================  =========================================================

A refusal that belongs to normal work (a duplicate, a withheld record) is a value, never an exception. A broken
promise of our own code is an ``assert``; nothing that came from outside may reach one unchecked.
"""


class BobbinError(Exception):
    """The root of everything Bobbin raises on purpose."""


class UsageError(BobbinError):
    """The caller asked for something that makes no sense here. Nothing was changed."""


class PeerError(BobbinError):
    """The remote side broke the protocol. Nothing of the offending message was kept."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class ProgramError(BobbinError):
    """A policy text is wrong. Nothing was evaluated."""


class IntegrityError(BobbinError):
    """Bytes are not what they claim to be: hash, signature, structure or chain. Nothing was stored."""


class ResourceError(BobbinError):
    """Something under us failed: disk, network, another process. What was acknowledged is still there."""

    def __init__(self, message: str, *, retry: bool) -> None:
        super().__init__(message)
        self.retry = retry
