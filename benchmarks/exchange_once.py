"""One process: an import of a bundle, an exchange of the same records between two laces, and the exchange once more.

    python -m benchmarks.exchange_once BUNDLE

Everything runs on one core, one after the other. Prints one JSON object.
"""

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.ingest_once import peak_bytes
from benchmarks.material import GROUP, RECORD_BYTES
from bobbin.interlace.result import Result
from bobbin.policy.modules import Selector, compile_selector
from bobbin.records.signing import SigningKey
from bobbin.runtime.clock import tai_now
from bobbin.runtime.decisions import Decisions
from bobbin.runtime.holdings import StoreHoldings
from bobbin.runtime.ingest import ingest
from bobbin.runtime.local_peer import LocalSide, run_local
from bobbin.store.sqlite import open_store

if TYPE_CHECKING:
    from bobbin.store.base import Store

SELECTOR: Final = f"""\
SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'Group',_,'{GROUP}').
SelectHave(P) :- Have(P), Field(P,'Group',_,'{GROUP}').
"""


class Lace:
    """One side: its store, and what it has learnt to decide."""

    def __init__(self, path: Path, secret: bytes, selector: Selector) -> None:
        self.store: Final[Store] = open_store(path, create=True, now=tai_now)
        self.decisions: Final = Decisions(self.store)
        self._key: Final = SigningKey.from_secret(secret)
        self._selector: Final = selector

    def side(self, holdings: StoreHoldings) -> LocalSide:
        """Its part in one exchange."""
        return LocalSide(holdings=holdings, selector=self._selector, verifier=self._key.verifier)


def main(bundle: Path) -> dict[str, float]:
    """Import, exchange, exchange again."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    count = bundle.stat().st_size // RECORD_BYTES
    selector = compile_selector(SELECTOR.encode())
    with tempfile.TemporaryDirectory(prefix="bobbin-bench-") as folder:
        here = Lace(Path(folder) / "here", b"\x01" * 32, selector)
        there = Lace(Path(folder) / "there", b"\x02" * 32, selector)
        with bundle.open("rb") as file:
            start = time.perf_counter()
            total = ingest(here.store, file, source=bundle.name, form="bundle", workers=0)
            imported = time.perf_counter() - start
        if total.stored != count:
            raise AssertionError(f"not everything was stored: {total}")
        first, moved = _exchange(here, there)
        if len(moved.received) != count or not moved.fixed_point:
            raise AssertionError(f"not everything was exchanged: {len(moved.received)}, {moved.reason}")
        again, nothing = _exchange(here, there)
        if nothing.received or not nothing.fixed_point:
            raise AssertionError("the second exchange moved something")
        here.store.close()
        there.store.close()
    return {
        "import_per_second": count / imported,
        "exchange_per_second": count / first,
        "first_seconds": first,
        "second_seconds": again,
        "peak_bytes": peak_bytes(0),
    }


def _exchange(here: Lace, there: Lace) -> tuple[float, Result]:
    """One exchange; how long it took, and what the receiver says of it."""
    start = time.perf_counter()
    ours, theirs = StoreHoldings(here.decisions), StoreHoldings(there.decisions)
    ran = run_local(here.side(ours), there.side(theirs))
    ours.release()
    theirs.release()
    return time.perf_counter() - start, ran.peer.result


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))
