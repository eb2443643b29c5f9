"""Messages as they are and as bytes lead to the same exchange; bytes that are none end it."""

from random import Random

from bobbin.interlace.advertise import advertisement
from bobbin.interlace.messages import Advertise, Message, Request, Setup
from bobbin.interlace.reasons import Reason
from bobbin.policy.operands import Origin
from bobbin.simulator.streams import ByteStream, truncate
from tests.unit.simulator.exchanges import Setting, note


def test_both_ways_of_speaking_lead_to_the_same_records() -> None:
    for is_bytes in (False, True):
        setting = Setting([note(1), note(2)], [note(2), note(3)], is_bytes=is_bytes)
        setting.connect()
        setting.run()
        assert [end.result is not None and end.result.fixed_point for end in setting.ends] == [True, True]
        assert all(set(node.records) == set(setting.everything) for node in setting.nodes)


def test_spoilt_bytes_end_the_exchange_with_a_reason() -> None:
    setting = Setting([note(1)], [], is_bytes=True)
    setting.connect()
    stream = setting.ends[0]._stream
    assert isinstance(stream, ByteStream)
    stream.take(b"\xff nonsense\n")
    setting.run()
    result = setting.ends[0].result
    assert result is not None
    assert isinstance(result.reason, Reason)
    assert not result.fixed_point


def test_a_liar_may_advertise_before_there_is_a_plan() -> None:
    def overload(message: Message) -> list[Message]:
        claim = advertisement(note(9).hash, Origin("source:1"), ())
        return [Advertise(records=(claim,))] if isinstance(message, Setup) else [message]

    setting = Setting([note(1)], [], is_bytes=True)
    setting.connect(tamper=overload)
    setting.run()
    result = setting.ends[0].result
    assert result is not None
    assert result.reason in (Reason.OUT_OF_PHASE, Reason.MALFORMED_BLOCK)


def test_pieces_are_the_whole() -> None:
    setting = Setting([note(1)], [], is_bytes=True)
    setting.connect()
    stream = setting.ends[0]._stream
    assert isinstance(stream, ByteStream)
    raw = bytes(range(256))
    assert all(b"".join(stream._pieces(raw)) == raw for _ in range(50))
    assert stream._pieces(b"") == []


def test_a_cut_leaves_the_beginning_of_bytes_and_nothing_of_a_message() -> None:
    cut = truncate(b"abcdef", Random(1))
    assert isinstance(cut, bytes)
    assert b"abcdef".startswith(cut)
    assert len(cut) < 6
    assert truncate(Request(), Random(1)) is None
