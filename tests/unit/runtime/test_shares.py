"""Shares of a key are numbers by chance that a hello can tell, all of one length."""

from bobbin.interlace.limits import VALUE_MAX
from bobbin.runtime.shares import draw_share


def test_shares_differ_and_can_be_told() -> None:
    shares = {draw_share() for _ in range(100)}
    assert len(shares) == 100
    assert all(1 <= share <= VALUE_MAX for share in shares)
    assert len({len(str(share)) for share in shares}) == 1
