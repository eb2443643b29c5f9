"""A fault has a name, and a decoder that met one stays with it."""

import pytest

from bobbin.errors import PeerError
from bobbin.wire.pzp.faults import Fault, Latch, WireFault


def test_a_fault_is_the_peers_and_says_which_rule() -> None:
    fault = WireFault(Fault.PADDING, "a block without padding")
    assert isinstance(fault, PeerError)
    assert (fault.code, fault.fault, str(fault)) == ("padding", Fault.PADDING, "a block without padding")


def test_the_first_fault_comes_again() -> None:
    latch = Latch()
    latch.check()
    with pytest.raises(WireFault, match="first"):
        latch.fail(Fault.MALFORMED, "first")
    for _ in range(2):
        with pytest.raises(WireFault, match="first") as caught:
            latch.check()
        assert caught.value.fault is Fault.MALFORMED


def test_every_fault_has_a_name_of_its_own() -> None:
    assert len({fault.value for fault in Fault}) == len(Fault)
