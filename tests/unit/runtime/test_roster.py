"""Known peers: found by key and by name, and what a change of their terms means for an open link."""

import pytest
from msgspec import structs

from bobbin.errors import UsageError
from bobbin.interlace.choice import Strategy
from bobbin.interlace.limits import LARGE
from bobbin.policy.modules import compile_query, compile_selector
from bobbin.records.signing import SigningKey
from bobbin.runtime.roster import ANONYMOUS, Change, KnownPeer, Roster, Way, change, successor
from bobbin.wire import address

_SELECTOR = compile_selector("SelectHave(P) :- Have(P), Field(P,'Group',_,'u').")
_OTHER = compile_selector("SelectHave(P) :- Have(P), Field(P,'Group',_,'v').")
_ONE, _TWO = (SigningKey.from_secret(bytes([number]) * 32).verifier for number in (1, 2))
_HERE = Way(address=address.parse("tls:lab.example"))
_THERE = Way(address=address.parse("tls:lab.example.org"), certificate=bytes(32))
_LAB = KnownPeer(name="lab", verifier=_ONE, selector=_SELECTOR, ways=(_HERE,), follow=True)
_OPEN = KnownPeer(name="open", selector=_SELECTOR, ways=(Way(address=address.parse("unix:/run/x.sock")),))
_ANYONE = KnownPeer(name=ANONYMOUS, selector=_SELECTOR)


def test_a_peer_is_found_by_its_key_and_by_its_name_and_nobody_else_is() -> None:
    roster = Roster([_LAB, _OPEN])
    assert roster.find(_ONE) is _LAB
    assert roster.find(_TWO) is None
    assert roster.named("open") is _OPEN
    assert roster.named(ANONYMOUS) is None
    assert list(roster) == [_LAB, _OPEN]
    assert len(roster) == 2
    assert list(roster.followed()) == [_LAB]


def test_who_proves_nothing_has_terms_only_where_they_are_given() -> None:
    assert Roster([_LAB]).anonymous is None
    assert Roster([_LAB], anonymous=_ANYONE).anonymous is _ANYONE


@pytest.mark.parametrize(
    ("peers", "word"),
    [
        ([_LAB, structs.replace(_OPEN, name="lab")], "called 'lab'"),
        ([_LAB, structs.replace(_LAB, name="other")], "same key"),
        ([_ANYONE], ANONYMOUS),
        ([structs.replace(_LAB, ways=())], "no address"),
        ([structs.replace(_OPEN, ways=(_HERE, _THERE))], "no key"),
    ],
)
def test_what_makes_no_sense_is_no_roster(peers: list[KnownPeer], word: str) -> None:
    with pytest.raises(UsageError, match=word):
        Roster(peers)


def test_terms_for_the_unproven_name_no_key() -> None:
    with pytest.raises(UsageError, match="no key"):
        Roster(anonymous=_LAB)


def test_a_peer_is_the_same_under_its_key_whatever_it_is_called_now() -> None:
    renamed = structs.replace(_LAB, name="laboratory")
    roster = Roster([renamed, _OPEN], anonymous=_ANYONE)
    assert successor(_LAB, roster) is renamed
    assert successor(_OPEN, roster) is _OPEN
    assert successor(_ANYONE, roster) is _ANYONE


def test_a_name_is_not_enough_where_there_was_a_key_or_is_one_now() -> None:
    assert successor(_LAB, Roster([structs.replace(_LAB, verifier=_TWO)])) is None
    assert successor(_OPEN, Roster([structs.replace(_OPEN, verifier=_TWO)])) is None
    assert successor(_ANYONE, Roster([_LAB])) is None


@pytest.mark.parametrize(
    ("new", "taken", "dialled"),
    [
        (_LAB, Change.NONE, Change.NONE),
        (structs.replace(_LAB, name="laboratory"), Change.NONE, Change.NONE),
        (structs.replace(_LAB, selector=_OTHER), Change.POLICY, Change.POLICY),
        (structs.replace(_LAB, query=compile_query("")), Change.TERMS, Change.TERMS),
        (structs.replace(_LAB, limits=LARGE), Change.TERMS, Change.TERMS),
        (structs.replace(_LAB, strategy=Strategy.LISTING), Change.TERMS, Change.TERMS),
        (structs.replace(_LAB, limits=LARGE, selector=_OTHER), Change.TERMS, Change.TERMS),
        (structs.replace(_LAB, ways=()), Change.NONE, Change.TERMS),
        (structs.replace(_LAB, ways=(_THERE,)), Change.NONE, Change.TERMS),
        (structs.replace(_LAB, ways=(structs.replace(_HERE, certificate=bytes(32)),)), Change.NONE, Change.TERMS),
        (structs.replace(_LAB, ways=(_THERE, _HERE)), Change.NONE, Change.NONE),
        (structs.replace(_LAB, follow=False), Change.NONE, Change.GONE),
        (structs.replace(_LAB, admit=False), Change.GONE, Change.NONE),
        (None, Change.GONE, Change.GONE),
    ],
)
def test_what_a_change_means_depends_on_who_opened_the_link(
    new: KnownPeer | None, taken: Change, dialled: Change
) -> None:
    assert change(_LAB, new, dialled=False) is taken
    assert change(_LAB, new, dialled=True, way=_HERE) is dialled


def test_the_same_rules_in_other_words_are_no_change() -> None:
    same = compile_selector("# a comment\nSelectHave(P)  :-  Have(P), Field(P,'Group',_,'u').")
    assert same.identifier == _SELECTOR.identifier
    assert change(_LAB, structs.replace(_LAB, selector=same), dialled=False) is Change.NONE


def test_a_link_that_a_command_dialled_does_not_end_for_want_of_following() -> None:
    assert change(_OPEN, _OPEN, dialled=True) is Change.NONE
