"""Having commands of a replicated lace committed, and waiting until they are done here.

A command goes to whoever leads, by the client of the cluster, as often as it takes: its token lets it be done once. It
is over when the store of this node has done it, for then a quorum has it on disk. So whoever gets an answer can read
here what it has written.

Commands go in the order in which they came, as many at once as the cluster takes without delay. They are committed in
that order too, unless one of them has to be sent again.

What can go wrong has a name. ``OutcomeUnknown``: time is up, and whether it was done, or will be, is not known.
``NotTaken``: nothing was done. ``NotHereYet``: it was done, and the store of this node lags behind.
"""

import asyncio
import secrets
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from bobbin.cluster.names import Index, NodeId
from bobbin.errors import ResourceError, UsageError
from bobbin.runtime import replicated_commands as wire
from bobbin.runtime.cluster_client import ClusterClient, NotAccepted, OutcomeUnknown
from bobbin.runtime.coming import Coming
from bobbin.runtime.replicated_commands import TOKEN_BYTES, Answer, Answered, NotDone
from bobbin.runtime.send_window import SendWindow
from bobbin.store.sqlite.store import SqliteStore
from bobbin.transport.base import TransportError

SECONDS: Final = 20.0
"""For a command that is committed, until it is done here."""
UNDER_WAY_BYTES_MIN: Final = 2 * 1024 * 1024
UNDER_WAY_BYTES_MAX: Final = 16 * 1024 * 1024
"""Of commands that were sent and are not done here: what always may be, and what never is exceeded by many."""
_POLL_SECONDS: Final = (0.001, 0.004)
"""Between two looks at a store that another process writes: at first, and after a while without news."""
T = TypeVar("T")


class NotHereYet(ResourceError):
    """It is committed and will not be lost; the store of this node has not got so far in time."""

    def __init__(self) -> None:
        super().__init__(
            "it is committed, and the store of this node does not have it yet: it will, when the node runs and has "
            "caught up with the others",
            retry=True,
        )


class NotTaken(ResourceError):
    """Nobody who leads could be reached in time, or nobody leads. Nothing was done, or not all."""

    def __init__(self, why: str, *, is_part: bool = False) -> None:
        taken = "taken a part of this and no more" if is_part else "not taken this"
        super().__init__(f"the replicated lace has {taken}, since {why}", retry=True)
        self.why: Final = why


class NoNodeHere(ResourceError):
    """A replicated lace is written through the node that runs in its folder, and none does."""

    def __init__(self, folder: Path) -> None:
        super().__init__(
            f"the lace in {folder} is replicated and is written through its node, which does not run; "
            f"`bobbin serve {folder}` starts it",
            retry=True,
        )


class Here(Protocol):
    """The store of this node, as far as it tells what it has done."""

    def expect(self, token: bytes) -> "Future[bytes]":
        """The answer to a command, once it is done here. ``forget`` it in the end."""
        ...

    def forget(self, token: bytes) -> None: ...


class Client(Protocol):
    """The client of the cluster."""

    async def propose(self, command: bytes) -> Index: ...

    async def settle(self, node: NodeId) -> None: ...

    async def close(self) -> None: ...


def new_token() -> bytes:
    """What lets a command be known again."""
    return secrets.token_bytes(TOKEN_BYTES)


class Proposing:
    """Proposes commands from any thread but that of its event loop."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, client: Client, here: Here, node: NodeId, *, seconds: float = SECONDS
    ) -> None:
        """``node``: whose store is ``here``."""
        self._loop: Final = loop
        self._client: Final = client
        self._here: Final = here
        self._node: Final = node
        self._seconds: Final = seconds
        self._window: Final = SendWindow(bytes_min=UNDER_WAY_BYTES_MIN, bytes_max=UNDER_WAY_BYTES_MAX)

    def begin(self, commands: Sequence[Answered]) -> Coming[list[Answer]]:
        """Have commands done, in this order as far as nothing goes wrong. What is returned waits until that is so here.

        Those of other calls come after these. After a failure no more of these are sent. What it raises says that
        nothing was done where that is so of each of them; that nobody knows, where nobody knows of one of them.
        """
        series = _Series()
        return Coming(self._begin(self._propose_all(commands, series)).result, series.end)

    def settle(self) -> None:
        """Wait until the store of this node holds all that is committed by now: what is read then is linearizable."""
        self._begin(self._client.settle(self._node)).result()

    def _begin(self, work: "Coroutine[Any, Any, T]") -> "Future[T]":
        if self._loop.is_closed():
            work.close()
            raise ResourceError("the node has stopped", retry=True)
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def _propose_all(self, commands: Sequence[Answered], series: "_Series") -> list[Answer]:
        turns = [self._propose_in_turn(command, series) for command in commands]
        outcomes = await asyncio.gather(*turns, return_exceptions=True)
        failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        if failures:
            raise _worst_of(failures, is_part=len(failures) < len(outcomes))
        return [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]

    async def _propose_in_turn(self, command: Answered, series: "_Series") -> Answer:
        raw = wire.encode(command)
        await self._window.enter(len(raw))
        if series.has_ended:
            self._window.leave(len(raw))
            raise NotTaken("what came before it was given up")
        began = self._loop.time()
        try:
            answer = await self._propose(command.token, raw)
        except BaseException:
            series.end()
            self._window.fail(len(raw))
            raise
        self._window.leave(len(raw), self._loop.time() - began)
        if isinstance(answer, NotDone):
            series.end()
            raise UsageError(f"the lace refuses this: {answer.why}")
        return answer

    async def _propose(self, token: bytes, raw: bytes) -> Answer:
        here = self._here.expect(token)
        done = asyncio.wrap_future(here)
        sent = asyncio.ensure_future(self._client.propose(raw))
        done.add_done_callback(lambda _: sent.cancel())  # what is done here needs no word of anybody
        try:
            try:
                await sent  # raises ``OutcomeUnknown`` where nobody knows
            except asyncio.CancelledError:
                if not here.done():
                    raise
            except OutcomeUnknown:
                if not here.done():
                    raise
            except (NotAccepted, TransportError) as error:
                if not here.done():
                    raise NotTaken(f"no majority of its nodes answers: {error}") from error
            try:
                async with asyncio.timeout(self._seconds):
                    answer = wire.decode_answer(await done)
            except TimeoutError:
                raise NotHereYet from None
        finally:
            self._here.forget(token)
            done.cancel()
            sent.cancel()
        return answer


def _worst_of(failures: Sequence[BaseException], *, is_part: bool) -> BaseException:
    """What to say of several commands of one call: of what is not known first, then of the first one."""
    for one in failures:
        if isinstance(one, OutcomeUnknown):
            return one
    first = failures[0]
    is_part = is_part or not all(isinstance(one, NotTaken) for one in failures)
    return NotTaken(first.why, is_part=True) if isinstance(first, NotTaken) and is_part else first


class _Series:
    """Commands of one call."""

    def __init__(self) -> None:
        self.has_ended = False

    def end(self) -> None:
        """Send no more of them."""
        self.has_ended = True


class PolledStore:
    """The store of a node that another process runs: looked at again and again while somebody waits."""

    def __init__(self, store: SqliteStore) -> None:
        """Used in the event loop alone."""
        self._store: Final = store
        self._expected: Final[dict[bytes, Future[bytes]]] = {}
        self._looking: asyncio.Task[None] | None = None

    def expect(self, token: bytes) -> "Future[bytes]":
        future: Future[bytes] = Future()
        self._expected[token] = future
        if self._looking is None or self._looking.done():
            self._looking = asyncio.get_running_loop().create_task(self._look())
        return future

    def forget(self, token: bytes) -> None:
        self._expected.pop(token, None)

    async def close(self) -> None:
        """Look no more, and let go of the store."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
        self._store.close()

    async def _look(self) -> None:
        pause, longest = _POLL_SECONDS
        while self._expected:
            if self._store.changed_elsewhere():
                pause = _POLL_SECONDS[0]
                for token, future in list(self._expected.items()):
                    answer = self._store.replica.answer(token)
                    if answer is not None and not future.done():
                        future.set_result(answer)
            await asyncio.sleep(pause)
            pause = min(2 * pause, longest)


class DistantNode:
    """Proposes through the node that another process runs in a folder. Begun when the first command is proposed.

    An event loop in a thread of its own has the channel to that node; what it has done is read from the store.
    """

    def __init__(
        self, folder: Path, connect: Callable[[], tuple[ClusterClient, NodeId]], open_store: Callable[[], SqliteStore]
    ) -> None:
        """``connect`` and ``open_store`` are called in the event loop; the first raises where no node runs."""
        self._folder: Final = folder
        self._connect: Final = connect
        self._open_store: Final = open_store
        self._lock: Final = threading.Lock()
        self._begun: tuple[Proposing, ClusterClient, PolledStore] | None = None
        self._is_closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def begin(self, commands: Sequence[Answered]) -> Coming[list[Answer]]:
        """As ``Proposing`` does."""
        return self._begin().begin(commands)

    def settle(self) -> None:
        """As ``Proposing`` does."""
        self._begin().settle()

    def close(self) -> None:
        """Let go of the channel and the thread. What nobody waits for any more is dropped; it may be done or not."""
        with self._lock:
            self._is_closed = True
            loop, thread, begun = self._loop, self._thread, self._begun
            self._loop = self._thread = self._begun = None
        if loop is None or thread is None:
            return
        if begun is not None:
            for one in begun[1:]:
                asyncio.run_coroutine_threadsafe(one.close(), loop).result()
        asyncio.run_coroutine_threadsafe(_end_all(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()

    def _begin(self) -> Proposing:
        with self._lock:
            if self._is_closed:
                raise UsageError("this store is closed")
            if self._begun is None:
                if self._loop is None:
                    self._loop = asyncio.new_event_loop()
                    self._thread = threading.Thread(target=self._loop.run_forever, name="bobbin-distant", daemon=True)
                    self._thread.start()
                self._begun = asyncio.run_coroutine_threadsafe(self._open(self._loop), self._loop).result()
            return self._begun[0]

    async def _open(self, loop: asyncio.AbstractEventLoop) -> tuple[Proposing, ClusterClient, PolledStore]:
        client, node = self._connect()
        try:
            await client.status(node)
        except TransportError as error:
            await client.close()
            raise NoNodeHere(self._folder) from error
        store = PolledStore(self._open_store())
        return Proposing(loop, client, store, node), client, store


async def _end_all() -> None:
    """End everything else in this loop."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
