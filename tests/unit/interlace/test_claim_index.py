"""The standing index of claims: one root for one set however it came about, copies, pictures under a key."""

import random
from collections.abc import Iterable

import numpy as np
import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from bobbin.errors import UsageError
from bobbin.interlace import claim_index
from bobbin.interlace.claim_index import Claim, ClaimIndex, Columns
from bobbin.reconcile import Decoder, Encoder, Interval, digest_rows, measure, short_ids

_KEY = bytes(range(16))


def _claim(number: int, moment: int | None = None) -> Claim:
    digest = blake3(b"claim %d" % number).digest()
    return Claim(f"P.{number:043}.H3", digest, number * 10 if moment is None else moment)


def _claims(numbers: Iterable[int]) -> list[Claim]:
    return [_claim(number) for number in numbers]


def _root_by_hand(claims: Iterable[Claim]) -> bytes:
    buckets = [b""] * 4096
    for digest in sorted(claim.digest for claim in claims):
        buckets[int.from_bytes(digest[:2], "big") >> 4] += digest
    said = [
        (len(joined) // 32).to_bytes(8, "little") + blake3(b"bobbin-claim-bucket/v1" + joined).digest()
        for joined in buckets
    ]
    groups = b""
    for at in range(0, 4096, 64):
        count = sum(len(joined) // 32 for joined in buckets[at : at + 64])
        hashed = blake3(b"bobbin-claim-group/v1" + b"".join(said[at : at + 64])).digest()
        groups += count.to_bytes(8, "little") + hashed
    return blake3(b"bobbin-claim-root/v1" + groups).digest()


@pytest.mark.parametrize("numbers", [range(0), range(1), range(50)])
def test_the_root_is_as_written_down(numbers: range) -> None:
    assert ClaimIndex(_claims(numbers)).root() == _root_by_hand(_claims(numbers))


def test_the_root_of_nothing_is_fixed_for_ever() -> None:
    assert ClaimIndex().root().hex() == "c46b4d2e7829f641d8a6e48b78c8c3dc2f0545243861407f590b403a7690e49b"


def test_an_index_of_many_claims_is_built_and_grown_to_the_same() -> None:
    claims = _claims(range(6000))
    built = ClaimIndex(claims)
    grown = ClaimIndex(claims[:5000])
    for claim in claims[5000:]:
        grown.update([claim], ())
    built.check()
    grown.check()
    assert len(built) == len(grown) == 6000
    assert built.root() == grown.root() == _root_by_hand(claims)
    assert built.columns()[:2] == grown.columns()[:2]
    assert built.columns().digests == b"".join(sorted(claim.digest for claim in claims))


_CHANGES = st.lists(st.tuples(st.sets(st.integers(0, 40), max_size=6), st.sets(st.integers(0, 40), max_size=6)))


@given(_CHANGES, st.randoms(use_true_random=False))
def test_however_it_came_about_the_same_set_has_the_same_root(
    changes: list[tuple[set[int], set[int]]], chance: random.Random
) -> None:
    index, model = ClaimIndex(), dict[str, Claim]()
    copies: list[tuple[ClaimIndex, dict[str, Claim]]] = []
    for added, removed in changes:
        claims = _claims(added)
        # A record may come back with another claim.
        claims = [claim if chance.random() < 0.8 else claim._replace(digest=_claim(99).digest) for claim in claims]
        index.update(claims, [_claim(number).record for number in removed])
        for number in removed:
            model.pop(_claim(number).record, None)
        model.update({claim.record: claim for claim in claims})
        if chance.random() < 0.3:
            copies.append((index.copy(), dict(model)))
            if chance.random() < 0.5:
                index = index.copy()
        assert len(index) == len(model)
    for one, expected in [*copies, (index, model)]:
        one.check()
        assert one.root() == ClaimIndex(expected.values()).root()
        assert {record: record in one for record in expected} == dict.fromkeys(expected, True)
        records, digests, moments = one.columns()
        held = {
            record: Claim(record, digests[at * 32 : at * 32 + 32], int(moments[at]))
            for at, record in enumerate(records)
        }
        assert held == expected


def test_many_claims_come_and_go_at_once() -> None:
    index = ClaimIndex(_claims(range(6000)))
    before = index.copy()
    index.update(_claims(range(5000, 11_000)), [_claim(number).record for number in range(1000)])
    index.check()
    assert index.root() == ClaimIndex(_claims(range(1000, 11_000))).root()
    index.update((), [_claim(number).record for number in range(1000, 10_990)])
    index.check()
    assert index.root() == ClaimIndex(_claims(range(10_990, 11_000))).root()
    assert before.root() == ClaimIndex(_claims(range(6000))).root()
    before.check()


def test_a_copy_counts_on_from_where_it_was_made() -> None:
    index = ClaimIndex(_claims(range(5000)))
    before = index.changes
    other = index.copy()
    assert other.changes == before
    other.update([_claim(5000), _claim(3)], [_claim(0).record])
    assert (index.changes - before, other.changes - before) == (0, 4), "one has come, one gone, one both"
    other.update(_claims(range(5001)), ())
    assert other.changes - before > 5000


def test_the_digest_of_a_record() -> None:
    index = ClaimIndex(_claims(range(300)))
    assert [index.digest(_claim(number).record) for number in range(300)] == [_claim(n).digest for n in range(300)]
    assert index.digest(_claim(300).record) is None


def test_one_bucket_that_is_filled_on_purpose_is_made_anew_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twelve bits of a digest are soon found: a copy of the bucket for every claim would be quadratic work."""
    made: list[int] = []
    bucket = claim_index._Bucket
    begin = bucket.__init__

    def counted(self: object, digests: bytes, moments: bytes, records: tuple[str, ...]) -> None:
        made.append(len(records))
        begin(self, digests, moments, records)  # type: ignore[arg-type]

    monkeypatch.setattr(bucket, "__init__", counted)
    claims = [one._replace(digest=b"\xab\xc0" + one.digest[2:]) for one in _claims(range(4_000))]
    index = ClaimIndex()
    index.update(claims, ())
    assert sum(made) == 4_000
    index.check()
    made.clear()
    index.update(claims[:200], [one.record for one in claims[3_000:]])
    assert sum(made) == 3_000
    monkeypatch.undo()
    index.check()
    assert index.root() == _root_by_hand(claims[:3_000])
    index.update((), [one.record for one in claims[:3_000]])
    assert index.root() == ClaimIndex().root()


@pytest.mark.parametrize(("kept", "now"), [(range(10), range(10)), (range(10), range(3, 14)), (range(3), range(0))])
def test_an_index_that_was_kept_is_adapted_to_what_is_there_now(kept: range, now: range) -> None:
    index = ClaimIndex(_claims(kept))
    missing = index.adapt([_claim(number).record for number in now])
    assert missing == {_claim(number).record for number in set(now) - set(kept)}
    index.check()
    assert index.root() == ClaimIndex(_claims(set(now) & set(kept))).root()


@pytest.mark.parametrize(
    "claim",
    [_claim(1)._replace(digest=b"short"), _claim(1)._replace(moment=-1), _claim(1)._replace(moment=2**64)],
)
@pytest.mark.parametrize("others", [1, 5000])
def test_what_is_no_claim_is_refused_and_changes_nothing(claim: Claim, others: int) -> None:
    index = ClaimIndex(_claims(range(2)))
    before = index.root()
    with pytest.raises(UsageError):
        index.update([*_claims(range(2, others)), claim], [_claim(0).record])
    assert index.root() == before
    index.check()


def test_lengths_of_digests_do_not_make_up_for_one_another() -> None:
    claims = _claims(range(5000))
    claims[:2] = claims[0]._replace(digest=bytes(31)), claims[1]._replace(digest=bytes(33))
    with pytest.raises(UsageError, match="32 bytes"):
        ClaimIndex(claims)


def test_columns_that_do_not_fit_are_refused() -> None:
    one = _claim(1)
    with pytest.raises(UsageError, match="twice"):
        ClaimIndex.of(Columns([one.record, one.record], one.digest + _claim(2).digest, np.zeros(2, np.uint64)))
    with pytest.raises(UsageError, match="one digest"):
        ClaimIndex.of(Columns([one.record], one.digest + one.digest, np.zeros(1, np.uint64)))


def test_columns_are_taken_back_as_they_were_given() -> None:
    index = ClaimIndex(_claims(range(300)))
    again = ClaimIndex.of(index.columns())
    again.check()
    assert again.root() == index.root()


def test_digests_with_the_same_beginning_ascend() -> None:
    start = bytes(8)
    claims = [Claim(f"P.{n:043}.H3", start + blake3(b"%d" % n).digest()[:24], 0) for n in range(100)]
    joined = b"".join(claim.digest for claim in claims)
    index = ClaimIndex.of(Columns([claim.record for claim in claims], joined, np.zeros(100, np.uint64)))
    index.check()
    assert index.root() == ClaimIndex(claims).root()


# ---- under a key -----------------------------------------------------------------------------------------------------


def test_a_picture_has_the_short_ids_of_the_digests_in_their_order() -> None:
    claims = sorted(_claims(range(500)), key=lambda claim: claim.digest)
    keyed = ClaimIndex(claims).keyed(_KEY)
    assert keyed.ids.tolist() == short_ids(_KEY, digest_rows([claim.digest for claim in claims])).tolist()
    assert keyed.records(keyed.ids) == [claim.record for claim in claims]
    assert keyed.bulk().counters.tolist() == measure(keyed.ids).counters.tolist()
    assert keyed.bulk().size == 500


def test_an_id_that_is_not_here_has_no_record() -> None:
    keyed = ClaimIndex(_claims(range(50))).keyed(_KEY)
    strange = keyed.ids[:2] ^ np.uint64(1 << 63)
    assert keyed.records(strange) == [None, None]
    assert keyed.records(np.empty(0, np.uint64)) == []
    assert ClaimIndex().keyed(_KEY).records(strange) == [None, None]


def test_an_id_that_two_claims_share_has_no_record() -> None:
    one = _claim(1)
    keyed = ClaimIndex([one, one._replace(record=_claim(2).record), _claim(3)]).keyed(_KEY)
    counts = {int(short): keyed.ids.tolist().count(short) for short in keyed.ids.tolist()}
    assert sorted(counts.values()) == [1, 2]
    assert {short: keyed.records(np.array([short], np.uint64)) for short in counts} == {
        short: [None] if count == 2 else [_claim(3).record] for short, count in counts.items()
    }


def test_a_picture_is_kept_until_something_changes_and_shows_its_moment() -> None:
    index = ClaimIndex(_claims(range(10)))
    keyed = index.keyed(_KEY)
    assert index.keyed(_KEY) is keyed
    assert index.copy().keyed(_KEY) is not keyed, "a picture is large, and a copy may stay for long"
    again = index.keyed(_KEY)
    index.forget_picture()
    assert index.keyed(_KEY) is not again
    assert index.keyed(bytes(16)) is not keyed
    index.update([_claim(10)], [_claim(0).record])
    assert len(index.keyed(_KEY).ids) == len(keyed.ids) == 10
    assert _claim(0).record in keyed.records(keyed.ids)
    assert _claim(0).record not in index.keyed(_KEY).records(keyed.ids)


def test_the_order_of_moments() -> None:
    claims = [_claim(number, moment=number // 2) for number in range(100)]
    keyed = ClaimIndex(claims).keyed(_KEY)
    last = keyed.ordered().ids(Interval(48, 49))
    expected = sorted(claims[96:], key=lambda claim: (claim.moment, claim.digest))
    assert keyed.records(last) == [claim.record for claim in expected]
    assert keyed.ordered() is keyed.ordered()


def test_two_indexes_tell_their_difference_by_symbols() -> None:
    ours, theirs = (ClaimIndex(_claims(numbers)).keyed(_KEY) for numbers in (range(300), range(5, 303)))
    decoder = Decoder(ours.ids)
    assert decoder.add(Encoder(theirs.ids).produce(40))
    assert set(ours.records(decoder.extra)) == {claim.record for claim in _claims(range(5))}
    assert set(theirs.records(decoder.missing)) == {claim.record for claim in _claims(range(300, 303))}
