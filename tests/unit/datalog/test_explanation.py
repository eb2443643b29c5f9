import msgspec

from bobbin.datalog.explanation import Checked, Cut, Derived, Failure, Given, Missing, Statement


def test_a_statement_reads_like_a_literal() -> None:
    assert str(Statement("Field", ("p", "A", None, "it's"))) == r"Field('p','A',_,'it\'s')"
    assert str(Statement("Gone", ("p",), negated=True)) == "not Gone('p')"
    assert str(Statement("TransportEncrypted", ())) == "TransportEncrypted()"


def test_every_sort_of_explanation_tells_itself_apart_in_json() -> None:
    fact = Statement("A", ("x",))
    failure = Failure(rule="A(X) :- B(X).", line=1, literal="B(X)", because=Missing(fact, ()))
    for sort, name in (
        (Given(fact), "given"),
        (Checked(fact), "checked"),
        (Cut(fact, "shown above"), "cut"),
        (Derived(fact, "A('x').", 1, (Given(fact),)), "derived"),
        (Missing(fact, (failure,)), "missing"),
    ):
        decoded = msgspec.json.decode(msgspec.json.encode(sort))
        assert decoded["kind"] == name
