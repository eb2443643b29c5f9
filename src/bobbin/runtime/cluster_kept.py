"""The copy on the disk of who is known to a node of a cluster, by which its next start finds the others.

It is written in the thread of the disk. Whoever is told who is known is told what a crash would not take back: a node
that says that it knows a key, and has forgotten it after a crash, could shut out the node whose key it is.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from structlog.typing import FilteringBoundLogger

from bobbin.errors import BobbinError
from bobbin.runtime.cluster_disk import Disk
from bobbin.runtime.cluster_members import Directory, KnownMembers

Tell = Callable[[KnownMembers | BobbinError], None]
"""Is told who is known, or what is wrong with the disk."""


class KeptMembers:
    """Who is known by the copy on the disk."""

    def __init__(
        self, known: KnownMembers, remember: Callable[[KnownMembers], None], disk: Disk, log: FilteringBoundLogger
    ) -> None:
        """``known`` is what was read at the start; ``remember`` writes, and is called in the disk's thread."""
        self.tells_of_applied = known.index > 0
        """Whether it has been, or is being, written since something was applied."""
        self._directory: Directory = known.directory
        self._remember: Final = remember
        self._disk: Final = disk
        self._log: Final = log

    def keep(self, known: KnownMembers) -> None:
        """Write it down; nobody waits for that."""
        self.tells_of_applied = True
        self._keep(known, _nobody_waits)

    def tell(self, known: KnownMembers, tell: Tell) -> None:
        """Say who is known, when that would be known after a crash as well."""
        if known.directory == self._directory:
            tell(known)
        else:
            self._keep(known, tell)

    def _keep(self, known: KnownMembers, tell: Tell) -> None:
        self._disk.do(partial(self._remember, known), partial(self._kept, known, tell))

    def _kept(self, known: KnownMembers, tell: Tell, outcome: BobbinError | None) -> None:
        if outcome is None:
            self._directory = known.directory
        else:
            self._log.warning("members-not-kept", detail=str(outcome))
        tell(known if outcome is None else outcome)


def _nobody_waits(_: KnownMembers | BobbinError) -> None:
    """What was kept, or why not, is told to nobody."""
