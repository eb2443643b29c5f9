"""Reading a log from its files, and what there is to say about them.

The file with the highest number names the one it goes on from, and so back to one that needs none before it. Each is
read up to where its successor says that it counts; only the last one may have a torn tail. Headers repeat what held
when their files were begun, and must agree with what the records before them add up to.
"""

from enum import Enum

from msgspec import Struct

from bobbin.cluster.names import NodeId
from bobbin.cluster.raft.effects import DurableRecord
from bobbin.errors import IntegrityError, UsageError
from bobbin.store.wal.files import Files
from bobbin.store.wal.image import Held, LogImage
from bobbin.store.wal.segment import Segment, segment_name, segment_numbers
from bobbin.wire.cluster.durable import Header, SealedFile


class NoticeCode(Enum):
    """What was found at open that a person should know, and that is no error."""

    TORN_TAIL = "torn-tail"
    """The last write before a crash was not finished. It was never acknowledged."""
    DAMAGED_SNAPSHOT = "damaged-snapshot"
    """A snapshot is not what its metadata says. It is ignored."""
    MISSING_SNAPSHOT = "missing-snapshot"
    LOST_LOG = "lost-log"
    """Entries went with a damaged snapshot; the node catches up from its peers."""
    UNFINISHED_CUT = "unfinished-cut"
    """A snapshot was durable and the log not yet cut. The log stands on it now."""


class Notice(Struct, frozen=True):
    """A finding, and where."""

    code: NoticeCode
    detail: str


class Reading:
    """What the files of a log hold, and how to go on from them."""

    def __init__(self) -> None:
        self.image = LogImage()
        self.before_tail: Held = self.image.held()
        """What held before the last group of the last file."""
        self.tail: list[bytes] = []
        """The last group, which may not be durable, or none."""
        self.sealed: SealedFile | None = None
        """The last file, up to the tail."""
        self.chain: list[int] = []
        """The files that were read, in order."""
        self.size = 0
        """Bytes in them that count."""
        self.next_number = 1
        self.boot = 1
        """Which opening of the log this is."""
        self.notices: list[Notice] = []


def read_log(files: Files, *, node: NodeId, cluster: bytes) -> Reading:
    """Read everything. ``UsageError`` for a log of another node or cluster, ``IntegrityError`` for a damaged one."""
    reading = Reading()
    numbers = segment_numbers(files.names())
    if not numbers:
        return reading
    reading.next_number = numbers[-1] + 1
    steps = _chain(files, numbers, node, cluster)
    reading.boot = steps[-1][1].boot + 1
    for (number, header), following in zip(steps, [*steps[1:], None], strict=True):
        reading.chain.append(number)
        if header.previous is None:
            _begin(reading.image, header)
        elif _held(header) != reading.image.held():
            raise IntegrityError(
                f"{segment_name(number)} is damaged at offset 0: its header says another state than the files before it"
            )
        with Segment(files, number) as segment:
            if following is None:
                _read_last(reading, segment)
                continue
            previous = following[1].previous
            assert previous is not None
            reading.size += previous.size
            for offset, _, records in segment.groups(previous.size):
                _replay(reading.image, records, segment.name, offset)
    return reading


def _chain(files: Files, numbers: list[int], node: NodeId, cluster: bytes) -> list[tuple[int, Header]]:
    """The files to read, the oldest first, with their headers."""
    known = set(numbers)
    number = numbers[-1]
    chain: list[tuple[int, Header]] = []
    while True:
        with Segment(files, number) as segment:
            header = segment.header
        if header.node != node:
            raise UsageError(f"{segment.name} is of node {header.node}, not of {node}")
        if header.cluster != cluster:
            raise UsageError(
                f"{segment.name} is of cluster {header.cluster.hex() or '(none)'}, not of {cluster.hex() or '(none)'}"
            )
        chain.append((number, header))
        if header.previous is None:
            return chain[::-1]
        if header.previous.number not in known or header.previous.number >= number:
            raise IntegrityError(
                f"{segment_name(header.previous.number)}, from which {segment.name} goes on, is missing"
            )
        number = header.previous.number


def _begin(image: LogImage, header: Header) -> None:
    """A file that needs none before it says where the log begins."""
    image.term, image.voted_for = header.term, header.voted_for
    image.snapshot, image.lost = header.snapshot, header.lost
    image.first_index = header.first_index
    if header.last_index != header.first_index - 1:
        raise IntegrityError(
            f"{segment_name(header.number)} is damaged at offset 0: it needs entries and names no file that has them"
        )


def _read_last(reading: Reading, segment: Segment) -> None:
    """The last file: its last group is kept apart, since it may not be durable, and its tail may be torn."""
    image = reading.image
    end = segment.start
    tail: tuple[int, int, list[DurableRecord]] | None = None
    for start, following, records in segment.groups():
        if tail is not None:
            _replay(image, tail[2], segment.name, tail[0])
        tail = start, following, records
        end = following
    if tail is not None and tail[0] < segment.filled_end:
        _replay(image, tail[2], segment.name, tail[0])
        tail = None
    reading.before_tail = image.held()
    reading.sealed = SealedFile(segment.header.number, end if tail is None else tail[0])
    reading.size += end
    if tail is not None:
        reading.tail = [segment.body_between(tail[0], tail[1])]
        _replay(image, tail[2], segment.name, tail[0])
    if end < segment.size:
        torn = f"{segment.name}: {segment.size - end} bytes behind offset {end} were not written whole"
        reading.notices.append(Notice(NoticeCode.TORN_TAIL, torn))


def _replay(image: LogImage, records: list[DurableRecord], name: str, offset: int) -> None:
    for record in records:
        try:
            image.replay(record)
        except IntegrityError as error:
            raise IntegrityError(f"{name} is damaged at offset {offset}: {error}") from error


def _held(header: Header) -> Held:
    return Held(
        term=header.term,
        voted_for=header.voted_for,
        snapshot=header.snapshot,
        first_index=header.first_index,
        last_index=header.last_index,
        lost=header.lost,
    )
