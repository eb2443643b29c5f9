import pytest

from bobbin.errors import UsageError
from bobbin.policy.builder import (
    Condition,
    Selection,
    after,
    app,
    before,
    evidence,
    field,
    group,
    last,
    membership,
    name,
    name_prefix,
    select,
    signed_by_member,
    signer,
    write,
)
from bobbin.policy.decide import decide
from bobbin.policy.modules import compile_selector
from bobbin.policy.runtime_facts import RuntimeFacts
from bobbin.records.ids import verifier_text
from tests.policy_worlds import ALICE, BOB, DING_IDENTIFIER, claims, plex, policy, record, situation, stored

_NOON = "1640995200:000000000"
_CAROL = verifier_text(bytes(32))
_DAVE = verifier_text(bytes([1] * 32))


def _selected(text: str, records: dict[str, dict[str, str]], tick: str = _NOON) -> tuple[set[str], set[str]]:
    """Which of some records the text sends when they are stored, and requests when they are advertised."""
    runtime = RuntimeFacts(here=ALICE, peer=BOB, start_tai=_NOON, tick_tai=tick)
    hashes = {plex(number): name for number, name in enumerate(records)}
    facts = stored(*(record(hash, **records[name]) for hash, name in hashes.items()))
    advertised = claims({hash: records[name] for hash, name in hashes.items()})
    link = policy(text, text)
    sent = decide(link, situation(facts, runtime=runtime)).may_send
    requested = decide(link, situation(facts, advertised, runtime)).may_request
    return {hashes[hash] for hash in sent}, {hashes[hash] for hash in requested}


def test_the_published_module_can_be_built() -> None:
    assert compile_selector(write(select(app("ding"), group("u")))).identifier == DING_IDENTIFIER


@pytest.mark.parametrize(
    ("condition", "fitting", "other"),
    [
        (group("u"), {"Group": "u"}, {"Group": "v"}),
        (group("u", "v"), {"Group": "v"}, {"Group": "w"}),
        (app("ding"), {"App": "ding"}, {"App": "dong"}),
        (name("a/b"), {"Name": "a/b"}, {"Name": "a/b/c"}),
        (name_prefix("links/"), {"Name": "links/1"}, {"Name": "links"}),
        (signer(ALICE), {"Signed_By": ALICE}, {"Signed_By": BOB}),
        (signer(ALICE, BOB), {"Signed_By": BOB}, {"Signed_By": _CAROL}),
        (field("X-Level", "it's\\"), {"X_Level": "it's\\"}, {"X_Level": "its"}),
        (after(_NOON), {"TAI": _NOON}, {"TAI": "1640995199:999999999"}),
        (before(_NOON), {"TAI": "1640995199:999999999"}, {"TAI": _NOON}),
        (last(60), {"TAI": "1640995140:000000000"}, {"TAI": "1640995139:999999999"}),
    ],
)
def test_each_condition_on_both_exports(condition: Condition, fitting: dict[str, str], other: dict[str, str]) -> None:
    records: dict[str, dict[str, str]] = {"fitting": fitting, "other": other, "bare": {}}
    assert _selected(write(select(condition)), records) == ({"fitting"}, {"fitting"})


def test_the_window_moves_with_the_tick() -> None:
    records = {"old": {"TAI": _NOON}, "new": {"TAI": "1640995260:000000000"}}
    text = write(select(last(60)))
    assert _selected(text, records, tick="1640995260:000000000")[0] == {"old", "new"}
    assert _selected(text, records, tick="1640995260:000000001")[0] == {"new"}


def test_conditions_are_joined_by_and_selections_by_or() -> None:
    records = {
        "both": {"Group": "u", "App": "x", "Name": "a/1", "TAI": _NOON},
        "group": {"Group": "u", "App": "y", "Name": "a/1", "TAI": _NOON},
        "other": {"Group": "w", "App": "y", "Name": "b", "TAI": _NOON},
    }
    first = select(group("u", "v"), app("x", "z"), name_prefix("a/"), last(10), after(_NOON))
    assert _selected(write(first), records)[0] == {"both"}
    assert _selected(write(first, select(group("w"))), records) == ({"both", "other"}, {"both", "other"})
    assert _selected(write(select()), records)[0] == set(records)


def _evidence(of: str, by: str, kind: str = "member") -> dict[str, str]:
    return {"Group": "u", "App": kind, "Name": of, "Signed_By": by}


def _note(by: str) -> dict[str, str]:
    return {"Group": "u", "App": "note", "Name": "n", "Signed_By": by}


def test_members_by_evidence_of_an_admin() -> None:
    staff = membership(group="u", admins=[ALICE])
    text = write(select(group("u"), app("note"), signed_by_member(staff)), evidence(staff))
    records = {
        "bob": _evidence(BOB, ALICE),
        "self-made": _evidence(_CAROL, _CAROL),
        "through bob": _evidence(_DAVE, BOB),
        "elsewhere": _evidence(_DAVE, ALICE) | {"Group": "v"},
        "bob's": _note(BOB),
        "carol's": _note(_CAROL),
        "dave's": _note(_DAVE),
        "alice's": _note(ALICE),
    }
    assert _selected(text, records) == ({"bob", "bob's"}, {"bob", "bob's"})


def test_members_may_admit_members() -> None:
    staff = membership(group="u", admins=[ALICE], delegating=True)
    text = write(select(group("u"), app("note"), signed_by_member(staff)), evidence(staff))
    records = {
        "bob": _evidence(BOB, ALICE),
        "dave": _evidence(_DAVE, BOB),
        "stray": _evidence(_CAROL, _CAROL),
        "dave's": _note(_DAVE),
        "carol's": _note(_CAROL),
    }
    assert _selected(text, records)[0] == {"bob", "dave", "dave's"}


def test_a_revocation_ends_a_membership() -> None:
    staff = membership(group="u", admins=[ALICE], revocations="left")
    text = write(select(app("note"), signed_by_member(staff)), evidence(staff))
    records = {
        "bob": _evidence(BOB, ALICE),
        "dave": _evidence(_DAVE, ALICE),
        "bob left": _evidence(BOB, ALICE, "left"),
        "false": _evidence(_DAVE, BOB, "left"),
        "bob's": _note(BOB),
        "dave's": _note(_DAVE),
    }
    assert _selected(text, records)[0] == {"bob", "dave", "bob left", "dave's"}


def test_claims_make_no_member() -> None:
    staff = membership(group="u", admins=[ALICE])
    text = write(select(signed_by_member(staff)))
    advertised = claims({plex(1): _evidence(BOB, ALICE), plex(2): _note(BOB)})
    assert decide(policy(text, text), situation(stored(), advertised)).may_request == frozenset()


def test_equal_helpers_are_written_once() -> None:
    staff = membership(group="u", admins=[ALICE, BOB])
    text = write(
        select(group("a", "b"), signed_by_member(staff)), select(field("X", "a", "b"), signed_by_member(staff))
    )
    heads = [line.partition("(")[0] for line in text.splitlines()]
    assert heads.count("OneOf") == 2
    assert heads.count("Member") == 1
    assert heads.count("Admin") == 2


def test_helpers_are_named_after_what_they_mean_and_numbered() -> None:
    """What is written is for people to read and change."""
    staff = membership(group="u", admins=[ALICE], delegating=True, revocations="left")
    guests = membership(group="v", admins=[BOB])
    text = write(select(app("a", "b"), group("c", "d"), group("e", "f"), signed_by_member(staff)), evidence(guests))
    evidence_of = "Have(M), Field(M,'Group',_,'{}'), Field(M,'App',_,'{}'), Field(M,'Signed-By',_,A), {}(A), "
    name_of = "Field(M,'Name',_,V)"
    app_of = staff.app
    assert text.splitlines() == [
        (
            "SelectHave(P) :- Have(P), Field(P,'App',_,V), OneOf(V), Field(P,'Group',_,V2), OneOf2(V2), "
            "Field(P,'Group',_,V3), OneOf3(V3), Field(P,'Signed-By',_,V4), Member(V4)."
        ),
        (
            f"SelectHave(P) :- Have(P), Field(P,'Group',_,'v'), Field(P,'App',_,'{guests.app}'), "
            "Field(P,'Signed-By',_,V), Admin2(V)."
        ),
        (
            "SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'App',_,V), OneOf(V), "
            "AdvertisedField(P,S,'Group',_,V2), OneOf2(V2), AdvertisedField(P,S,'Group',_,V3), OneOf3(V3), "
            "AdvertisedField(P,S,'Signed-By',_,V4), Member(V4)."
        ),
        (
            f"SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'Group',_,'v'), "
            f"AdvertisedField(P,S,'App',_,'{guests.app}'), AdvertisedField(P,S,'Signed-By',_,V), Admin2(V)."
        ),
        *[
            f"{helper}('{value}')."
            for helper, values in (("OneOf", "ab"), ("OneOf2", "cd"), ("OneOf3", "ef"))
            for value in values
        ],
        f"Admin('{ALICE}').",
        f"Revoked(V) :- {evidence_of.format('u', 'left', 'Admin')}{name_of}.",
        "Issuer(V) :- Admin(V).",
        "Issuer(V) :- Member(V).",
        f"Member(V) :- {evidence_of.format('u', app_of, 'Issuer')}{name_of}, not Revoked(V).",
        f"Admin2('{BOB}').",
        f"Member2(V) :- {evidence_of.format('v', guests.app, 'Admin2')}{name_of}.",
    ]


def test_no_value_escapes_its_quotes() -> None:
    injected = "u'). SelectHave(P) :- Have(P"
    text = write(select(group(injected)))
    assert len(compile_selector(text).program.rules) == 2
    assert _selected(text, {"other": {"Group": "v"}, "odd": {"Group": injected}})[0] == {"odd"}


@pytest.mark.parametrize(
    "make",
    [
        write,
        lambda: write(select(group())),
        lambda: write(select(signer())),
        lambda: write(select(signer("alice"))),
        lambda: write(select(name_prefix(""))),
        lambda: write(select(after("noon"))),
        lambda: write(select(before("1640995200"))),
        lambda: write(select(last(0))),
        lambda: write(select(last(10**12))),
        lambda: write(select(group("e\u0301"))),
        lambda: write(select(group("a\x00b"))),
        lambda: write(select(group("x" * 5000))),
        lambda: write(evidence(membership(group="u", admins=[]))),
        lambda: write(Selection(tuple(group(str(number)) for number in range(40)))),
    ],
)
def test_conditions_that_make_no_policy(make: object) -> None:
    assert callable(make)
    with pytest.raises(UsageError):
        make()
