"""Programs over a few facts, for the tests of the engine."""

from collections.abc import Iterable, Iterator, Mapping

from bobbin.datalog.compile import Lacegram
from bobbin.datalog.compile import compile as compile_program
from bobbin.datalog.local.database import Database
from bobbin.datalog.local.evaluate import Executable, State
from bobbin.datalog.vocabulary import Vocabulary
from bobbin.facts.relations import Pattern, Tuple, agrees

BASE = {"A": 1, "B": 2, "C": 2, "Z": 0, "Field": 4, "TickTAI": 1}


class Facts:
    """Facts in memory."""

    def __init__(self, facts: Mapping[str, Iterable[Tuple]]) -> None:
        self.facts = {predicate: set(rows) for predicate, rows in facts.items()}

    def enumerate(self, predicate: str) -> Iterator[Tuple]:
        return iter(self.facts.get(predicate, ()))

    def match(self, predicate: str, pattern: Pattern) -> Iterator[Tuple]:
        return (row for row in self.enumerate(predicate) if agrees(row, pattern))


def program(text: str) -> Lacegram:
    return compile_program(text, Vocabulary(base=BASE))


def database(facts: Mapping[str, Iterable[Tuple]]) -> Database:
    source = Facts(facts)
    return Database(dict.fromkeys(BASE, source), BASE)


def evaluate(text: str, facts: Mapping[str, Iterable[Tuple]], *, columns_min: int = 10**9) -> State:
    return Executable(program(text).plan, columns_min=columns_min).evaluate(database(facts))
