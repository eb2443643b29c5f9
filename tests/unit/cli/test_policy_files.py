"""Policy texts in files: reading, roles, and mistakes by file, line and column."""

from pathlib import Path

import pytest

from bobbin.cli import policy_files
from bobbin.cli.policy_files import InvalidPolicyFile, RoleChoice
from bobbin.cli.sources import MissingFile
from bobbin.errors import UsageError
from bobbin.policy.executables import Part
from bobbin.policy.modules import Query, Role, Selector
from tests.unit.cli.policy_texts import DING, DING_IDENTIFIER, HIDE_ALL, TWO_MISTAKES


def _write(folder: Path, text: str | bytes) -> str:
    file = folder / "x.policy"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(file)


def test_a_module_has_the_role_that_it_seems_to_be_written_for(tmp_path: Path) -> None:
    selector = policy_files.load_module(_write(tmp_path, DING))
    assert isinstance(selector, Selector)
    assert selector.identifier == DING_IDENTIFIER
    assert isinstance(policy_files.load_module(_write(tmp_path, HIDE_ALL)), Query)
    assert isinstance(policy_files.load_query(_write(tmp_path, "")), Query)
    with pytest.raises(UsageError, match=r"is a query policy \(it defines Queryable\).*--query-policy"):
        policy_files.load_selector(_write(tmp_path, HIDE_ALL))
    with pytest.raises(InvalidPolicyFile):
        policy_files.load_selector(_write(tmp_path, DING + HIDE_ALL))


def test_only_files_that_were_named_are_cited() -> None:
    assert policy_files.texts_of("a.policy") == {Part.OWN_SELECTOR: "a.policy"}
    assert policy_files.texts_of("-", "b.policy", "c.policy") == {
        Part.OWN_SELECTOR: "stdin",
        Part.PEER_SELECTOR: "b.policy",
        Part.QUERY: "c.policy",
    }


def test_a_selector_is_no_query_policy(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"is a selector \(it defines SelectAdvertised and SelectHave\).*Queryable"):
        policy_files.load_query(_write(tmp_path, DING))
    with pytest.raises(UsageError, match="is no query policy"):
        policy_files.load_query(_write(tmp_path, "Helper('x').\n"))
    with pytest.raises(InvalidPolicyFile):
        policy_files.load_query(_write(tmp_path, TWO_MISTAKES))


def test_every_mistake_is_named_by_file_line_and_column(tmp_path: Path) -> None:
    file = _write(tmp_path, TWO_MISTAKES)
    with pytest.raises(InvalidPolicyFile) as raised:
        policy_files.load_module(file)
    first, *lines = str(raised.value).splitlines()
    assert first.endswith(f"mistakes in {file}")
    assert lines[0] == f"{file}:1:27: nothing defines Feild (did you mean Field?)"
    assert any(line.startswith(f"{file}:2:") for line in lines)
    assert lines == [str(mistake) for mistake in raised.value.mistakes]
    assert raised.value.mistakes[0].value() == {
        "file": file,
        "line": 1,
        "column": 27,
        "fault": "unknown-predicate",
        "message": "nothing defines Feild",
        "fix": "did you mean Field?",
    }


def test_a_text_that_is_too_long_is_a_mistake_of_the_text(tmp_path: Path) -> None:
    with pytest.raises(InvalidPolicyFile, match=r"262,?144"):
        policy_files.load_selector(_write(tmp_path, b"#" * 300_000))


def test_a_file_that_is_not_there_is_missing(tmp_path: Path) -> None:
    with pytest.raises(MissingFile, match="there is no file"):
        policy_files.read_policy(str(tmp_path / "nothing.policy"))


def test_roles_as_the_user_says_them() -> None:
    assert policy_files.chosen_role(RoleChoice.AUTO) is None
    assert policy_files.chosen_role(RoleChoice.QUERY) is Role.QUERY
    assert policy_files.shown_name("-") == "stdin"
