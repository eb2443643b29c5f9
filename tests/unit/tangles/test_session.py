"""Sessions of the nine phases: every recorded transcript byte for byte, and everything a peer can do wrong."""

import json
from pathlib import Path
from typing import Any

import pytest

from bobbin.errors import UsageError
from bobbin.tangles import phases
from bobbin.tangles.errors import Rule
from bobbin.tangles.memory import MemoryStore
from bobbin.tangles.message import Message
from bobbin.tangles.modern_frames import Parcel
from bobbin.tangles.phases import FrameLimits, Have, Messages, WantAndFilter
from bobbin.tangles.ranges import EMPTY, Range
from bobbin.tangles.session import Session, SessionConfig
from bobbin.tangles.session_effects import Announced, Ignored, Opened, Role
from bobbin.tangles.session_events import Committed, OpenRuns, Received, Undecodable
from bobbin.tangles.tangle import Tangle
from tests.support.tangle_messages import Author
from tests.tangle_pairs import Pair, held, phase_pair, recorded_store, records_of, store_of, sync
from tests.vectors.load import HERE, load

_ALL = {path.stem: path for path in sorted((HERE / "pzp" / "sessions").glob("*.json"))}
_FIXED = [name for name in _ALL if not load(f"pzp/sessions/{name}.json")["timing_dependent"]]
_LOOSE = [name for name in _ALL if name not in _FIXED]
_AUTHOR = Author()
(_ACCOUNT,) = _AUTHOR.account_messages
feed, star = _AUTHOR.line, _AUTHOR.star


def _stores(
    first: list[Message], second: list[Message], goals: tuple[str, str] = ("all", "all")
) -> tuple[MemoryStore, MemoryStore]:
    tangle = (first or second)[0].id

    def store(messages: list[Message], goal: str) -> MemoryStore:
        return store_of([_ACCOUNT, *messages] if messages else [], {tangle: goal})

    return store(first, goals[0]), store(second, goals[1])


def _raw(data: Any) -> bytes:  # noqa: ANN401 -- whatever JSON holds
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False).encode()


def _replay(recorded: dict[str, Any]) -> tuple[Pair, list[str]]:
    names = [recorded["dialer"], recorded["listener"]]
    pair = phase_pair(recorded_store(recorded, names[0]), recorded_store(recorded, names[1]))
    pair.open(0, *(tangle for tangle, _ in recorded["peers"][names[0]]["goals"]))
    pair.run()
    return pair, names


@pytest.mark.parametrize("name", _FIXED)
def test_recorded_transcripts(name: str) -> None:
    recorded = load(f"pzp/sessions/{name}.json")
    pair, names = _replay(recorded)
    transcript = [(names.index(entry["from"]), _raw(entry["data"])) for entry in recorded["transcript"]]
    assert pair.log == transcript
    assert all(side.session.is_idle and not side.ignored for side in pair.sides)


@pytest.mark.parametrize("name", _FIXED)
def test_recorded_end_states(name: str) -> None:
    """What each side holds afterwards, and that a run says so, once for each side."""
    recorded = load(f"pzp/sessions/{name}.json")
    pair, names = _replay(recorded)
    for side, peer in zip(pair.sides, names, strict=True):
        assert sorted(records_of(side.store)) == sorted(recorded["peers"][peer]["records_after"])
        for tangle, ghosts in recorded["peers"][peer]["ghosts_after"].items():
            assert side.store.ghosts(tangle) == tuple(id for id, _ in ghosts)
        assert [finished.tangle for finished in side.finished] == [
            finished.tangle for finished in pair.sides[0].finished
        ]


@pytest.mark.parametrize("name", _LOOSE)
def test_recorded_sessions_that_depend_on_time_end_alike(name: str) -> None:
    """Their transcripts are one example among many; here runs are opened as there, and the end is the same."""
    recorded = load(f"pzp/sessions/{name}.json")
    names = [recorded["dialer"], recorded["listener"]]
    stores = [recorded_store(recorded, peer) for peer in names]
    tangles = [tangle for tangle, _ in recorded["peers"][recorded["listener"]]["goals"]]
    for tangle in tangles:
        if stores[0].goal(tangle) is None:
            stores[0].set_goal(tangle, stores[1].goal(tangle))
    pair = phase_pair(stores[0], stores[1])
    pair.open(0, *tangles)
    if name == "both-start-late":
        pair.open(1, *tangles)
    pair.run()
    before = {id for peer in names for id, _ in recorded["peers"][peer]["records_before"]}
    for side, peer in zip(pair.sides, names, strict=True):
        after = {id for id, _ in recorded["peers"][peer]["records_after"]} & before
        assert after <= {message.id for message in side.store}


def test_frames_alternate_and_are_nine() -> None:
    messages = feed(6)
    pair = phase_pair(*_stores(messages, messages[:3]))
    sync(pair, messages[0].id)
    spoken = [(number, phases.decode(raw, FrameLimits()).phase) for number, raw in pair.log]
    assert spoken == [(0, 1), (1, 2), (0, 3), (1, 4), (0, 5), (1, 6), (0, 7), (1, 8), (0, 9)]
    opened = [[notice.role for notice in side.notices if isinstance(notice, Opened)] for side in pair.sides]
    assert opened == [[Role.OPENER], [Role.ANSWERER]]


@pytest.mark.parametrize("opener", [0, 1])
@pytest.mark.parametrize("cut", [0, 1, 4, 8])
def test_either_side_brings_the_other_up_to_date(opener: int, cut: int) -> None:
    messages = feed(8)
    for parts in ((messages, messages[:cut]), (messages[:cut], messages)):
        pair = phase_pair(*_stores(*parts))
        sync(pair, messages[0].id, opener)
        assert held(pair.sides[0].store, messages[0].id) == held(pair.sides[1].store, messages[0].id)
        assert len(pair.sides[0].store) == len(messages) + 1


def test_later_runs_are_like_the_first() -> None:
    """The reference stalls from the third run on, and later runs resend what earlier ones settled."""
    messages = feed(20)
    reader, author = _stores(messages[:6], messages[:6])
    tangle = messages[0].id
    pair = phase_pair(reader, author)
    for number in range(5):
        for message in messages[6 + 3 * number : 9 + 3 * number]:
            author.add(message, tangle)
        before, sizes = len(pair.log), len(author)
        sync(pair, tangle)
        assert len(reader) == len(author) == sizes
        frames = [phases.decode(raw, FrameLimits()) for _, raw in pair.log[before:]]
        assert [frame.phase for frame in frames] == list(range(1, 10))
        listed = [id for frame in frames if isinstance(frame, phases.IdsAndFilter) for id in frame.ids]
        if number < 4:
            assert listed == [message.id for message in messages[6 + 3 * number : 9 + 3 * number]]


def test_a_star_needs_filters_by_count() -> None:
    replies = star(180)
    parts = replies[:161], [replies[0], *replies[21:]]
    by_depth = phase_pair(*_stores(*parts))
    sync(by_depth, replies[0].id)
    assert [len(side.store) for side in by_depth.sides] == [162, 162]
    by_count = phase_pair(*_stores(*parts), SessionConfig(size_by_count=True, checking=True))
    sync(by_count, replies[0].id)
    assert [len(side.store) for side in by_count.sides] == [182, 182]


# ---- many tangles, and what goes on after a run --------------------------------------------------------------------


def test_runs_of_several_tangles_interleave() -> None:
    first, second = feed(6), star(5)
    stores = [
        store_of([_ACCOUNT, *first, *second[:2]], {first[0].id: "all", second[0].id: "all"}),
        store_of([_ACCOUNT, *first[:2], *second], {first[0].id: "all", second[0].id: "all"}),
    ]
    pair = phase_pair(stores[0], stores[1])
    pair.open(0, first[0].id, second[0].id)
    pair.run()
    tangles = [phases.decode(raw, FrameLimits()).id for _, raw in pair.log]
    assert tangles[:4] == [first[0].id, second[0].id] * 2
    assert sorted(records_of(stores[0])) == sorted(records_of(stores[1]))
    assert len(pair.log) == 18


def test_a_record_that_is_added_restarts_no_other_run() -> None:
    first, second = feed(6), star(5)
    goals = {first[0].id: "all", second[0].id: "all"}
    pair = phase_pair(
        store_of([_ACCOUNT, *first[:5], *second[:2]], goals), store_of([_ACCOUNT, *first[:2], *second], goals)
    )
    pair.open(0, first[0].id, second[0].id)
    for _ in range(6):
        number, raw = pair.wire.popleft()
        pair.deliver(1 - number, raw)
    pair.add(0, first[5], first[0].id)
    pair.run()
    opened = [notice for side in pair.sides for notice in side.notices if isinstance(notice, Opened)]
    assert len(opened) == 4
    assert len(pair.log) == 18 + 1
    assert held(pair.sides[0].store, first[0].id) == held(pair.sides[1].store, first[0].id)


def test_new_messages_go_out_alone_after_a_run() -> None:
    messages = feed(7)
    tangle = messages[0].id
    pair = phase_pair(*_stores(messages[:4], messages[:4]))
    sync(pair, tangle)
    before = len(pair.log)
    for number, message in enumerate(messages[4:]):
        pair.add(number % 2, message, tangle)
        pair.run()
    frames = [(number, phases.decode(raw, FrameLimits())) for number, raw in pair.log[before:]]
    assert [number for number, _ in frames] == [0, 1, 0, 1], "nothing that was received is sent back"
    assert [frame.messages for _, frame in frames if isinstance(frame, Messages)] == [(m.raw,) for m in messages[4:]]
    assert len(pair.sides[0].store) == len(pair.sides[1].store) == 9
    assert [notice.outwards for notice in pair.sides[0].notices if isinstance(notice, Announced)] == [
        True,
        False,
        True,
        False,
    ]


def test_nothing_goes_out_to_a_peer_that_wants_nothing() -> None:
    messages = feed(6)
    pair = phase_pair(*_stores(messages[:4], messages[:4], ("all", "none")))
    sync(pair, messages[0].id)
    before = len(pair.log)
    pair.add(0, messages[4], messages[0].id)
    assert len(pair.log) == before
    pair.add(1, messages[4], messages[0].id)
    assert len(pair.log) == before + 1


def test_a_new_key_goes_out_with_the_first_message_that_needs_it() -> None:
    messages = feed(3)
    tangle = messages[0].id
    pair = phase_pair(*_stores(messages, messages))
    sync(pair, tangle)
    author = Author()
    added = author.add_key("another")
    pair.add(0, added, _ACCOUNT.id)
    message = author.say("by the new key", Tangle(tangle, messages))
    pair.add(0, message, tangle)
    pair.run()
    assert pair.sides[1].store.message(message.id) is not None
    assert pair.sides[1].store.message(added.id) is not None


# ---- what a peer can do wrong --------------------------------------------------------------------------------------


def _frames(first: list[Message], second: list[Message]) -> list[tuple[int, bytes]]:
    """What two honest sides say to each other."""
    pair = phase_pair(*_stores(first, second))
    sync(pair, first[0].id)
    return pair.log


@pytest.mark.parametrize("replayed", range(2, 10))
def test_a_frame_that_comes_twice_changes_nothing(replayed: int) -> None:
    messages = feed(6)
    honest = _frames(messages, messages[:3])
    pair = phase_pair(*_stores(messages, messages[:3]))
    pair.open(0, messages[0].id)
    while pair.wire:
        number, raw = pair.wire.popleft()
        pair.deliver(1 - number, raw)
        if phases.decode(raw, FrameLimits()).phase == replayed:
            said, state = len(pair.log), [records_of(side.store) for side in pair.sides]
            pair.deliver(1 - number, raw)
            assert len(pair.log) == said
            assert [records_of(side.store) for side in pair.sides] == state
    assert pair.log == honest
    if replayed < 9:
        assert [ignored.reason for side in pair.sides for ignored in side.ignored] == ["out-of-phase"]


@pytest.mark.parametrize("phase", range(2, 10))
def test_a_phase_that_nothing_led_to_is_dropped(phase: int) -> None:
    messages = feed(6)
    stray = next(raw for _, raw in _frames(messages, messages[:3]) if phases.decode(raw, FrameLimits()).phase == phase)
    for prepare in (False, True):
        pair = phase_pair(*_stores(messages, messages[:3]))
        if prepare:
            pair.open(0, messages[0].id)
        if prepare and phase == 2:
            continue
        pair.deliver(0, stray)
        assert [ignored.reason for ignored in pair.sides[0].ignored] == ["out-of-phase"]
        pair.run()
        assert held(pair.sides[0].store, messages[0].id).keys() == {message.id for message in messages}


def test_a_phase_one_begins_the_run_anew() -> None:
    """Real peers do that in the middle of a run; the answers to the old one lead nowhere, and the new one ends well."""
    messages = feed(6)
    pair = phase_pair(*_stores(messages, messages[:3]))
    pair.open(0, messages[0].id)
    for _ in range(5):
        number, raw = pair.wire.popleft()
        pair.deliver(1 - number, raw)
    pair.step(0, OpenRuns((messages[0].id,), anew=True))
    pair.run()
    assert len(pair.sides[1].store) == 7 + 1
    assert all(side.session.is_idle for side in pair.sides)


def _phases(pair: Pair) -> list[tuple[int, int]]:
    """Who has said which phase."""
    return [(number, phases.decode(raw, FrameLimits()).phase) for number, raw in pair.log]


def test_an_opening_waits_for_the_answer_to_the_one_before_it() -> None:
    """A phase 2 does not say which phase 1 it answers, so there is never a second one that it could."""
    messages = feed(6)
    tangle = messages[0].id
    pair = phase_pair(*_stores(messages, messages[:3]))
    pair.open(0, tangle)
    for _ in range(3):
        pair.step(0, OpenRuns((tangle,), anew=True))
    assert _phases(pair) == [(0, 1)]
    pair.run()
    # However often it was wished for, it begins anew once; and then the run is as any other.
    assert _phases(pair) == [(0, 1), (1, 2), (0, 1), *((number % 2, number + 1) for number in range(1, 9))]
    assert [notice for notice in pair.sides[0].notices if isinstance(notice, Opened)] == 2 * [
        Opened(tangle=tangle, role=Role.OPENER)
    ]
    assert all(side.session.is_idle and not side.ignored for side in pair.sides)
    assert len(pair.sides[1].store) == 7 + 1


def test_a_run_that_begins_anew_says_what_is_held_then() -> None:
    messages = feed(4)
    tangle = messages[0].id
    pair = phase_pair(*_stores(messages[:2], messages[:1]))
    pair.open(0, tangle)
    pair.step(0, OpenRuns((tangle,), anew=True))
    pair.add(0, messages[2], tangle)
    pair.run()
    haves = [frame for _, raw in pair.log if isinstance(frame := phases.decode(raw, FrameLimits()), Have)]
    assert [frame.have for frame in haves] == [Range(0, 1), Range(0, 2)]
    assert held(pair.sides[1].store, tangle).keys() == {message.id for message in messages[:3]}


def test_a_peer_that_opens_twice_and_takes_up_both_answers_is_served() -> None:
    """Real peers do: any record that they add makes them say phase 1 again, and they answer every phase 2."""
    messages = feed(4)
    tangle = messages[0].id
    pair = phase_pair(*_stores(messages, [], ("all", "all")))
    answerer = pair.sides[1]
    pair.deliver(1, phases.encode(Have(tangle, Range(0, 4))))
    for message in (_ACCOUNT, *messages[:2]):
        answerer.store.add(message, tangle if message is not _ACCOUNT else _ACCOUNT.id)
    pair.deliver(1, phases.encode(Have(tangle, Range(0, 4))))
    pair.deliver(1, phases.encode(Messages(tangle, tuple(message.raw for message in messages[:3]))))
    assert not answerer.session.is_idle
    bloom = pair.sides[0].session._exchange.filter_for(tangle, 0, EMPTY)
    pair.deliver(1, phases.encode(WantAndFilter(tangle, bloom, EMPTY)))
    assert [phase for _, phase in _phases(pair)] == [2, 2, 4]
    assert not answerer.ignored


def test_a_side_that_had_nothing_goes_on_with_filters_where_the_peer_does() -> None:
    """The peer has heard in another run that this side has something by now."""
    messages = feed(4)
    tangle = messages[0].id
    empty, full = store_of([], {tangle: "all"}), _stores(messages, messages)[1]
    pair = phase_pair(empty, full)
    pair.open(0, tangle)
    for _ in range(3):
        number, raw = pair.wire.popleft()
        frame = phases.decode(raw, FrameLimits())
        if isinstance(frame, Have):
            raw = phases.encode(Have(tangle, Range(0, 0)))
        pair.deliver(1 - number, raw)
    assert phases.decode(pair.wire[0][1], FrameLimits()).phase == 4
    pair.run()
    assert len(pair.sides[0].store) == 6
    assert all(side.session.is_idle and not side.ignored for side in pair.sides)


def test_a_run_under_way_is_not_opened_again() -> None:
    messages = feed(2)
    pair = phase_pair(*_stores(messages, messages))
    pair.open(0, messages[0].id)
    pair.open(0, messages[0].id)
    assert len(pair.log) == 1


def _forge(message: Message) -> bytes:
    """A copy whose data is another."""
    assert b'"text":"m' in message.raw
    return message.raw.replace(b'"text":"m', b'"text":"x', 1)


def test_nothing_of_a_forged_message_is_stored_and_the_rest_is() -> None:
    messages = feed(8)
    tangle = messages[0].id
    pair = phase_pair(*_stores(messages, messages[:3]))
    pair.open(0, tangle)
    while pair.wire:
        number, raw = pair.wire.popleft()
        frame = phases.decode(raw, FrameLimits())
        if isinstance(frame, Messages):
            texts = tuple(_forge(messages[8]) if text == messages[8].raw else text for text in frame.messages)
            raw = phases.encode(Messages(tangle, (b"17", *texts)))
        pair.deliver(1 - number, raw)
    store = pair.sides[1].store
    assert set(held(store, tangle)) == {message.id for message in messages[:8]}
    (finished,) = pair.sides[1].finished
    assert [refused.rule for refused in finished.refused] == [Rule.SHAPE, Rule.DATA_HASH]
    assert set(finished.added) == {message.id for message in messages[3:8]}


def test_messages_that_nobody_asked_for_are_not_stored() -> None:
    messages = feed(4)
    tangle = messages[0].id
    pair = phase_pair(*_stores(messages[:2], messages[:2], ("none", "all")))
    pair.deliver(0, phases.encode(Messages(tangle, (messages[2].raw,))))
    sync(pair, tangle)
    pair.deliver(0, phases.encode(Messages(tangle, (messages[2].raw,))))
    assert len(pair.sides[0].store) == 3
    assert {ignored.reason for ignored in pair.sides[0].ignored} == {"out-of-phase"}


def test_messages_in_a_run_of_a_side_that_wants_none_are_not_stored() -> None:
    messages = feed(4)
    tangle = messages[0].id
    pair = phase_pair(*_stores(messages[:2], messages, ("none", "all")))
    pair.open(0, tangle)
    while pair.wire:
        number, raw = pair.wire.popleft()
        frame = phases.decode(raw, FrameLimits())
        if isinstance(frame, phases.MessagesAndFilter):
            raw = phases.encode(phases.MessagesAndFilter(tangle, (messages[2].raw,), frame.bloom))
        pair.deliver(1 - number, raw)
    assert len(pair.sides[0].store) == 3
    assert [ignored.reason for ignored in pair.sides[0].ignored] == ["unasked"]
    assert pair.sides[0].session.is_idle


def test_a_peer_begins_only_so_many_runs() -> None:
    ids = [feed(1)[0].id, star(1)[0].id, _ACCOUNT.id]
    session = Session(SessionConfig(tangles_max=2, checking=True), MemoryStore())
    answers = [session.step(Received(Have(id, Range(0, 3)))) for id in ids]
    assert [len(effects) for effects in answers] == [2, 2, 1]
    assert "too-many-tangles" in repr(answers[2])


def test_promises_are_bounded() -> None:
    messages = feed(12)
    pair = phase_pair(*_stores(messages, messages[:3]), SessionConfig(promised_max=4, checking=True))
    sync(pair, messages[0].id)
    assert [ignored.reason for ignored in pair.sides[1].ignored] == ["too-many-promises"]
    assert len(pair.sides[1].store) == 4


def test_what_is_no_frame_is_reported() -> None:
    session = Session(SessionConfig(), MemoryStore())
    (effect,) = session.step(Undecodable("malformed-phase", "not a phase"))
    assert "malformed-phase" in repr(effect)
    assert session.is_idle


def test_a_side_without_a_goal_serves_the_other() -> None:
    messages = feed(5)
    first, second = _stores(messages, messages[:2])
    first.set_goal(messages[0].id, None)
    pair = phase_pair(first, second)
    sync(pair, messages[0].id, opener=1)
    assert len(second) == 7


def test_our_own_mistakes_raise() -> None:
    session = Session(SessionConfig(), MemoryStore())
    with pytest.raises(UsageError):
        session.step(Committed(token=1))
    with pytest.raises(UsageError):
        session.step(Received(Parcel(tangle=bytes(32), run=0, messages=())))


def test_nobody_wants_anything_of_nothing() -> None:
    tangle = feed(1)[0].id
    pair = phase_pair(store_of([], {tangle: "all"}), store_of([], {tangle: "all"}))
    sync(pair, tangle)
    assert [phases.decode(raw, FrameLimits()) for _, raw in pair.log] == [
        Have(tangle, EMPTY),
        phases.HaveAndWant(tangle, EMPTY, EMPTY),
        Messages(tangle, ()),
    ]
    assert not any(isinstance(notice, Ignored) for side in pair.sides for notice in side.notices)


def test_recorded_sessions_are_all_here() -> None:
    assert len(_FIXED) == 39
    assert Path(HERE / "pzp" / "sessions" / "identical.json").is_file()
