"""Plans of exchanges: any bytes are the one spelling of a plan, or are refused with a wire code."""

from bobbin.errors import PeerError
from bobbin.facts import block
from bobbin.policy import plan as plans

_CODES = {plans.COMPILATION_FAILURE, block.MALFORMED, block.OVERSIZED}


def one_input(data: bytes) -> None:
    try:
        plan = plans.parse_plan(data)
    except PeerError as refused:
        assert refused.code in _CODES, refused.code  # noqa: PT017 -- no test of pytest's
        return
    assert plan.canonical == data
    assert plans.make_plan(*plan.operands, dict(plan.parameters)) == plan
    assert plans.parse_plan(data, announced=plan.identifier) == plan
    try:
        plans.parse_plan(data, announced=plan.identifier[:-1])
    except PeerError as refused:
        assert refused.code == plans.IDENTIFIER_MISMATCH  # noqa: PT017
    else:
        raise AssertionError("a plan passes under a name that is not its own")
