"""Sketches: whatever a peer says about its claims as a whole, it is understood, given up on, or refused with a reason.

The first byte says whether this side is the initiator. The rest is blocks of the advertise phase, an empty line after
each: the first has a standing, the others follow in step with what this side says.
"""

from bobbin.errors import PeerError
from bobbin.interlace.choice import Strategy
from bobbin.interlace.dialogue import Dialogue
from bobbin.interlace.learned import Learned, claims_of
from bobbin.interlace.limits import Limits, Service
from bobbin.interlace.messages import Advertise, Advertisement
from bobbin.interlace.offers import Offers
from bobbin.interlace.reasons import Reason
from bobbin.interlace.schema import Schema
from bobbin.policy.operands import Origin
from bobbin.wire.interlace import encode
from bobbin.wire.loop import read_advertise

_OWN, _PEER = Origin("source:0"), Origin("source:1")
_LIMITS = Limits(max_partition_summaries=64, max_fact_block_size=8192, max_advertisement_records_listed=50)
_SERVICE = Service(sketch_symbols_max=200, sketch_ids_max=50, sketch_turns_max=2, list_outright_max=4)
_BLOCKS_MAX = 12


def one_input(data: bytes) -> None:
    choice, raw = (data[0], data[1:]) if data else (0, b"")
    strategy = (Strategy.AUTO, Strategy.SKETCH, Strategy.RANGES)[choice // 2 % 3]
    dialogue, learned = _begin(initiator=bool(choice % 2), strategy=strategy)
    dialogue.opening()
    for number, text in enumerate(raw.split(b"\n\n")[:_BLOCKS_MAX]):
        try:
            block = _read(text)
        except PeerError as refused:
            assert Reason(refused.code)  # noqa: PT017 -- no test of pytest's
            return
        _expect_one_spelling(block)
        try:
            if number:
                dialogue.hear(block)
            else:
                dialogue.hear_opening(block)
            if dialogue.is_over:
                dialogue.end_phase()
                learned.check()
                return
            _expect_one_spelling(dialogue.next_block())
        except PeerError as refused:
            assert Reason(refused.code)  # noqa: PT017 -- no test of pytest's
            return
        dialogue.check()


def _begin(*, initiator: bool, strategy: Strategy) -> tuple[Dialogue, Learned]:
    offers, learned = Offers(2, _OWN), Learned(2, (), _PEER)
    offers.keep_index(claims_of)
    offers.update([Advertisement(record=f"P.{number:043d}.H3", fields=()) for number in range(0, 48, 4)], ())
    dialogue = Dialogue(bytes(16), offers, learned, _LIMITS, _SERVICE, initiator=initiator, strategy=strategy)
    return dialogue, learned


def _read(text: bytes) -> Advertise:
    raw = text.strip(b"\n")
    return read_advertise(
        raw + b"\n" if raw else b"",
        source=_PEER,
        schema=Schema(all=True),
        bytes_max=_LIMITS.max_fact_block_size,
        records_max=_LIMITS.max_advertisement_records_listed,
        partitions_max=_LIMITS.max_partition_summaries,
    )


def _expect_one_spelling(block: Advertise) -> None:
    raw = b"".join(encode(block, source=_PEER)).removesuffix(b"\n")
    assert _read(raw).part == block.part
