"""The thread that keeps a store in step with a log."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from bobbin.cluster.composite import Composite, Part, Source, build_all
from bobbin.cluster.names import Index, Term
from bobbin.errors import IntegrityError, ResourceError
from bobbin.runtime import replicated_keeper
from bobbin.runtime.replicated_commands import CompareRoot, PutRecords, Stored, decode_answer, encode
from bobbin.runtime.replicated_keeper import ROOT_EVERY, LaceKeeper, LacePart
from bobbin.store.base import StoreRecordId
from bobbin.store.sqlite import open_store
from bobbin.wire.cluster.commands import key_value
from tests.conformance.samples import plex

if TYPE_CHECKING:
    from concurrent.futures import Future


def token(number: int) -> bytes:
    return number.to_bytes(16, "big")


def put(number: int) -> bytes:
    return encode(PutRecords(token(number), [plex(number).raw]))


class Kept:
    """A keeper with what it said."""

    def __init__(self, path: Path) -> None:
        self.path = path
        open_store(path, create=True, now=lambda: 0).close()
        self.broken: list[str] = []
        self.noted: list[tuple[Index, bytes]] = []
        self.keeper = LaceKeeper(
            path, now=lambda: 0, broke=self.broken.append, noted=lambda index, root: self.noted.append((index, root))
        )

    def do(self, *numbers: int) -> None:
        self.keeper.do([(Index(number), Term(1), put(number)) for number in numbers])

    def wait(self) -> None:
        self.keeper.after(lambda: None).result()

    def numbers(self) -> list[tuple[int, str]]:
        with open_store(self.path, now=lambda: 0, read_only=True) as store:
            return [(stored.id, stored.hash) for stored in store.scan()]


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    made = Kept(tmp_path / "a.db")
    yield made
    made.keeper.close()


def test_it_is_a_source_and_its_parts_are_parts(kept: Kept) -> None:
    source: Source = kept.keeper
    part: Part = source.open()
    assert source.tags == range(48, 64)
    assert part.applied == 0
    assert part.root == bytes(32)


def test_whoever_waits_hears_when_it_is_done(kept: Kept) -> None:
    coming = kept.keeper.expect(token(1))
    kept.do(1)
    assert decode_answer(coming.result(timeout=30)) == Stored(1, 1)
    kept.keeper.forget(token(1))
    assert kept.keeper.state.applied == 1
    assert [name for _, name in kept.numbers()] == [plex(1).hash]


def test_much_that_waits_is_said_before_anybody_has_to_wait(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replicated_keeper, "BACKLOG_BYTES_MAX", 4 * len(put(1)))
    go_on = threading.Event()
    kept.keeper.after(lambda: go_on.wait(60))
    said: list[bool] = []
    try:
        for numbers in ((1, 2), (3,)):
            kept.do(*numbers)
            said.append(kept.keeper.is_crowded)
    finally:
        go_on.set()
    kept.wait()
    kept.wait()
    said.append(kept.keeper.is_crowded)
    assert said == [False, True, False]


def test_what_was_handed_over_is_not_done_twice(kept: Kept) -> None:
    kept.do(1, 2)
    kept.do(1, 2, 3)
    kept.wait()
    assert [number for number, _ in kept.numbers()] == [1, 2, 3]
    assert LacePart(kept.keeper).applied == 3


def test_news_is_told_unless_somebody_here_waits_for_it(kept: Kept) -> None:
    woken: list[StoreRecordId] = []
    undo = kept.keeper.subscribe(woken.append)
    kept.do(1)
    kept.wait()
    kept.keeper.expect(token(2))
    kept.do(2)
    kept.wait()
    assert woken == [1]
    undo()
    kept.do(3)
    kept.wait()
    assert woken == [1]


def test_whoever_waits_for_the_thread_hears_when_it_fails(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot waits for its capture, and the stopping of a node for the snapshot."""

    def fail(*_: object) -> None:
        raise OSError("the disk is gone")

    go_on = threading.Event()
    kept.keeper.after(lambda: go_on.wait(60))
    monkeypatch.setattr(kept.keeper._machine, "apply", fail)
    kept.do(1)
    waiting: list[Future[Any]] = [kept.keeper.capture(), kept.keeper.effects(), kept.keeper.expect(token(1))]
    kept.keeper.adopt(kept.path.with_name("built"), Index(9))
    waiting.append(kept.keeper.effects())
    go_on.set()
    for one in waiting:
        with pytest.raises(ResourceError, match="the disk is gone"):
            one.result(timeout=30)
    assert len(kept.broken) == 1


def test_whoever_gives_up_stops_nothing(kept: Kept) -> None:
    """As a reader does that the store lags behind for too long."""
    go_on = threading.Event()
    kept.keeper.after(lambda: go_on.wait(60))
    assert kept.keeper.after(lambda: None).cancel()
    assert kept.keeper.expect(token(1)).cancel()
    kept.do(1)
    go_on.set()
    kept.wait()
    assert kept.broken == []
    assert kept.keeper.state.applied == 1


def test_a_subscriber_that_fails_is_a_warning(kept: Kept) -> None:
    def fail(_: StoreRecordId) -> None:
        raise ZeroDivisionError

    kept.keeper.subscribe(fail)
    with pytest.warns(RuntimeWarning, match="subscriber"):  # noqa: PT031 -- it comes while this waits
        kept.do(1)
        kept.wait()
    assert kept.broken == []


def test_a_capture_is_of_its_place_in_the_log(kept: Kept, tmp_path: Path) -> None:
    part = kept.keeper.open()
    gate = threading.Event()
    kept.keeper.after(gate.wait)
    kept.do(1, 2)
    part.settle(Index(5))
    capture = part.snapshot()
    kept.do(6)
    gate.set()
    entries = list(capture)
    later = part.snapshot()
    assert len(later) == len(entries) + 2
    assert len(list(later)) == len(entries) + 2
    other = Kept(tmp_path / "b.db")
    built = other.keeper.build(entries, Index(5))
    assert built.applied == 5
    built.adopt()
    other.wait()
    assert other.keeper.state.applied == 5
    assert [name for _, name in other.numbers()] == [plex(1).hash, plex(2).hash]
    assert sorted(path.name for path in tmp_path.glob("b.db.incoming*")) == []
    other.keeper.close()


def test_a_snapshot_answers_whoever_waits_for_what_it_stands_for(kept: Kept, tmp_path: Path) -> None:
    kept.do(1, 2)
    entries = list(kept.keeper.open().snapshot())
    other = Kept(tmp_path / "b.db")
    woken: list[StoreRecordId] = []
    other.keeper.subscribe(woken.append)
    coming = other.keeper.expect(token(2))
    other.keeper.build(entries, Index(2)).adopt()
    assert decode_answer(coming.result(timeout=30)) == Stored(2, 1)
    other.wait()
    assert woken == [2]
    other.keeper.close()


def test_a_node_builds_it_beside_and_keeps_what_is_as_far(kept: Kept) -> None:
    present = Composite(key_value(), [(kept.keeper.tags, kept.keeper.open())])
    kept.do(1, 2)
    entries = [*present.table.snapshot(), *kept.keeper.open().snapshot()]
    same = build_all(key_value(), [kept.keeper], entries, Index(2), present)
    assert same.part(48) is present.part(48)
    ahead = build_all(key_value(), [kept.keeper], entries, Index(9), present)
    part = ahead.part(48)
    assert part is not present.part(48)
    assert part is not None
    assert list(kept.path.parent.glob("*.incoming*"))
    part.close()
    assert not list(kept.path.parent.glob("*.incoming*")), "what was not adopted is taken away"


def test_a_wrong_snapshot_is_refused(kept: Kept) -> None:
    with pytest.raises(IntegrityError):
        kept.keeper.build([b"rubbish"], Index(5))
    assert not list(kept.path.parent.glob("*.incoming*"))


# ---- roots ----------------------------------------------------------------------------------------------------------


def test_roots_are_noted_at_the_same_places_however_commands_come(tmp_path: Path) -> None:
    numbers = [1, ROOT_EVERY - 1, ROOT_EVERY, ROOT_EVERY + 1, 2 * ROOT_EVERY + 5]
    noted = []
    for name, sizes in (("a", [5]), ("b", [1, 1, 1, 1, 1]), ("c", [2, 3])):
        one = Kept(tmp_path / f"{name}.db")
        left = list(numbers)
        for size in sizes:
            one.do(*left[:size])
            del left[:size]
        one.wait()
        noted.append(one.noted)
        one.keeper.close()
    assert [index for index, _ in noted[0]] == [ROOT_EVERY, 2 * ROOT_EVERY]
    assert noted[0] == noted[1] == noted[2]


def test_a_store_that_holds_something_else_stops(kept: Kept) -> None:
    kept.do(1, ROOT_EVERY + 1)
    kept.wait()
    ((index, root),) = kept.noted
    place = Index(ROOT_EVERY + 2)
    kept.keeper.do([(place, Term(1), encode(CompareRoot(index, root)))])
    kept.wait()
    assert kept.broken == []
    coming = kept.keeper.expect(token(77))
    kept.keeper.do([(Index(place + 1), Term(1), encode(CompareRoot(index, bytes(32))))])
    with pytest.raises(IntegrityError, match="what is stored differs"):
        coming.result(timeout=30)
    assert len(kept.broken) == 1
    with pytest.raises(ResourceError, match="does not follow"):
        kept.do(ROOT_EVERY + 10)
    with pytest.raises(IntegrityError):
        kept.keeper.expect(token(78)).result()
    with pytest.raises(IntegrityError):
        kept.wait()


def test_a_restarted_store_notes_no_root_of_a_place_that_it_has_passed(kept: Kept) -> None:
    kept.do(1, ROOT_EVERY + 5)
    kept.wait()
    kept.keeper.close()
    again = Kept(kept.path)
    assert again.keeper.queued == ROOT_EVERY + 5
    again.do(1, ROOT_EVERY + 5, ROOT_EVERY + 6)
    again.wait()
    assert again.noted == []
    assert len(again.numbers()) == 3
    again.keeper.close()


def test_after_the_end_nothing_is_taken(kept: Kept) -> None:
    kept.do(1)
    waiting = kept.keeper.expect(token(9))
    kept.keeper.close()
    assert len(kept.numbers()) == 1, "what was queued is done"
    with pytest.raises(ResourceError, match="stops"):
        waiting.result()
    with pytest.raises(ResourceError, match="closed"):
        kept.do(2)
    with pytest.raises(ResourceError, match="closed"):
        kept.keeper.after(lambda: None).result()
