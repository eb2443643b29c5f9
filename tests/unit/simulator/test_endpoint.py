"""A machine at the end of a simulated link: effects are performed, later; a crash takes what was not done."""

from unittest.mock import patch

from bobbin.interlace.effects import Persist, SaveCursor
from bobbin.interlace.events import Cancelled
from bobbin.interlace.messages import Message
from bobbin.interlace.reasons import Reason
from bobbin.simulator.network import Weather
from bobbin.simulator.node import MemoryVault, Node
from tests.unit.simulator.exchanges import Setting, note


def test_an_exchange_runs_to_its_fixed_point_and_is_traced() -> None:
    setting = Setting([note(1), note(2)], [note(2), note(3)])
    setting.connect()
    setting.run()
    assert all(end.result is not None and end.result.fixed_point for end in setting.ends)
    assert set(setting.nodes[0].records) == set(setting.nodes[1].records) == set(setting.everything)
    assert any("[request] Received(Request(records=[" in line for line in setting.trace)
    assert all(end.witness is not None and end.witness.checks > 5 for end in setting.ends)


def test_a_crash_before_storing_loses_what_was_to_be_stored_and_the_other_side_learns_of_it() -> None:
    setting = Setting([note(1)], [])
    setting.connect()
    right = setting.ends[1]
    performed = right._perform

    def crash_at_persist(effect: object) -> None:
        performed(effect)  # type: ignore[arg-type]
        if isinstance(effect, Persist):
            right.crash()

    right._perform = crash_at_persist  # type: ignore[method-assign]
    setting.run()
    assert right.is_dead
    assert right.result is None
    assert setting.nodes[1].records == {}
    left = setting.ends[0].result
    assert left is not None
    assert left.reason is Reason.LINK_LOST
    setting.connect()
    setting.run()
    assert set(setting.nodes[1].records) == {note(1).hash}


def test_a_power_cut_takes_the_process_even_where_the_store_does_not_complain() -> None:
    setting = Setting([note(1)], [])
    setting.connect()
    right = setting.ends[1]
    down: list[bool] = []
    failed: list[Node] = []

    def fail(node: Node) -> None:
        failed.append(node)
        right.crash()

    right._on_failure = fail
    saved = right._holdings.save

    def save(effect: SaveCursor) -> bool:
        down.append(saved(effect))
        return True

    is_down = property(lambda vault: bool(down) and vault is setting.nodes[1].vault)
    with patch.object(MemoryVault, "is_down", is_down), patch.object(right._holdings, "save", save):
        setting.run()
    assert down
    assert failed == [setting.nodes[1]]
    assert right.is_dead


def test_a_phase_without_answer_times_out() -> None:
    def say_nothing(message: Message) -> list[Message]:
        del message
        return []

    setting = Setting([note(1)], [])
    setting.connect(tamper=say_nothing)
    setting.run()
    result = setting.ends[0].result
    assert result is not None
    assert result.reason is Reason.PHASE_TIMEOUT
    assert setting.timeline.now_ns >= 30 * 10**9


def test_nothing_is_given_to_a_machine_that_has_ended() -> None:
    setting = Setting([], [])
    setting.connect()
    setting.ends[0].give(Cancelled())
    assert setting.ends[0].is_over
    setting.ends[0].give(Cancelled())
    setting.run()
    assert setting.ends[1].is_over


def test_a_link_that_breaks_ends_both_sides() -> None:
    setting = Setting([note(1)], [note(2)])
    setting.connect(weather=Weather(break_rate=1.0))
    setting.run()
    assert [end.result.reason for end in setting.ends if end.result] == [Reason.LINK_LOST] * 2
