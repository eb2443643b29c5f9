"""The way through bytes: everything is encoded and decoded, and what is no message is said to be none."""

import pytest

from bobbin.interlace.config import Open
from bobbin.interlace.events import OperandChanged, Received, Undecodable
from bobbin.interlace.limits import Limits
from bobbin.interlace.machine import InterlaceMachine
from bobbin.interlace.messages import Hello, Message, Request, Setup
from bobbin.interlace.reasons import Reason
from bobbin.interlace.state import Awaits
from bobbin.runtime.codec_channel import CodecChannel
from bobbin.runtime.pair import Channel, Pair, Side
from tests.policy_worlds import EVERYTHING
from tests.support.exchanges import BY_GROUP, Against, Watched, config, hashes, meet, records, selector


def _channel(limits: Limits | None = None) -> CodecChannel:
    made = config(limits=limits or Limits())
    return CodecChannel(InterlaceMachine(made, Watched()), InterlaceMachine(made, Watched()))


def test_a_message_comes_out_as_it_went_in() -> None:
    """IL-058, ILC-102."""
    channel = _channel()
    setup = Against(config()).setup()
    assert channel.pull(Awaits.SETUP) is None
    channel.push(setup)
    received = channel.pull(Awaits.SETUP)
    assert received == Received(setup)
    assert isinstance(received, Received)
    assert received.message is not setup
    assert channel.pull(Awaits.HELLO) is None


def test_a_block_is_read_as_what_is_awaited() -> None:
    """IL-261, IL-120: a request where a setup belongs is none."""
    channel = _channel()
    channel.push(Request(records=("P." + "0" * 43 + ".H3",)))
    event = channel.pull(Awaits.SETUP)
    assert isinstance(event, Undecodable)
    assert event.reason in (Reason.MALFORMED_BLOCK, Reason.OUT_OF_PHASE)


_TICK = b"TickReady('1640995200:000000000')\n"


@pytest.mark.parametrize("awaits", [Awaits.SETUP, Awaits.HELLO])
def test_readiness_has_no_place_before_the_loop(awaits: Awaits) -> None:
    """ILC-142, IL-116: no message before it has room for it, and no block before it may say it."""
    assert "tick" not in {*Setup.__struct_fields__, *Hello.__struct_fields__}
    channel = _channel()
    channel._pieces.append(_TICK + b"\n")
    event = channel.pull(awaits)
    assert isinstance(event, Undecodable)
    assert event.reason in (Reason.MALFORMED_BLOCK, Reason.OUT_OF_PHASE)


def test_the_trailer_form_is_no_record_here() -> None:
    """IL-206: this binding has no support for it, so what begins like it is no element of a transfer."""
    channel = _channel()
    channel._pieces.append("⋯🖧: P u/ding/n\n".encode() + records(1)[0].raw + b"\n")
    event = channel.pull(Awaits.TRANSFER)
    assert isinstance(event, Undecodable)


def test_a_channel_is_told_of_a_new_epoch() -> None:
    """IL-233, ILC-060: under another plan, other fields and labels are read."""
    here = [*records(2), *records(2, first=10, group="x")]
    meeting = meet(here, [], BY_GROUP, lifecycle=Open(), codec=True)
    meeting.start()
    assert set(meeting.there.records) == hashes(records(2))
    for side in (meeting.left, meeting.right):
        side.give(OperandChanged(selector(EVERYTHING)))
    meeting.pair.settle()
    assert set(meeting.there.records) == hashes(here)


def test_sizes_are_told() -> None:
    sizes: list[tuple[Message, int]] = []
    meeting = meet(records(3), [])

    def channel(sender: Side, receiver: Side) -> Channel:
        return CodecChannel(sender.machine, receiver.machine, tap=lambda message, size: sizes.append((message, size)))

    Pair(meeting.left, meeting.right, clock=meeting.clock, channel=channel).run()
    assert len(sizes) == len(meeting.said)
    assert all(size > 0 for _, size in sizes)
    (setup, *_) = [size for message, size in sizes if isinstance(message, Setup)]
    assert setup > len(selector(EVERYTHING).canonical)
