"""Several selectors of one lace as one: their union or their intersection, written out as a plain policy text.

A plan has exactly two operands, one per lace, so a lace that keeps several policies mixes them before it offers one.
The helper predicates of module ``k`` get the prefix ``M<k>_`` and so never meet those of another. The exports are
then defined once more: by one rule per module for a union, by one rule over all modules for an intersection. A module
that lacks an export selects nothing by it.
"""

from collections.abc import Callable, Sequence

from blake3 import blake3

from bobbin import profile
from bobbin.datalog.limits import DEFAULT, Limits
from bobbin.datalog.syntax import Atom, Literal, Program, Rule
from bobbin.errors import UsageError
from bobbin.policy import vocabulary
from bobbin.policy.modules import Selector, compile_selector

_ARGUMENTS = {vocabulary.SELECT_ADVERTISED: "P,S", vocabulary.SELECT_HAVE: "P"}
_DIGEST_CHARACTERS = 16


def unite(selectors: Sequence[Selector], limits: Limits = DEFAULT) -> str:
    """A text that selects what at least one of the selectors does."""

    def define(export: str, sources: list[str]) -> list[str]:
        arguments = _ARGUMENTS[export]
        return [f"{export}({arguments}) :- {name}({arguments})." for name in sources if name]

    return _compose(selectors, define, limits)


def intersect(selectors: Sequence[Selector], limits: Limits = DEFAULT) -> str:
    """A text that selects what every one of the selectors does."""

    def define(export: str, sources: list[str]) -> list[str]:
        arguments = _ARGUMENTS[export]
        if not all(sources):
            return []
        return [f"{export}({arguments}) :- {', '.join(f'{name}({arguments})' for name in sources)}."]

    if len(selectors) > limits.literals_max:
        raise UsageError(f"an intersection has at most {limits.literals_max} selectors, not {len(selectors)}")
    return _compose(selectors, define, limits)


def rename_rules(program: Program, prefix: str) -> list[Rule]:
    """The rules with a prefix before every predicate that they define; what they merely read keeps its name."""
    names = {name: _prefixed(name, prefix) for name in program.heads()}
    if len(set(names.values())) < len(names):
        raise UsageError(f"two long predicate names become one behind the prefix {prefix}; shorten one of them")

    def rename(atom: Atom) -> Atom:
        return Atom(names.get(atom.predicate, atom.predicate), atom.terms)

    return [
        Rule(rename(rule.head), tuple(Literal(rename(literal.atom), literal.negated) for literal in rule.body))
        for rule in program.rules
    ]


def _compose(selectors: Sequence[Selector], define: Callable[[str, list[str]], list[str]], limits: Limits) -> str:
    if not selectors:
        raise UsageError("a composition has at least one selector")
    lines: list[str] = []
    for number, selector in enumerate(selectors):
        lines += map(str, rename_rules(selector.program, f"M{number}_"))
    exported = []
    for export in _ARGUMENTS:
        sources = [
            _prefixed(export, f"M{number}_") if export in selector.program.heads() else ""
            for number, selector in enumerate(selectors)
        ]
        exported += define(export, sources)
    if not exported:
        # Nothing is left of either export. The text still has to be a selector: one that selects nothing.
        exported = [profile.SELECTOR_DENY_ALL.rstrip("\n")]
    text = "".join(f"{line}\n" for line in [*exported, *lines])
    compile_selector(text, limits=limits)
    return text


def _prefixed(name: str, prefix: str) -> str:
    """The name behind its prefix. Where that is too long, a hash of the name stands for its end."""
    whole = prefix + name
    if len(whole) <= profile.NAME_CHARACTERS_MAX:
        return whole
    digest = blake3(name.encode()).hexdigest()[:_DIGEST_CHARACTERS]
    kept = profile.NAME_CHARACTERS_MAX - len(prefix) - len(digest) - 1
    return f"{prefix}{name[:kept]}_{digest}"
