"""A hostile observer does every kind of harm that it can, and only over its own link."""

from random import Random

from bobbin.reactive.handshake import Capabilities
from bobbin.reactive.messages import PeerId
from bobbin.reactive.publisher import Publisher, PublisherConfig
from bobbin.simulator.reactive_channel import CALM, Channel
from bobbin.simulator.reactive_ends import SourceEnd
from bobbin.simulator.reactive_hostile import HostileObserver
from bobbin.simulator.reactive_witness import Witness
from bobbin.wire.lazily.forms import Form
from tests.unit.simulator.test_reactive_ends import A, Owner

HOSTILE = PeerId(2)


def test_it_does_everything_it_should_not_and_nothing_comes_of_it() -> None:
    owner = Owner()
    random = Random(4)
    hostile = HostileObserver(HOSTILE, random, session="s")
    before = dict(owner.stage.truth.nodes)
    vices = set()
    for number in range(200):
        if not hostile.is_linked:
            channel = Channel(owner.timeline, CALM, random)
            config = PublisherConfig(capabilities=Capabilities(peer=PeerId(0), session="s"), checking=True)
            publisher = Publisher(
                config, peer=HOSTILE, truth=owner.stage.truth, permissions=owner.stage.grants.permissions
            )
            witness = Witness("link", config.first_epoch, owner.expect)
            form = Form.SEED_JSON if number % 2 else Form.CANONICAL_JSON
            hostile.connect(SourceEnd(owner, publisher, witness, channel, form), form)
        vices.add(hostile.act([A]))
        owner.settle(milliseconds=20)
    assert len(vices) == 12
    assert owner.writes == []
    assert owner.fired == []
    assert set(owner.met) == {HOSTILE}
    assert dict(owner.stage.truth.nodes) == before
    hostile.leave()
    assert not hostile.is_linked
