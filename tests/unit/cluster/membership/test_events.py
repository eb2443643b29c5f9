"""What a machine hears, and that every kind of it is taken."""

from bobbin.cluster.membership.events import Heard, IncarnationPersisted, PeersChanged, PersistFailed, Tick
from bobbin.cluster.membership.messages import Health, Ping
from bobbin.cluster.names import NodeId
from tests.unit.cluster.membership.driven import B, C, Driven


def test_every_kind_of_event_is_a_step() -> None:
    node = Driven("bc", persists=False)
    for event in (
        Tick(),
        Heard(B, Ping(origin=B, sequence=1)),
        IncarnationPersisted(5),
        PersistFailed("no room"),
        PeersChanged(((C, None),)),
    ):
        node.step(event)
        node.machine.check()
    assert set(node.machine.table.states) == {C, node.machine.node}
    assert node.health(C) is Health.UNKNOWN
    assert NodeId("b") not in node.machine.embeddings
