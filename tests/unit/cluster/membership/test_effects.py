"""What a machine wants done, and in which order it says so."""

from bobbin.cluster.membership.effects import HealthChanged, PersistIncarnation, Send, WakeAt
from bobbin.cluster.membership.events import IncarnationPersisted
from bobbin.cluster.membership.messages import Health, Suspect
from bobbin.cluster.names import MILLISECOND_NS
from tests.unit.cluster.membership.driven import A, B, C, Driven, word


def test_a_step_says_persist_send_notify_wake() -> None:
    node = Driven("bc", persists=False)
    node.step(IncarnationPersisted(5))
    node.introduce()
    # Something against this node and something against another, in one message.
    effects = node.sync(
        C, word(A, Health.FAILED, 9, by=C), word(B, Health.DEGRADED, 1, by=C), word(C, Health.HEALTHY, 9)
    )
    assert effects[0] == PersistIncarnation(10)
    assert effects[1] == HealthChanged(B, Health.HEALTHY, Health.DEGRADED, 1)
    node.take()
    node.advance(3_000)
    order = [PersistIncarnation, Send, HealthChanged, WakeAt]
    kinds = [type(effect) for effect in node.hear(B, Suspect(reporter=B, suspect=C, incarnation=9))]
    assert [order.index(kind) for kind in kinds] == sorted(order.index(kind) for kind in kinds)
    assert HealthChanged in kinds


def test_a_machine_asks_to_be_woken_before_anything_else_happens() -> None:
    node = Driven("b", persists=False)
    first, *_, last = node.take()
    assert first == PersistIncarnation(5)
    assert isinstance(last, WakeAt)
    assert last.at_ns - node.now_ns < 200 * MILLISECOND_NS, "a gossip round is due by then"
