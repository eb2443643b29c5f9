from bobbin.cluster.timing import Timing


def test_a_timing_has_count_total_least_most_and_mean() -> None:
    timing = Timing()
    for duration in (5, 2, 11):
        timing.add(duration)
    assert (timing.count, timing.total_ns, timing.min_ns, timing.max_ns, timing.mean_ns) == (3, 18, 2, 11, 6.0)


def test_a_timing_of_nothing_has_no_mean() -> None:
    assert Timing().mean_ns is None
    assert Timing() == Timing(count=0, total_ns=0, min_ns=0, max_ns=0)


def test_the_first_duration_is_least_and_most() -> None:
    timing = Timing()
    timing.add(7)
    assert (timing.min_ns, timing.max_ns) == (7, 7)
