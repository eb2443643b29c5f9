"""``python -m bobbin.simulator``: replay one world and see what happens in it, or run many.

``--world store`` is a store on a disk that fails, ``--world interlace`` are nodes that exchange records, ``--world
tangles`` are nodes that keep tangles, ``--world reactive`` is a graph with those who watch it, ``--world raft`` is a
cluster that agrees on one log, ``--world membership`` are members that probe and gossip, ``--world transactions`` are
shards that do things together. One world is one seed: ``--seed 7`` replays it, where machines speak with a trace of
every step. ``--seeds 0:100000 --jobs 2`` runs many and writes what happened as JSON.
"""

import argparse
import sys
from pathlib import Path
from time import monotonic

import msgspec

from bobbin.simulator.batch import WORLDS, Summary, run_batch
from bobbin.simulator.disk_vault import open_simulated
from bobbin.simulator.world import Broken, Tally, run_worlds


def main() -> int:
    """Run the worlds that were asked for; 1 when a promise was broken."""
    options = _parser().parse_args()
    first, end = options.seeds or (options.seed, options.seed + options.worlds)
    if options.world == "store":
        return _run_store(range(first, end))
    if end - first == 1:
        return _replay(options.world, first)
    return _run_many(options.world, range(first, end), options.jobs, options.json)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bobbin.simulator", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--world", choices=("store", *WORLDS), default="store", help="what is simulated")
    parser.add_argument("--seed", type=int, default=0, help="the first world (default 0)")
    parser.add_argument("--worlds", type=int, default=1, help="how many worlds, counting up from the seed (default 1)")
    parser.add_argument("--seeds", type=_seeds, help="FIRST:END, instead of the two above")
    parser.add_argument("--jobs", type=int, default=1, help="processes that share many worlds of machines (default 1)")
    parser.add_argument("--json", type=Path, help="a file for the summary; otherwise it is printed")
    return parser


def _seeds(text: str) -> tuple[int, int]:
    first, _, end = text.partition(":")
    try:
        return int(first), int(end)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"seeds are FIRST:END, not {text!r}") from error


def _run_store(seeds: range) -> int:
    def report(seed: int, tally: Tally) -> None:
        sys.stderr.write(f"world {seed}: {tally}\n")

    try:
        total = run_worlds(seeds, open_simulated, report=report)
    except Broken as broken:
        sys.stderr.write(f"{broken}\n")
        return 1
    sys.stdout.write(f"{len(seeds)} worlds, every promise kept: {total}\n")
    return 0


def _replay(name: str, seed: int) -> int:
    world = WORLDS[name](seed, is_traced=True)
    failure: Broken | None = None
    try:
        world.run()
    except Broken as broken:
        failure = broken
    sys.stdout.writelines(f"{line}\n" for line in world.trace)
    sys.stdout.write(f"trace {world.digest}\n")
    sys.stdout.write(f"{failure}\n" if failure else f"every promise kept: {dict(sorted(world.tally.items()))}\n")
    return 1 if failure else 0


def _run_many(name: str, seeds: range, jobs: int, out: Path | None) -> int:
    began = monotonic()

    def report(total: Summary) -> None:
        rate = total.worlds / max(monotonic() - began, 1e-9)
        sys.stderr.write(f"{total.worlds}/{len(seeds)} worlds, {total.broken} broken, {rate:.1f} a second\n")

    total = run_batch(seeds, world=name, jobs=jobs, report=report)
    text = msgspec.json.format(msgspec.json.encode(total), indent=2).decode() + "\n"
    if out is None:
        sys.stdout.write(text)
    else:
        out.write_text(text, encoding="utf-8")
    return 1 if total.broken else 0


if __name__ == "__main__":
    sys.exit(main())
