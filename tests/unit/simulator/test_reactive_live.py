"""A live graph does what the model does, and says so itself."""

from random import Random

import pytest

from bobbin.reactive.replica import Replica
from bobbin.simulator.reactive_live import LiveGraph
from bobbin.simulator.reactive_model import GraphModel, Play
from bobbin.simulator.reactive_witness import projected, sight_of


@pytest.mark.parametrize("seed", range(10))
def test_what_it_says_of_itself_is_what_the_model_shows(seed: int) -> None:
    play = Play(Random(seed), is_lazy=False, reuses=True)
    model, replica = GraphModel(), Replica()
    model.play(play.begin())
    live = LiveGraph([(one, model.cells.get(id, 0)) for id, one in model.described.items()], lambda _: True)
    assert replica.replace(live.snapshot()) is None
    for _ in range(25):
        acts = play.batch()
        model.play(acts)
        change = live.act(acts)
        if change is not None:
            assert replica.misfit(change.operations) is None
            replica.apply(change.operations)
        shown = sight_of(replica.nodes.values(), replica.edges, replica.roots)
        assert shown == projected(model.shown, lambda _: True)


def test_what_nobody_may_see_is_computed_when_somebody_may() -> None:
    play = Play(Random(3), is_lazy=False, reuses=False)
    model = GraphModel()
    model.play(play.begin())
    live = LiveGraph([(one, model.cells.get(id, 0)) for id, one in model.described.items()], lambda _: False)
    lazy = {node.id for node in live.snapshot().nodes if node.value is None}
    assert lazy
    change = live.resolve(lazy)
    assert change is not None
    assert all(node.value is not None for node in live.snapshot().nodes)
    assert live.resolve(lazy) is None
