"""The answers to one client of a node, and the reads that wait for room."""

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, Protocol, TypeAlias

from bobbin.runtime.cluster_members import Rights
from bobbin.runtime.cluster_reads import ANSWER_BYTES_MAX
from bobbin.runtime.cluster_settings import ClientBounds
from bobbin.transport.base import TransportError
from bobbin.transport.flow import Flow
from bobbin.wire.cluster import client
from bobbin.wire.cluster.chain import ChainChanges, ChainEnded, ChainItems, ChainPage
from bobbin.wire.cluster.client import Answer, Done, Rows, Value
from bobbin.wire.cluster.frame import frame

_ANSWERS_MAX: Final = 5_000
"""In one frame, or few more."""
_ENDED_AT_ONCE: Final = 1_000
"""Before it is looked whether they fill a frame."""
_ANSWER_COST: Final = 1_000
_ROW_COST: Final = 400
_REPORT_COST: Final = 100_000
"""What an answer counts for besides its values, in bytes: the time that it takes to make it is meant as well."""


class Waiter(Protocol):
    """Whoever gets an answer."""

    def answer(self, answer: Answer, /) -> None: ...


class Patient(ABC):
    """A waiter that hears what became of an entry however long that takes, and never that time is up.

    For whoever goes on from there: an entry that is committed later than anybody would wait is committed all the same.
    """

    @abstractmethod
    def answer(self, answer: Answer, /) -> None: ...


Reading: TypeAlias = client.Request
"""A request whose answer is made of what the node holds."""


class Reader(Waiter, Protocol):
    """Whoever reads."""

    def read(self, look: Callable[[Reading], Answer], request: Reading, /) -> None:
        """Answer with what ``look`` finds."""
        ...


class Port:
    """The answers to one client, gathered for one frame a turn.

    An answer to a read may be a hundred thousand times as large as the request. So a read waits here, as a request,
    while the client does not take what it has got, or has got much in this turn: what is held for one client is
    bounded by what its socket holds and one frame.
    """

    def __init__(self, flow: Flow, rights: Rights, certificate: bytes | None, bounds: ClientBounds) -> None:
        """``certificate``: what the client has shown; None for the operator of this machine."""
        self.rights: Final = rights
        self.certificate: Final = certificate
        self.in_flight = 0
        self._flow: Final = flow
        self._bounds: Final = bounds
        self._loop: Final = asyncio.get_running_loop()
        self._answers: list[Answer] = []
        self._bytes = 0
        self._has_much = False
        """A frame was filled in this turn."""
        self._reads: Final[deque[tuple[Callable[[Reading], Answer], Reading]]] = deque()
        self._serving: asyncio.Task[None] | None = None
        """Waits for room, for everybody here: a flow bears one that waits."""
        self._room: Final = asyncio.Event()
        self._left: Callable[[], None] | None = None

    @property
    def is_leaving(self) -> bool:
        """Whether the client may ask for nothing more."""
        return self._left is not None

    def leave(self, left: Callable[[], None]) -> None:
        """Take no more; ``left`` is called when everything that was asked for is answered."""
        if self._left is None:
            self._left = left
            if not self.in_flight:
                left()

    def read(self, look: Callable[[Reading], Answer], request: Reading) -> None:
        """Answer with what ``look`` finds, as soon as there is room for it."""
        if self._reads or self._has_much or self._flow.is_full:
            self._reads.append((look, request))
            self._serve_soon()
        else:
            self.answer(look(request))

    def answer(self, answer: Answer) -> None:
        answers = self._answers
        if not answers:
            self._loop.call_soon(self._end_turn)
        answers.append(answer)
        kind = type(answer)
        if kind is not Done:
            self._bytes += _cost(answer)
        self._flush_full()

    def end_all(self, ended: Sequence[ChainEnded]) -> None:
        """Say of many transactions how they ended."""
        for at in range(0, len(ended), _ENDED_AT_ONCE):
            some = ended[at : at + _ENDED_AT_ONCE]
            if not self._answers:
                self._loop.call_soon(self._end_turn)
            self._answers.extend(some)
            self._bytes += _ANSWER_COST * len(some)
            self._flush_full()

    def _flush_full(self) -> None:
        if len(self._answers) >= _ANSWERS_MAX or self._bytes >= ANSWER_BYTES_MAX:
            self._has_much = True
            self._flush()
        elif len(self._answers) == self.in_flight:
            # Nothing else is under way that could share the frame.
            self._flush()

    async def room(self) -> None:
        """Wait while the client has enough to wait for, or does not read."""
        while self.in_flight >= self._bounds.in_flight_max or self._reads or self._is_stuck:
            self._serve_soon()
            self._room.clear()
            await self._room.wait()

    def close(self) -> None:
        """The client has gone."""
        self._reads.clear()
        if self._serving is not None:
            self._serving.cancel()

    @property
    def _is_stuck(self) -> bool:
        return self._flow.is_full and not self._flow.is_over

    def _serve_soon(self) -> None:
        if self._serving is None and (self._reads or self._is_stuck):
            self._serving = self._loop.create_task(self._serve())

    async def _serve(self) -> None:
        """Answer the reads that wait, a frame a turn, while the client takes them."""
        try:
            while True:
                await self._flow.room()
                while self._reads and not self._has_much and not self._flow.is_full:
                    look, request = self._reads.popleft()
                    self.answer(look(request))
                if not self._reads and not self._flow.is_full:
                    return
                await asyncio.sleep(0)
        except TransportError:
            self.in_flight -= len(self._reads)
            self._reads.clear()
        finally:
            self._serving = None
            self._room.set()

    def _end_turn(self) -> None:
        self._has_much = False
        self._flush()

    def _flush(self) -> None:
        answers = self._answers
        if not answers:
            return
        self._answers, self._bytes = [], 0
        self.in_flight -= len(answers)
        self._room.set()
        with suppress(TransportError):  # it has gone; whatever it asked for goes on
            self._flow.put(frame(client.encode_answers(answers)))
        if self._left is not None and not self.in_flight:
            self._left()


def _cost(answer: Answer) -> int:
    """How much an answer is, roughly, in bytes."""
    if isinstance(answer, Value):
        return _ANSWER_COST + len(answer.value or b"")
    if isinstance(answer, ChainItems):
        return _ANSWER_COST + sum(_ROW_COST + len(item.value or b"") for item in answer.items)
    if isinstance(answer, ChainPage | ChainChanges):
        return ANSWER_BYTES_MAX  # made as large as that, and alone in its frame
    if isinstance(answer, Rows):
        return _ANSWER_COST + sum(_ROW_COST + len(row.key) + len(row.value) for row in answer.rows)
    return _REPORT_COST if isinstance(answer, client.Report) else _ANSWER_COST
