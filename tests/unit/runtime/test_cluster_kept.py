"""The copy on the disk of who is known."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, cast

import structlog

from bobbin.cluster.names import Index, NodeId
from bobbin.errors import BobbinError, ResourceError
from bobbin.runtime.cluster_kept import KeptMembers
from bobbin.runtime.cluster_members import Directory, KnownMembers, Member

if TYPE_CHECKING:
    from bobbin.runtime.cluster_disk import Disk

_NOBODY = KnownMembers(directory=Directory())
_ONE = KnownMembers(
    directory=Directory([Member(certificate=b"c", address="tls:h:1", seat=NodeId("a" * 32))]), index=Index(3)
)


class _Slow:
    """Stands in for the disk: what is to be done is done when the test says so."""

    def __init__(self) -> None:
        self._due: Final[list[tuple[Callable[[], None], Callable[[BobbinError | None], None]]]] = []

    def do(self, work: Callable[[], None], done: Callable[[BobbinError | None], None]) -> None:
        self._due.append((work, done))

    def turn(self, error: BobbinError | None = None) -> None:
        work, done = self._due.pop(0)
        if error is None:
            work()
        done(error)

    @property
    def is_idle(self) -> bool:
        return not self._due


class _Scene:
    def __init__(self, known: KnownMembers) -> None:
        self.slow: Final = _Slow()
        self.written: Final[list[KnownMembers]] = []
        self.told: Final[list[KnownMembers | BobbinError]] = []
        self.kept: Final = KeptMembers(known, self.written.append, cast("Disk", self.slow), structlog.get_logger())


def test_what_is_on_the_disk_is_told_at_once() -> None:
    scene = _Scene(_ONE)
    scene.kept.tell(_ONE, scene.told.append)
    assert (scene.told, scene.slow.is_idle) == ([_ONE], True)


def test_what_is_not_on_the_disk_is_told_when_it_is() -> None:
    scene = _Scene(_NOBODY)
    scene.kept.tell(_ONE, scene.told.append)
    assert scene.told == []
    scene.slow.turn()
    assert (scene.told, scene.written) == ([_ONE], [_ONE])
    scene.kept.tell(_ONE, scene.told.append)
    assert (len(scene.told), scene.slow.is_idle) == (2, True)


def test_a_failure_of_the_disk_is_told_and_the_next_one_writes_again() -> None:
    scene = _Scene(_NOBODY)
    failure = ResourceError("no space left", retry=True)
    scene.kept.tell(_ONE, scene.told.append)
    scene.slow.turn(failure)
    assert (scene.told, scene.written) == ([failure], [])
    scene.kept.tell(_ONE, scene.told.append)
    assert not scene.slow.is_idle


def test_it_is_known_whether_anything_applied_is_told() -> None:
    scene = _Scene(_NOBODY)
    told = [_Scene(_ONE).kept.tells_of_applied, scene.kept.tells_of_applied]
    scene.kept.keep(_ONE)
    assert [*told, scene.kept.tells_of_applied] == [True, False, True]
    scene.slow.turn()
    assert scene.written == [_ONE]
