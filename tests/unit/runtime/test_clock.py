"""The system clock, as TAI."""

import time

from bobbin.records import tai
from bobbin.runtime.clock import tai_now


def test_now_is_utc_plus_the_offset_in_force() -> None:
    before = time.time_ns()
    now = tai_now()
    after = time.time_ns()
    assert before <= tai.to_utc(now) <= after
    assert now - tai.to_utc(now) >= 37 * tai.NANOSECONDS
