"""Frames that are kept until the other side says that it has them.

A frame is kept from before it is sent: a send that fails, or a connection that ends, loses nothing, and what was not
acknowledged is sent again, in order. The receiver takes a frame only if it is the next one, so sending again is
harmless. A mirror keeps its writes so, towards a graph that acknowledges them.

That holds over links as well, where the outbox has a name: the side of the graph remembers how far it has taken each
(``TakenWrites``), and says so in its handshake. Each such memory has a name, too, which it gets when it begins, on the
first link of an outbox: after a restart, or where it was forgotten, it begins anew under another name. What a frame
says goes to one memory only, so a frame that was sent to one is never sent to another, which cannot know of it.
"""

import re
from collections import deque
from collections.abc import Callable, Iterable
from itertools import count
from typing import Final, TypeAlias

from msgspec import Struct

from bobbin.errors import UsageError
from bobbin.reactive.messages import Delta, Operation, PeerId

ACKED_WRITES: Final = "bobbin-acked-writes"
"""The feature: an observer numbers the frames of its writes from 0 on each link, and the source acknowledges them."""
OUTBOX: Final = "bobbin-outbox-"
"""How the feature begins by which an observer names its outbox, and says how many of its frames are settled."""
TAKEN: Final = "bobbin-taken-"
"""How the feature begins by which a source says how many frames of this link it has, and which memory says so."""

_NAMED: Final = re.compile(re.escape(OUTBOX) + r"([0-9a-f]{16,64})-([0-9]{1,15})", re.ASCII)
_TAKEN: Final = re.compile(re.escape(TAKEN) + r"([0-9]{1,15})-([0-9a-f.]{1,64})", re.ASCII)

Aim: TypeAlias = Callable[[Delta], tuple[Operation, ...]]
"""What a frame says to another receiver."""


class NamedOutbox(Struct, frozen=True):
    """What an observer says of its outbox when a link begins."""

    name: str
    """Nobody else has it: 16 to 64 hexadecimal digits that were drawn."""
    settled: int
    """So many frames are no longer kept there. The frames of a link are counted from here."""

    @property
    def feature(self) -> str:
        """As the handshake has it."""
        return f"{OUTBOX}{self.name}-{self.settled}"


def named_in(features: Iterable[str]) -> NamedOutbox | None:
    """The outbox that an observer names, if it names one."""
    for feature in features:
        if (found := _NAMED.fullmatch(feature)) is not None:
            return NamedOutbox(found[1], int(found[2]))
    return None


class Taken(Struct, frozen=True):
    """What a source says of an observer's outbox when a link begins."""

    through: int
    """So many frames of this link were taken already, on earlier ones."""
    memory: str
    """Of which frames were taken: the same name, the same memory."""

    @property
    def feature(self) -> str:
        """As the handshake has it."""
        return f"{TAKEN}{self.through}-{self.memory}"


def taken_in(features: Iterable[str]) -> Taken | None:
    """What a source has of the outbox; None where it remembers nothing from one link to the next."""
    for feature in features:
        if (found := _TAKEN.fullmatch(feature)) is not None:
            return Taken(int(found[1]), found[2])
    return None


class TakenFrames:
    """The memory of one outbox: all links over which its frames come have the same one."""

    def __init__(self, memory: str = "") -> None:
        self.memory: Final = memory
        self.through = 0
        """So many frames were taken, or given up there."""

    def take(self, through: int) -> None:
        """Remember that so many were."""
        self.through = max(through, self.through)


class TakenWrites:
    """How far each outbox was taken, over all links. Bounded: what was in no use for longest is forgotten.

    A link keeps the memory that it has begun with, so that several links of one outbox agree even when it is forgotten
    here. The next one gets another.
    """

    def __init__(self, name: str, *, per_peer_max: int = 256, peers_max: int = 1_024) -> None:
        """``name``: hexadecimal digits, and other ones after each start."""
        self._name: Final = name
        self._numbers: Final = count(1)
        self._per_peer_max: Final = per_peer_max
        self._peers_max: Final = peers_max
        self._peers: Final[dict[PeerId, dict[str, TakenFrames]]] = {}
        """Both in the order of their last use."""

    def of(self, peer: PeerId, name: str) -> TakenFrames:
        """The memory of an outbox, which begins now if there is none."""
        return self.use(peer, name) or self._begin(peer, name)

    def use(self, peer: PeerId, name: str) -> TakenFrames | None:
        """The memory of an outbox, which is in use; None if there is none, or none any more."""
        boxes = self._peers.get(peer)
        frames = None if boxes is None else boxes.pop(name, None)
        if boxes is not None and frames is not None:
            self._peers[peer] = self._peers.pop(peer)
            boxes[name] = frames
        return frames

    def _begin(self, peer: PeerId, name: str) -> TakenFrames:
        boxes = self._peers.pop(peer, {})
        self._peers[peer] = boxes
        boxes[name] = frames = TakenFrames(f"{self._name}.{next(self._numbers):x}")
        if len(boxes) > self._per_peer_max:
            del boxes[next(iter(boxes))]
        if len(self._peers) > self._peers_max:
            del self._peers[next(iter(self._peers))]
        return frames


class Outbox:
    """Frames in the order of their epochs, each following on the one before."""

    def __init__(self, *, first: int = 0, frames_max: int = 1024, retained: Iterable[Delta] = ()) -> None:
        """``first``: what the first frame is based on. ``retained``: what an earlier outbox has left."""
        self._frames: deque[Delta] = deque(retained)
        self._frames_max: Final = frames_max
        self._next = self._frames[-1].epoch if self._frames else first

    def __len__(self) -> int:
        return len(self._frames)

    @property
    def frames(self) -> tuple[Delta, ...]:
        """What is kept."""
        return tuple(self._frames)

    def append(self, operations: tuple[Operation, ...]) -> Delta:
        """Keep a frame, and return it to be sent.

        Raises:
            UsageError: too many are kept already. Nothing was changed.
        """
        if len(self._frames) >= self._frames_max:
            raise UsageError(f"{self._frames_max} frames wait to be acknowledged, and there is no room for more")
        frame = Delta(self._next, self._next + 1, operations)
        self._next = frame.epoch
        self._frames.append(frame)
        return frame

    def acknowledge(self, through: int) -> None:
        """Forget the frames up to an epoch, and no more."""
        while self._frames and self._frames[0].epoch <= through:
            self._frames.popleft()

    def replay_from(self, cursor: int) -> tuple[Delta, ...]:
        """What somebody has not seen who has seen all up to an epoch."""
        return tuple(frame for frame in self._frames if frame.epoch > cursor)

    @property
    def settled(self) -> int:
        """The epoch up to which nothing is kept."""
        return self._frames[0].base_epoch if self._frames else self._next

    def readdress(self, aim: Aim) -> None:
        """Let the frames say something else. They keep their numbers, so one with nothing left to say is kept, too."""
        self._frames = deque(Delta(frame.base_epoch, frame.epoch, aim(frame)) for frame in self._frames)

    def check(self) -> None:
        """Assert what always holds."""
        expected = self._next - len(self._frames)
        for frame in self._frames:
            assert (frame.base_epoch, frame.epoch) == (expected, expected + 1)
            expected += 1
        assert len(self._frames) <= self._frames_max
