"""Sessions of the modern mode: what the reference misses, what it costs, and everything a peer can do wrong."""

from collections.abc import Callable
from random import Random

import msgspec
import pytest

from bobbin.errors import UsageError
from bobbin.reconcile.estimate import COUNTERS
from bobbin.tangles import compose, modern_frames
from bobbin.tangles.accounts import consent
from bobbin.tangles.errors import Rule
from bobbin.tangles.keys import Keypair
from bobbin.tangles.memory import MemoryStore
from bobbin.tangles.message import Message, MessageId, decode
from bobbin.tangles.modern import ModernConfig, ModernSession
from bobbin.tangles.modern_frames import (
    Answer,
    Ask,
    Form,
    ModernFrame,
    ModernLimits,
    Parcel,
    Part,
    Stop,
    Turn,
    id_bytes,
)
from bobbin.tangles.modern_turns import SpanLimits
from bobbin.tangles.phases import Have
from bobbin.tangles.ranges import Range
from bobbin.tangles.session_effects import Opened
from bobbin.tangles.session_events import Committed, OpenRuns, Received, Undecodable
from bobbin.tangles.session_memory import ModernView
from bobbin.tangles.tangle import Tangle
from tests.support.tangle_messages import Author
from tests.tangle_cases import ACCOUNT, AUTHOR, assert_converged, frames_of, long_feed, pair_of, round_trips, sent_by
from tests.tangle_pairs import Pair, held, modern_pair, phase_pair, store_of, sync

# ---- what it costs -------------------------------------------------------------------------------------------------


def test_equal_sets_settle_in_one_exchange() -> None:
    messages = AUTHOR.line(50)
    pair = pair_of(messages, messages)
    sync(pair, messages[0].id)
    assert [type(frame) for _, frame in frames_of(pair)] == [Ask, Answer]
    assert pair.metadata_bytes < 300
    assert_converged(pair, messages[0].id, 51)


@pytest.mark.parametrize("scattered", [False, True])
@pytest.mark.parametrize("opener", [0, 1])
def test_a_thousand_posts_of_which_ten_are_missing(opener: int, *, scattered: bool) -> None:
    messages = long_feed()
    gone = Random(7).sample(range(1, 1001), 10) if scattered else range(991, 1001)
    pair = pair_of(messages, messages)
    for number in gone:
        # Nobody takes a message of which no predecessor is there, but one may be let go later.
        pair.sides[0].store.delete(messages[number].id)
    sync(pair, messages[0].id, opener)
    assert_converged(pair, messages[0].id, 1001)
    assert pair.message_texts == 10
    assert pair.metadata_bytes <= 1000
    assert round_trips(pair) <= 2


def test_a_star_of_180_replies_of_which_each_side_has_160() -> None:
    """The reference exchanges nothing at all."""
    replies = AUTHOR.star(180)
    pair = pair_of(replies[:161], [replies[0], *replies[21:]])
    sync(pair, replies[0].id)
    assert_converged(pair, replies[0].id, 181)
    assert pair.message_texts == 40


def test_a_star_lacking_ten_each_way_sends_ten_each_way() -> None:
    """The reference sends 51."""
    replies = AUTHOR.star(60)
    pair = pair_of(replies[:51], [replies[0], *replies[11:]])
    sync(pair, replies[0].id)
    assert_converged(pair, replies[0].id, 61)
    assert [len(sent_by(pair, number)) for number in (0, 1)] == [10, 10]


@pytest.mark.slow
def test_ten_thousand_posts_of_which_ten_are_missing() -> None:
    """The reference ends five short after half a minute."""
    messages = AUTHOR.line(10_000)
    pair = pair_of(messages, messages)
    for number in Random(3).sample(range(1, 10_001), 10):
        pair.sides[0].store.delete(messages[number].id)
    sync(pair, messages[0].id)
    assert_converged(pair, messages[0].id, 10_001)
    assert pair.message_texts == 10
    assert pair.metadata_bytes <= 1100
    assert round_trips(pair) <= 2


# ---- goals ---------------------------------------------------------------------------------------------------------


def test_a_set_of_which_only_the_moot_is_held() -> None:
    messages = AUTHOR.set_feed(6)
    goals = {messages[0].id: "set"}
    stores = store_of([*ACCOUNT, messages[0]], goals), store_of([*ACCOUNT, *messages], goals)
    by_phases = phase_pair(*stores)
    sync(by_phases, messages[0].id)
    assert len(stores[0]) == 2, "a pzp peer wants nothing here"
    pair = modern_pair(*stores)
    sync(pair, messages[0].id)
    assert held(stores[0], messages[0].id) == held(stores[1], messages[0].id)


def test_ghosts_do_not_come_back() -> None:
    messages = AUTHOR.set_feed(8)
    tangle = messages[0].id
    for lister in (0, 1):
        stores = [store_of([*ACCOUNT, *messages], {tangle: "set"}) for _ in range(2)]
        stores[lister].delete(messages[3].id)
        stores[lister].save_ghost(tangle, messages[3].id, 3)
        pair = modern_pair(stores[0], stores[1])
        sync(pair, tangle)
        assert pair.message_texts == 0
        assert messages[3].id not in held(stores[lister], tangle)
        assert [finished.missing for side in pair.sides for finished in side.finished] == [0, 0]


def test_erased_data_is_filled_when_a_side_wants_everything_again() -> None:
    """A pzp peer counts an erased message as held."""
    messages = AUTHOR.line(12)
    tangle = messages[0].id
    stores = [store_of([*ACCOUNT, *messages], {tangle: "all"}) for _ in range(2)]
    stores[0].prune_newest(tangle, 4)
    pair = modern_pair(stores[0], stores[1])
    sync(pair, tangle)
    assert_converged(pair, tangle, 13)
    assert all(has_data for id, has_data in held(stores[0], tangle).items() if id != tangle)


def test_the_newest_come_with_a_trail_and_nothing_else() -> None:
    messages = AUTHOR.line(100)
    tangle = messages[0].id
    pair = pair_of([], messages, ("newest-5", "all"))
    sync(pair, tangle)
    store = pair.sides[0].store
    assert {id for id, has_data in held(store, tangle).items() if has_data} == {m.id for m in messages[-5:]}
    trail = Tangle(tangle, messages).trail([messages[-5].id])
    assert set(held(store, tangle)) == {m.id for m in messages[-5:]} | set(trail)
    again = pair.message_texts
    sync(pair, tangle, opener=1)
    assert pair.message_texts == again


def test_a_side_without_a_goal_gives_and_takes_nothing() -> None:
    messages = AUTHOR.line(9)
    pair = pair_of(messages[:5], messages, ("all", "none"))
    sync(pair, messages[0].id)
    assert len(held(pair.sides[0].store, messages[0].id)) == 10
    other = pair_of(messages[:5], messages, ("none", "all"))
    sync(other, messages[0].id)
    assert other.message_texts == 0


# ---- accounts ------------------------------------------------------------------------------------------------------


def test_account_messages_go_along_where_they_are_needed_and_only_there() -> None:
    author = Author("carol")
    root = author.account_messages[0]
    old = author.line(4)
    tangle = old[0].id
    added = author.add_key("carol's other key")
    structure = Tangle(tangle, old)
    new = [author.say("by the new key", structure)]
    structure.add(new[0])
    new.append(author.say("another one", structure))
    reader = store_of([root, *old], {tangle: "all"})
    writer = store_of([root, *old, added, *new], {tangle: "all"})
    pair = modern_pair(reader, writer)
    sync(pair, tangle)
    assert [message.id for message in sent_by(pair, 1)] == [added.id, *(message.id for message in new)]
    assert held(reader, tangle) == held(writer, tangle)
    structure.add(new[1])
    last = author.say("and one more", structure)
    writer.add(last, tangle)
    sync(pair, tangle)
    assert [message.id for message in sent_by(pair, 1)][3:] == [last.id]


def test_account_messages_that_a_peer_should_have_are_sent_when_it_turns_out_that_it_has_not() -> None:
    messages = AUTHOR.line(6)
    tangle = messages[0].id
    reader = store_of(messages[:4], {tangle: "all"})
    assert reader.message(ACCOUNT[0].id) is None
    pair = modern_pair(reader, store_of([*ACCOUNT, *messages], {tangle: "all"}))
    sync(pair, tangle)
    assert set(held(reader, tangle)) == {message.id for message in messages}
    assert reader.message(ACCOUNT[0].id) is not None


@pytest.mark.parametrize("opener", [0, 1])
def test_a_side_that_lacks_an_account_says_so_even_if_nothing_else_is_missing(opener: int) -> None:
    messages = AUTHOR.line(4)
    tangle = messages[0].id
    stores = store_of(messages, {tangle: "all"}), store_of([*ACCOUNT, *messages], {tangle: "all"})
    pair = modern_pair(*stores)
    sync(pair, tangle, opener)
    assert all(stores[0].standing.is_full(tangle, message.id) for message in messages)
    # What could not be proven did not count as held, so it came once more, with its proof.
    assert [message.id for message in sent_by(pair, 1)] == [ACCOUNT[0].id, *(message.id for message in messages[1:])]
    assert [[finished.agreed for finished in side.finished] for side in pair.sides] == [[True], [True]]


@pytest.mark.parametrize("opener", [0, 1])
def test_a_side_that_wants_nothing_asks_for_no_account_and_is_sent_none(opener: int) -> None:
    messages = AUTHOR.line(4)
    tangle = messages[0].id
    stores = store_of(messages, {tangle: "none"}), store_of([*ACCOUNT, *messages], {tangle: "all"})
    pair = modern_pair(*stores)
    sync(pair, tangle, opener)
    assert [type(frame) for _, frame in frames_of(pair)] == [Ask, Answer]
    assert not any(isinstance(frame, Ask | Answer) and frame.accounts for _, frame in frames_of(pair))
    assert not any(side.ignored for side in pair.sides)


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("goal", ["all", "newest-2"])
@pytest.mark.parametrize("opener", [0, 1])
def test_a_side_that_has_an_account_with_a_gap_gets_what_is_missing_in_it(opener: int, goal: str, count: int) -> None:
    """The tip is there, and one of the two messages that it builds on is not, whether or not anything else is new."""
    author = Author("frank")
    first = author.account_messages[0]
    keys = [Keypair.from_words(f"frank's key {number}") for number in range(3)]

    def added(key: Keypair, before: list[Message]) -> Message:
        place = Tangle(first.id, before)
        return compose.account_add(author.keys[0], place, key=key.public, consent=consent(key, first.id))

    branches = [added(key, [first]) for key in keys[:2]]
    tip = added(keys[2], [first, *branches])
    account = Tangle(first.id, [first, *branches, tip])
    thread: list[Message] = []
    for number in range(3):
        place = [Tangle(thread[0].id, thread)] if thread else []
        thread.append(compose.post(keys[2], {"text": f"{number}"}, account=account, domain="thread", tangles=place))
    tangle = thread[0].id
    reader = store_of([first, branches[0], tip, *thread[:count]], {tangle: goal})
    pair = modern_pair(reader, store_of([first, *branches, tip, *thread], {tangle: "all"}))
    sync(pair, tangle, opener)
    assert all(reader.standing.is_full(tangle, message.id) for message in thread)


def test_an_account_tangle() -> None:
    author = Author("dave")
    author.add_key("dave's second")
    author.add_key("dave's third")
    messages = author.account_messages
    stores = store_of(messages[:1], {messages[0].id: "all"}), store_of(messages, {messages[0].id: "all"})
    pair = modern_pair(*stores)
    sync(pair, messages[0].id)
    assert_converged(pair, messages[0].id, 3)
    assert pair.message_texts == 2


def test_what_interop_alone_let_in_is_never_offered() -> None:
    """A stranger's removal of a key: a pzp peer takes it, the modern mode neither takes nor shows it."""
    author, stranger = Author("erin"), Author("mallory")
    victim = author.add_key("erin's phone")
    account = author.account_tangle
    forged = _removal(stranger, account, author.keys[1].public)
    messages = [*author.account_messages, forged]
    first = store_of(author.account_messages, {account.id: "all"})
    first.add(forged, account.id)
    second = store_of(author.account_messages, {account.id: "all"})
    assert first.message(forged.id) is not None
    assert victim.id in {message.id for message in messages}
    pair = modern_pair(first, second)
    sync(pair, account.id)
    assert pair.message_texts == 0
    assert pair.sides[0].finished[0].agreed is True


def _removal(author: Author, account: Tangle, key: str) -> Message:
    return compose.account_del(author.keys[0], account, key=key)


# ---- runs ----------------------------------------------------------------------------------------------------------


def test_every_run_has_its_own_salt() -> None:
    replies = AUTHOR.star(80)
    pair = pair_of(replies[:71], [replies[0], *replies[11:]])
    sketches: list[bytes] = []
    for seed in (1, 2):
        pair = pair_of(replies[:71], [replies[0], *replies[11:]], seed=seed)
        sync(pair, replies[0].id)
        sketches += [part.body for _, frame in frames_of(pair) if isinstance(frame, Answer) for part in frame.parts]
    session = ModernSession(ModernConfig(secret=bytes(32), dialler=True), ModernView(pair.sides[0].store))
    asks = [session.step(OpenRuns((replies[0].id,), anew=True)) for _ in range(2)]
    assert len(set(sketches)) == len(sketches) == 2
    assert "Ask" in repr(asks[0])
    assert asks[0] != asks[1]


def test_of_two_runs_that_begin_at_the_same_time_one_goes_on() -> None:
    messages = AUTHOR.line(9)
    pair = pair_of(messages[:5], messages)
    pair.open(0, messages[0].id)
    pair.open(1, messages[0].id)
    pair.run()
    assert held(pair.sides[0].store, messages[0].id) == held(pair.sides[1].store, messages[0].id)
    assert pair.message_texts == 5
    assert all(side.session.is_idle for side in pair.sides)
    assert [[finished.agreed for finished in side.finished] for side in pair.sides] == [[True], [False, True]]


def test_later_runs_are_like_the_first() -> None:
    messages = AUTHOR.line(20)
    tangle = messages[0].id
    pair = pair_of(messages[:6], messages[:6])
    for number in range(5):
        for message in messages[6 + 3 * number : 9 + 3 * number]:
            pair.sides[1].store.add(message, tangle)
        before = pair.message_texts
        sync(pair, tangle)
        assert held(pair.sides[0].store, tangle) == held(pair.sides[1].store, tangle)
        assert pair.message_texts - before == len(messages[6 + 3 * number : 9 + 3 * number])


def test_runs_of_several_tangles_interleave() -> None:
    first, second = AUTHOR.line(6), AUTHOR.star(5)
    goals = {first[0].id: "all", second[0].id: "all"}
    stores = store_of([*ACCOUNT, *first, *second[:2]], goals), store_of([*ACCOUNT, *first[:2], *second], goals)
    pair = modern_pair(*stores)
    pair.open(0, first[0].id, second[0].id)
    pair.run()
    assert {message.id for message in stores[0]} == {message.id for message in stores[1]}
    assert len([notice for notice in pair.sides[0].notices if isinstance(notice, Opened)]) == 2


def test_new_messages_go_out_after_a_run() -> None:
    messages = AUTHOR.line(7)
    tangle = messages[0].id
    pair = pair_of(messages[:4], messages[:4])
    sync(pair, tangle)
    before = len(pair.log)
    for number, message in enumerate(messages[4:]):
        pair.add(number % 2, message, tangle)
        pair.run()
    assert [number for number, _ in pair.log[before:]] == [0, 1, 0, 1], "nothing that was received is sent back"
    assert len(held(pair.sides[0].store, tangle)) == len(held(pair.sides[1].store, tangle)) == 8


def test_what_comes_during_a_run_goes_out_after_it() -> None:
    messages = AUTHOR.line(7)
    tangle = messages[0].id
    pair = pair_of(messages[:7], messages[:3])
    pair.open(0, tangle)
    pair.add(0, messages[7], tangle)
    pair.run()
    assert len(held(pair.sides[1].store, tangle)) == 8


def test_messages_of_more_than_one_parcel() -> None:
    messages = long_feed()
    pair = pair_of([], messages)
    sync(pair, messages[0].id)
    parcels = [frame for _, frame in frames_of(pair) if isinstance(frame, Parcel)]
    assert len(parcels) > 2
    assert_converged(pair, messages[0].id, 1001)


# ---- what a peer can do wrong --------------------------------------------------------------------------------------


def _tampered(
    first: list[Message], second: list[Message], change: Callable[[int, ModernFrame], ModernFrame | None], **bounds: int
) -> Pair:
    """A run in which each frame is changed on its way; None loses it."""
    tangle = first[0].id
    stores = [store_of([*ACCOUNT, *messages], {tangle: "all"}) for messages in (first, second)]
    pair = modern_pair(stores[0], stores[1], spans=SpanLimits(first_symbols=4), **bounds)
    pair.open(0, tangle)
    for _ in range(300):
        if not pair.wire:
            break
        number, raw = pair.wire.popleft()
        changed = change(number, modern_frames.decode(raw, ModernLimits()))
        if changed is not None:
            pair.step(1 - number, Received(changed))
    assert not pair.wire, "the two sides come to an end"
    return pair


def _forge(text: bytes) -> bytes:
    return text.replace(b'"text":"r', b'"text":"x', 1)


def test_nothing_of_a_forged_message_is_stored_and_the_rest_is() -> None:
    replies = AUTHOR.star(30)
    victim = replies[25].id

    def forge(_: int, frame: ModernFrame) -> ModernFrame:
        if not isinstance(frame, Parcel):
            return frame
        texts = tuple(_forge(text) if decode(text).id == victim else text for text in frame.messages)
        return msgspec.structs.replace(frame, messages=(*texts, b"[]"))

    pair = _tampered(replies[:20], replies, forge)
    assert set(held(pair.sides[0].store, replies[0].id)) == {reply.id for reply in replies if reply.id != victim}
    finished = pair.sides[0].finished
    assert {refused.rule for refused in finished[0].refused} == {Rule.DATA_HASH, Rule.SHAPE}
    assert finished[0].agreed is False
    assert finished[-1].missing == 1
    assert len(finished) == 3, "it is tried again, and not for ever"


@pytest.mark.parametrize("kind", [Answer, Turn, Parcel])
def test_a_frame_that_comes_twice_changes_nothing(kind: type) -> None:
    replies = AUTHOR.star(60)
    tangle = replies[0].id
    # So few that the first symbols are enough: after a wish for more, another turn of the same side is right.
    pair = pair_of(replies[:56], [replies[0], *replies[6:]])
    pair.open(0, tangle)
    while pair.wire:
        number, raw = pair.wire.popleft()
        pair.deliver(1 - number, raw)
        frame = modern_frames.decode(raw, ModernLimits())
        if isinstance(frame, kind):
            said = len(pair.log)
            pair.deliver(1 - number, raw)
            assert len(pair.log) == said
    assert held(pair.sides[0].store, tangle) == held(pair.sides[1].store, tangle)
    assert {ignored.reason for side in pair.sides for ignored in side.ignored} == {"out-of-turn"}


def test_symbols_that_lead_nowhere_end_in_a_list() -> None:
    replies = AUTHOR.star(60)

    def garble(_: int, frame: ModernFrame) -> ModernFrame:
        if isinstance(frame, Answer | Turn):
            parts = tuple(
                msgspec.structs.replace(part, body=bytes(byte ^ 0x5A for byte in part.body))
                if part.form is Form.SYMBOLS
                else part
                for part in frame.parts
            )
            return msgspec.structs.replace(frame, parts=parts)
        return frame

    pair = _tampered(replies[:51], [replies[0], *replies[11:]], garble)
    assert held(pair.sides[0].store, replies[0].id) == held(pair.sides[1].store, replies[0].id)
    assert pair.sides[0].finished[-1].agreed is True


@pytest.mark.parametrize(
    "part",
    [
        Part(9, Form.LISTED),
        Part(0, Form.MORE, 3, b"\xff"),
        Part(0, Form.SYMBOLS, 0, b"123"),
        Part(0, Form.SYMBOLS, 7, bytes(10)),
        Part(0, Form.SYMBOLS, 0, b""),
    ],
    ids=repr,
)
def test_parts_that_make_no_sense_end_the_run_and_not_the_stream(part: Part) -> None:
    replies = AUTHOR.star(60)
    spoilt = 0

    def spoil(number: int, frame: ModernFrame) -> ModernFrame:
        nonlocal spoilt
        if number == 1 and isinstance(frame, Answer) and not spoilt:
            spoilt += 1
            return msgspec.structs.replace(frame, parts=(part,))
        return frame

    pair = _tampered(replies[:51], [replies[0], *replies[11:]], spoil)
    assert pair.sides[0].ignored
    assert held(pair.sides[0].store, replies[0].id) == held(pair.sides[1].store, replies[0].id), "the next run did it"


def test_a_peer_that_always_asks_for_more_is_cut_short() -> None:
    replies = AUTHOR.star(60)
    limits = SpanLimits(first_symbols=4, more_max=2)
    tangle = replies[0].id
    answerer = ModernSession(
        ModernConfig(secret=bytes(32), dialler=False, spans=limits, turns_max=12, checking=True),
        ModernView(store_of([*ACCOUNT, *replies], {tangle: "all"})),
    )
    opener = pair_of(replies[:51], replies[:51])
    opener.open(0, tangle)
    effects = answerer.step(Received(modern_frames.decode(opener.log[0][1], ModernLimits())))
    assert "Form.SYMBOLS" in repr(effects)
    forms: list[str] = []
    for _ in range(20):
        bulk = bytes([0, 2] * (COUNTERS // 2))
        turn = Turn(tangle=id_bytes(tangle), run=1, parts=(Part(0, Form.MORE, 51, bulk),))
        text = repr(answerer.step(Received(turn)))
        forms += [form for form in ("SYMBOLS", "LIST", "too-many-turns", "out-of-turn") if f"{form}" in text]
    assert "LIST" in forms
    assert forms[-1] == "out-of-turn", "the run is over, and further frames of it are dropped"
    assert "too-many-turns" in forms


def test_a_floor_that_was_never_named_is_refused() -> None:
    messages = AUTHOR.line(20)

    def lift(_: int, frame: ModernFrame) -> ModernFrame:
        return msgspec.structs.replace(frame, floor=17) if isinstance(frame, Answer) else frame

    pair = _tampered(messages[:10], messages, lift)
    assert {ignored.reason for ignored in pair.sides[0].ignored} >= {"malformed-frame"}
    assert [finished.agreed for finished in pair.sides[0].finished] == [False]
    assert all(side.session.is_idle for side in pair.sides), "the peer has been told"


def test_a_run_that_the_peer_gives_up_is_tried_again_and_not_for_ever() -> None:
    messages = AUTHOR.line(20)

    def stop(number: int, frame: ModernFrame) -> ModernFrame:
        return Stop(tangle=frame.tangle, run=frame.run, reason="tired") if number == 1 else frame

    pair = _tampered(messages[:10], messages, stop)
    assert [finished.agreed for finished in pair.sides[0].finished] == [False]
    assert len([notice for notice in pair.sides[0].notices if isinstance(notice, Opened)]) == 3
    assert pair.sides[0].session.is_idle


def test_a_second_run_of_the_listener_is_refused_while_one_is_under_way() -> None:
    messages = AUTHOR.line(20)
    tangle = messages[0].id
    pair = pair_of(messages[:10], [*messages[:5], *messages[10:]])
    pair.open(0, tangle)
    for _ in range(2):
        number, raw = pair.wire.popleft()
        pair.deliver(1 - number, raw)
    pair.step(1, OpenRuns((tangle,), anew=True))
    pair.run()
    assert held(pair.sides[0].store, tangle) == held(pair.sides[1].store, tangle)
    assert all(side.session.is_idle for side in pair.sides)


def test_a_wrong_root_is_noticed() -> None:
    messages = AUTHOR.line(20)

    def lie(number: int, frame: ModernFrame) -> ModernFrame:
        return (
            msgspec.structs.replace(frame, root=bytes(16))
            if number == 1 and not isinstance(frame, Ask | Parcel)
            else frame
        )

    pair = _tampered(messages[:10], messages, lie)
    assert [finished.agreed for finished in pair.sides[0].finished] == [False] * 3


def test_messages_that_nobody_asked_for_are_not_stored() -> None:
    messages = AUTHOR.line(4)
    tangle = messages[0].id
    pair = pair_of(messages[:2], messages[:2], ("none", "all"))
    news = Parcel(tangle=id_bytes(tangle), run=0, messages=(messages[2].raw,))
    pair.step(0, Received(news))
    sync(pair, tangle)
    pair.step(0, Received(news))
    assert len(held(pair.sides[0].store, tangle)) == 2
    assert [ignored.reason for ignored in pair.sides[0].ignored] == ["unasked", "unasked"]


def test_a_peer_begins_only_so_many_runs_and_only_its_own() -> None:
    ids = [AUTHOR.line(1)[0].id, AUTHOR.star(1)[0].id, ACCOUNT[0].id]
    session = ModernSession(
        ModernConfig(secret=bytes(32), dialler=False, tangles_max=2, checking=True), ModernView(MemoryStore())
    )
    wish = modern_frames.WireWish(1)

    def ask(id: MessageId, run: int) -> str:
        frame = Ask(tangle=id_bytes(id), run=run, nonce=bytes(8), wish=wish, low=1, high=0, top=-1, marks=())
        return repr(session.step(Received(frame)))

    assert "Answer" in ask(ids[0], 1)
    assert "Answer" in ask(ids[1], 3)
    assert "too-many-tangles" in ask(ids[2], 5)
    assert "out-of-turn" in ask(ids[0], 2)


def test_our_own_mistakes_raise() -> None:
    with pytest.raises(UsageError):
        ModernSession(ModernConfig(secret=b"short", dialler=True), ModernView(MemoryStore()))
    session = ModernSession(ModernConfig(secret=bytes(32), dialler=True), ModernView(MemoryStore()))
    with pytest.raises(UsageError):
        session.step(Committed(token=1))
    with pytest.raises(UsageError):
        session.step(Received(Have(ACCOUNT[0].id, Range(0, 1))))
    assert "malformed-frame" in repr(session.step(Undecodable("malformed-frame", "not a frame")))
