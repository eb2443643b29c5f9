"""One policy text on its own, over one store, without a peer: everything that its rules derive."""

from collections.abc import Iterable, Mapping

from bobbin.datalog.limits import DEFAULT, Limits
from bobbin.datalog.local.database import Database
from bobbin.datalog.local.evaluate import Executable
from bobbin.facts import relations
from bobbin.facts.relations import FactSource, Tuple
from bobbin.policy import vocabulary
from bobbin.policy.claims import Claims, claim_source
from bobbin.policy.modules import Query, Selector
from bobbin.policy.operands import Origin
from bobbin.policy.runtime_facts import RuntimeFacts
from bobbin.policy.views import TupleSource


def derive(
    module: Selector | Query,
    facts: FactSource,
    *,
    runtime: RuntimeFacts,
    claims: Claims | None = None,
    viewer: Origin | None = None,
    own_selected: Iterable[str] = (),
    limits: Limits = DEFAULT,
) -> Mapping[str, frozenset[Tuple]]:
    """The tuples of every predicate that the rules define. Only a query module reads viewer and own selection."""
    sources: dict[str, FactSource] = dict.fromkeys(relations.ARITY, facts)
    sources |= dict.fromkeys(vocabulary.RUNTIME_ARITY, TupleSource(runtime.tuples()))
    if isinstance(module, Query):
        seen = {vocabulary.OWN_SELECTED: [(record,) for record in own_selected]}
        if viewer is not None:
            seen[vocabulary.VIEWER] = [(viewer,)]
        sources |= dict.fromkeys(vocabulary.VIEW_ARITY, TupleSource(seen))
        role = vocabulary.QUERY
    else:
        if claims is not None:
            sources |= dict.fromkeys(vocabulary.CLAIM_ARITY, claim_source(claims))
        role = vocabulary.SELECTOR
    state = Executable(module.lacegram.plan, limits).evaluate(Database(sources, role.base))
    return {name: state.tuples(name) for name in sorted(module.program.heads())}
