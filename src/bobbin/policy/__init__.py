"""Who may have what: two parties' rules become one plan, and one snapshot of facts becomes one decision (Lace-040).

The way through the package: ``modules`` compiles a policy text for its role, ``operands`` gives it an origin, ``plan``
puts two of them under one name, ``decide`` evaluates the plan on one side against one snapshot, ``verdict`` says why.
``builder``, ``compose``, ``layout``, ``check``, ``cases`` and ``compare`` are for people who write policies.
"""

from bobbin.policy import builder
from bobbin.policy.compose import intersect, unite
from bobbin.policy.modules import Query, Selector, compile_query, compile_selector

__all__ = ["Query", "Selector", "builder", "compile_query", "compile_selector", "intersect", "unite"]
