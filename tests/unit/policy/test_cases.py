import pytest

from bobbin.policy.cases import MalformedCases, parse_cases, run_cases
from bobbin.policy.claims import ClaimedField
from bobbin.policy.modules import compile_selector, deny_all_query
from bobbin.policy.operands import Origin
from bobbin.policy.verdict import Sending
from tests.policy_worlds import ALICE, DING, EVERYTHING

_TEXT = f"""\
# Cases for the sample policy.
policy: ding.policy
peer policy: other.policy
query policy: all.query.policy
let alice = {ALICE}

case: the right group and app
stored right
    Group: u
    App: ding
stored wrong
    Group: v
    App: ding
offered news
    Group: u
    App: ding
sent: right
withheld: wrong
requested: news

case: nothing at all
stored wrong
    Group: v
sent: nothing
requested: nothing
"""
_OWN = compile_selector(DING)


def _case(body: str) -> str:
    return f"case: one\n{body}"


def test_a_good_policy_passes() -> None:
    file = parse_cases(_TEXT)
    assert (file.policy, file.peer_policy, file.query_policy) == ("ding.policy", "other.policy", "all.query.policy")
    results = run_cases(file, _OWN)
    assert [(result.title, result.line, result.passed) for result in results] == [
        ("the right group and app", 7, True),
        ("nothing at all", 21, True),
    ]


def test_another_policy_surprises_and_says_why() -> None:
    results = run_cases(parse_cases(_TEXT), compile_selector(EVERYTHING))
    surprises = [(surprise.record, surprise.expected, surprise.actual) for surprise in results[0].surprises]
    assert surprises == [("wrong", "withheld", "sent")]
    assert results[0].surprises[0].verdict.sending is Sending.SENT
    assert not results[1].passed


def test_lists_are_complete() -> None:
    text = _case("stored a\n    Group: u\n    App: ding\nstored b\n    Group: u\n    App: ding\nsent: a\n")
    (result,) = run_cases(parse_cases(text), _OWN)
    assert [(surprise.record, surprise.expected) for surprise in result.surprises] == [("b", "withheld")]


def test_what_a_case_does_not_ask_is_not_checked() -> None:
    text = _case("stored a\n    Group: u\n    App: ding\noffered b\n    Group: u\n    App: ding\nwithheld: b\n")
    (result,) = run_cases(parse_cases(text), _OWN)
    assert result.passed


def test_the_peer_and_the_query_policy_count() -> None:
    text = _case("stored a\n    Group: u\n    App: ding\nsent: a\n")
    file = parse_cases(text)
    assert run_cases(file, _OWN)[0].passed
    assert not run_cases(file, _OWN, peer=compile_selector("SelectHave('x')."))[0].passed
    assert not run_cases(file, _OWN, query=deny_all_query())[0].passed


def test_names_stand_for_hashes_and_verifiers() -> None:
    text = f"let alice = {ALICE}\n" + _case(
        "stored a\n    Signed-By: @alice\n    Name: @bob\n    Chunk+Link: next @b\n    Mail: x@@y @\n"
        "stored b\n    Type: B\nstored c\n    X: 1\n    X: 2\n"
        "fact: PlexHash('@a','@b')\nsent: nothing\n"
    )
    (case,) = parse_cases(text).cases
    a, b, c = (case.records[name] for name in "abc")
    assert (a[0], b[0], c[0]) == ("S", "B", "P")
    facts = case.situation.facts
    fields = {values[1:] for values in facts.match("Field", (a, None, None, None))}
    assert ("Signed-By", "0", ALICE) in fields
    assert ("Mail", "0", "x@y @") in fields
    assert ("Type", "0", "S") in fields
    (bob,) = [value for name, _, value in fields if name == "Name"]
    assert bob.startswith("V.")
    assert bob != ALICE
    assert list(facts.enumerate("RecordLink")) == [(a, "Chunk+Link", "0", "next", b)]
    assert list(facts.enumerate("PlexHash")) == [(a, b)]
    assert set(facts.match("Field", (c, "X", None, None))) == {(c, "X", "0", "1"), (c, "X", "1", "2")}


def test_settings_become_runtime_facts() -> None:
    text = _case(
        "here: alice\npeer: @bob\nstart: 1640995200:000000000\ntick: 1640995210:000000000\nskew: 2\n"
        "transport: tcp:127.0.0.1:4790\nencrypted: yes\nstored a\nsent: nothing\n"
    )
    (case,) = parse_cases(f"let alice = {ALICE}\n{text}").cases
    facts = case.situation.runtime.tuples()
    assert facts["Here"] == {(ALICE,)}
    assert facts["Peer"] == {(str(case.peer),)}
    assert facts["StartTAI"] == {("1640995200:000000000",)}
    assert facts["TickTAI"] == {("1640995210:000000000",)}
    assert facts["ClockSkewSeconds"] == {("2",)}
    assert facts["Transport"] == {("tcp:127.0.0.1:4790",)}
    assert facts["TransportEncrypted"] == {()}


def test_the_tick_begins_at_the_start() -> None:
    (case,) = parse_cases(_case("start: 1640995200:000000000\nsent: nothing\n")).cases
    assert case.situation.runtime.tick_tai == "1640995200:000000000"


def test_an_anonymous_peer_proves_nothing() -> None:
    (case,) = parse_cases(_case("peer: source:0\nsent: nothing\n")).cases
    assert case.peer == Origin("source:0")
    assert "Peer" not in case.situation.runtime.tuples()


def test_a_stored_record_may_be_offered_too() -> None:
    text = _case("stored a\n    Group: u\n    App: ding\noffered a\n    Group: u\n    App: ding\nrequested: nothing\n")
    assert run_cases(parse_cases(text), _OWN)[0].passed


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", 1),
        ("policy: x\n", 2),
        ("colour: red\n", 1),
        ("policy: x\npolicy: y\n", 2),
        ("policy:\n", 1),
        ("let alice = bob\n", 1),
        ("stored a\n", 1),
        ("    Group: u\n", 1),
        ("case:\n", 1),
        (_case("what is this\n"), 2),
        (_case("colour: red\n"), 2),
        (_case("stored a\nstored a\n"), 3),
        (_case("stored nothing\n"), 2),
        (_case("stored a\n    Group u\n"), 3),
        (_case("sent: nothing\n    Group: u\n"), 3),
        (_case("sent: a\n"), 2),
        (_case("sent:\n"), 2),
        (_case("sent: nothing\nsent: nothing\n"), 3),
        (_case("fact: Advertised('a','b')\n"), 2),
        (_case("fact: Have('a'\n"), 2),
        (_case("peer: local\nstored a\n    Type: X\n"), 1),
        (_case("tick: soon\n"), 1),
        (_case("skew: -1\n"), 1),
        (_case("encrypted: maybe\n"), 1),
        (_case("transport: \x01\n"), 1),
        (_case("offered a\n    Group: \x01\n"), 1),
        (_case("here: V.alice.H3\n"), 2),
        (_case("stored a\n    Name: e\u0301\n"), 3),
    ],
)
def test_what_cannot_be_read_says_where(text: str, line: int) -> None:
    with pytest.raises(MalformedCases) as refused:
        parse_cases(text)
    assert refused.value.line == line


@pytest.mark.parametrize(
    ("lines", "line", "message"),
    [
        ("sent: x\nwithheld: x\n", 5, "x cannot be both sent and withheld"),
        ("not requested: x\nrequested: x\n", 4, "x cannot be both requested and not requested"),
        ("", 1, "the case expects nothing"),
    ],
)
def test_a_case_that_cannot_fail_or_cannot_pass_is_a_mistake(lines: str, line: int, message: str) -> None:
    with pytest.raises(MalformedCases, match=message) as caught:
        parse_cases(f"case: a\nstored x\n  Group: u\n{lines}")
    assert caught.value.line == line


def test_the_type_of_a_record_is_one_field() -> None:
    """It says which kind of hash the record gets, and stands once among its fields."""
    for letter in "BPS":
        (case,) = parse_cases(_case(f"stored it\n    Type: {letter}\nsent: it\n")).cases
        types = [values for values in case.situation.facts.enumerate("Field") if values[1] == "Type"]
        assert [(values[0][0], values[2:]) for values in types] == [(letter, ("0", letter))]
        (case,) = parse_cases(_case(f"offered it\n    Type: {letter}\nrequested: it\n")).cases
        (claimed,) = case.situation.claims.records()
        assert case.situation.claims.fields(claimed) == (ClaimedField("Type", "0", letter),)


def test_a_party_is_named_with_or_without_its_sign() -> None:
    for spelled in ("alice", "@alice", ALICE):
        (case,) = parse_cases(f"let alice = {ALICE}\n" + _case(f"here: {spelled}\nsent: nothing\n")).cases
        assert case.here == Origin(ALICE)
