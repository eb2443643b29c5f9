"""reaktiv in the reactive benchmark; run by the interpreter of its own environment."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from benchmarks.reactive_side import BATCH, BEHIND, CHAIN, FAN, Figures, answer, check, timed

reaktiv: Any = import_module("reaktiv")


def _write_all(source: Any, count: int) -> None:  # noqa: ANN401 -- the peer is not installed where this is checked
    for value in range(1, count + 1):
        source.set(value)


def chain(count: int) -> Figures:
    """One write through a chain to an effect."""
    source = last = reaktiv.signal(0)
    kept = [source]
    for _ in range(CHAIN):
        last = reaktiv.computed(lambda before=last: before() + 1)
        kept.append(last)
    seen: list[int] = []
    effect = reaktiv.effect(lambda: seen.append(last()))
    figures = timed(lambda: _write_all(source, count), count)
    check(seen, list(range(CHAIN, CHAIN + count + 1)))
    effect.dispose()
    return figures


def fan(count: int) -> Figures:
    """One write to many derived values with an effect each."""
    source = reaktiv.signal(0)
    seen = [0] * FAN
    runs = 0

    def tie(number: int) -> Any:  # noqa: ANN401 -- as above
        derived = reaktiv.computed(lambda: source() + number)

        def act() -> None:
            nonlocal runs
            seen[number] = derived()
            runs += 1

        return reaktiv.effect(act)

    effects = [tie(number) for number in range(FAN)]
    figures = timed(lambda: _write_all(source, count), count)
    check((seen, runs), ([count + number for number in range(FAN)], FAN * (count + 1)))
    for effect in effects:
        effect.dispose()
    return figures


def batch(count: int) -> Figures:
    """Many writes in a batch to one sum with an effect."""
    sources = [reaktiv.signal(0) for _ in range(BATCH)]
    total = reaktiv.computed(lambda: sum([source() for source in sources]))
    seen: list[int] = []
    effect = reaktiv.effect(lambda: seen.append(total()))

    def work() -> None:
        for value in range(1, count + 1):
            with reaktiv.batch():
                for source in sources:
                    source.set(value)

    figures = timed(work, count)
    check(seen, [BATCH * value for value in range(count + 1)])
    effect.dispose()
    return figures


def suppressed(count: int) -> Figures:
    """One write that changes nothing behind the first derived value."""
    source = reaktiv.signal(0)
    still = reaktiv.computed(lambda: source() * 0)
    seen: list[int] = []

    def tie(number: int) -> Callable[[], object]:
        derived = reaktiv.computed(lambda: still() + number)
        effect: Callable[[], object] = reaktiv.effect(lambda: seen.append(derived()))
        return effect

    effects: list[Any] = [tie(number) for number in range(BEHIND)]
    figures = timed(lambda: _write_all(source, count), count)
    check(seen, list(range(BEHIND)))
    for effect in effects:
        effect.dispose()
    return figures


if __name__ == "__main__":
    answer({"chain": chain, "fan": fan, "batch": batch, "suppressed": suppressed})
