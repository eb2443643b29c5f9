import pytest

from bobbin.errors import UsageError
from bobbin.policy.claims import ClaimedField, ClaimError, Claims, claim_source
from bobbin.policy.operands import Origin, OriginError
from tests.policy_worlds import ALICE, BOB, plex

_P, _Q = plex(1), plex(2)
_BOB = Origin(BOB)
_GROUP = ClaimedField("Group", "0", "u")
_TWICE = (ClaimedField("X", "0", "a"), ClaimedField("X", "1", "b"))


def test_claims_are_kept_with_repeated_names() -> None:
    claims = Claims(_BOB, {_P: [_GROUP, *_TWICE], _Q: []})
    assert len(claims) == 2
    assert set(claims.records()) == {_P, _Q}
    assert claims.fields(_P) == (_GROUP, *_TWICE)
    assert claims.fields(plex(9)) == ()
    assert claims.advertises(_Q)
    assert not claims.advertises(plex(9))


def test_claims_cannot_be_asked_like_record_facts() -> None:
    claims = Claims(_BOB, {_P: [_GROUP]})
    assert not hasattr(claims, "match")
    assert not hasattr(claims, "enumerate")


def test_their_source_answers_for_advertisements_only() -> None:
    source = claim_source(Claims(_BOB, {_P: [_GROUP, *_TWICE], _Q: []}))
    assert set(source.enumerate("Advertised")) == {(_P, BOB), (_Q, BOB)}
    assert set(source.enumerate("AdvertisedField")) == {
        (_P, BOB, "Group", "0", "u"),
        (_P, BOB, "X", "0", "a"),
        (_P, BOB, "X", "1", "b"),
    }
    assert set(source.match("AdvertisedField", (None, None, "X", None, "b"))) == {(_P, BOB, "X", "1", "b")}
    assert set(source.match("Advertised", (_Q, None))) == {(_Q, BOB)}
    assert set(source.match("Advertised", (_Q, ALICE))) == set()
    assert set(source.match("Advertised", (plex(9), None))) == set()


@pytest.mark.parametrize("predicate", ["Have", "Field", "RecordLink", "BlobHash", "PlexHash", "Peer"])
def test_their_source_refuses_every_other_predicate(predicate: str) -> None:
    source = claim_source(Claims(_BOB, {_P: [_GROUP]}))
    with pytest.raises(UsageError):
        source.enumerate(predicate)
    with pytest.raises(UsageError):
        source.match(predicate, (None,))


def test_their_source_refuses_a_wrong_arity() -> None:
    with pytest.raises(UsageError):
        claim_source(Claims(_BOB)).match("Advertised", (None,))


def test_a_format_that_is_not_supported_may_be_claimed() -> None:
    assert Claims(_BOB, {"P.abc.K9": []}).advertises("P.abc.K9")


@pytest.mark.parametrize("record", ["", "x", "P.EXAMPLE.H3", "V" + _P[1:], _P[:-4] + "1.H3", "P..H3", "P.a b.K9"])
def test_what_no_record_is_called(record: str) -> None:
    with pytest.raises(ClaimError):
        Claims(_BOB, {record: []})


@pytest.mark.parametrize(
    "fields",
    [
        [ClaimedField("", "0", "u")],
        [ClaimedField("Group", "0", "")],
        [ClaimedField("Group", "00", "u")],
        [ClaimedField("Group", "-1", "u")],
        [ClaimedField("Group", "x", "u")],
        [ClaimedField("Group", "0", "a\nb")],
        [ClaimedField("Group", "0", "e\u0301")],
        [ClaimedField("Group", "0", "\ud800")],
        [ClaimedField("Group", "0", "x" * 4097)],
        [ClaimedField("Group", "0", "é" * 2049)],
        [_GROUP, _GROUP],
        [_GROUP, ClaimedField("Group", "0", "v")],
    ],
)
def test_what_no_record_can_say(fields: list[ClaimedField]) -> None:
    with pytest.raises(ClaimError):
        Claims(_BOB, {_P: fields})


def test_a_source_is_an_origin() -> None:
    with pytest.raises(OriginError):
        Claims(Origin("local"))


def test_equal_claims_are_equal() -> None:
    assert Claims(_BOB, {_P: [_GROUP]}) == Claims(_BOB, {_P: [_GROUP]})
    assert hash(Claims(_BOB, {_P: [_GROUP]})) == hash(Claims(_BOB, {_P: [_GROUP]}))
    assert Claims(_BOB, {_P: [_GROUP]}) != Claims(_BOB, {_P: []})
    assert Claims(_BOB) != Claims(Origin("source:0"))
    assert Claims(_BOB) != BOB
