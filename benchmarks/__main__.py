"""`python -m benchmarks [NAME…]`: run the questions, write ``benchmarks/results``, renew ``docs/benchmarks.md``."""

import sys
from pathlib import Path

from measurement.runner import Collection, main

_HERE = Path(__file__).resolve().parent

COLLECTION = Collection(
    package="benchmarks",
    modules=_HERE,
    title="Benchmarks",
    introduction=(
        "Every bar is a ratio within one run on one machine, against the peer it names; absolute rates differ from "
        "machine to machine. `make bench` makes these runs. This page is made from the files in `benchmarks/results/`."
    ),
    results=_HERE / "results",
    page=_HERE.parent / "docs" / "benchmarks.md",
    call=lambda module: module.run(),
)

if __name__ == "__main__":
    sys.exit(main(COLLECTION))
