import pytest

from bobbin.datalog.diagnostics import InvalidProgram
from bobbin.policy.layout import lay_out
from bobbin.policy.modules import compile_selector

_ROUGH = """

# What we share.
SelectHave(P)   :-
    Have(P) ,
    not Field(P,'a.b # no comment',_,'%')
    .   % for everyone



# Two on a line:
A('x'). B('it\\'s.').    # both
  # indented
C('z').
# the end


"""
_NEAT = """\
# What we share.
SelectHave(P) :- Have(P), not Field(P,'a.b # no comment',_,'%').  % for everyone

# Two on a line:
A('x').
B('it\\'s.').  # both
# indented
C('z').
# the end
"""


def test_rules_are_canonical_and_comments_stay() -> None:
    assert lay_out(_ROUGH) == _NEAT


def test_laying_out_twice_changes_nothing() -> None:
    assert lay_out(_NEAT) == _NEAT


def test_the_policy_stays_the_same() -> None:
    assert compile_selector(_NEAT).identifier == compile_selector(_ROUGH).identifier


def test_rules_keep_their_order() -> None:
    assert lay_out("B('x').\nA('x').\n") == "B('x').\nA('x').\n"


@pytest.mark.parametrize(("text", "neat"), [("", ""), ("\n\n", ""), ("# only", "# only\n"), ("#", "#\n")])
def test_a_text_without_rules(text: str, neat: str) -> None:
    assert lay_out(text) == neat


def test_a_text_that_cannot_be_read_is_left_alone() -> None:
    with pytest.raises(InvalidProgram):
        lay_out("SelectHave(P) :- Have(P)")
