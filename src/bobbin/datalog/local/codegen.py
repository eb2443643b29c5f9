"""A rule as Python source: nested loops over hash indexes, compiled once.

For ``Head(X) :- A(X,Y), B(Y,'c'), not C(X).`` read in that order, the function is in essence::

    def rule(rows0, index1, index2, c0, texts, encode, budget, out):
        steps = len(rows0)
        for r0 in rows0:
            X = r0[0]
            Y = r0[1]
            if (Y, c0) not in index1:
                continue
            if X in index2:
                continue
            out((X,))
        budget.spend(steps)

Nothing of the program's text becomes source: constants and built-ins are arguments, variables are numbered. Steps are
counted by whole buckets, so the count costs nothing per row and still stops a cross join. Python nests at most 20
loops, so a longer rule goes on in a second function that the first one calls with what is bound so far.
"""

from functools import lru_cache
from types import CodeType
from typing import Final, Protocol, cast

from msgspec import Struct

from bobbin.datalog.builtins import BUILTINS, Function, Test, holds
from bobbin.datalog.local.budget import CALL_STEPS, TEST_STEPS
from bobbin.datalog.local.conjunction import Absent, Computed, Conjunction, Guard, Read, Source, Tested
from bobbin.datalog.local.order import bound_positions, is_test
from bobbin.datalog.syntax import Constant, Term, Variable, Wildcard

_LOOPS_MAX: Final = 15
_CHEAP: Final = frozenset({"Eq", "Ne", "Lt", "Le", "Gt", "Ge", "StartsWith", "EndsWith"})
"""Tests that only compare texts."""
_CODES_MAX: Final = 512
"""Generated texts whose code is kept beside that of rules in use."""


class Need(Struct, frozen=True):
    """An argument of the compiled function: all rows of a relation (no positions), an index, or the delta."""

    source: Source
    positions: tuple[int, ...]
    delta: bool = False


class RuleFunction(Protocol):
    """Takes what ``needs`` says, the constants, ``texts``, ``encode``, the budget and where to put rows."""

    def __call__(self, *arguments: object) -> None: ...


class CompiledRule(Struct, frozen=True):
    """A rule as a function, with what it must be given."""

    function: RuleFunction
    needs: tuple[Need, ...]
    constants: tuple[str, ...]
    source: str
    """The generated text, for the curious and for tests."""


def generate(conjunction: Conjunction, order: tuple[int, ...], *, delta: int | None) -> CompiledRule:
    """Compile one rule for one order; ``delta`` is the scan that reads only new rows."""
    return _Writer(conjunction, order, delta).compile()


@lru_cache(maxsize=_CODES_MAX)
def _code(text: str) -> CodeType:
    """The code of a generated text. Rules that differ in names and constants only have one text, and so one code."""
    return compile(text, "<rule>", "exec")


class _Writer:
    def __init__(self, conjunction: Conjunction, order: tuple[int, ...], delta: int | None) -> None:
        self._conjunction = conjunction
        self._order = order
        self._delta = delta
        self._needs: list[Need] = []
        self._constants: list[str] = []
        self._builtins: dict[str, object] = {}
        self._names: dict[str, str] = {}
        """The Python name of each bound variable."""
        self._pending: list[Guard] = list(conjunction.guards)
        self._functions: list[list[str]] = []
        self._lines: list[str] = []
        self._depth = 1
        self._loops = 0

    def compile(self) -> CompiledRule:
        self._lines = ["    steps = 0"]
        self._write_guards()
        for number in self._order:
            if self._loops == _LOOPS_MAX:
                self._continue_elsewhere()
            self._write_read(self._conjunction.reads[number], is_delta=number == self._delta)
            self._write_guards()
        assert not self._pending, "a safe rule has no guard that waits for ever"
        head = "".join(f"{self._value(term)}," for term in self._conjunction.head)
        self._emit(f"out(({head}))")
        self._finish_function()
        text = self._assemble()
        namespace = dict(self._builtins)
        exec(_code(text), namespace)  # noqa: S102 (own text only)
        return CompiledRule(cast(RuleFunction, namespace["rule0"]), tuple(self._needs), tuple(self._constants), text)

    # ---- statements -----------------------------------------------------------------------------------------------

    def _write_read(self, read: Read, *, is_delta: bool) -> None:
        bound = frozenset(self._names)
        if is_delta:
            rows = self._argument(Need(read.source, (), delta=True))
            self._loop(rows, read, checked=())
            return
        positions = bound_positions(read, bound)
        if is_test(read, bound):
            self._emit(f"if not ({self._exists(read, positions)}): {self._skip()}")
            return
        if positions:
            index = self._argument(Need(read.source, positions))
            rows = self._fresh("b")
            self._emit(f"{rows} = {index}.get({self._key(read, positions)}, ())")
        else:
            rows = self._argument(Need(read.source, ()))
        self._loop(rows, read, checked=positions)

    def _loop(self, rows: str, read: Read, *, checked: tuple[int, ...]) -> None:
        """Go over rows, bind what is new, and check what the index has not."""
        self._emit(f"steps += len({rows}) + 2")  # a loop costs something even when it has nothing to go over
        self._emit("if steps > 65536: budget(steps); steps = 0")
        row = f"r{self._loops}"
        self._emit(f"for {row} in {rows}:")
        self._depth += 1
        self._loops += 1
        for place, term in enumerate(read.terms):
            if place in checked or isinstance(term, Wildcard):
                continue
            if isinstance(term, Variable) and term.name not in self._names:
                self._names[term.name] = f"v{len(self._names)}"
                self._emit(f"{self._names[term.name]} = {row}[{place}]")
            else:
                self._emit(f"if {row}[{place}] != {self._value(term)}: continue")

    def _write_guards(self) -> None:
        """Every guard whose variables are bound by now, functions first since they bind more."""
        progress = True
        while progress:
            progress = False
            for guard in sorted(self._pending, key=lambda guard: not isinstance(guard, Computed)):
                if guard.needs() <= self._names.keys():
                    self._pending.remove(guard)
                    self._write_guard(guard)
                    progress = True
                    break

    def _write_guard(self, guard: Guard) -> None:
        match guard:
            case Absent(read):
                positions = bound_positions(read, frozenset(self._names))
                self._emit(f"if {self._exists(read, positions)}: {self._skip()}")
            case Tested(builtin, arguments, negated):
                texts = ", ".join(self._text(term) for term in arguments)
                name = self._builtin(builtin)
                self._count_call(TEST_STEPS if builtin in _CHEAP else CALL_STEPS)
                self._emit(f"if {'' if negated else 'not '}{name}({texts}): {self._skip()}")
            case Computed(builtin, arguments, result):
                self._count_call(CALL_STEPS)
                value = self._fresh("t")
                texts = ", ".join(self._text(term) for term in arguments)
                self._emit(f"{value} = {self._function(builtin)}({texts})")
                self._emit(f"if {value} is None: {self._skip()}")
                if isinstance(result, Variable) and result.name not in self._names:
                    self._names[result.name] = f"v{len(self._names)}"
                    self._emit(f"{self._names[result.name]} = encode({value})")
                elif not isinstance(result, Wildcard):
                    self._emit(f"if {value} != {self._text(result)}: {self._skip()}")

    def _count_call(self, steps: int) -> None:
        if self._loops:
            self._emit(f"steps += {steps}")

    def _exists(self, read: Read, positions: tuple[int, ...]) -> str:
        if not positions:
            return self._argument(Need(read.source, ()))
        index = self._argument(Need(read.source, positions))
        return f"{self._key(read, positions)} in {index}"

    # ---- expressions ----------------------------------------------------------------------------------------------

    def _key(self, read: Read, positions: tuple[int, ...]) -> str:
        values = [self._value(read.terms[place]) for place in positions]
        return values[0] if len(values) == 1 else f"({', '.join(values)})"

    def _value(self, term: Term) -> str:
        match term:
            case Variable(name):
                return self._names[name]
            case Constant(value):
                if value not in self._constants:
                    self._constants.append(value)
                return f"c{self._constants.index(value)}"
            case Wildcard():
                raise AssertionError("a wildcard has no value")

    def _text(self, term: Term) -> str:
        return "None" if isinstance(term, Wildcard) else f"texts[{self._value(term)}]"

    def _builtin(self, builtin: str) -> str:
        name = f"is_{builtin}"
        known = BUILTINS[builtin]
        # A test is called as it is: these calls are what a hostile cross join spends its steps on.
        self._builtins[name] = known.holds if isinstance(known, Test) else lambda *texts: holds(builtin, texts)
        return name

    def _function(self, builtin: str) -> str:
        name = f"of_{builtin}"
        function = BUILTINS[builtin]
        assert isinstance(function, Function)
        self._builtins[name] = function.value
        return name

    def _argument(self, need: Need) -> str:
        if need not in self._needs:
            self._needs.append(need)
        return f"n{self._needs.index(need)}"

    def _fresh(self, letter: str) -> str:
        return f"{letter}{len(self._lines)}_{len(self._functions)}"

    # ---- functions ------------------------------------------------------------------------------------------------

    def _emit(self, statement: str) -> None:
        self._lines.append("    " * self._depth + statement)

    def _skip(self) -> str:
        return "continue" if self._loops else "return"

    def _continue_elsewhere(self) -> None:
        """End this function by calling the next one with every bound variable."""
        following = len(self._functions) + 1
        self._emit(f"rule{following}(@, {', '.join(self._names.values())})")
        self._finish_function()
        self._lines = ["    steps = 0"]

    def _finish_function(self) -> None:
        self._lines.append("    if steps: budget(steps)")
        self._functions.append(self._lines)
        self._depth, self._loops = 1, 0

    def _assemble(self) -> str:
        needs = [f"n{number}" for number in range(len(self._needs))]
        constants = [f"c{number}" for number in range(len(self._constants))]
        shared = ", ".join([*needs, *constants, "texts", "encode", "budget", "out"])
        parts = []
        carried = ""
        for number, lines in enumerate(self._functions):
            parts.append(f"def rule{number}({shared}{carried}):")
            for line in lines:
                if line.lstrip().startswith(f"rule{number + 1}(@"):
                    carried = line.partition("(@")[2].removesuffix(")")
                parts.append(line.replace("(@", f"({shared}"))
        return "\n".join(parts) + "\n"
