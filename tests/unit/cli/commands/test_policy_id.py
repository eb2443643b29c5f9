"""``bobbin policy id``."""

from tests.unit.cli.command_line import Cli
from tests.unit.cli.policy_texts import DING, DING_IDENTIFIER, TWO_MISTAKES


def test_the_identifier_does_not_depend_on_comments_and_order(cli: Cli) -> None:
    assert cli("policy", "id", "-", stdin=DING.encode()).text == DING_IDENTIFIER + "\n"
    other = "# said otherwise\n" + "".join(f"{line}\n" for line in reversed(DING.splitlines()))
    assert cli("policy", "id", "-", "--json", stdin=other.encode()).json == {
        "file": "stdin",
        "identifier": DING_IDENTIFIER,
    }


def test_a_wrong_text_has_none(cli: Cli) -> None:
    answer = cli("policy", "id", "-", stdin=TWO_MISTAKES.encode())
    assert (answer.code, answer.out) == (7, b"")
    assert "\nstdin:1:27: nothing defines Feild (did you mean Field?)\n" in answer.err
    error = cli("policy", "id", "-", "--json", stdin=TWO_MISTAKES.encode()).error
    assert (error["error"], error["exit_code"]) == ("program", 7)
