"""The clock of a running program. Below this layer time is always an argument; here it is read."""

import time

from bobbin.records import tai


def tai_now() -> int:
    """This instant by the system clock, in TAI nanoseconds."""
    return tai.from_utc(time.time_ns())
