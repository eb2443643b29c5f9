from bobbin.datalog.builtins import BUILTINS
from bobbin.datalog.vocabulary import RECORD_FACTS, Vocabulary


def test_the_five_record_facts() -> None:
    assert dict(RECORD_FACTS.base) == {"Have": 1, "Field": 4, "RecordLink": 5, "BlobHash": 2, "PlexHash": 2}


def test_names_and_prefixes_of_the_protocol() -> None:
    vocabulary = Vocabulary(base={}, reserved=frozenset({"MaySend"}), reserved_prefixes=("Hello", "Op0_"))
    for name in ("MaySend", "HelloTAI", "Hello", "HelloSomethingNew", "Op0_Select"):
        assert vocabulary.is_reserved(name)
    for name in ("MaySendMore", "Maysend", "hello", "AHello", "Op1_Select", ""):
        assert not vocabulary.is_reserved(name)


def test_without_prefixes_nothing_is_reserved_by_one() -> None:
    assert not Vocabulary(base={}).is_reserved("")
    assert not Vocabulary(base={}).is_reserved("A")


def test_declared_arities() -> None:
    vocabulary = Vocabulary(base={"Have": 1}, exports={"SelectHave": 1, "SelectAdvertised": 2})
    assert vocabulary.declared_arity("Have") == 1
    assert vocabulary.declared_arity("SelectAdvertised") == 2
    assert vocabulary.declared_arity("Mine") is None
    for name, builtin in BUILTINS.items():
        assert vocabulary.declared_arity(name) == builtin.arity


def test_a_built_in_keeps_its_arity_whatever_the_profile_says() -> None:
    assert Vocabulary(base={"Eq": 5}).declared_arity("Eq") == 2
