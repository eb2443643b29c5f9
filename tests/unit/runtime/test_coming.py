"""Something that was begun."""

from concurrent.futures import CancelledError
from typing import Never

import pytest

from bobbin.runtime.coming import Coming


def test_it_gives_what_came_of_it_and_what_is_made_of_that() -> None:
    begun = Coming(lambda: 3)
    assert begun() == 3
    assert begun.then(lambda number: number * 2).then(str)() == "6"
    begun.stop()


@pytest.mark.parametrize("error", [ValueError("it went wrong"), CancelledError()])
def test_whoever_abandons_it_stops_it_and_hears_of_nothing_that_goes_wrong(error: BaseException) -> None:
    events: list[str] = []

    def wait() -> Never:
        events.append("waited")
        raise error

    begun = Coming(wait, lambda: events.append("stopped")).then(str)
    begun.stop()
    assert events == ["stopped"]
    begun.abandon()
    assert events == ["stopped", "stopped", "waited"]
    with pytest.raises(type(error)):
        begun()


def test_what_was_to_be_made_of_an_answer_is_not_made_for_whoever_abandons_it() -> None:
    made: list[int] = []
    waited: list[bool] = []

    def wait() -> int:
        waited.append(True)
        return 3

    begun = Coming(wait).then(made.append)
    begun()
    begun.abandon()
    assert (len(waited), made) == (2, [3])


def test_an_interrupt_is_heard() -> None:
    def wait() -> Never:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Coming(wait).abandon()
