"""``python -m bobbin.simulator --seed N``: replay one world, or run many."""

import argparse
import sys
from pathlib import Path

from bobbin.simulator.disk import FaultyDisk
from bobbin.simulator.world import Broken, Tally, run_worlds
from bobbin.store.base import Store
from bobbin.store.sqlite.config import Config
from bobbin.store.sqlite.opening import open_store


def open_simulated(folder: Path, disk: FaultyDisk) -> Store:
    """The real store on a disk that fails, with a clock that stands still."""
    config = Config(vfs=disk.name, wal_bytes=1 << 18)
    return open_store(folder / "records.db", create=True, now=lambda: 0, config=config)


def main() -> int:
    """Run the worlds that were asked for; 1 when a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m bobbin.simulator", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first world (default 0)")
    parser.add_argument("--worlds", type=int, default=1, help="how many worlds, counting up from the seed (default 1)")
    options = parser.parse_args()

    def report(seed: int, tally: Tally) -> None:
        sys.stderr.write(f"world {seed}: {tally}\n")

    try:
        total = run_worlds(range(options.seed, options.seed + options.worlds), open_simulated, report=report)
    except Broken as broken:
        sys.stderr.write(f"{broken}\n")
        return 1
    sys.stdout.write(f"{options.worlds} worlds, every promise kept: {total}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
