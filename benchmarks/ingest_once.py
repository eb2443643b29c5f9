"""One import into a new store, in a process of its own, so that its memory and its core are its own.

    python -m benchmarks.ingest_once BUNDLE WORKERS

Without workers the process is held on one core, and after every commit it verifies some signatures of the same bundle
on the same core: both rates come from the same seconds. Prints one JSON object.
"""

import itertools
import json
import os
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from benchmarks.material import RECORD_BYTES
from bobbin.records import ids, signing
from bobbin.records.record import Seal, validate
from bobbin.runtime.clock import tai_now
from bobbin.runtime.ingest import Ingested, ingest
from bobbin.store.sqlite import open_store

_SAMPLE: Final = 1000
_SIGNATURES_PER_COMMIT: Final = 400


class Signatures:
    """The signatures of a bundle's first records, and a clock for verifying them."""

    def __init__(self, bundle: Path) -> None:
        with bundle.open("rb") as file:
            raws = [file.read(RECORD_BYTES) for _ in range(_SAMPLE)]
        seals = [record for record in map(validate, raws) if isinstance(record, Seal)]
        self._items = itertools.cycle(
            [(ids.parse_verifier(seal.verifier), bytes(seal.plex), seal.signature) for seal in seals]
        )
        self.count = 0
        self.seconds = 0.0

    def verify(self, _: Ingested) -> None:
        """Verify some more."""
        items = list(itertools.islice(self._items, _SIGNATURES_PER_COMMIT))
        start = time.perf_counter()
        valid = [signing.is_valid(*item) for item in items]
        self.seconds += time.perf_counter() - start
        self.count += len(valid)
        if not all(valid):
            raise AssertionError("a good signature was refused")


def main(bundle: Path, workers: int) -> dict[str, float]:
    """Import, and say how it went."""
    signatures = Signatures(bundle) if workers == 0 else None
    if workers == 0 and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory(prefix="bobbin-bench-") as folder, bundle.open("rb") as file:
        store = open_store(Path(folder) / "store", create=True, now=tai_now)
        hear = signatures.verify if signatures else None
        start = time.perf_counter()
        total = ingest(store, file, source=bundle.name, form="bundle", workers=workers, acknowledge=hear)
        store.close()  # copies what is still in the log, so the whole price is in
        seconds = time.perf_counter() - start - (signatures.seconds if signatures else 0)
    if total.stored != bundle.stat().st_size // RECORD_BYTES:
        raise AssertionError(f"not everything was stored: {total}")
    answer = {"records_per_second": total.stored / seconds, "peak_bytes": peak_bytes(workers)}
    if signatures:
        answer["signatures_per_second"] = signatures.count / signatures.seconds
    return answer


def peak_bytes(workers: int) -> float:
    """The most memory this process ever had resident, and as much as its largest worker for every worker."""
    unit = 1 if sys.platform == "darwin" else 1024
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return unit * (own + workers * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), int(sys.argv[2]))))
