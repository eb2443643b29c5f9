"""Recordings: what is written, what a replay finds, and what becomes of a file that is cut off, full or damaged."""

import io
from collections.abc import Collection
from random import Random
from typing import BinaryIO, cast

import pytest
from msgspec import structs

from bobbin.datalog.local.budget import LimitExceeded
from bobbin.errors import ResourceError
from bobbin.interlace.choice import Strategy
from bobbin.interlace.effects import Notify, Persist, Remember, SaveCursor, Send, TickIgnored
from bobbin.interlace.events import Cancelled, Flushed, Now, OperandChanged, Received, Started
from bobbin.interlace.messages import Advertise, Request, Transfer, Unavailable
from bobbin.interlace.ports import Evaluated, Question
from bobbin.interlace.reasons import Reason
from bobbin.interlace.wants import Wants
from bobbin.policy.modules import compile_selector
from bobbin.runtime.local_peer import LocalSide, Manner, run_local
from bobbin.runtime.recording import (
    VERSION,
    Forgetful,
    NoRecording,
    RecordedMachine,
    Recorder,
    Replayed,
    pack,
    replay,
    unpack,
)
from bobbin.simulator.holdings import MemoryHoldings
from tests.local_exchanges import ALL, APP, GROUP_U, SERVER, Clock, Liar, delivered, plex, sealed, side


def recorded(
    own: LocalSide,
    peer: LocalSide,
    *,
    bytes_max: int = 10**7,
    through_codec: bool = False,
    strategy: Strategy = Strategy.AUTO,
) -> bytes:
    """The recording of one exchange."""
    stream = io.BytesIO()
    recorder = Recorder(stream, bytes_max=bytes_max)
    manner = Manner(through_codec=through_codec, strategy=strategy)
    run_local(own, peer, manner, clock=Clock(), recorder=recorder)
    assert recorder.size == len(stream.getvalue())
    return stream.getvalue()


def replayed(raw: bytes) -> Replayed:
    return replay(io.BytesIO(raw))


@pytest.fixture
def recording() -> bytes:
    ours = [plex(f"links/{number}", b"o") for number in range(5)]
    theirs = [sealed(f"links/{number}", b"t") for number in range(7)]
    return recorded(side(ours, key=APP), side(theirs, key=SERVER))


@pytest.mark.parametrize("through_codec", [False, True])
def test_an_exchange_replays_bit_for_bit(*, through_codec: bool) -> None:
    peer = side([sealed("links/2")], holdings=Liar([plex("x", group="other")]))
    raw = recorded(side([plex("links/1")]), peer, through_codec=through_codec)
    answer = replayed(raw)
    assert answer.difference is None
    assert answer.steps > 5
    assert answer.ended
    assert not answer.is_full
    assert not answer.is_cut_off


@pytest.mark.parametrize("strategy", list(Strategy))
def test_every_strategy_replays_bit_for_bit(strategy: Strategy) -> None:
    ours = [plex(f"links/{number}") for number in range(30)]
    others = [sealed(f"links/{number}", b"t") for number in range(3)]
    answer = replayed(recorded(side(ours, key=APP), side([*ours[4:], *others], key=SERVER), strategy=strategy))
    assert answer.difference is None
    assert answer.ended


def test_a_recorded_exchange_has_the_outcome_of_any_other() -> None:
    ours, theirs = [plex("links/1")], [sealed("links/2")]
    plain = run_local(side(ours), side(theirs), clock=Clock())
    recorder = Recorder(io.BytesIO())
    with_recorder = run_local(side(ours), side(theirs), clock=Clock(), recorder=recorder)
    for recorded, other in ((with_recorder.own, plain.own), (with_recorder.peer, plain.peer)):
        # A recorded side does not read the other's memory; it has to be told.
        assert set(other.result.strategies) == {"direct"}
        assert "direct" not in recorded.result.strategies
        assert structs.replace(recorded.result, strategies=other.result.strategies) == other.result


def test_another_request_is_found(recording: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change planted in the machine: it asks for one record less."""
    plain = Wants.choose
    monkeypatch.setattr(Wants, "choose", lambda *arguments: plain(*arguments)[:-1])
    difference = replayed(recording).difference
    assert difference is not None
    assert "Request" in difference.what


def test_a_step_that_reads_something_else_is_found(recording: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Wants, "update", lambda *_: None)
    difference = replayed(recording).difference
    assert difference is not None
    assert "it does not ask for absent, as it did" in difference.what


def test_a_step_that_raises_is_found(recording: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> tuple[str, ...]:
        raise AssertionError("planted")

    monkeypatch.setattr(Wants, "choose", fail)
    difference = replayed(recording).difference
    assert difference is not None
    assert "AssertionError: planted" in difference.what


def test_a_file_that_is_cut_anywhere_is_good_up_to_there(recording: bytes) -> None:
    whole = replayed(recording)
    cuts = Random(4).sample(range(len(VERSION) + 1, len(recording)), 40)
    for cut in sorted(cuts):
        answer = replayed(recording[:cut])
        assert answer.difference is None
        assert answer.steps < whole.steps or answer.is_cut_off is False
        assert not answer.ended


def test_damage_within_the_file_ends_the_replay_there(recording: bytes) -> None:
    damaged = bytearray(recording)
    damaged[len(damaged) // 2] ^= 1
    answer = replayed(bytes(damaged))
    assert answer.is_cut_off
    assert 0 < answer.steps < replayed(recording).steps


@pytest.mark.parametrize("raw", [b"", b"bobbin-recording/2\n", b"no recording at all"])
def test_other_files_are_refused(raw: bytes) -> None:
    with pytest.raises(NoRecording):
        replayed(raw)


def test_a_full_recording_stops_and_the_exchange_goes_on() -> None:
    stream = io.BytesIO()
    recorder = Recorder(stream, bytes_max=3_000)
    ran = run_local(side([plex("links/1")]), side([plex("links/2")]), clock=Clock(), recorder=recorder)
    assert ran.own.result.fixed_point
    assert recorder.failure is not None
    assert "3000" in recorder.failure
    answer = replayed(stream.getvalue())
    assert answer.is_full
    assert (answer.difference, answer.ended) == (None, False)
    assert 0 < answer.steps == recorder.steps


class FullDisk(io.RawIOBase):
    """A disk with room for some bytes."""

    room = 2_000

    def write(self, data: object) -> int:
        size = len(cast(bytes, data))
        self.room -= size
        if self.room < 0:
            raise OSError(28, "No space left on device")
        return size


def test_a_disk_that_fails_ends_the_recording_only() -> None:
    recorder = Recorder(cast(BinaryIO, FullDisk()))
    ran = run_local(side([plex("links/1")]), side([plex("links/2")]), clock=Clock(), recorder=recorder)
    assert ran.own.result.fixed_point
    assert recorder.failure == "the recording ends here: No space left on device"


class Failing(MemoryHoldings):
    """A side whose store or whose rules fail at the second evaluation."""

    error: Exception

    def evaluate(self, question: Question) -> Evaluated:
        if self.evaluations:
            raise self.error
        return super().evaluate(question)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (LimitExceeded("steps_max", "too many steps"), Reason.EVALUATION),
        (ResourceError("no disk", retry=True), Reason.STORE),
    ],
)
def test_errors_are_recorded_as_they_came(error: Exception, reason: Reason) -> None:
    holdings = Failing()
    holdings.error = error
    stream = io.BytesIO()
    ran = run_local(side([plex("links/1")], holdings=holdings), side(), clock=Clock(), recorder=Recorder(stream))
    assert ran.own.result.reason is reason
    answer = replayed(stream.getvalue())
    assert answer.difference is None
    assert answer.ended


def test_what_raises_in_a_step_replays_too() -> None:
    stream = io.BytesIO()
    config = run_local(side(), side(), clock=Clock()).own.config
    machine = RecordedMachine(config, MemoryHoldings(), Recorder(stream))
    now = Now(tai_ns=10**18, monotonic_ns=1)
    machine.step(Started(), now=now)
    with pytest.raises(Exception, match="an exchange starts once"):
        machine.step(Started(), now=now)
    machine.step(Cancelled(), now=now)
    answer = replayed(stream.getvalue())
    assert (answer.steps, answer.difference, answer.ended) == (3, None, True)


class Counting(MemoryHoldings):
    """Says what was asked of it."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def persist(self, effect: Persist) -> tuple[()]:  # noqa: ARG002
        self.asked.append("persist")
        return ()

    def save(self, effect: SaveCursor) -> bool:  # noqa: ARG002
        self.asked.append("save")
        return True

    def remember(self, effect: Remember) -> None:  # noqa: ARG002
        self.asked.append("remember")


def test_a_recorded_exchange_leaves_no_memory() -> None:
    inner = Counting()
    forgetful = Forgetful(inner)
    forgetful.persist(Persist(()))
    forgetful.save(cast(SaveCursor, None))
    forgetful.remember(cast(Remember, None))
    assert inner.asked == ["persist", "save"]


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        2**64 - 1,
        "text",
        b"bytes",
        (),
        ("a", (1, None)),
        ["a"],
        frozenset({"a", "b"}),
        {"a": ("b",)},
        Reason.STORE,
        Received(Transfer(responses=(delivered(plex("x")), Unavailable(record="P.x.H3")), last=True)),
        Send(Request(records=("a", "b"), tick="1")),
        Notify(TickIgnored("1", "why")),
        Advertise(lists=("ab",)),
        Flushed(),
    ],
)
def test_values_read_back(value: object) -> None:
    assert unpack(pack(value)) == value
    assert pack(unpack(pack(value))) == pack(value)


def test_a_selector_reads_back_as_the_same_policy() -> None:
    changed = OperandChanged(compile_selector(GROUP_U))
    read = unpack(pack(changed))
    assert isinstance(read, OperandChanged)
    assert read.selector.identifier == changed.selector.identifier


def test_sets_and_mappings_have_one_form() -> None:
    names = [str(number) for number in range(50)]
    shuffled = Random(1).sample(names, 50)
    assert pack(frozenset(names)) == pack(set(shuffled))
    assert pack(dict.fromkeys(names, 1)) == pack(dict.fromkeys(shuffled, 1))


@pytest.mark.parametrize("packed", [[0, "Nothing", []], [0, "Received", []], [4, "Reason", "none"], [9], [3, [[1]]]])
def test_forms_without_a_value_are_refused(packed: object) -> None:
    with pytest.raises(NoRecording):
        unpack(packed)


def test_only_known_kinds_of_values_are_recorded() -> None:
    for stranger in (object(), 1.5):
        with pytest.raises(AssertionError):
            pack(stranger)


def test_the_cursor_is_part_of_a_recording() -> None:
    """The second exchange starts from what the first one has saved, and so does its replay."""
    own, peer = side([], ALL, key=APP), side([plex(f"{number}") for number in range(9)], ALL, key=SERVER)
    recorded(own, peer)
    again = recorded(own, peer)
    answer = replayed(again)
    assert answer.difference is None
    assert answer.ended


def test_a_store_that_fails_to_answer_is_recorded_too() -> None:
    class Refusing(MemoryHoldings):
        def absent(self, records: Collection[str]) -> frozenset[str]:
            del records
            raise ResourceError("gone", retry=False)

    stream = io.BytesIO()
    own, peer = side(holdings=Refusing()), side([plex("links/1")])
    ran = run_local(own, peer, clock=Clock(), recorder=Recorder(stream))
    assert ran.own.result.reason is Reason.STORE
    assert replayed(stream.getvalue()).difference is None
