import pytest

from bobbin.errors import PeerError, UsageError
from bobbin.wire.lazily.faults import (
    DETAIL_CHARACTERS_MAX,
    Fault,
    FrameFault,
    Latch,
    OversizedFrame,
    check_size,
    malformed,
)


def test_a_fault_has_its_name_as_code_and_quotes_no_more_than_it_should() -> None:
    fault = FrameFault(Fault.MALFORMED, "x" * 10_000)
    assert isinstance(fault, PeerError)
    assert (fault.code, fault.fault) == ("malformed", Fault.MALFORMED)
    assert len(str(fault)) == DETAIL_CHARACTERS_MAX


def test_an_error_without_words_is_named() -> None:
    assert str(malformed(RecursionError())) == "RecursionError"
    assert str(malformed(ValueError("why"))) == "why"


def test_sizes_are_checked_to_the_byte() -> None:
    check_size(b"12", 2)
    with pytest.raises(FrameFault) as caught:
        check_size(b"123", 2)
    assert caught.value.fault is Fault.OVERSIZED


def test_what_is_too_long_to_send_is_our_own_affair() -> None:
    error = OversizedFrame(3, 2)
    assert isinstance(error, UsageError)
    assert error.size == 3


def test_the_first_fault_stays() -> None:
    latch = Latch()
    latch.check()
    with pytest.raises(FrameFault):
        latch.fail(Fault.OVERSIZED, "first")
    with pytest.raises(FrameFault, match="first"):
        latch.check()
