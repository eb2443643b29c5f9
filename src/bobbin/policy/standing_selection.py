"""What one selector selects of the stored records, kept up to date at the cost of what changed.

A decision between two sides (``standing``) is made of four programs. A view of the own store needs one, without peer
and without claims: the selector alone, as ``trial`` runs it, but kept in memory with what it has read and derived.

A selector may name records that are not stored: as constants, or as targets of links. Here only stored ones count.
Where the rules leave room for others, one rule more keeps to those, so what has to be told is always the change of one
derived relation.

What always holds after ``load`` and after each ``advance``: the records are exactly those stored ones that an
evaluation of the selector over the facts and runtime facts of this moment would select.
"""

from collections.abc import Collection, Iterable
from typing import Final

from msgspec import Struct

from bobbin.datalog.limits import DEFAULT, Limits
from bobbin.datalog.local.conjunction import Source
from bobbin.datalog.local.values import Values
from bobbin.datalog.syntax import Program, Rule, Variable
from bobbin.errors import UsageError
from bobbin.facts import relations
from bobbin.facts.extract import Fact
from bobbin.facts.relations import FactSource, Tuple
from bobbin.policy import frozen as at_rest
from bobbin.policy import vocabulary
from bobbin.policy.executables import Budgets, LocalPolicy, Part, make_policy
from bobbin.policy.frozen import FrozenProgram, Pool
from bobbin.policy.modules import Selector, compile_selector, deny_all_query, deny_all_selector
from bobbin.policy.numbers import IDLE_TEXTS_MAX
from bobbin.policy.operands import anonymous_origin
from bobbin.policy.running import Running
from bobbin.policy.runtime_facts import RuntimeFacts
from bobbin.policy.views import TupleSource, supply

FORMAT: Final = (1, at_rest.FORMAT)
"""Its own part rises when a selection, taken up from what was frozen before, might not be what it was."""

_STORED: Final = "StoredSelection"
_IDLE_TEXTS_MAX: Final = IDLE_TEXTS_MAX


class Selected(Struct, frozen=True, kw_only=True):
    """How a selection has changed."""

    added: frozenset[str] = frozenset()
    removed: frozenset[str] = frozenset()


class FrozenSelection(Struct, frozen=True, kw_only=True, array_like=True):
    """A selection at rest, with everything that it was computed from."""

    format: tuple[int, int]
    texts: list[str]
    program: FrozenProgram
    runtime: RuntimeFacts


class StandingSelection:
    """The selection of one selector. ``load`` first; after an error, again."""

    def __init__(self, selector: Selector, limits: Limits = DEFAULT) -> None:
        """``limits``: what an evaluation of the rules may cost."""
        self.selector: Final = selector
        policy, self._export = _policy(selector, limits)
        self._program: Final = Running(policy, Part.OWN_SELECTOR)
        self._runtime = RuntimeFacts()
        self._is_usable = False

    @property
    def is_usable(self) -> bool:
        """Whether it is up to date with anything, so that it can go on from there."""
        return self._is_usable

    def records(self) -> list[str]:
        """All that is selected, in any order."""
        self._require_usable()
        return self._program.spell(self._program.column(self._export))

    def load(self, facts: FactSource, runtime: RuntimeFacts) -> None:
        """The whole evaluation, from nothing."""
        self._is_usable = False
        self._program.values = Values()
        here = supply(vocabulary.RUNTIME_ARITY, TupleSource(runtime.tuples()))
        self._program.evaluate({**supply(relations.ARITY, facts), **here})
        self._settle(runtime)

    def advance(self, *, runtime: RuntimeFacts, stored: Iterable[Fact] = (), removed: Collection[str] = ()) -> Selected:
        """Take in what has changed, and answer how the selection has.

        ``stored`` has every fact of the records that were stored since; a record that was removed and stored again
        stands in both.
        """
        self._require_usable()
        came: dict[str, list[Tuple]] = {}
        for predicate, values in stored:
            came.setdefault(predicate, []).append(values)
        began, ended = self._moved(runtime)
        if not (came or removed or began or ended):
            self._runtime = runtime
            return Selected()
        self._forget_idle_texts()
        self._is_usable = False
        changes = self._program.advance(
            added={**came, **began},
            removed={**self._program.about(relations.ARITY, removed), **ended},
        )
        source = Source(self._export)
        added, gone = (self._program.subjects(rows.get(source, ())) for rows in (changes.added, changes.removed))
        self._settle(runtime)
        return Selected(added=frozenset(added), removed=frozenset(gone))

    # ---- at rest --------------------------------------------------------------------------------------------------

    def freeze(self) -> FrozenSelection:
        """The selection at rest, to go on from with ``restore``."""
        self._require_usable()
        pool = Pool()
        program = self._program.freeze(pool)
        return FrozenSelection(format=FORMAT, texts=pool.texts, program=program, runtime=self._runtime)

    @classmethod
    def restore(cls, selector: Selector, frozen: FrozenSelection, limits: Limits = DEFAULT) -> "StandingSelection":
        """The selection that was frozen, of the same selector."""
        if frozen.format != FORMAT:
            raise UsageError(f"the selection was frozen in format {frozen.format}, this is {FORMAT}")
        standing = cls(selector, limits)
        standing._program.resume(frozen.program, frozen.texts)
        standing._runtime, standing._is_usable = frozen.runtime, True
        return standing

    # ---- inside ---------------------------------------------------------------------------------------------------

    def _moved(self, runtime: RuntimeFacts) -> tuple[dict[str, list[Tuple]], dict[str, list[Tuple]]]:
        """The runtime facts that began and ended, of those that the rules read."""
        before, after = self._runtime.tuples(), runtime.tuples()
        read = {source.predicate for source in self._program.reads(vocabulary.RUNTIME_ARITY)}
        none: frozenset[Tuple] = frozenset()
        moved = [name for name in sorted(read) if before.get(name, none) != after.get(name, none)]
        began = {name: list(after[name] - before.get(name, none)) for name in moved if name in after}
        ended = {name: list(before[name] - after.get(name, none)) for name in moved if name in before}
        return began, ended

    def _settle(self, runtime: RuntimeFacts) -> None:
        self._program.settle()
        self._runtime, self._is_usable = runtime, True

    def _forget_idle_texts(self) -> None:
        """Where most texts occur nowhere any more, number the others anew: records can come and go for ever."""
        if len(self._program.values) > _IDLE_TEXTS_MAX + 2 * self._program.cells:
            frozen = self.freeze()
            self._program.values = Values()
            self._program.resume(frozen.program, frozen.texts)

    def _require_usable(self) -> None:
        if not self._is_usable:
            raise UsageError("this selection is not up to date with anything; load it first")


def _policy(selector: Selector, limits: Limits) -> tuple[LocalPolicy, str]:
    """The selector ready to run, and the predicate whose tuples are the stored records that it selects."""
    export = vocabulary.SELECT_HAVE
    if not all(_keeps_to_stored(rule) for rule in selector.program.rules if rule.head.predicate == export):
        export = _unused(selector.program)
        rule = f"{export}(P) :- {vocabulary.SELECT_HAVE}(P), {relations.HAVE}(P).\n"
        selector = compile_selector(selector.canonical + rule.encode(), limits=limits)
    policy = make_policy(
        selector,
        deny_all_selector(),
        own_origin=anonymous_origin(0),
        peer_origin=anonymous_origin(1),
        query=deny_all_query(),
        budgets=Budgets(own=limits),
    )
    return policy, export


def _keeps_to_stored(rule: Rule) -> bool:
    """Whether the record that a rule selects must be stored: a record fact is about it, and only stored ones have."""
    (selected,) = rule.head.terms
    return isinstance(selected, Variable) and any(
        not literal.negated and literal.atom.predicate in relations.ARITY and literal.atom.terms[0] == selected
        for literal in rule.body
    )


def _unused(program: Program) -> str:
    """A predicate that no rule mentions."""
    named = {literal.atom.predicate for rule in program.rules for literal in rule.body} | program.heads()
    name = _STORED
    while name in named:
        name += "_"
    return name
