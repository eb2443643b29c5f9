"""What is said about spans: every way to find a difference finds it, and senseless parts are refused."""

import pytest

from bobbin.errors import PeerError
from bobbin.reconcile import measure
from bobbin.tangles.errors import Rule
from bobbin.tangles.memory import MemoryStore
from bobbin.tangles.message import Message
from bobbin.tangles.modern_frames import Form, MalformedModernFrame, Part
from bobbin.tangles.modern_spans import Picture, Span, both_shorts
from bobbin.tangles.modern_state import ModernRun, Reply, Step
from bobbin.tangles.modern_turns import SpanLimits, SpanWork
from bobbin.tangles.session_effects import Role
from bobbin.tangles.session_events import Refused
from bobbin.tangles.session_memory import ModernView
from tests.support.tangle_messages import Author
from tests.tangle_pairs import store_of

_AUTHOR = Author()
_REPLIES = _AUTHOR.star(120)
_TANGLE = _REPLIES[0].id
_KEY = bytes(range(16))


def _store(messages: list[Message]) -> MemoryStore:
    return store_of([*_AUTHOR.account_messages, *messages], {_TANGLE: "all"})


def _side(role: Role, messages: list[Message], **limits: int) -> tuple[SpanWork, ModernRun]:
    view = ModernView(_store(messages))
    run = ModernRun(role, 1, bytes(8))
    run.step = Step.WAITING
    run.key = _KEY
    run.spans = (Span(1, 1, opener_wants=True, answerer_wants=True),)
    run.marks = view.depths(_TANGLE).marks()
    return SpanWork(SpanLimits(**limits), view), run


def _talk(ours: list[Message], theirs: list[Message], **limits: int) -> tuple[list[Form], list[Reply]]:
    """Opener and answerer until no part is left; gives the forms that were used and all replies."""
    opener, opening = _side(Role.OPENER, ours, **limits)
    answerer, answering = _side(Role.ANSWERER, theirs, **limits)
    answering.marks = opening.marks
    replies = [answerer.begin(_TANGLE, answering, 1)]
    forms = [part.form for part in replies[0].parts]
    speakers = ((opener, opening), (answerer, answering))
    turn = 0
    while replies[-1].parts:
        work, run = speakers[turn % 2]
        reply = Reply()
        for part in replies[-1].parts:
            work.hear(_TANGLE, run, part, reply)
        work.fulfil(_TANGLE, run, b"", reply)
        forms += [part.form for part in reply.parts]
        replies.append(reply)
        turn += 1
        assert turn < 20
    return forms, replies


def _ids(messages: list[Message]) -> set[str]:
    return {message.id for message in messages}


@pytest.mark.parametrize(
    ("ours", "theirs", "limits", "forms"),
    [
        (_REPLIES[:30], _REPLIES[:1] + _REPLIES[5:32], {}, [Form.LISTED]),
        (_REPLIES[:3], _REPLIES[:1] + _REPLIES[2:], {}, [Form.LIST, Form.LISTED]),
        (_REPLIES[:118], _REPLIES[:1] + _REPLIES[3:], {}, [Form.SYMBOLS]),
        (_REPLIES[:91], _REPLIES[:1] + _REPLIES[31:], {}, [Form.SYMBOLS, Form.MORE, Form.LISTED]),
        (_REPLIES[:115], _REPLIES[:1] + _REPLIES[6:], {"first_symbols": 4}, [Form.SYMBOLS, Form.MORE, Form.SYMBOLS]),
        (
            _REPLIES[:115],
            _REPLIES[:1] + _REPLIES[6:],
            {"first_symbols": 4, "more_max": 0},
            [Form.SYMBOLS, Form.MORE, Form.LIST, Form.LISTED],
        ),
    ],
    ids=["listed", "list", "symbols", "more then listed", "more symbols", "no more"],
)
def test_every_way_finds_the_difference(
    ours: list[Message], theirs: list[Message], limits: dict[str, int], forms: list[Form]
) -> None:
    used, replies = _talk(ours, theirs, **limits)
    assert used[: len(forms)] == forms
    lacking = {id for reply in replies for id in reply.lacking}
    wanted = [short for reply in replies for short in reply.wants]
    resolver = next(number for number, reply in enumerate(replies) if reply.wants or reply.lacking)
    own, other = (ours, theirs) if resolver % 2 else (theirs, ours)
    assert lacking == _ids(own) - _ids(other)
    picture = Picture(_KEY, ModernView(_store(other)).depths(_TANGLE).items(1, 1))
    assert set(picture.messages(wanted)) == _ids(other) - _ids(own)


def test_wants_are_served_once_and_only_what_is_here() -> None:
    work, run = _side(Role.ANSWERER, _REPLIES)
    picture = Picture(_KEY, ModernView(_store(_REPLIES)).depths(_TANGLE).items(1, 1))
    wants = b"".join(int(short).to_bytes(8, "little") for short in [*picture.ids[:3].tolist(), 99])
    reply = Reply()
    work.fulfil(_TANGLE, run, wants, reply)
    assert len(reply.lacking) == 3
    run.lacking.update(reply.lacking)
    again = Reply()
    work.fulfil(_TANGLE, run, wants, again)
    assert again.is_empty


def test_nothing_is_served_that_the_peer_has_not_said_it_wants() -> None:
    work, run = _side(Role.ANSWERER, _REPLIES)
    run.spans = (Span(1, 1, opener_wants=False, answerer_wants=True),)
    picture = Picture(_KEY, ModernView(_store(_REPLIES)).depths(_TANGLE).items(1, 1))
    reply = Reply()
    work.fulfil(_TANGLE, run, picture.ids.astype("<u8").tobytes(), reply)
    assert reply.is_empty


def test_a_span_above_the_openers_top_is_given() -> None:
    work, run = _side(Role.ANSWERER, _REPLIES)
    reply = work.begin(_TANGLE, run, 0)
    assert not reply.parts
    assert set(reply.lacking) == _ids(_REPLIES[1:])


@pytest.mark.parametrize(
    ("role", "part"),
    [
        (Role.OPENER, Part(1, Form.LISTED)),
        (Role.OPENER, Part(0, Form.MORE, 1, bytes(256))),
        (Role.ANSWERER, Part(0, Form.MORE, 1, bytes(256))),
        (Role.ANSWERER, Part(0, Form.SYMBOLS, 0, bytes(10))),
        (Role.OPENER, Part(0, Form.SYMBOLS, 0, bytes(9))),
        (Role.OPENER, Part(0, Form.SYMBOLS, 1, bytes(10))),
        (Role.OPENER, Part(0, Form.SYMBOLS, 0, b"")),
        (Role.OPENER, Part(0, Form.SYMBOLS, 0, bytes(10 * 65))),
    ],
    ids=repr,
)
def test_senseless_parts_are_refused(role: Role, part: Part) -> None:
    work, run = _side(role, _REPLIES[:50], symbols_max=64)
    with pytest.raises(PeerError):
        work.hear(_TANGLE, run, part, Reply())


def test_a_list_that_would_be_too_long_is_not_made() -> None:
    work, run = _side(Role.OPENER, _REPLIES, listed_max=100)
    with pytest.raises(PeerError) as refused:
        work.hear(_TANGLE, run, Part(0, Form.LIST), Reply())
    assert refused.value.code == "too-large"


def test_a_wrong_picture_is_refused() -> None:
    work, run = _side(Role.ANSWERER, _REPLIES)
    work.begin(_TANGLE, run, 1)
    bulk = measure(Picture(_KEY, []).ids)
    with pytest.raises(PeerError):
        work.hear(_TANGLE, run, Part(0, Form.MORE, 0, bulk.encode()[:-1]), Reply())
    assert issubclass(MalformedModernFrame, PeerError)


def test_ghosts_are_named_by_their_short_ids() -> None:
    store = _store(_REPLIES[:5])
    store.save_ghost(_TANGLE, _REPLIES[9].id, 1)
    run = ModernRun(Role.OPENER, 1, bytes(8))
    run.key = _KEY
    named = SpanWork(SpanLimits(), ModernView(store)).ghosts(_TANGLE, run)
    whole = Picture(_KEY, ModernView(_store(_REPLIES)).depths(_TANGLE).items(1, 1))
    assert whole.messages([int.from_bytes(named, "little")]) == [_REPLIES[9].id]


def test_what_both_have_is_what_the_peer_neither_lacks_nor_has_let_go() -> None:
    opener, opening = _side(Role.OPENER, _REPLIES[:9])
    answerer, answering = _side(Role.ANSWERER, _REPLIES[:1] + _REPLIES[4:])
    answering.marks = opening.marks
    assert answerer.common(answering) == set(), "nothing has been looked at"
    listed = answerer._listed(_TANGLE, answering, 0)
    opener.hear(_TANGLE, opening, listed, Reply())
    assert opener.common(opening) == _ids(_REPLIES[4:9])
    # The answerer hears what is wanted of it; all else of the span the opener has.
    answering.lacking = _ids(_REPLIES[9:])
    assert answerer.common(answering) == _ids(_REPLIES[4:9])
    store = _store([])
    store.save_ghost(_TANGLE, _REPLIES[5].id, 1)
    ghosts = SpanWork(SpanLimits(), ModernView(store)).ghosts(_TANGLE, answering)
    answering.remote_ghosts.add(int.from_bytes(ghosts, "little"))
    assert answerer.common(answering) == _ids(_REPLIES[4:9]) - {_REPLIES[5].id}
    # Where the opener wants nothing, it says nothing.
    answering.spans = (Span(1, 1, opener_wants=False, answerer_wants=True),)
    assert answerer.common(answering) == set()


def test_whoever_does_not_want_a_ghost_names_it() -> None:
    answerer, answering = _side(Role.ANSWERER, _REPLIES[:9])
    listed = answerer._listed(_TANGLE, answering, 0)
    _, run = _side(Role.OPENER, [])
    store, reply = _store(_REPLIES[:4]), Reply()
    SpanWork(SpanLimits(), ModernView(store)).hear(_TANGLE, run, listed, reply)
    assert not reply.names_ghosts
    store.save_ghost(_TANGLE, _REPLIES[6].id, 1)
    SpanWork(SpanLimits(), ModernView(store)).hear(_TANGLE, run, listed, reply)
    assert reply.names_ghosts


@pytest.mark.parametrize("has_data", [True, False])
def test_a_run_is_in_vain_where_all_that_is_missing_hangs_in_the_air(has_data: bool) -> None:  # noqa: FBT001
    work, run = _side(Role.OPENER, _REPLIES[:3])
    first, second = (message.id for message in _REPLIES[3:5])
    named = [with_data if has_data else without for with_data, without in both_shorts(_KEY, [first, second])]
    assert not work.is_in_vain(_TANGLE, run), "nothing is missing"
    run.wanted.update(named)
    run.refused.append(Refused(first, Rule.PREV_UNKNOWN, ""))
    assert (work.still_missing(_TANGLE, run), work.is_in_vain(_TANGLE, run)) == (2, False)
    for rule in (Rule.UNKNOWN_ACCOUNT, Rule.PREV_UNPROVEN, None):
        run.refused.append(Refused(second, rule, ""))
        assert not work.is_in_vain(_TANGLE, run), "with more at hand it may be taken"
    run.refused.append(Refused(second, Rule.PREV_UNKNOWN, ""))
    assert (work.still_missing(_TANGLE, run), work.is_in_vain(_TANGLE, run)) == (2, True)
