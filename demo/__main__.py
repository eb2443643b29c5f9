"""``python -m demo [--keep FOLDER]``: the whole tour. It ends with 0 only if everything was as it says.

Only the report about a lake stays, in ``FOLDER``; everything else is in a temporary folder.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

from demo import cluster, exchange, network, pipeline, records
from demo.tour import Tour, styled

KEPT = Path(__file__).resolve().parents[1] / "build" / "demo"


def main() -> int:
    """The whole tour."""
    parser = argparse.ArgumentParser(prog="python -m demo", description="A tour of the product.")
    parser.add_argument("--keep", metavar="FOLDER", type=Path, default=KEPT, help="where the report about a lake stays")
    kept: Path = parser.parse_args().keep.absolute()
    print(styled("Bobbin: verified records between parties that do not fully trust each other", "1"))
    with tempfile.TemporaryDirectory(prefix="bobbin-demo-") as name:
        tour = Tour(Path(name))
        records.make_laces(tour)
        records.write_records(tour)
        records.look(tour)
        records.move_records(tour)
        planted = records.damage_records(tour)
        records.take_in(tour, planted)
        records.refuse(tour)
        exchange.set_rules(tour)
        exchange.follow(tour)
        exchange.hand_over(tour)
        exchange.trust_evidence(tour)
        exchange.attest(tour)
        network.over_the_network(tour)
        cluster.survive(tour)
        pipeline.in_bulk(tour, kept)
        care(tour)
        return tour.end()


def care(tour: Tour) -> None:
    """Checking both laces."""
    tour.step("In order", "fsck checks every stored byte again, and everything that was derived from it.")
    laces = ("lab.lace", "hospital.lace", "app.lace", "server.lace", "reader.lace", "station.lace", "clinic.lace")
    clean = [tour.run(f"bobbin fsck {lace}").code for lace in laces]
    tour.claim("all seven laces are in order", clean == [0] * len(laces))
    tour.run("bobbin stat hospital.lace")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:  # whoever read along has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(141)
