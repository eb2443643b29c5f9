"""`python -m evidence [NAME…]`: run the questions, write ``docs/evidence/*.json``, renew ``docs/evidence.md``."""

import sys
from pathlib import Path

from measurement.runner import Collection, main

_HERE = Path(__file__).resolve().parent
_DOCS = _HERE.parent / "docs"
_RESULTS = _DOCS / "evidence"

COLLECTION = Collection(
    package="evidence",
    modules=_HERE,
    title="Evidence",
    introduction=(
        "What Bobbin claims, counted in full. `make evidence` makes these runs; `make test` makes a fixed sample of "
        "each. This page is made from the files in `docs/evidence/`."
    ),
    results=_RESULTS,
    page=_DOCS / "evidence.md",
    call=lambda module: module.run(_RESULTS),
)

if __name__ == "__main__":
    sys.exit(main(COLLECTION))
