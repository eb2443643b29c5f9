"""What one more record costs a live view, over laces of different sizes.

    python -m benchmarks.reactive_view ROUNDS RECORDS…

The laces take turns. In its turn a lace gets a few records, one by one, and its view takes in each of them. Prints for
each size the processor seconds of one such taking in, round by round, and what it costs to evaluate the view from
nothing and to take it up in a new process.
"""

import json
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from benchmarks.reactive_side import check
from bobbin.lace import Lace
from bobbin.records.record import Plex, build_plex

RULES: Final = """
Muted(P) :- RecordLink(_,_,_,_,P).
SelectHave(P) :- Have(P), Field(P,'Group',_,'bench'), Field(P,'App',_,'even'), Field(P,'TAI',_,T), TickTAI(N), Le(T,N),
    not Muted(P).
"""
"""The half of the records that is of one app, is due and is not the target of a link: a join, a clock, a negation."""
TURN_RECORDS: Final = 20
_COMMIT_RECORDS: Final = 5_000
_FIRST_TAI: Final = 1_700_000_000_000_000_000


def make(number: int) -> Plex:
    """One small record; every other one is selected."""
    app = "odd" if number % 2 else "even"
    return build_plex(group="bench", app=app, name=f"records/{number}", tai_ns=_FIRST_TAI + number, data=b"%d" % number)


class Side:
    """A lace of some size, and a view of it."""

    def __init__(self, stack: ExitStack, folder: Path, records: int) -> None:
        self._next = records
        path = folder / f"{records}.lace"
        with Lace.create(path) as lace:
            for begin in range(0, records, _COMMIT_RECORDS):
                lace.store.put_records([make(number) for number in range(begin, min(records, begin + _COMMIT_RECORDS))])
            start = time.process_time()
            lace.view(RULES).close()
            self.evaluate_seconds: Final = time.process_time() - start
        self._lace: Final = stack.enter_context(Lace.open(path))
        start = time.process_time()
        self._view: Final = stack.enter_context(self._lace.view(RULES, follow=False))
        self.resume_seconds: Final = time.process_time() - start
        check(len(self._view), (records + 1) // 2)

    def turn(self) -> float:
        """The processor time of taking in one record."""
        spent = 0.0
        for _ in range(TURN_RECORDS):
            record = make(self._next)
            self._next += 1
            self._lace.put_record(record)
            start = time.process_time()
            moved = self._view.refresh()
            spent += time.process_time() - start
            check(moved.added, (record.hash,) if record.app == "even" else ())
        check(len(self._view), (self._next + 1) // 2)
        return spent / TURN_RECORDS


def main(rounds: int, *sizes: int) -> None:
    """As the command line says. The first round is not counted."""
    spent: dict[str, list[float]] = {str(records): [] for records in sizes}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bobbin-bench-")))
        sides = {records: Side(stack, folder, records) for records in sizes}
        for turn in range(rounds + 1):
            for records in sizes if turn % 2 else reversed(sizes):
                seconds = sides[records].turn()
                if turn:
                    spent[str(records)].append(seconds)
    whole = {str(records): [side.evaluate_seconds, side.resume_seconds] for records, side in sides.items()}
    print(json.dumps({"more": spent, "whole": whole}))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
