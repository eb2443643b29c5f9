"""Validation: what becomes of what arrives, and which answers have no place."""

import pytest

from bobbin.interlace.advertise import advertisement
from bobbin.interlace.effects import Arrived, Persist, Send
from bobbin.interlace.events import Fate, Persisted, Received, Settled
from bobbin.interlace.limits import Service
from bobbin.interlace.messages import Advertise, Delivered, Request, Transfer, Unavailable
from bobbin.interlace.reasons import Reason
from bobbin.interlace.state import Awaits, Phase
from bobbin.records import canonical
from bobbin.records.reasons import Reason as Invalid
from bobbin.records.record import Record, build_blob, seal
from bobbin.records.signing import SigningKey
from tests.policy_worlds import EVERYTHING
from tests.support.exchanges import (
    BY_GROUP,
    Against,
    Changes,
    Watched,
    config,
    delivered,
    hashes,
    meet,
    record,
    records,
)


def _reason(against: Against) -> Reason | None:
    assert against.result is not None
    return against.result.reason


# ---- what arrives ---------------------------------------------------------------------------------------------------

_KEY = SigningKey.from_secret(b"k" * 32)
_HEADERS = [("Group", "u"), ("App", "ding"), ("Name", "n"), ("TAI", "1640995200:000000000")]


def _flip(raw: bytes, at: int) -> bytes:
    return raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :]


def _sealed(number: int) -> Record:
    return seal(record(number), _KEY, auxiliary=b"a" * 32)


def _name(raw: bytes) -> str:
    """What the bytes call themselves."""
    return raw.split(b"\n", 1)[0].removeprefix(canonical.MARK + b": ").decode()


def _signed_wrongly() -> bytes:
    """A Seal whose hash is right and whose signature is not, by one bit."""
    signature = _KEY.sign(record(1).digest, auxiliary=b"a" * 32)
    return canonical.seal_record(_KEY.verifier, _flip(signature, 40), record(1).raw)


_BLOB = canonical.blob_record(b"data")
_UNORDERED = canonical.plex_record([_HEADERS[1], _HEADERS[0], *_HEADERS[2:]], _BLOB)
_WRONG_INSIDE = canonical.plex_record(_HEADERS, _flip(_BLOB, len(_BLOB) - 1))
_WRONG_DEEP_INSIDE = canonical.seal_record(_KEY.verifier, bytes(64), _WRONG_INSIDE)

_BAD: dict[str, tuple[str, bytes]] = {
    "another record": (record(1).hash, record(2).raw),
    "no record": (record(1).hash, b"nothing of the kind"),
    "nothing": (record(1).hash, b""),
    "trailer form": (record(1).hash, "⋯🖧: P u/ding/n\n".encode() + record(1).raw),
    "more than the record": (record(1).hash, record(1).raw + b"\n"),
    "changed data": (record(1).hash, _flip(record(1).raw, len(record(1).raw) - 1)),
    "another kind": (record(1).hash, build_blob(record(1).data).raw),
    "another format": (record(1).hash, record(1).raw.replace(b".H3", b".H9")),
    "structure under a right hash": (_name(_UNORDERED), _UNORDERED),
    "embedded hash under a right hash": (_name(_WRONG_INSIDE), _WRONG_INSIDE),
    "embedded hash in a Seal": (_name(_WRONG_DEEP_INSIDE), _WRONG_DEEP_INSIDE),
    "signature under a right hash": (_name(_signed_wrongly()), _signed_wrongly()),
}


@pytest.mark.parametrize(("asked", "raw"), _BAD.values(), ids=_BAD.keys())
def test_wrong_bytes_for_a_requested_hash_are_rejected_and_the_round_goes_on(asked: str, raw: bytes) -> None:
    """Of whatever kind the fault is: no fact, no record, no abort.

    IL-043, IL-153, IL-196, IL-206, IL-207, IL-208, IL-209, IL-210, IL-211, IL-212, IL-271, ILC-122, ILC-132, ILC-135.
    """
    good = record(7)
    against = Against(config())
    wanted = against.to_request(
        [advertisement(asked, against.source, ()), advertisement(good.hash, against.source, ())]
    )
    assert set(wanted.records) == {asked, good.hash}
    against.say(Request())
    bad = Delivered(record=asked, raw=raw)
    against.say(Transfer(responses=(bad, Delivered(record=good.hash, raw=good.raw)), last=True))
    assert set(against.holdings.records) == {good.hash}
    assert [notice.records for notice in against.notices if isinstance(notice, Arrived)] == [(good.hash,)]
    assert [message for message in against.said if isinstance(message, Advertise)][-1].records[0].record == good.hash
    (request,) = against.say(Advertise())
    assert request == Request()
    against.say(Request())
    against.say(Advertise())
    assert against.result is not None
    assert against.result.fixed_point
    assert against.result.received == {good.hash}
    assert set(against.result.rejected) == {asked}
    assert against.result.rejected[asked] in set(Invalid)


def test_a_seal_with_a_right_signature_is_taken() -> None:
    """IL-210, ILC-135."""
    against = Against(config())
    against.to_transfer([_sealed(1)])
    against.say(delivered(_sealed(1)))
    assert set(against.holdings.records) == {_sealed(1).hash}


def test_nothing_is_a_fact_before_it_is_stored() -> None:
    """IL-014, IL-028, IL-043, IL-220: the next word waits until what came has met its fate, then counts it."""
    one = record(1)
    against = Against(config())
    against.to_transfer([one])
    against.holds_back = True
    evaluations = against.holdings.evaluations
    assert against.say(delivered(one)) == []
    assert against.machine.awaits is Awaits.NOTHING
    assert against.holdings.evaluations == evaluations
    assert not [notice for notice in against.notices if isinstance(notice, Arrived)]
    against.holds_back = False
    (block,) = against.give(against.waiting.pop(0))
    assert isinstance(block, Advertise)
    assert [claim.record for claim in block.records] == [one.hash]


def test_persisting_comes_before_speaking() -> None:
    """IL-043: within a step, and between steps."""
    against = Against(config(), Watched(records(1, first=50)))
    against.to_transfer([record(1)], [record(50).hash])
    effects = against.machine.step(Received(delivered(record(1))), now=against.clock())
    kinds = [type(effect) for effect in effects]
    assert kinds[0] is Persist
    assert Send not in kinds


def test_a_claim_and_the_record_may_differ() -> None:
    """IL-076: the record stands on its own validation; what was claimed of it is of no consequence."""
    one = record(1, group="u", app="real")
    against = Against(config(BY_GROUP))
    against.to_request([against.claim(one, [("Group", "u"), ("App", "claimed")])])
    against.say(Request())
    (block,) = against.say(delivered(one))
    assert one.hash in against.holdings.records
    assert isinstance(block, Advertise)
    assert [(field.name, field.value) for field in block.records[0].fields] == [("Group", "u")]


def test_a_record_is_kept_although_others_of_its_batch_end_its_requestability() -> None:
    """IL-200: it was validly in the list."""
    rules = (
        "SelectAdvertised(P,S) :- Advertised(P,S), not Taken(P).\n"
        "SelectHave(P) :- Have(P).\n"
        "Taken(P) :- Advertised(P,_), Have(Q), Field(Q,'App',_,'stop').\n"
    )
    stop, other = record(1, app="stop"), record(2)
    against = Against(config(rules), rules=EVERYTHING)
    request = against.to_request(map(against.claim, (stop, other)))
    assert set(request.records) == hashes([stop, other])
    against.say(Request())
    against.say(delivered(stop, last=False))
    against.say(delivered(other))
    assert set(against.holdings.records) == hashes([stop, other])
    (after,) = against.say(Advertise())
    assert after == Request()


# ---- out of place ---------------------------------------------------------------------------------------------------


def _unrequested(name: str) -> Transfer:
    asked = record(1)
    return {
        "never asked for": delivered(record(9)),
        "repeated": Transfer(responses=(delivered(asked).responses[0],) * 2, last=True),
        "not available, never asked for": Transfer(responses=(Unavailable(record=record(9).hash),), last=True),
        "not available, then bytes": Transfer(
            responses=(Unavailable(record=asked.hash), delivered(asked).responses[0]), last=True
        ),
        "bytes, then not available": Transfer(
            responses=(delivered(asked).responses[0], Unavailable(record=asked.hash)), last=True
        ),
    }[name]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("never asked for", Reason.UNREQUESTED_RECORD),
        ("repeated", Reason.UNREQUESTED_RECORD),
        ("not available, never asked for", Reason.OUT_OF_PHASE),
        ("not available, then bytes", Reason.UNREQUESTED_RECORD),
        ("bytes, then not available", Reason.OUT_OF_PHASE),
    ],
)
def test_an_answer_without_an_outstanding_request_aborts(name: str, reason: Reason) -> None:
    """IL-119, IL-270, IL-273, ILC-123, ILC-137: what stood before it is stored, it is not."""
    against = Against(config())
    against.to_transfer([record(1)])
    against.say(_unrequested(name))
    assert _reason(against) is reason
    assert record(9).hash not in against.holdings.records
    stored = name in ("repeated", "bytes, then not available")
    assert set(against.holdings.records) == ({record(1).hash} if stored else set())
    assert against.result is not None
    assert against.result.received == set(against.holdings.records)


def test_a_late_answer_aborts() -> None:
    """IL-119, IL-270: after the last part, and in the next loop."""
    against = Against(config())
    against.to_transfer(records(2), [])
    against.say(delivered(record(0)))
    against.say(delivered(record(1)))
    assert _reason(against) is Reason.OUT_OF_PHASE
    assert set(against.holdings.records) == {record(0).hash}


def test_after_the_last_part_nothing_is_read() -> None:
    """IL-119: while this side still sends, what the peer adds is out of place."""
    against = Against(config(service=Service(chunk_records_max=1)), Watched(records(2, first=50)))
    against.to_request([against.claim(record(1))])
    against.holds_back = True
    against.say(Request(records=tuple(sorted(hashes(records(2, first=50))))))
    against.say(Transfer(last=True))
    assert against.stands_in(Phase.TRANSFER)
    assert against.machine.awaits is Awaits.NOTHING
    against.say(delivered(record(1)))
    assert _reason(against) is Reason.OUT_OF_PHASE


def test_settling_tells_fates_apart() -> None:
    """IL-033, IL-238: stored, already there, refused meanwhile, rejected."""
    some = records(4)
    against = Against(config())
    against.to_transfer(some)
    against.holds_back = True
    against.say(delivered(*some))
    against.waiting.clear()
    fates = (Fate.STORED, Fate.DUPLICATE, Fate.REFUSED, Fate.REJECTED)
    settled = tuple(Settled(record=one.hash, fate=fate, reason="x") for one, fate in zip(some, fates, strict=True))
    for one, fate in zip(some, fates, strict=True):
        if fate in (Fate.STORED, Fate.DUPLICATE):
            against.holdings.put(one)
        if fate is Fate.REFUSED:
            against.holdings.remove(one.hash)
    against.give(Persisted(settled))
    against.say(Advertise())
    against.say(Request())
    against.say(Advertise())
    assert against.result is not None
    assert against.result.fixed_point
    assert against.result.received == {some[0].hash}
    assert against.result.rejected == {some[3].hash: "x"}
    assert against.result.bytes_received == sum(len(one.raw) for one in some)


def test_both_sides_can_have_nothing_for_each_other() -> None:
    """IL-018, IL-017, ILC-081: stores that differ in what nobody selects are at a fixed point at once."""
    meeting = meet(records(3, group="x"), records(3, first=9, group="y"), BY_GROUP, right=Changes())
    left, right = meeting.run()
    assert (left.fixed_point, right.fixed_point, left.iterations) == (True, True, 1)
    assert set(meeting.here.records) != set(meeting.there.records)
    assert not meeting.transferred("left")
