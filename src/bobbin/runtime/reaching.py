"""Reaching a peer that has several addresses: each of them is tried until one leads to it.

An address that fails is passed over, whatever the reason: nobody answers, the certificate is not the pinned one, or
whoever answers there is somebody else. What is demanded is the same at every address, so passing one over never lets
anybody in. When all have failed, the error has each of them with its reason, and is of the family of what happened:
``NotReached`` where the network or the machine had a part in it, a ``PeerError`` where somebody answered everywhere.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias, TypeVar

from msgspec import Struct

from bobbin.errors import PeerError, ResourceError
from bobbin.runtime.address_rotation import Rotation
from bobbin.runtime.introduction import NotAdmitted
from bobbin.runtime.reconnect import may_help
from bobbin.transport.base import TransportError, WrongCertificate

T = TypeVar("T")

_BETWEEN: Final = " · "
"""Reasons have commas and semicolons of their own."""


class Failure(Struct, frozen=True, kw_only=True):
    """One address that did not lead to the peer."""

    address: str
    error: PeerError | ResourceError

    @property
    def is_alarm(self) -> bool:
        """Whether somebody answers there who is not to be talked to, as opposed to nobody."""
        return isinstance(self.error, NotAdmitted | WrongCertificate)

    def __str__(self) -> str:
        """The address and its reason."""
        text = str(self.error)
        return text if text.startswith(self.address) else f"{self.address}: {text}"


PassedOver: TypeAlias = Callable[[Failure], None]
"""Hears of an address that failed, when the next one is about to be tried."""


class NotReached(TransportError):
    """None of a peer's addresses that were tried has led to it. Nothing was exchanged."""

    def __init__(self, failures: Sequence[Failure], *, is_whole: bool = True) -> None:
        """``is_whole`` says that no address was left out; else one that was may be up again soon."""
        retry = not is_whole or any(may_help(one.error) for one in failures)
        super().__init__(_text(failures, is_whole=is_whole), retry=retry)
        self.failures: Final = tuple(failures)
        """Each address that was tried, in that order."""


async def reach(
    attempt: Callable[[int], Awaitable[T]],
    addresses: Sequence[str],
    rotation: Rotation,
    *,
    passed_over: PassedOver = lambda _: None,
) -> T:
    """What the first successful ``attempt`` at an address gives, by its number, trying what is left of this round.

    Raises what was wrong when the round is over; the next call begins another one. With a single address that is its
    own error. Only a whole round can say that another one is no use (``may_help``). A ``UsageError`` ends it at once:
    no other address makes sense of what the caller asked for.
    """
    failures: list[Failure] = []
    while True:
        at = rotation.at
        try:
            reached = await attempt(at)
        except (PeerError, ResourceError) as error:
            failures.append(Failure(address=addresses[at], error=error))
            if rotation.move_on():
                passed_over(failures[-1])
                continue
            if len(addresses) == 1:
                raise
            raise _summed_up(failures, is_whole=len(failures) == len(addresses)) from error
        rotation.work()
        return reached


def _summed_up(failures: Sequence[Failure], *, is_whole: bool) -> PeerError | ResourceError:
    """What happened at the addresses of a round, or of its rest.

    The rest alone never says that trying again is no use: the address whose link was lost before is not among it.
    """
    answers = [one.error for one in failures if isinstance(one.error, PeerError)]
    if len(answers) < len(failures):
        return NotReached(failures, is_whole=is_whole)
    text = _text(failures, is_whole=is_whole)
    # One that another attempt may mend says that another attempt makes sense.
    hopeful = next((error for error in answers if may_help(error)), None)
    if hopeful is not None:
        return PeerError(hopeful.code, text)
    return (NotAdmitted if is_whole else PeerError)(answers[0].code, text)


def _text(failures: Sequence[Failure], *, is_whole: bool) -> str:
    which = "no address leads" if is_whole else "no other address leads"
    return f"{which} to the peer: {_BETWEEN.join(map(str, failures))}"
