"""Claim indexes are lent, kept and written down; what is not there to the bit is not there."""

from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path

import msgspec
import pytest
from blake3 import blake3
from msgspec import structs

from bobbin.errors import ResourceError
from bobbin.interlace import epoch, offers
from bobbin.interlace.advertise import claim_digest, claim_digests
from bobbin.interlace.claim_index import Claim, ClaimIndex
from bobbin.interlace.schema import Schema
from bobbin.policy.claims import ClaimedField
from bobbin.policy.executables import make_policy
from bobbin.policy.modules import compile_selector
from bobbin.policy.operands import Origin
from bobbin.records.signing import SigningKey
from bobbin.runtime import claim_indexes as module
from bobbin.runtime.claim_indexes import KIND, ClaimIndexes, Kind, kind_of
from bobbin.runtime.decisions import Decisions
from bobbin.runtime.holdings import StoreHoldings
from bobbin.runtime.local_peer import LocalSide, Manner, run_local
from bobbin.store.base import Mark, Store
from bobbin.store.sqlite import open_store
from tests.conformance.samples import plex
from tests.policy_worlds import ALICE, BOB, DING, EVERYTHING

_VERSION = metadata.version("bobbin")
_KIND = Kind("L.plan", Origin(ALICE), Schema(names=frozenset({"Group"})), Origin(BOB))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "records.db", create=True, now=lambda: 0) as opened:
        opened.put_records([plex(number) for number in range(3)])
        yield opened


def _index(count: int = 3) -> ClaimIndex:
    records = [plex(number).hash for number in range(count)]
    return ClaimIndex([Claim(record, claim_digest(record, ()), at) for at, record in enumerate(records)])


def test_a_link_goes_on_from_a_copy_of_the_last_index(store: Store) -> None:
    indexes = ClaimIndexes(store)
    assert indexes.get(_KIND) is None
    first = _index()
    indexes.put(_KIND, first, store.mark())
    first.update((), [plex(0).hash])
    one, another = indexes.get(_KIND), indexes.get(_KIND)
    assert one is not None
    assert another is not None
    assert one.root() == another.root() == _index().root() != first.root()
    one.update((), [plex(1).hash])
    assert another.root() == _index().root()
    assert one.changes == another.changes + 1


def test_the_next_process_reads_what_was_written(store: Store) -> None:
    before = ClaimIndexes(store)
    before.put(_KIND, _index(), store.mark())
    assert before.flush() == 1
    assert before.flush(everything=True) == 0, "nothing has changed"
    again = ClaimIndexes(store).get(_KIND)
    assert again is not None
    again.check()
    assert again.root() == _index().root()
    assert again.columns().moments.tolist() == _index().columns().moments.tolist()
    assert again.columns().records == _index().columns().records


def test_an_empty_index_is_read_back_too(store: Store) -> None:
    before = ClaimIndexes(store)
    before.put(_KIND, ClaimIndex(), store.mark())
    assert before.flush() == 1
    again = ClaimIndexes(store).get(_KIND)
    assert again is not None
    assert len(again) == 0


@pytest.mark.parametrize(
    "other",
    [
        _KIND._replace(plan="L.other"),
        _KIND._replace(source=Origin("source:0")),
        _KIND._replace(schema=Schema(names=frozenset({"App"}))),
        _KIND._replace(schema=Schema(all=True)),
        _KIND._replace(peer=Origin("source:1")),
    ],
)
def test_every_part_of_a_kind_tells_indexes_apart(store: Store, other: Kind) -> None:
    indexes = ClaimIndexes(store)
    indexes.put(_KIND, _index(), store.mark())
    indexes.flush()
    assert indexes.get(other) is None
    assert ClaimIndexes(store).get(other) is None


def test_the_kind_of_a_policy() -> None:
    own, peer = compile_selector(DING), compile_selector(EVERYTHING)
    policy = make_policy(own, peer, own_origin=Origin(ALICE), peer_origin=Origin(BOB))
    assert kind_of(policy, _KIND.schema) == _KIND._replace(plan=policy.plan.identifier)


def test_few_changes_are_not_worth_writing(store: Store) -> None:
    indexes = ClaimIndexes(store)
    records = [f"P.{number:043}.H3" for number in range(200)]
    index = ClaimIndex([Claim(record, claim_digest(record, ()), 0) for record in records])
    indexes.put(_KIND, index, store.mark())
    assert indexes.flush() == 1
    index.update((), records[:5])
    indexes.put(_KIND, index, store.mark())
    assert indexes.flush() == 0
    assert indexes.flush(everything=True) == 1
    index.update((), records[5:50])
    indexes.put(_KIND, index, store.mark())
    assert indexes.flush() == 1


@pytest.mark.parametrize("at", [0, 40, -1])
def test_a_row_that_has_changed_at_rest_is_not_there(store: Store, at: int) -> None:
    indexes = ClaimIndexes(store)
    indexes.put(_KIND, _index(), store.mark())
    indexes.flush()
    [(name, _)] = store.kept_rows(KIND)
    raw = bytearray(store.kept(KIND, name) or b"")
    raw[at] ^= 1
    store.keep(KIND, name, bytes(raw))
    assert ClaimIndexes(store).get(_KIND) is None


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xc1",
        msgspec.msgpack.encode((1, b"a", bytes(32), bytes(8))),
        msgspec.msgpack.encode((3, _VERSION, b"a", bytes(32), bytes(8))),
        msgspec.msgpack.encode((2, "0.0.0-before", b"a", bytes(32), bytes(8))),
        msgspec.msgpack.encode((2, _VERSION, b"a\nb", bytes(32), bytes(8))),
        msgspec.msgpack.encode((2, _VERSION, b"a\na", bytes(64), bytes(16))),
        msgspec.msgpack.encode((2, _VERSION, b"a", bytes(31), bytes(8))),
        msgspec.msgpack.encode((2, _VERSION, b"a", bytes(32), bytes(7))),
        msgspec.msgpack.encode((2, _VERSION, b"\xff", bytes(32), bytes(8))),
    ],
)
def test_a_row_of_another_version_is_not_there(store: Store, body: bytes) -> None:
    indexes = ClaimIndexes(store)
    indexes._shelf.put(_KIND.peer, str(_KIND), body)
    assert indexes.get(_KIND) is None


def test_a_row_of_this_version_is_there(store: Store) -> None:
    indexes = ClaimIndexes(store)
    indexes._shelf.put(_KIND.peer, str(_KIND), msgspec.msgpack.encode((2, _VERSION, b"a", bytes(32), bytes(8))))
    assert indexes.get(_KIND) is not None


def test_claims_that_have_changed_are_counted_and_not_the_places_they_lie_in(store: Store) -> None:
    """A few hundred claims lie in as many buckets, however many there are in all."""
    indexes = ClaimIndexes(store)
    records = [f"P.{number:043}.H3" for number in range(20_600)]
    claims = [Claim(record, blake3(record.encode()).digest(), 0) for record in records]
    index = ClaimIndex(claims[:20_000])
    indexes.put(_KIND, index, store.mark())
    assert indexes.flush() == 1
    index.update(claims[20_000:], ())
    indexes.put(_KIND, index, store.mark())
    assert indexes.flush() == 0
    index.update((), records[:1_000])
    indexes.put(_KIND, index, store.mark())
    assert indexes.flush() == 1


def test_what_could_not_be_written_is_tried_again_at_the_end(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    indexes = ClaimIndexes(store)
    indexes.put(_KIND, _index(), store.mark())
    with monkeypatch.context() as broken:
        broken.setattr(indexes._shelf, "put", lambda *_: False)
        assert indexes.flush() == 0
    assert indexes.flush() == 0, "a row that is too large is not made again and again"
    assert indexes.flush(everything=True) == 1
    assert ClaimIndexes(store).get(_KIND) is not None


def test_a_removal_takes_rows_out_and_what_does_not_know_of_it_is_not_written(store: Store) -> None:
    indexes = ClaimIndexes(store)
    indexes.put(_KIND, _index(), store.mark())
    indexes.flush()
    store.remove(plex(0).hash, reason="it was a mistake")
    assert ClaimIndexes(store).get(_KIND) is None
    assert indexes.flush(everything=True) == 0
    index = _index()
    index.update((), [plex(0).hash])
    indexes.put(_KIND, index, store.mark())
    assert indexes.flush() == 1, "the row is gone, so it is written again"


def test_a_removal_while_writing_takes_the_row_back_out(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    indexes = ClaimIndexes(store)
    indexes.put(_KIND, _index(), store.mark())
    marks = iter([store.mark(), Mark(store.mark().high_water, store.mark().removal + 1)])
    monkeypatch.setattr(store, "mark", lambda: next(marks))
    assert indexes.flush() == 0
    assert list(store.kept_rows(KIND)) == []


def test_a_store_that_cannot_write_is_no_reason_to_fail(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    indexes = ClaimIndexes(store)
    indexes.put(_KIND, _index(), store.mark())

    def fail() -> Mark:
        raise ResourceError("the disk is gone", retry=False)

    monkeypatch.setattr(store, "mark", fail)
    assert indexes.flush() == 0


def test_a_peer_pushes_out_its_own_and_is_forgotten(store: Store) -> None:
    indexes = ClaimIndexes(store)
    other = _KIND._replace(plan="L.x", peer=Origin("source:9"))
    indexes.put(other, _index(), store.mark())
    kinds = [_KIND._replace(plan=f"L.{number}") for number in range(module.PER_PEER_MAX + 1)]
    for kind in kinds:
        indexes.put(kind, _index(), store.mark())
    assert len(indexes) == module.PER_PEER_MAX + 1
    assert indexes.get(kinds[0]) is None
    assert indexes.get(other) is not None
    indexes.flush()
    indexes.forget(Origin(BOB))
    assert len(indexes) == 1
    assert ClaimIndexes(store).get(kinds[-1]) is None
    assert ClaimIndexes(store).get(other) is not None


def test_memory_is_bounded_in_all(store: Store) -> None:
    indexes = ClaimIndexes(store)
    for number in range(module.INDEXES_MAX + 2):
        indexes.put(_KIND._replace(peer=Origin(f"source:{number}")), _index(), store.mark())
    assert len(indexes) == module.INDEXES_MAX
    assert indexes.get(_KIND._replace(peer=Origin("source:0"))) is None


# ---- in exchanges ----------------------------------------------------------------------------------------------------


def _exchange(one: Store, other: Store) -> None:
    """As two new processes would."""
    selector = compile_selector(EVERYTHING)
    decisions = [Decisions(store) for store in (one, other)]
    holdings = [StoreHoldings(each) for each in decisions]
    own, peer = (
        LocalSide(holdings=each, selector=selector, verifier=SigningKey.from_secret(bytes([number]) * 32).verifier)
        for number, each in enumerate(holdings, start=1)
    )
    ran = run_local(own, peer, Manner(through_codec=True, checking=True))
    assert ran.own.result.fixed_point
    for each, held in zip(decisions, holdings, strict=True):
        held.release()
        each.flush(everything=True)


def test_after_a_restart_only_claims_are_made_that_are_new(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def counted(claims: Iterable[tuple[str, tuple[ClaimedField, ...]]]) -> list[bytes]:
        claims = list(claims)
        made.extend(record for record, _ in claims)
        return claim_digests(claims)

    monkeypatch.setattr(epoch, "claim_digests", counted)
    with open_store(tmp_path / "others.db", create=True, now=lambda: 0) as other:
        other.put_records([plex(number) for number in range(3, 5)])
        _exchange(store, other)
        assert sorted(made) == sorted([plex(number).hash for number in range(5)] * 2)
        made.clear()
        _exchange(store, other)
        assert made == []
        store.put_records([plex(9)])
        _exchange(store, other)
        assert made == [plex(9).hash] * 2
        # With the record goes what was kept of it; then all is made anew.
        made.clear()
        store.remove(plex(9).hash, reason="it was a mistake")
        _exchange(store, other)
        assert sorted(set(made)) == sorted(plex(number).hash for number in range(5))


def _row(store: Store) -> tuple[str, module._Kept, dict[str, bytes]]:
    """The one row of a store: its name, what it says, and the digests in it by their records."""
    [(name, _)] = store.kept_rows(KIND)
    kept = msgspec.msgpack.decode((store.kept(KIND, name) or b"")[32:], type=module._Kept)
    digests = [kept.digests[at : at + 32] for at in range(0, len(kept.digests), 32)]
    return name, kept, dict(zip(kept.records.decode().split("\n"), digests, strict=True))


@pytest.mark.parametrize("wrong", [[0], [1], [0, 1, 2]])
def test_a_row_that_is_not_true_is_found_out_and_written_anew(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: list[int]
) -> None:
    """Whether a sample shows it, or the peer does: the exchange comes to its end, and the next one has a true row."""
    monkeypatch.setattr(offers, "_SAMPLE", 1)
    with open_store(tmp_path / "others.db", create=True, now=lambda: 0) as other:
        other.put_records([plex(number) for number in range(2, 5)])
        _exchange(store, other)
        name, kept, true = _row(store)
        digests = bytearray(kept.digests)
        for number in wrong:
            digests[32 * number + 31] ^= 1
        body = msgspec.msgpack.encode(structs.replace(kept, digests=bytes(digests)))
        store.keep(KIND, name, blake3(body).digest() + body)
        assert _row(store)[2] != true
        other.put_records([plex(9)])
        _exchange(store, other)
        assert store.absent([plex(9).hash]) == frozenset()
        healed = _row(store)[2]
        assert {record: healed[record] for record in true} == true
        assert healed.keys() == true.keys() | {plex(9).hash}
