"""Fact blocks: any bytes are the one spelling of a list of facts, or are refused with a wire code."""

from bobbin.errors import PeerError
from bobbin.facts import block


def one_input(data: bytes) -> None:
    try:
        facts = block.parse(data)
    except PeerError as refused:
        assert refused.code in {block.MALFORMED, block.OVERSIZED}  # noqa: PT017 -- no test of pytest's
        return
    assert block.render(facts) == data
    assert [block._parse_line(line, 1) for line in data.decode().split("\n")[:-1]] == facts
