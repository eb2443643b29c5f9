"""A process that writes to a storage and says what is durable, until somebody kills it.

Called with a folder and a seed. Each line on standard output is the last index that a sync has returned for, and the
vote that came with it; a line is written when the sync is done, and only then.
"""

import os
import sys
from pathlib import Path
from random import Random

from bobbin.cluster.names import Index
from bobbin.cluster.raft.effects import Append, Cut, DurableRecord
from bobbin.store.raft_storage import RaftStorage
from bobbin.store.wal.files import RealFiles
from tests.support.log_records import CLUSTER, NODE, OTHER, entry, metadata, vote

ROTATE_BYTES = 20_000
STATE = b"the state of a machine, as it was then"


def command(index: int) -> bytes:
    """What the entry at a place holds, so that any reader can tell."""
    return b"%d:" % index + bytes(index * 7 % 251 for _ in range(index % 90))


def main(folder: Path, seed: int) -> None:
    """Write for ever."""
    random = Random(seed)
    storage = RaftStorage.open(RealFiles(folder), node=NODE, cluster=CLUSTER, rotate_bytes=ROTATE_BYTES)
    while True:
        image = storage.image
        last = image.last_index
        term = image.term + 1
        voted_for = random.choice([NODE, OTHER])
        count = random.randrange(1, 20)
        entries = tuple(entry(index, term, command(index)) for index in range(last + 1, last + count + 1))
        records: list[DurableRecord] = [vote(term, voted_for), Append(entries)]
        if random.random() < 0.1:
            taken = storage.write_snapshot([STATE], metadata(last + 1, term=term, data=STATE, epoch=last))
            records.append(Cut(Index(max(image.first_index, last + 1 - 10)), taken))
        storage.append(records)
        storage.sync()
        os.write(1, b"%d %d %s\n" % (last + count, term, voted_for.encode()))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
