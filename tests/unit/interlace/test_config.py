"""What a side brings to an exchange."""

import pytest

from bobbin.errors import UsageError
from bobbin.interlace.choice import Strategy
from bobbin.interlace.config import Bounded, Open
from bobbin.interlace.limits import Limits
from tests.support.exchanges import config


def test_the_defaults_are_those_of_the_protocol() -> None:
    """IL-275, IL-171: bounded, without ticks, under the limits of the page."""
    made = config()
    assert made.lifecycle == Bounded(ticks=0)
    assert made.limits == Limits()
    assert made.formats == {"H3"}
    assert made.schema is None
    assert not made.encrypted
    assert not made.direct
    assert made.cursor_key is None


def test_an_exchange_accepts_some_format() -> None:
    with pytest.raises(UsageError):
        config(formats=frozenset())


def test_a_number_of_ticks_is_not_negative() -> None:
    with pytest.raises(UsageError):
        config(lifecycle=Bounded(ticks=-1))
    assert config(lifecycle=Open()).lifecycle == Open()


@pytest.mark.parametrize("strategy", list(Strategy))
def test_only_some_strategies_need_a_share(strategy: Strategy) -> None:
    assert config(strategy=strategy, share=5).offered_share == (5 if strategy.is_negotiated else None)
    assert config(strategy=strategy).offered_share is None
    assert config(strategy=strategy, share=5, direct=True).offered_share is None


@pytest.mark.parametrize("share", [0, -1, 2**64])
def test_a_share_is_a_number_that_a_hello_can_tell(share: int) -> None:
    with pytest.raises(UsageError, match="share"):
        config(share=share)
