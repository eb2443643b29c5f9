"""A witness is content with an honest exchange, and speaks up when a machine says what it must not."""

from collections.abc import Callable

import pytest
from msgspec import structs

from bobbin.interlace.advertise import advertisement
from bobbin.interlace.effects import Effect, Ended, Notify, Send
from bobbin.interlace.messages import Advertise, Delivered, Message, Request, Transfer
from bobbin.policy.operands import Origin
from bobbin.simulator.world import Broken
from tests.unit.simulator.exchanges import Setting, note


def test_an_honest_exchange_passes() -> None:
    setting = Setting([note(1), note(2)], [note(3)])
    setting.connect()
    setting.run()
    witnesses = [end.witness for end in setting.ends]
    assert all(witness is not None and witness.ended and witness.fixed_points == 1 for witness in witnesses)


def _hide(message: Message) -> Message:
    return structs.replace(message, records=message.records[1:]) if isinstance(message, Advertise) else message


def _invent(message: Message) -> Message:
    if not isinstance(message, Advertise) or not message.records:
        return message
    return structs.replace(message, records=(*message.records, advertisement(note(9).hash, Origin("source:0"), ())))


def _overask(message: Message) -> Message:
    return Request(records=(note(9).hash,)) if isinstance(message, Request) else message


def _ask_nothing(message: Message) -> Message:
    return Request() if isinstance(message, Request) else message


def _oversend(message: Message) -> Message:
    if not isinstance(message, Transfer):
        return message
    extra = Delivered(record=note(9).hash, raw=note(9).raw)
    return structs.replace(message, responses=(*message.responses, extra))


def _alter(message: Message) -> Message:
    if not isinstance(message, Transfer):
        return message
    changed = tuple(structs.replace(one, raw=b"x") if isinstance(one, Delivered) else one for one in message.responses)
    return structs.replace(message, responses=changed)


@pytest.mark.parametrize("twist", [_hide, _invent, _overask, _ask_nothing, _oversend, _alter])
def test_a_machine_that_says_what_it_must_not_is_found_out(twist: Callable[[Message], Message]) -> None:
    setting = Setting([note(1), note(2)], [note(3)])
    setting.connect()
    for end in setting.ends:
        assert end.witness is not None
        saw = end.witness.saw

        def twisted(event: object, effects: tuple[Effect, ...], now: object, saw: object = saw) -> None:
            said = tuple(Send(twist(one.message)) if isinstance(one, Send) else one for one in effects)
            saw(event, said, now)  # type: ignore[operator]

        end.witness.saw = twisted  # type: ignore[method-assign,assignment]
    with pytest.raises(Broken):
        setting.run()


def test_an_end_comes_once_and_nothing_after_it() -> None:
    setting = Setting([], [])
    setting.connect()
    setting.run()
    witness, end = setting.ends[0].witness, setting.ends[0]
    assert witness is not None
    assert end.result is not None
    with pytest.raises(Broken, match="after the end"):
        witness.saw(None, (Notify(Ended(end.result)),), None)  # type: ignore[arg-type]
