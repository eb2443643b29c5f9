"""Whatever ends a command becomes words and an exit code; only a bug shows a traceback."""

import io
import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bobbin.cli import entry, output
from bobbin.cli.entry import run
from bobbin.cli.output import ReaderGone
from bobbin.errors import BobbinError, IntegrityError, PeerError, ProgramError, ResourceError, UsageError
from bobbin.records.reasons import InvalidRecord, Reason
from bobbin.store.base import DamagedStore
from bobbin.store.lake.errors import DamagedLake
from tests.unit.cli.command_line import Cli


def _raising(error: BaseException) -> Callable[..., int]:
    def invoke(_arguments: object) -> int:
        raise error

    return invoke


@pytest.mark.parametrize(
    ("error", "code", "kind"),
    [
        (UsageError("what \x1b was said"), 2, "usage"),
        (IntegrityError("what \x1b was said"), 3, "integrity"),
        (ResourceError("what \x1b was said", retry=False), 4, "resource"),
        (ResourceError("what \x1b was said", retry=True), 5, "try-again"),
        (PeerError("code", "what \x1b was said"), 6, "peer"),
        (ProgramError("what \x1b was said"), 7, "program"),
    ],
)
def test_an_error_of_ours_is_a_sentence_and_a_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: BobbinError, code: int, kind: str
) -> None:
    monkeypatch.setattr(entry, "_invoke", _raising(error))
    assert run(["x"]) == code
    assert capsys.readouterr() == ("", "error: what \\x1b was said\n")
    assert run(["x", "--json"]) == code
    shown = capsys.readouterr()
    assert shown.out == ""
    value = json.loads(shown.err)
    assert (value["error"], value["message"], value["exit_code"]) == (kind, "what \x1b was said", code)
    assert ("retry" in value) == isinstance(error, ResourceError)


def test_a_reason_code_travels_with_the_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(entry, "_invoke", _raising(InvalidRecord(Reason.BLOB_DIGEST, "it differs")))
    assert run(["--json"]) == 3
    assert json.loads(capsys.readouterr().err)["reason"] == "blob-digest"


def test_the_system_s_errors_name_the_file(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(entry, "_invoke", _raising(PermissionError(13, "Permission denied", "some/file")))
    assert run(["x"]) == 4
    assert capsys.readouterr().err == "error: some/file: Permission denied\n"


def test_a_pipe_that_broke_elsewhere_is_an_error_and_not_a_reader_that_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(entry, "_invoke", _raising(BrokenPipeError(32, "Broken pipe")))
    assert run(["x"]) == 4
    assert "Broken pipe" in capsys.readouterr().err


def test_a_reader_that_left_is_quiet(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(entry, "_invoke", _raising(ReaderGone()))
    monkeypatch.setattr(output, "abandon", lambda: None)
    assert run(["x"]) == 141
    assert capsys.readouterr() == ("", "")


def test_an_interrupt_is_130_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(entry, "_invoke", _raising(KeyboardInterrupt()))
    monkeypatch.setattr(output, "abandon", lambda: None)
    assert run(["x"]) == 130
    assert capsys.readouterr().err == "error: interrupted\n"


def test_a_bug_shows_its_traceback_and_says_what_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(entry, "_invoke", _raising(ZeroDivisionError("oops")))
    assert run(["x"]) == 70
    shown = capsys.readouterr().err
    assert "Traceback" in shown
    assert "bug in Bobbin" in shown


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nosuch"], "No such command"),
        (["gett"], "Did you mean"),
        (["put"], "Missing"),
        (["stat"], "Missing argument 'DIR'"),
        (["stat", "x", "y"], "extra argument"),
        (["list", "x", "//u//", "--limit", "many"], "limit"),
        (["list", "x", "//u//", "--nonsense"], "No such option"),
        (["sync", "x", "y", "--strategy", "z"], "Invalid value for '--strategy': 'z' is not one of"),
        (["tangle", "new", "x"], "Missing argument 'account|feed|thread'. Choose from: account, feed, thread\n"),
        (["key"], ""),
        ([], ""),
    ],
)
def test_a_wrong_command_line_is_code_2_and_says_what_is_wrong(
    capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert run(arguments) == 2
    shown = capsys.readouterr()
    assert words in shown.err
    if words:
        assert shown.out == ""
        assert "--help" in shown.err
        assert run([*arguments, "--json"]) == 2
        assert json.loads(capsys.readouterr().err)["error"] == "usage"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["--json", "list", "x"],
            "--json stands too early: options follow their command, as in 'bobbin COMMAND … --json'",
        ),
        (["policy", "--json", "check", "x"], "'bobbin policy COMMAND … --json'"),
        (["-n", "5", "list", "x"], "-n stands too early"),
    ],
)
def test_an_option_before_its_command_is_told_its_place(
    capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert run(arguments) == 2
    shown = capsys.readouterr().err
    assert words in (json.loads(shown)["message"] if "--json" in arguments else shown)
    assert run(["--nonsense", "list"]) == 2
    assert "No such option: --nonsense" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ("put", "LACE", "MISSING", "-g", "u", "-a", "b", "-N", "c"),
        ("import", "LACE", "MISSING"),
        ("verify", "MISSING"),
        ("key", "new", "LACE", "--from", "MISSING"),
        ("export", "LACE", "MISSING/x"),
        ("policy", "check", "MISSING"),
        ("policy", "id", "MISSING"),
        ("policy", "fmt", "MISSING"),
        ("policy", "test", "MISSING"),
        ("policy", "eval", "LACE", "MISSING"),
        ("policy", "diff", "LACE", "MISSING", "MISSING", "--peer", "source:x"),
        ("policy", "explain", "LACE", "--policy", "MISSING", "--peer", "source:x", "//u//ding//links/1"),
    ],
)
def test_a_missing_file_is_code_4_whoever_wants_it(filled: Path, cli: Cli, arguments: tuple[str, ...]) -> None:
    missing = str(filled.parent / "missing")
    answer = cli(*(word.replace("LACE", str(filled)).replace("MISSING", missing) for word in arguments), "--json")
    assert (answer.code, answer.error["error"], answer.error["retry"]) == (4, "resource", False)
    assert missing in answer.error["message"]


def test_json_after_a_double_dash_is_data_and_not_an_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["get", "--", "nowhere", "--json"]) == 2
    assert capsys.readouterr().err.startswith("error: ")


def test_the_entry_point_exits_with_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["bobbin", "nosuch"])
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with pytest.raises(SystemExit) as leave:
        entry.main()
    assert leave.value.code == 2


def test_a_damaged_store_is_one_to_look_into(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(entry, "_invoke", _raising(DamagedStore("the store is damaged")))
    assert run(["x"]) == 3
    assert "`bobbin fsck DIR` lists what is damaged" in capsys.readouterr().err
    monkeypatch.setattr(entry, "_invoke", _raising(DamagedStore("it is damaged; run `bobbin fsck` on it")))
    run(["x"])
    assert capsys.readouterr().err.count("fsck") == 1


def test_a_damaged_lake_is_one_to_look_into_by_its_own_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(entry, "_invoke", _raising(DamagedLake("a file is gone")))
    assert run(["x"]) == 3
    told = capsys.readouterr().err
    assert "`bobbin lake check LAKE` lists what is damaged in a lake" in told
    assert "fsck" not in told
    monkeypatch.setattr(entry, "_invoke", _raising(DamagedLake("a file is gone; `bobbin lake check` says which")))
    run(["x"])
    assert capsys.readouterr().err.count("lake check") == 1
