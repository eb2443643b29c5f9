"""One import into the lace in a folder, in a process of its own.

    python -m benchmarks.replicated_lace_once FOLDER BUNDLE WORKERS

The clock starts when the program is loaded and the lace is open, and stops when everything is acknowledged; the start
of the worker processes is in between. Prints one JSON object.
"""

import json
import sys
import time
from pathlib import Path

from bobbin.lace import Lace


def main(folder: Path, bundle: Path, workers: int) -> dict[str, float]:
    """Import, and say how it went."""
    with Lace.open(folder) as lace, bundle.open("rb") as file:
        # The channel to the node is opened by the first write; so it is not in the clock's time.
        lace.put(b"first", group="bench", app="first", name="1")
        before = lace.stat().high_water
        start = time.perf_counter()
        total = lace.import_(file, source=bundle.name, workers=workers)
        seconds = time.perf_counter() - start
        if total.stored != total.read or lace.stat().high_water < before + total.stored:
            raise AssertionError(f"not everything was stored: {total}")
    return {"records_per_second": total.stored / seconds}


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))))
