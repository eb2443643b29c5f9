"""Snapshots of a running node: taken, read for others, fetched from others and installed, in a thread of their own.

The state is captured in the event loop, where it cannot change meanwhile, and written down in the thread while writes
go on. What was fetched is read into new machines in the thread, which take the place of the old ones in the event loop.

What fails is told to the machine, which goes on without. Anything that is raised beyond that is a fault of this
program, or memory has run out: the machine would wait for an answer for ever, so the node hears of it instead.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import time
from typing import Final, Protocol, TypeVar

from bobbin.cluster.composite import Composite
from bobbin.cluster.key_value import KeyValue
from bobbin.cluster.names import Index
from bobbin.cluster.raft.effects import DropChunks, InstallSnapshot, ReadSnapshot, StoreChunk, TakeSnapshot
from bobbin.cluster.raft.entries import SnapshotMetadata
from bobbin.cluster.raft.events import (
    Event,
    SnapshotBytes,
    SnapshotFailed,
    SnapshotInstalled,
    SnapshotRefused,
    SnapshotTaken,
)
from bobbin.cluster.state_machine import Capture
from bobbin.errors import BobbinError, IntegrityError, ResourceError
from bobbin.runtime.cluster_state import State
from bobbin.store.wal.snapshots import SnapshotReader
from bobbin.wire.cluster import snapshot_stream

READERS_MAX: Final = 2
"""Snapshots that are open for followers at a time."""

T = TypeVar("T")


class SnapshotStorage(Protocol):
    """Where snapshots rest; used in the thread only."""

    def write_snapshot(self, chunks: Iterable[bytes], metadata: SnapshotMetadata) -> SnapshotMetadata: ...
    def open_snapshot(self, sha256: bytes | None = None) -> SnapshotReader | None: ...
    def begin_fetch(self, metadata: SnapshotMetadata) -> None: ...
    def write_chunk(self, offset: int, data: bytes) -> None: ...
    def finish_fetch(self, metadata: SnapshotMetadata) -> None: ...
    def drop_fetch(self) -> None: ...


class SnapshotWork:
    """Does what a raft machine wants done with snapshots."""

    def __init__(
        self,
        storage: SnapshotStorage,
        state: State,
        *,
        post: Callable[[Callable[[], object]], object],
        feed: Callable[[Event], None],
        skipped: Callable[[Index], None],
        broke: Callable[[BaseException], object],
    ) -> None:
        """``post`` has something called in the event loop; ``skipped`` hears what an installed snapshot stands for.

        ``broke`` hears, in the event loop, of what nobody has foreseen.
        """
        self._storage: Final = storage
        self._state: Final = state
        self._post: Final = post
        self._feed: Final = feed
        self._skipped: Final = skipped
        self._broke: Final = broke
        self._thread: Final = ThreadPoolExecutor(1, "cluster-snapshot")
        self._readers: Final[OrderedDict[bytes, SnapshotReader]] = OrderedDict()
        """By hash. One stays open when a newer snapshot has taken its place, so that a transfer can go on."""
        self.is_closed = False

    def close(self) -> None:
        """Finish what was begun. Waits for it."""
        self.is_closed = True
        self._thread.shutdown()
        for reader in self._readers.values():
            reader.close()

    def read_machines(self, metadata: SnapshotMetadata) -> Composite[KeyValue]:
        """The state that a durable snapshot holds. For any thread but that of the event loop."""
        reader = self._storage.open_snapshot(metadata.sha256)
        if reader is None:
            raise IntegrityError(f"the snapshot up to {metadata.last_index} is not there any more")
        try:
            return self._state.build(snapshot_stream.decode(reader.chunks()), metadata.last_index)
        finally:
            reader.close()

    # ---- what the machine wants -------------------------------------------------------------------------------------

    def take(self, effect: TakeSnapshot) -> None:
        """Write down the state as it is now."""
        if effect.index != self._state.index:
            self._feed(SnapshotFailed(f"the state is at {self._state.index}, not at {effect.index}"))
            return
        if not self._state.machines.is_at(effect.index):
            self._feed(SnapshotFailed(f"a machine is ahead of {effect.index}, until the log has been applied again"))
            return
        metadata = SnapshotMetadata(
            last_index=effect.index,
            last_term=effect.term,
            sha256=b"",
            size=0,
            configuration=effect.configuration,
            created_s=int(time()),
            epoch=effect.epoch,
        )
        self._do(partial(self._write, self._state.machines.snapshot(effect.index), metadata), self._taken)

    def read(self, effect: ReadSnapshot) -> None:
        """Read some bytes for a follower."""
        self._do(partial(self._read, effect), partial(self._have_read, effect))

    def store(self, effect: StoreChunk) -> None:
        """Keep some bytes. What goes wrong here is found when the whole is to be installed."""
        self._do(partial(self._store, effect), _ignore)

    def drop(self, _: DropChunks) -> None:
        """Forget what was fetched."""
        self._do(self._storage.drop_fetch, _ignore)

    def install(self, effect: InstallSnapshot) -> None:
        """Make a fetched snapshot the state of this node."""
        self._do(partial(self._fetch, effect.metadata), partial(self._install, effect.metadata))

    # ---- in the thread ----------------------------------------------------------------------------------------------

    def _do(self, work: Callable[[], T], done: Callable[[T | BobbinError], None]) -> None:
        def run() -> None:
            outcome: T | BobbinError
            try:
                outcome = work()
            except BobbinError as error:
                outcome = error
            except OSError as error:
                outcome = ResourceError(f"the disk failed: {error.strerror or error}", retry=True)
            except BaseException as error:  # noqa: BLE001 -- the executor would keep it to itself
                self._post(partial(self._broke, error))
                return
            if not self.is_closed:
                self._post(partial(self._tell, done, outcome))

        if not self.is_closed:
            self._thread.submit(run)

    def _write(self, capture: Capture, metadata: SnapshotMetadata) -> SnapshotMetadata:
        return self._storage.write_snapshot(snapshot_stream.encode(capture), metadata)

    def _read(self, effect: ReadSnapshot) -> bytes | None:
        reader = self._readers.get(effect.sha256)
        if reader is None:
            reader = self._storage.open_snapshot(effect.sha256)
            if reader is None:
                return None
            self._readers[effect.sha256] = reader
        self._readers.move_to_end(effect.sha256)
        while len(self._readers) > READERS_MAX:
            self._readers.popitem(last=False)[1].close()
        return reader.read(effect.offset, effect.size)

    def _store(self, effect: StoreChunk) -> None:
        if effect.offset == 0:
            self._storage.begin_fetch(effect.metadata)
        self._storage.write_chunk(effect.offset, effect.data)

    def _fetch(self, metadata: SnapshotMetadata) -> Composite[KeyValue]:
        self._storage.finish_fetch(metadata)
        return self.read_machines(metadata)

    # ---- in the event loop ------------------------------------------------------------------------------------------

    def _tell(self, done: Callable[[T | BobbinError], None], outcome: T | BobbinError) -> None:
        try:
            done(outcome)
        except Exception as error:  # noqa: BLE001 -- the event loop would log it and go on
            self._broke(error)

    def _taken(self, outcome: SnapshotMetadata | BobbinError) -> None:
        if isinstance(outcome, BobbinError):
            self._feed(SnapshotFailed(str(outcome)))
        else:
            self._feed(SnapshotTaken(outcome))

    def _have_read(self, effect: ReadSnapshot, outcome: bytes | BobbinError | None) -> None:
        data = None if isinstance(outcome, BobbinError) else outcome
        self._feed(SnapshotBytes(effect.to, effect.sha256, effect.offset, data))

    def _install(self, metadata: SnapshotMetadata, outcome: Composite[KeyValue] | BobbinError) -> None:
        if isinstance(outcome, BobbinError):
            self._feed(SnapshotRefused(metadata, str(outcome)))
            return
        self._state.restore(outcome, metadata.last_index)
        self._skipped(metadata.last_index)
        self._feed(SnapshotInstalled(metadata))


def _ignore(_: object) -> None:
    """Nobody waits for it."""
