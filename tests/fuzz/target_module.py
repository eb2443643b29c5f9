"""Selectors of peers: announced under a name, then sent. They are what they were called and valid, or refused.

The first line is the name; an empty one stands for the true name, so that the fuzzer need not find a hash.
"""

from bobbin.datalog.canonicalise import identifier
from bobbin.datalog.limits import PEER
from bobbin.policy.modules import MALFORMED_MODULE, MalformedModule, compile_selector, receive_selector


def one_input(data: bytes) -> None:
    name, _, raw = data.partition(b"\n")
    announced = name.decode("utf-8", "surrogateescape") or identifier(raw)
    try:
        selector = receive_selector(raw, announced, limits=PEER)
    except MalformedModule as refused:
        assert refused.code == MALFORMED_MODULE  # noqa: PT017 -- no test of pytest's
        assert refused.diagnostics or announced != identifier(raw)  # noqa: PT017
        return
    assert (selector.canonical, selector.identifier) == (raw, announced)
    again = compile_selector(raw, limits=PEER)
    assert (again.canonical, again.fields) == (raw, selector.fields)
