import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin.datalog.builtins import BUILTINS
from bobbin.datalog.diagnostics import Fault, InvalidProgram
from bobbin.datalog.limits import Limits
from bobbin.datalog.parse import parse
from bobbin.datalog.syntax import Atom, Constant, Literal, Place, Rule, Variable, Wildcard


def faults(text: str | bytes, limits: Limits | None = None) -> list[tuple[Fault, int, int]]:
    """What is wrong with a text: code, line, column."""
    with pytest.raises(InvalidProgram) as caught:
        parse(text, limits or Limits())
    return [(found.fault, found.place.line, found.place.column) for found in caught.value.diagnostics]


def messages(text: str | bytes) -> str:
    with pytest.raises(InvalidProgram) as caught:
        parse(text)
    return str(caught.value)


def spellings(text: str | bytes) -> list[str]:
    return [str(rule) for rule in parse(text).rules]


# ---- what a program is ---------------------------------------------------------------------------------------------


def test_a_rule_with_everything_in_it() -> None:
    (rule,) = parse("Head(X,'c',_) :-\n  A(X,_), not B('it\\'s'),\tC()  .").rules
    assert rule == Rule(
        Atom("Head", (Variable("X"), Constant("c"), Wildcard())),
        (
            Literal(Atom("A", (Variable("X"), Wildcard())), negated=False, place=Place(2, 3)),
            Literal(Atom("B", (Constant("it's"),)), negated=True, place=Place(2, 11)),
            Literal(Atom("C", ()), negated=False, place=Place(2, 27)),
        ),
        Place(1, 1),
    )


@pytest.mark.parametrize(
    "text", ["", b"", "\n", " \t\n ", "# nothing", "% nothing\n# more\n", "#", "%\n", "# é 𝄞 ' \\ \" . :-\n"]
)
def test_a_program_without_rules(text: str | bytes) -> None:
    assert parse(text).rules == ()


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("A().", ["A()."]),
        ("A('x').B('y').", ["A('x').", "B('y')."]),
        ("A('x') .", ["A('x')."]),
        ("A('x')\n\n.", ["A('x')."]),
        ("A(X):-B(X).", ["A(X) :- B(X)."]),
        ("A(X)\n\t:-\n B(X)\n,\nC(X).", ["A(X) :- B(X), C(X)."]),
        ("A() :- not B().", ["A() :- not B()."]),
        ("A() :- not   B().", ["A() :- not B()."]),
        ("Not() :- not Not().", ["Not() :- not Not()."]),
        ("A(Not) :- B(Not), not C(Not).", ["A(Not) :- B(Not), not C(Not)."]),
        ("Nothing('not').", ["Nothing('not')."]),
        ("A('#','%'). # a comment\nB('x'). % another", ["A('#','%').", "B('x')."]),
        ("A('x').#comment\n", ["A('x')."]),
        ("# A('x').\nA('y').", ["A('y')."]),
        ("A('x').\n%%%#'\n\n  A('x').", ["A('x').", "A('x')."]),
        ("A(X,X,_,_) :- B(X,_).", ["A(X,X,_,_) :- B(X,_)."]),
        ("A_1z(X_,X9) :- B(X_,X9).", ["A_1z(X_,X9) :- B(X_,X9)."]),
    ],
)
def test_layout_and_comments_are_free_where_the_grammar_says_so(text: str, rules: list[str]) -> None:
    assert spellings(text) == rules
    assert spellings(text.encode()) == rules


@pytest.mark.parametrize(
    ("spelled", "value"),
    [
        ("''", ""),
        (r"'\\'", "\\"),
        (r"'\''", "'"),
        (r"'\n\r\t'", "\n\r\t"),
        (r"'\\n'", "\\n"),
        ("' '", " "),
        ("'\"'", '"'),
        ("'_'", "_"),
        ("'é𝄞'", "é𝄞"),
        ("'\u0080\u2028\u00a0'", "\u0080\u2028\u00a0"),
        ("'a.  b. '", "a.  b. "),
    ],
)
def test_constants(spelled: str, value: str) -> None:
    (rule,) = parse(f"A({spelled}).").rules
    assert rule.head.terms == (Constant(value),)
    assert str(rule) == f"A({spelled})."


def test_names_of_64_characters_are_the_longest() -> None:
    name = "A" * 64
    assert spellings(f"{name}({name}) :- B({name}).") == [f"{name}({name}) :- B({name})."]
    assert faults(f"{name}A().") == [(Fault.LIMIT, 1, 1)]
    assert faults(f"A() :- B(X,{name}A).") == [(Fault.LIMIT, 1, 12)]


# ---- what is not one -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("A()", 4, "expected ':-' or the full stop after A(), found the end of the text"),
        ("A() B().", 5, "found 'B'"),
        ("A() :- .", 8, "expected a predicate, found '.'"),
        ("A() :- B(),.", 12, "expected a predicate, found '.'"),
        ("A() :- B()", 11, "expected a comma or the full stop after B(), found the end"),
        ("A() :- B() C().", 12, "expected a comma or the full stop after B(), found 'C'"),
        ("A() :- B(), , C().", 13, "expected a predicate, found ','"),
        ("A() :- B() :- C().", 12, "found ':-'"),
        (":- B().", 1, "expected a predicate, found ':-'"),
        ("A.", 2, "expected '(' after A, found '.'"),
        ("A(.", 3, "expected a variable, '_' or a constant, found '.'"),
        ("A(", 3, "found the end of the text"),
        ("A('x'", 6, "expected a comma or ')' in A, found the end"),
        ("A('x' 'y').", 7, "expected a comma or ')' in A"),
        ("A('x',).", 7, "expected a variable, '_' or a constant, found ')'"),
        ("A(,'x').", 3, "found ','"),
        ("A(B('x')).", 4, "expected a comma or ')' in A, found '('"),
        ("A(('x')).", 3, "found '('"),
        ("(A()).", 1, "expected a predicate, found '('"),
        ("A()).", 4, "found ')'"),
        ("'x'.", 1, "expected a predicate, found \"'x'\""),
        ("_().", 1, "expected a predicate, found '_'"),
        ("not A().", 1, "expected a predicate, found 'not'"),
        ("A() :- not not B().", 12, "'not' stands twice"),
        ("A() :- not.", 11, "expected a predicate, found '.'"),
        ("A() :- not(B()).", 11, "a parenthesis stands after 'not' (write not B(…))"),
        ("A(not).", 3, "found 'not'"),
        ("A() :- notB().", 8, "'notB' is neither a predicate nor a variable"),
        ("A() :- !B().", 8, "negation is the word not (write not B(…))"),
        ("A() :- \\+ B().", 8, "negation is the word not (write not B(…))"),
        ("A() :- B(); C().", 11, "';' has no meaning here"),
        ("A() <- B().", 5, "'<-' has no meaning here (write :- between"),
        ("A() : B().", 5, "':' has no meaning here"),
        ("have('x').", 1, "'have' is neither a predicate nor a variable"),
        ("A(x).", 3, "'x' is neither"),
        ("A(_X).", 3, "'_' has no meaning here"),
        ("A(__).", 3, "'_' has no meaning here"),
        ("A(1).", 3, "1 stands without quotes (values are texts: write '1')"),
        ('A("x").', 3, "a constant stands in single quotes, not in \" (write 'x')"),
        ("É('x').", 1, "has no meaning here"),
        ("Aé('x').", 2, "'é' is neither"),
        ("A-B('x').", 2, "'-' has no meaning here"),
        ("A('x', 'y).", 8, "a constant is not closed"),
        ("A('x", 3, "a constant is not closed"),
        ("A('x\\", 3, "a constant is not closed"),
        ("A('x\\').", 3, "a constant is not closed"),
        ("A('x\n').", 3, "a constant is not closed"),
        ("A('x\\\n').", 3, "a constant is not closed"),
        ("\ufeffA().", 1, "has no meaning here"),
        ("A()\u00a0.", 4, "has no meaning here"),
        ("A().\x0c", 5, "control character U+000C"),
        ("A()\x00.", 4, "control character U+0000"),
        ("?- A().", 1, "'?' has no meaning here"),
    ],
)
def test_slips_of_the_grammar(text: str, column: int, message: str) -> None:
    assert faults(text)[0] == (Fault.SYNTAX, 1, column)
    assert message in messages(text).splitlines()[0]


@pytest.mark.parametrize(
    ("text", "column", "fix"),
    [
        ('A("").', 3, "write ''"),
        ('A("it\'s").', 3, "write 'it\\'s'"),
        ('A("open', 3, "write 'open'"),
        ("A(‘x’).", 3, "write 'x'"),
        ("A(T) :- B(T), T > 'x'.", 17, "write Gt(X,Y) for texts and times, NumLt(Y,X) for numbers"),
        ("A(T) :- B(T), T >= 'x'.", 17, "write Ge(X,Y) for texts and times, NumLe(Y,X) for numbers"),
        ("A(T) :- B(T), T < 'x'.", 17, "write Lt(X,Y) for texts and times, NumLt(X,Y) for numbers"),
        ("A(T) :- B(T), T =< 'x'.", 17, "write Le(X,Y) for texts and times, NumLe(X,Y) for numbers"),
        ("A(T) :- B(T), T = 'x'.", 17, "write Eq(X,Y)"),
        ("A(T) :- B(T), T != 'x'.", 17, "write Ne(X,Y)"),
        ("A() :- ~B().", 8, "write not B(…)"),
        ("A() :- ! B().", 8, "write not B(…)"),
        ("A() :- !'x'.", 8, "write not Predicate(…)"),
        ("A() :- not (B()).", 12, "write not B(…)"),
        ("A() :- NOT B().", 12, "write not B(…)"),
        ("A() :- Not(B('x')).", 13, "write not B(…)"),
        ("A() :- C(B('x')).", 11, "predicates do not nest"),
        ("A() :- B(); C().", 11, "write another rule with the same head"),
        ("A() :- B() | C().", 12, "write another rule with the same head"),
        ("A() :- B() or C().", 12, "write another rule with the same head"),
        ("A() :- B() and C().", 12, "write a comma"),
        ("A() :- B() && C().", 12, "write a comma"),
        ("A() := B().", 5, "write :-"),
        ("A() : B().", 5, "write :-"),
        ("A(-42).", 3, "write '-42'"),
        ("A(1640995200:000000000).", 3, "write '1640995200:000000000'"),
        ("A(1.5).", 3, "write '1.5'"),
        ("A('it''s').", 7, "write \\' for a quote inside"),
        ("// all\nA().", 1, "a comment begins with #"),
        ("A() :- B(),.", 12, "a comma is followed by a literal"),
        ("A(group).", 3, "a text stands in quotes: 'group'"),
    ],
)
def test_habits_of_other_languages_are_told_how_it_is_written_here(text: str, column: int, fix: str) -> None:
    assert faults(text)[0] == (Fault.SYNTAX, 1, column)
    assert fix in messages(text).splitlines()[0].split("(", 1)[1]


def test_the_predicates_that_hints_name_exist() -> None:
    named = {name for operator in (">", ">=", "<", "<=", "=", "!=") for name in _named(f"A(T) :- T {operator} 'x'.")}
    assert named == {"Gt", "Ge", "Lt", "Le", "NumLt", "NumLe", "Eq", "Ne"}
    assert named <= set(BUILTINS)


def _named(text: str) -> list[str]:
    return re.findall(r"(\w+)\([XY],[XY]\)", messages(text))


@pytest.mark.parametrize("text", ["A().\r\n", "A()\r.", "\r", "# comment\r\n", "A() :-\rB().", "A('x',\r'y')."])
def test_a_carriage_return_stands_nowhere(text: str) -> None:
    assert faults(text)[0][0] == Fault.SYNTAX
    assert "U+000D" in messages(text)
    assert "lines end with LF only" in messages(text)


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("Have( P).", 1),
        ("Have(P ).", 1),
        ("Have (P).", 1),
        ("Have(P,\tQ).", 1),
        ("Have(P ,Q).", 1),
        ("Have( ).", 1),
        ("Have(\n).", 1),
        ("A() :- Have( P ).", 8),
        ("A() :- not Have( P ).", 12),
        ("A() :- B(), C( 'x' ).", 13),
    ],
)
def test_no_white_space_inside_an_atom(text: str, column: int) -> None:
    assert faults(text) == [(Fault.SYNTAX, 1, column)]
    assert "white space stands inside" in messages(text)


@pytest.mark.parametrize("gap", ["\t", "\n", " \n ", " # c\n "])
def test_only_spaces_after_not(gap: str) -> None:
    text = f"A() :- not{gap}B()."
    assert [fault for fault, _, _ in faults(text)] == [Fault.SYNTAX]
    assert "only spaces stand between 'not'" in messages(text)


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("A() # c\n:- B().", 1, 5),
        ("A() :- # c\nB().", 1, 8),
        ("A() :- B() # c\n, C().", 1, 12),
        ("A() :- B(),\n% c\n C().", 2, 1),
        ("A() :- B() # c\n.", 1, 12),
        ("A() # c\n.", 1, 5),
    ],
)
def test_comments_stand_between_rules(text: str, line: int, column: int) -> None:
    assert faults(text) == [(Fault.SYNTAX, line, column)]
    assert "move it above the rule" in messages(text)


@pytest.mark.parametrize("escape", [r"\x", r"\u", r"\0", r"\N", '\\"', r"\ ", r"\é"])
def test_unknown_escapes(escape: str) -> None:
    assert faults(f"A('x').\nB('y','a{escape}b').") == [(Fault.CONSTANT, 2, 7)]
    assert rf"no escape is spelled {escape} (known: \\ \' \n \r \t)" in messages(f"A('{escape}').")


@pytest.mark.parametrize(
    ("character", "fix"),
    [
        ("\t", "write \\t"),
        ("\r", "write \\r"),
        ("\x00", "no constant can hold it"),
        ("\x7f", "no constant can hold it"),
    ],
)
def test_raw_control_characters_in_a_constant(character: str, fix: str) -> None:
    for text in (f"A('a{character}b').", f"A('a\\{character}b')."):
        assert faults(text)[0] == (Fault.CONSTANT, 1, 3)
        assert f"U+{ord(character):04X} stands in a constant ({fix})" in messages(text)


@pytest.mark.parametrize("character", [*map(chr, range(32)), "\x7f"])
def test_no_control_character_stands_raw_in_a_constant(character: str) -> None:
    """ILC-011."""
    assert faults(f"A('a{character}b').")[0][0] in {Fault.CONSTANT, Fault.SYNTAX}


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        (b"\xff", 1, 1),
        (b"A('x').\nB('\xc3').", 2, 4),
        (b"# \xc3\xa9\n\n# \xc3\xa9\xc0\xaf", 3, 4),
        (b"A('\xed\xa0\x80').", 1, 4),
        (b"A('\xf4\x90\x80\x80').", 1, 4),
        ("A().\n# \ud800", 2, 3),
        ("A('\udfff').", 1, 4),
    ],
)
def test_text_that_is_not_utf_8(text: str | bytes, line: int, column: int) -> None:
    assert faults(text) == [(Fault.ENCODING, line, column)]


def test_text_that_is_not_in_form_nfc() -> None:
    text = "A('e\u0301').\nB('é').\n# e\u0301\n"
    assert faults(text) == [(Fault.NORMALIZATION, 1, 1), (Fault.NORMALIZATION, 3, 1)]
    assert "normalization form NFC" in messages(text)
    assert faults("A('\\n\u0301').") == [(Fault.NORMALIZATION, 1, 1)]


@given(st.text(st.sampled_from("ae\u0301\u0323\u1e69\u1100\u1161\n#\u0338=")))
def test_nfc_of_the_whole_is_nfc_of_each_line(text: str) -> None:
    """The search for the bad line relies on it: a line break composes with nothing."""
    lines = all(unicodedata.is_normalized("NFC", line) for line in text.split("\n"))
    assert lines == unicodedata.is_normalized("NFC", text)


# ---- limits --------------------------------------------------------------------------------------------------------


def test_bytes_of_a_program() -> None:
    longest = "#" + "x" * 262_143
    assert parse(longest).rules == ()
    for text in (longest + "x", (longest + "x").encode(), "#" + "é" * 131_072):
        assert faults(text) == [(Fault.LIMIT, 1, 1)]
    assert "at most 262144 bytes, not 262145" in messages(longest + "x")


def test_rules_of_a_program() -> None:
    assert len(parse("A().\n" * 1024).rules) == 1024
    assert faults("A().\n" * 1025) == [(Fault.LIMIT, 1026, 1)]
    assert len(parse("A().\n" * 2000, Limits(rules_max=2000)).rules) == 2000


def test_literals_of_a_rule() -> None:
    body = ", ".join(["B()"] * 32)
    assert len(parse(f"A() :- {body}.").rules[0].body) == 32
    assert faults(f"B().\nA() :- {body}, B().") == [(Fault.LIMIT, 2, 1)]
    assert "at most 32 literals in a rule, not 33" in messages(f"A() :- {body}, B().")


def test_arguments_of_a_predicate() -> None:
    terms = ",".join(["_"] * 16)
    assert parse(f"A({terms}).").rules[0].head.arity == 16
    assert faults(f"A() :- B({terms},_).") == [(Fault.LIMIT, 1, 8)]


@pytest.mark.parametrize("longest", ["x" * 4096, "é" * 2048, "\\n" * 4096, "\\\\" * 4096])
def test_bytes_of_a_constant(longest: str) -> None:
    assert parse(f"A('{longest}').").rules
    assert faults(f"A('x','{longest}x').") == [(Fault.LIMIT, 1, 7)]


def test_a_report_has_at_most_so_many_mistakes() -> None:
    assert len(faults("a. " * 1000)) == 100
    assert len(faults("a. " * 1000, Limits(diagnostics_max=7))) == 7
    assert len(faults("a.", Limits(diagnostics_max=0))) == 1


def test_messages_quote_only_the_beginning_of_long_texts() -> None:
    assert len(messages(f"{'A' * 100_000}.")) < 500
    assert len(messages(f"A('{'x' * 4000}') B().")) < 500
    assert len(messages(f"{'a' * 100_000}.")) < 500


# ---- all at once ---------------------------------------------------------------------------------------------------


def test_one_slip_does_not_hide_the_next() -> None:
    text = (
        "A('x').\n"
        "b('y').\n"
        "C('\\q') :- D( X ).\n"
        "E(.\n"
        "F() :- .\n"
        "# fine. really\n"
        "G('x'  H().\n"
        "I('open).\n"
        "J('ok').\n"
        "K('a\tb').\n"
        "L()"
    )
    assert faults(text) == [
        (Fault.SYNTAX, 2, 1),
        (Fault.CONSTANT, 3, 3),
        (Fault.SYNTAX, 3, 12),
        (Fault.SYNTAX, 4, 3),
        (Fault.SYNTAX, 5, 8),
        (Fault.SYNTAX, 7, 8),
        (Fault.SYNTAX, 8, 3),
        (Fault.CONSTANT, 10, 3),
        (Fault.SYNTAX, 11, 4),
    ]


def test_diagnostics_come_in_the_order_of_the_text() -> None:
    found = faults("B( 'x') :- C('\\q').\nA( X ).")
    assert found == sorted(found, key=lambda one: one[1:])


def test_columns_count_characters() -> None:
    assert faults("A('é𝄞','\\q').") == [(Fault.CONSTANT, 1, 8)]
    assert faults("A(\t\t'\\q').") == [(Fault.SYNTAX, 1, 1), (Fault.CONSTANT, 1, 5)]


@given(st.text(st.sampled_from("AbX_ \n\t'\\.,():-#%not\r\x00é\ud800"), max_size=60))
def test_any_text_is_a_program_or_has_a_diagnostic_inside_it(text: str) -> None:
    try:
        program = parse(text)
    except InvalidProgram as problem:
        places = [found.place for found in problem.diagnostics]
    else:
        places = [Place(1, 1)]
        printed = "\n".join(map(str, program.rules))
        assert [str(rule) for rule in parse(printed).rules] == [str(rule) for rule in program.rules]
    lines = text.split("\n")
    assert places
    assert all(1 <= place.line <= len(lines) for place in places)
    assert all(1 <= place.column <= len(lines[place.line - 1]) + 1 for place in places)


@pytest.mark.parametrize(
    "text",
    [
        ". a" * 87_000,
        "a. " * 87_000,
        "'" * 262_144,
        ". '" + "\\'" * 131_000,
        ". \\'" * 65_000,
        "A(" * 131_000,
        "A" + "(" * 262_000,
        "A(" + "_," * 131_000 + "_).",
        "A() :- " + "B(), " * 52_000 + "B().",
        "A('" + "\\q" * 131_000 + "').",
        "." * 262_144,
        "A( ).\n" * 37_000,
        "A() :- " + "not " * 65_000,
        "a" * 262_144,
        "# e\u0301\n" * 37_000,
        "A('x')\n" * 37_000,
    ],
)
def test_hostile_texts_end_soon(text: str) -> None:
    """None of these may take time that grows faster than the text: each one has a quadratic trap in it."""
    assert faults(text)


def test_lines_are_counted_across_a_slip() -> None:
    assert faults("A(x,\n\n'y').\nB(z).\n\n  C(w).") == [
        (Fault.SYNTAX, 1, 3),
        (Fault.SYNTAX, 4, 3),
        (Fault.SYNTAX, 6, 5),
    ]
