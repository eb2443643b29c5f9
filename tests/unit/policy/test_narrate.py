from bobbin.datalog.explanation import Checked, Cut, Derived, Failure, Given, Missing, Statement
from bobbin.policy.decide import evaluate
from bobbin.policy.executables import Part
from bobbin.policy.narrate import describe, narrate, requesting, shorten
from bobbin.policy.verdict import explain
from tests.conftest import Golden
from tests.policy_worlds import ALICE, BOB, DING, claims, plex, policy, record, situation, stored

_P, _Q = plex(1), plex(2)
_FACT = Statement("A", ("x",))


def test_long_identifiers_are_shortened_and_nothing_else() -> None:
    assert shorten(f"Field('{_P}','Signed-By','0','{ALICE}')") == "Field('P.00000000…','Signed-By','0','V.OEL2sxn4…')"
    assert shorten("P.abc.H3 and V.x") == "P.abc.H3 and V.x"
    assert shorten("E.VVBTh8kMnUEQp95bnyjcvTDW8z1sUF7rXwzSGiDdudC") == "E.VVBTh8kM…"


def test_a_withheld_record_in_words() -> None:
    facts = stored(record(_P, Group="v", App="ding"))
    text = narrate(explain(evaluate(policy(DING), situation(facts)), _P))
    assert text == (
        f"{_P}\n"
        "  to V.KUEKyigQ…: withheld\n"
        "    ✓ it is stored here\n"
        "    ✗ our selector does not choose it\n"
        "    ✗ our query policy does not show it to the peer\n"
        "    ✗ the peer's selector does not choose it\n"
        "  from V.KUEKyigQ…: nothing to request\n"
        "    ✗ the peer does not advertise it\n"
        "\n"
        "Our selector does not choose it:\n"
        "  one rule could derive SelectHave('P.00000000…'), but:\n"
        "    SelectHave(P) :- Have(P), Field(P,'App',_,'ding'), Field(P,'Group',_,'u').\n"
        "      meets 2 of 3 conditions and fails at Field(P,'Group',_,'u')\n"
        "      because the Group of P.00000000… is 'v', not 'u'\n"
    )


def test_full_texts_on_demand() -> None:
    facts = stored(record(_P, Group="v", App="ding"))
    text = narrate(explain(evaluate(policy(DING), situation(facts)), _P), full=True)
    assert BOB in text
    assert "…" not in text


def test_a_requested_record_in_words() -> None:
    advertised = claims({_Q: {"Group": "u", "App": "ding"}})
    text = narrate(explain(evaluate(policy(DING), situation(stored(), advertised)), _Q))
    assert "from V.KUEKyigQ…: requested" in text
    assert "SelectAdvertised('P.00000000…','V.KUEKyigQ…')  by the rule" in text
    assert "Our selector does not choose it" not in text, "of a record that is not here, that is no news"


def test_a_refused_record_in_words() -> None:
    advertised = claims({_Q: {"Group": "u", "App": "ding"}})
    verdict = explain(evaluate(policy(DING), situation(stored(), advertised)), _Q)
    assert (requesting(verdict, refused=True), requesting(verdict, refused=False)) == ("refused", "requested")
    text = narrate(verdict, refusal="wrong patient")
    assert "from V.KUEKyigQ…: refused" in text
    assert text.endswith("✗ it was removed here and is refused: wrong patient\n"), "rules have no part in it"
    unknown = explain(evaluate(policy(DING), situation(stored())), _Q)
    assert requesting(unknown, refused=True) == "not requested"
    assert "it was removed here and is refused: wrong" in narrate(unknown, refusal="wrong")


def test_derivations_in_words() -> None:
    tree = Derived(_FACT, "A(X) :- B(X), not C(X), D(X).", 7, (Given(_FACT), Checked(_FACT), Cut(_FACT, "shown above")))
    assert list(describe(tree)) == [
        "A('x')  by the rule",
        "  A(X) :- B(X), not C(X), D(X).",
        "    A('x')",
        "    A('x')",
        "    A('x')  (shown above)",
    ]
    fact = Derived(_FACT, "A('x').", 3, ())
    assert list(describe(fact)) == ["A('x')  as a fact of the policy"]
    assert list(describe(fact, text="my.policy")) == ["A('x')  as a fact, my.policy:3"]
    assert next(describe(tree, text="my.policy")) == "A('x')  by my.policy:7"
    nested = Derived(_FACT, "A(X) :- A(X).", 7, (fact,))
    assert list(describe(nested, text="my.policy"))[-1] == "    A('x')  as a fact, my.policy:3"


def _failure(literal: str, instance: Statement, **more: object) -> list[str]:
    failure = Failure(rule="R.", line=1, literal=literal, instance=instance, **more)  # type: ignore[arg-type]
    return list(describe(Missing(_FACT, (failure,))))[2:]


def test_failures_in_words() -> None:
    has_none = Statement("Field", ("p", "App", None, "x"))
    assert _failure("…", has_none) == ["    fails at …", "    because p has no App"]
    claimed = Statement("AdvertisedField", ("p", "s", "App", None, None))
    assert _failure("…", claimed)[1] == "    because p is said to have no App"
    near = (Statement("AdvertisedField", ("p", "s", "App", "0", "y")),)
    wanted = Statement("AdvertisedField", ("p", "s", "App", None, "x"))
    assert _failure("…", wanted, nearest=near)[1] == "    because the App of p is 'y', not 'x'"
    anything = Statement("Field", (None, "App", None, "x"))
    assert _failure("…", anything)[1] == "    because Field(_,'App',_,'x') does not hold"
    assert "not among the records" in _failure("…", Statement("Have", ("p",)))[1]
    assert _failure("…", Statement("Advertised", ("p", "s")))[1] == "    because p is not advertised"
    assert _failure("…", Statement("Lt", ("b", "a")))[1] == "    because Lt('b','a') does not hold"
    helper = _failure("…", Statement("M", ("a",)), nearest=(Statement("M", ("b",)),))
    assert helper[1] == "    because M('a') does not hold; nearest: M('b')"
    contradicted = _failure("…", Statement("M", ("a", None), negated=True), because=Given(Statement("M", ("a", "b"))))
    assert contradicted[1] == "    because M('a','b') holds"


def test_other_endings_in_words() -> None:
    assert list(describe(Missing(_FACT, (), "no such fact is there"))) == ["A('x'): no such fact is there"]
    about = Failure(rule="A('q').", line=1, literal=None, note="it is about A('q')")
    cut = Failure(rule="A(X) :- B(X).", line=2, literal=None, note="not followed further")
    assert list(describe(Missing(_FACT, (about, cut), "3 more rules fail too"))) == [
        "2 rules could derive A('x'), but:",
        "  A('q').",
        "    does not apply: it is about A('q')",
        "  A(X) :- B(X).",
        "    not followed further",
        "  3 more rules fail too",
    ]


def test_lines_are_of_files_that_the_reader_has() -> None:
    """Of the two selectors only ours was read from a file; the default query policy stands in none."""
    verdict = explain(evaluate(policy(DING), situation(stored(record(_P, Group="u", App="ding")))), _P)
    text = narrate(verdict, texts={Part.OWN_SELECTOR: "ding.policy"})
    assert [line for line in text.splitlines() if "  by " in line] == [
        "  SelectHave('P.00000000…')  by ding.policy:2",
        "  Queryable('P.00000000…','V.KUEKyigQ…')  by the rule",
        "  SelectHave('P.00000000…')  by the rule",
    ]
    withheld = explain(evaluate(policy(DING), situation(stored(record(_P, Group="v", App="ding")))), _P)
    assert "    ding.policy:2: SelectHave(P)" in narrate(withheld, texts={Part.OWN_SELECTOR: "ding.policy"})


def test_no_headline_contradicts_what_stands_under_it(golden: Golden) -> None:
    """Every way in which a record can stand with both sides, as told before an exchange and after one."""
    here, there = stored(record(_P, Group="u", App="ding")), claims({_P: {"Group": "u", "App": "ding"}})
    stands = {
        "here, and not there": situation(here),
        "there, and not here": situation(stored(), there),
        "on both sides": situation(here, there),
        "on neither side": situation(stored()),
        "here, and not selected": situation(stored(record(_P, Group="v", App="ding"))),
        "there, and not accepted": situation(stored(), claims({_P: {"Group": "v", "App": "ding"}})),
    }
    parts = []
    for title, where in stands.items():
        verdict = explain(evaluate(policy(DING), where), _P)
        for is_over in (False, True):
            told = narrate(verdict, is_over=is_over).partition("\n\n")[0]
            parts.append(f"{title}, {'after' if is_over else 'before'} an exchange\n{told.rstrip()}\n")
    removed = narrate(explain(evaluate(policy(DING), stands["there, and not here"]), _P), refusal="bad", is_over=True)
    parts.append(f"there, and removed here, after an exchange\n{removed}")
    golden("policy/headlines.txt", "\n".join(parts))
    assert "withheld\n    ✗ it is not stored here" not in "".join(parts), "what is not here is not withheld"
