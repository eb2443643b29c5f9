"""The same programs for clingo, an independent solver: its one stable model of a stratified program is the answer.

Values become numbers. Predicates become names without meaning. Wildcards under negation become projections of their
own, so that no subtlety of clingo's syntax decides. Built-ins are calls back into the slow evaluator's definitions.
"""

from collections.abc import Mapping, Sequence

import clingo

from bobbin.datalog.syntax import Atom, Constant, Literal, Rule, Term, Variable, Wildcard
from tests.oracle.naive import FUNCTIONS, TESTS, Facts, function_value, is_builtin, is_true


def evaluate(rules: Sequence[Rule], facts: Mapping[str, set[tuple[str, ...]]]) -> Facts:
    """Everything that the rules derive from the facts, per predicate that a rule defines."""
    return _Translation(rules, facts).solve()


class _Translation:
    def __init__(self, rules: Sequence[Rule], facts: Mapping[str, set[tuple[str, ...]]]) -> None:
        self._numbers: dict[str, int] = {}
        self._texts: list[str] = []
        self._names: dict[str, str] = {}
        self._lines: list[str] = []
        self._variables: dict[str, str] = {}
        self._heads = {rule.head.predicate for rule in rules}
        for name, tuples in facts.items():
            for values in tuples:
                self._lines.append(f"{self._atom(name, [str(self.number(value)) for value in values])}.")
        for rule in rules:
            self._translate(rule)

    def solve(self) -> Facts:
        control = clingo.Control(["--warn=none"])
        control.add("base", [], "\n".join(self._lines))
        control.ground([("base", [])], context=_Builtins(self))
        models: list[Sequence[clingo.Symbol]] = []
        control.solve(on_model=lambda model: models.append(model.symbols(atoms=True)))
        assert len(models) == 1, f"a stratified program has one stable model, not {len(models)}"
        names = {code: name for name, code in self._names.items()}
        found: Facts = {name: set() for name in self._heads}
        for symbol in models[0]:
            name = names.get(symbol.name)
            if name in self._heads:
                found[name].add(tuple(self._texts[argument.number] for argument in symbol.arguments))
        return found

    def number(self, text: str) -> int:
        if text not in self._numbers:
            self._numbers[text] = len(self._texts)
            self._texts.append(text)
        return self._numbers[text]

    def text(self, symbol: clingo.Symbol) -> str:
        return self._texts[symbol.number]

    # ---- translation ----------------------------------------------------------------------------------------------

    def _translate(self, rule: Rule) -> None:
        self._variables = {}
        body = ", ".join(self._literal(literal) for literal in rule.body)
        head = self._atom(rule.head.predicate, [self._term(term) for term in rule.head.terms])
        self._lines.append(f"{head} :- {body}." if body else f"{head}.")

    def _literal(self, literal: Literal) -> str:
        atom = literal.atom
        if is_builtin(atom.predicate):
            return self._builtin(literal)
        if not literal.negated:
            return self._atom(atom.predicate, [self._term(term) for term in atom.terms])
        return f"not {self._projection(atom)}"

    def _projection(self, atom: Atom) -> str:
        """The atom under a negation, its wildcards projected away."""
        if not any(isinstance(term, Wildcard) for term in atom.terms):
            return self._atom(atom.predicate, [self._term(term) for term in atom.terms])
        kept = [place for place, term in enumerate(atom.terms) if not isinstance(term, Wildcard)]
        every = [f"Y{place}" for place in range(len(atom.terms))]
        name = f"projection{len(self._lines)}"
        head = f"{name}({','.join(every[place] for place in kept)})" if kept else name
        self._lines.append(f"{head} :- {self._atom(atom.predicate, every)}.")
        shown = [self._term(atom.terms[place]) for place in kept]
        return f"{name}({','.join(shown)})" if shown else name

    def _builtin(self, literal: Literal) -> str:
        atom = literal.atom
        name = atom.predicate.lower()
        truth = 0 if literal.negated else 1
        if atom.predicate not in FUNCTIONS:
            return f"@{name}({','.join(self._term(term) for term in atom.terms)}) = {truth}"
        inputs = ",".join(self._term(term) for term in atom.terms[:-1])
        result = atom.terms[-1]
        if isinstance(result, Wildcard):
            return f"@{name}_exists({inputs}) = {truth}"
        if literal.negated:
            return f"@{name}_is({inputs},{self._term(result)}) = 0"
        return f"{self._term(result)} = @{name}({inputs})"

    def _atom(self, predicate: str, arguments: Sequence[str]) -> str:
        name = self._names.setdefault(predicate, f"p{len(self._names)}")
        return f"{name}({','.join(arguments)})" if arguments else name

    def _term(self, term: Term) -> str:
        match term:
            case Constant(value):
                return str(self.number(value))
            case Variable(name):
                return self._variables.setdefault(name, f"X{len(self._variables)}")
            case Wildcard():
                return "_"


class _Builtins:
    """What clingo calls for ``@name(…)`` while it grounds."""

    def __init__(self, translation: _Translation) -> None:
        self._translation = translation

    def __getattr__(self, called: str) -> object:
        for name in FUNCTIONS:
            match called.removeprefix(name.lower()):
                case "":
                    return lambda time, amount: self._results(name, time, amount)
                case "_exists":
                    return lambda time, amount: clingo.Number(len(self._results(name, time, amount)))
                case "_is":
                    return lambda time, amount, wanted: clingo.Number(wanted in self._results(name, time, amount))
                case _:
                    continue
        tests = {name.lower(): name for name in TESTS}
        if called not in tests:
            raise AttributeError(called)
        return lambda left, right: clingo.Number(
            is_true(tests[called], self._translation.text(left), self._translation.text(right))
        )

    def _results(self, name: str, time: clingo.Symbol, amount: clingo.Symbol) -> list[clingo.Symbol]:
        value = function_value(name, self._translation.text(time), self._translation.text(amount))
        return [] if value is None else [clingo.Number(self._translation.number(value))]
