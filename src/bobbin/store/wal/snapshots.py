"""Snapshots of the state machine, each in a file of its own: the stream, then a footer with its metadata.

A file appears whole or not at all, and is never changed. At open its hash is compared with its metadata; one that does
not match is passed over, with a notice, and none of its bytes are given to anybody. The file name repeats place and
epoch, so that the newest is found without reading the others.
"""

import re
from collections.abc import Iterable, Iterator
from hashlib import sha256
from struct import Struct as Layout
from typing import Final, NamedTuple

from msgspec.structs import replace

from bobbin.cluster.raft.entries import SnapshotMetadata
from bobbin.errors import IntegrityError, UsageError
from bobbin.store.wal.faults import translated
from bobbin.store.wal.files import Files, Reader
from bobbin.store.wal.reading import Notice, NoticeCode
from bobbin.store.wal.record import HEAD, PAYLOAD_BYTES_MAX, frame, payload_at
from bobbin.store.wal.replacing import remove_quietly
from bobbin.store.wal.spool import Spool
from bobbin.wire.cluster.durable import VERSION, SnapshotFooter, decode_footer, encode_whole

_NAME: Final = re.compile(r"snapshot-(\d{20})-(\d{20})")
_LENGTH: Final = Layout("<I")
_READ_BYTES: Final = 1_048_576


class SnapshotReader:
    """A snapshot that is being read. It stays readable when a newer one has taken its place."""

    def __init__(self, metadata: SnapshotMetadata, reader: Reader) -> None:
        self.metadata: Final = metadata
        self._reader: Final = reader

    def read(self, offset: int, size: int) -> bytes:
        """So many bytes of the stream from there, fewer where it ends."""
        with translated("reading a snapshot"):
            return self._reader.read(offset, max(min(size, self.metadata.size - offset), 0))

    def chunks(self) -> Iterator[bytes]:
        """The whole stream, in pieces."""
        for offset in range(0, self.metadata.size, _READ_BYTES):
            yield self.read(offset, _READ_BYTES)

    def close(self) -> None:
        """Give the file back."""
        self._reader.close()


class _Place(NamedTuple):
    """By which snapshots are ordered: what they stand in for, and which compaction made them."""

    last_index: int
    epoch: int


class Snapshots:
    """The snapshots in a folder. One may be written while another thread reads, or writes the log."""

    def __init__(self, files: Files, *, cluster: bytes, memory_max: int, free_bytes_min: int) -> None:
        if memory_max < 0:
            raise UsageError("the memory for a snapshot must not be negative")
        self._files: Final = files
        self._cluster: Final = cluster
        self._memory_max: Final = memory_max
        self._free_bytes_min: Final = free_bytes_min
        self._durable: dict[_Place, SnapshotMetadata] = {}
        """Those whose hash was compared, here or when they were written."""
        self._spools = 0
        self._fetch: tuple[SnapshotMetadata, Spool] | None = None

    def newest(self, notices: list[Notice]) -> SnapshotMetadata | None:
        """The newest whole one. Newer ones that are damaged are passed over, with a notice."""
        with translated("listing snapshots"):
            places = sorted(_places(self._files.names()), reverse=True)
        for place in places:
            try:
                metadata = self._verified(place)
            except IntegrityError as error:
                notices.append(Notice(NoticeCode.DAMAGED_SNAPSHOT, f"{_name(place)} is ignored: {error}"))
                continue
            self._durable[place] = metadata
            return metadata
        return None

    def is_there(self, metadata: SnapshotMetadata) -> bool:
        """Whether there is a file of this snapshot, whole or not."""
        with translated("listing snapshots"):
            return _name(_place(metadata)) in self._files.names()

    def is_durable(self, metadata: SnapshotMetadata) -> bool:
        """Whether this very snapshot is there, whole."""
        return self._durable.get(_place(metadata)) == metadata

    def write(self, chunks: Iterable[bytes], metadata: SnapshotMetadata) -> SnapshotMetadata:
        """Make a snapshot durable. Hash and size are found on the way; a hash that was given must be right."""
        spool = self._spool()
        try:
            for chunk in chunks:
                spool.write(chunk)
            found = replace(metadata, sha256=spool.digest(), size=spool.size)
            if metadata.sha256 and (metadata.sha256, metadata.size) != (found.sha256, found.size):
                raise IntegrityError("the bytes of a snapshot are not those that its metadata name")
            self._keep(spool, found)
        finally:
            spool.drop()
        return found

    def open(self, sha256: bytes | None = None) -> SnapshotReader | None:
        """The snapshot with this hash, or the newest; None when it is gone."""
        found = [
            (place, each) for place, each in list(self._durable.items()) if sha256 is None or each.sha256 == sha256
        ]
        if not found:
            return None
        place, metadata = max(found)
        with translated("opening a snapshot"):
            try:
                return SnapshotReader(metadata, self._files.open(_name(place)))
            except FileNotFoundError:
                return None

    def begin_fetch(self, metadata: SnapshotMetadata) -> None:
        """Whatever was fetched is forgotten; bytes of this snapshot are about to come."""
        self.drop_fetch()
        self._fetch = metadata, self._spool()

    def write_chunk(self, offset: int, data: bytes) -> None:
        """Bytes of the snapshot that is being fetched. They begin where those before them ended, or anew at 0."""
        if self._fetch is None:
            raise UsageError("no snapshot is being fetched")
        metadata, spool = self._fetch
        if offset == 0 and spool.size:
            self.begin_fetch(metadata)
            metadata, spool = self._fetch
        if offset != spool.size or offset + len(data) > metadata.size:
            raise UsageError(
                f"{len(data)} bytes at {offset} do not follow the {spool.size} that are held of {metadata.size}"
            )
        try:
            spool.write(data)
        except BaseException:
            self._fetch = None
            raise

    @property
    def fetched(self) -> int:
        """Bytes that are held of the snapshot that is being fetched."""
        return 0 if self._fetch is None else self._fetch[1].size

    def finish_fetch(self, metadata: SnapshotMetadata) -> None:
        """All bytes are there: compare the hash and make it durable. ``IntegrityError`` forgets them."""
        if self._fetch is None or self._fetch[0] != metadata:
            raise UsageError("this snapshot is not being fetched")
        spool = self._fetch[1]
        self._fetch = None
        try:
            if (spool.size, spool.digest()) != (metadata.size, metadata.sha256):
                raise IntegrityError("the bytes of a fetched snapshot are not those that were offered")
            self._keep(spool, metadata)
        finally:
            spool.drop()

    def drop_fetch(self) -> None:
        """Forget what was fetched."""
        if self._fetch is not None:
            self._fetch[1].drop()
            self._fetch = None

    def remove_older(self, metadata: SnapshotMetadata) -> None:
        """The log stands on this one: those before it are needless."""
        with translated("listing snapshots"):
            places = _places(self._files.names())
        for place in places:
            if place < _place(metadata):
                self._durable.pop(place, None)
                remove_quietly(self._files, _name(place))

    def _spool(self) -> Spool:
        self._spools += 1
        return Spool(
            self._files,
            f"fetching-{self._spools}",
            memory_max=self._memory_max,
            free_bytes_min=self._free_bytes_min,
        )

    def _keep(self, spool: Spool, metadata: SnapshotMetadata) -> None:
        footer = frame(encode_whole(SnapshotFooter(version=VERSION, cluster=self._cluster, metadata=metadata)))
        place = _place(metadata)
        # Until it is there again, nobody may rest on a file that is being replaced.
        self._durable.pop(place, None)
        spool.keep(_name(place), footer + _LENGTH.pack(len(footer)))
        self._durable[place] = metadata

    def _verified(self, place: _Place) -> SnapshotMetadata:
        """Read a snapshot and compare it with its metadata. ``IntegrityError`` says what does not fit."""
        with translated("reading a snapshot"):
            reader = self._files.open(_name(place))
            try:
                metadata = self._metadata(reader)
                if _place(metadata) != place:
                    raise IntegrityError("its metadata are of another place")
                found = sha256()
                for offset in range(0, metadata.size, _READ_BYTES):
                    found.update(reader.read(offset, min(_READ_BYTES, metadata.size - offset)))
            finally:
                reader.close()
        if found.digest() != metadata.sha256:
            raise IntegrityError("its SHA-256 is not the one in its metadata")
        return metadata

    def _metadata(self, reader: Reader) -> SnapshotMetadata:
        end = reader.size() - _LENGTH.size
        tail = reader.read(max(end, 0), _LENGTH.size)
        length = _LENGTH.unpack(tail)[0] if len(tail) == _LENGTH.size else 0
        if not HEAD.size < length <= min(HEAD.size + PAYLOAD_BYTES_MAX, end):
            raise IntegrityError("it has no footer")
        payload = payload_at(reader.read(end - length, length), 0)
        if payload is None or HEAD.size + len(payload) != length:
            raise IntegrityError("its footer is broken")
        footer = decode_footer(payload)
        if footer.cluster != self._cluster:
            raise IntegrityError("it is of another cluster")
        if footer.metadata.size != end - length:
            raise IntegrityError("its size is not the one in its metadata")
        return footer.metadata


def snapshot_names(names: list[str]) -> list[str]:
    """Of the snapshots among these."""
    return [name for name in names if _NAME.fullmatch(name)]


def _places(names: list[str]) -> list[_Place]:
    return [_Place(int(match[1]), int(match[2])) for name in names if (match := _NAME.fullmatch(name))]


def _place(metadata: SnapshotMetadata) -> _Place:
    return _Place(metadata.last_index, metadata.epoch)


def _name(place: _Place) -> str:
    return f"snapshot-{place.last_index:020d}-{place.epoch:020d}"
