"""Ghosts: the recorded registries after every step, and texts that are none."""

import pytest

from bobbin.errors import UsageError
from bobbin.tangles.ghosts import DamagedGhosts, Ghosts
from tests.vectors.load import load


@pytest.mark.parametrize("number", range(len(load("pzp/ghosts/sequences.json")["sequences"])))
def test_recorded_sequences(number: int) -> None:
    ghosts = Ghosts()
    for step in load("pzp/ghosts/sequences.json")["sequences"][number]["steps"]:
        if step["op"] == "save":
            before = set(ghosts.depths) | {step["msgID"]}
            gone = ghosts.save(step["msgID"], step["depth"], span=step["span"])
            assert set(gone) == before - set(ghosts.depths)
        else:
            was = step["msgID"] in ghosts
            assert ghosts.remove(step["msgID"]) is was
        assert [list(entry) for entry in ghosts.depths.items()] == step["state"]
        if "file" in step:
            assert ghosts.encode() == step["file"]
            assert list(Ghosts.decode(step["file"]).depths.items()) == list(ghosts.depths.items())


def test_an_entry_exactly_a_span_below_the_highest_is_forgotten() -> None:
    ghosts = Ghosts([("low", 1), ("kept", 2)])
    assert ghosts.save("high", 4, span=3) == ("low",)
    assert list(ghosts.depths) == ["kept", "high"]
    assert len(ghosts) == 2


@pytest.mark.parametrize("text", ["", "{}", "[[1,2]]", '[["a"]]', '[["a",1],["a",2]]', '[["a",-1]]', '[["a",1.5]]'])
def test_damaged_texts_are_refused(text: str) -> None:
    with pytest.raises(DamagedGhosts):
        Ghosts.decode(text)


def test_no_negative_numbers() -> None:
    with pytest.raises(UsageError):
        Ghosts().save("a", -1, span=3)
    with pytest.raises(UsageError):
        Ghosts().save("a", 1, span=-1)
