from itertools import permutations

import pytest

from bobbin.reactive.messages import KEY_BYTES_MAX, KEY_SEGMENTS_MAX, PeerId, Stamp, is_key


def test_stamps_are_ordered_by_wall_clock_then_counter_then_peer() -> None:
    ordered = [
        Stamp(wall_time=1, logical=9, peer=PeerId(9)),
        Stamp(wall_time=2, logical=0, peer=PeerId(9)),
        Stamp(wall_time=2, logical=1, peer=PeerId(1)),
        Stamp(wall_time=2, logical=1, peer=PeerId(2)),
    ]
    for shuffled in permutations(ordered):
        assert sorted(shuffled) == ordered


@pytest.mark.parametrize(
    "text", ["a", "a/b", "/".join("a" * KEY_SEGMENTS_MAX), "x" * KEY_BYTES_MAX, "é" * (KEY_BYTES_MAX // 2)]
)
def test_what_is_a_key(text: str) -> None:
    assert is_key(text)


@pytest.mark.parametrize(
    "text",
    ["", "/", "a//b", "/a", "a/", "/".join("a" * (KEY_SEGMENTS_MAX + 1)), "x" * (KEY_BYTES_MAX + 1), "é" * 513],
)
def test_what_is_none(text: str) -> None:
    assert not is_key(text)
