"""World time passes from one entry to the next; a node's clocks are its own."""

from bobbin.simulator.clock import EPOCH_TAI_NS, SECOND_NS, NodeClock, Timeline


def test_things_happen_in_order_and_at_their_time() -> None:
    timeline = Timeline()
    seen: list[tuple[int, str]] = []
    timeline.after(5, lambda: seen.append((timeline.now_ns, "late")))
    timeline.after(2, lambda: seen.append((timeline.now_ns, "first")))
    timeline.after(2, lambda: seen.append((timeline.now_ns, "second")))
    assert timeline.step(until_ns=3)
    assert timeline.step(until_ns=3)
    assert not timeline.step(until_ns=3), "its time has not come"
    assert timeline.step()
    assert not timeline.step()
    assert seen == [(2, "first"), (2, "second"), (5, "late")]


def test_what_is_forgotten_does_not_happen() -> None:
    timeline = Timeline()
    timeline.after(1, lambda: None)
    assert len(timeline) == 1
    timeline.forget()
    assert not timeline.step()


def test_a_jump_moves_the_wall_clock_only() -> None:
    timeline = Timeline()
    clock = NodeClock(timeline, skew_ns=7, started_ns=100)
    assert clock.read() == (EPOCH_TAI_NS + 7, 100)
    clock.jump(-3 * SECOND_NS)
    assert clock.read() == (EPOCH_TAI_NS + 7 - 3 * SECOND_NS, 100)
    clock.set_right()
    assert clock.read() == (EPOCH_TAI_NS, 100)


def test_a_clock_that_drifts_reaches_its_time_when_it_says_so() -> None:
    for drift in (-200, 0, 200):
        timeline = Timeline()
        clock = NodeClock(timeline, drift_ppm=drift, started_ns=17)
        due = clock.read().monotonic_ns + 30 * SECOND_NS
        timeline.after(clock.delay_until(due), lambda: None)
        timeline.step()
        assert 0 <= clock.read().monotonic_ns - due <= 3
        assert clock.delay_until(due) == 0
