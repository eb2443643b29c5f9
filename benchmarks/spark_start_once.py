"""One Spark session in a process of its own, from nothing to the first result.

    python -m benchmarks.spark_start_once PROFILE

Prints one JSON object: the seconds on the clock, and those of the processor, Java's included.
"""

import json
import os
import sys
import time

from bobbin.pipeline.spark import Profile, session


def main(profile: str) -> None:
    """Open, count, close."""
    began = time.monotonic()
    with session(master="local[2]", profile=Profile(profile)) as opened:
        ready = time.monotonic()
        assert opened.range(1000).count() == 1000
        done = time.monotonic()
    spent = os.times()
    processor = spent.user + spent.system + spent.children_user + spent.children_system
    print(json.dumps({"session": ready - began, "first": done - ready, "total": done - began, "processor": processor}))


if __name__ == "__main__":
    main(sys.argv[1])
