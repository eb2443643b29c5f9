"""How the command behaves among processes: pipes that break, signals, closed and full streams, terminals, secrets."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.end_to_end.command import AT, COMMAND, PLACE, PLEX_1, bobbin, environment
from tests.unit.cli.damaged import write_damaged


@pytest.fixture(scope="module")
def lace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lace with a key and 600 signed records: more output than a pipe holds."""
    folder = tmp_path_factory.mktemp("processes")
    write_damaged(folder / "x.bundle", good=600, bad=0)
    path = folder / "x.lace"
    assert bobbin("init", path).code == 0
    assert bobbin("key", "new", path).code == 0
    assert bobbin("import", path, folder / "x.bundle").code == 0
    assert bobbin("put", path, *PLACE, *AT, "-", stdin=b"hello").code == 0
    return path


def _shell(script: str) -> tuple[int, str, str]:
    program = f'bobbin() {{ "{sys.executable}" -m bobbin "$@"; }}; {script}'
    done = subprocess.run(
        ["bash", "-c", program], capture_output=True, text=True, env=environment(), check=False, timeout=120
    )
    return done.returncode, done.stdout, done.stderr


def _in_terminal(arguments: Sequence[str], **extra: str) -> tuple[int, str]:
    """Run a command whose stdin, stdout and stderr are a terminal; its exit code and what the screen got."""
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        stdin=follower,
        stdout=follower,
        stderr=follower,
        env=environment() | {"TERM": "xterm-256color"} | extra,
        start_new_session=True,
    )
    os.close(follower)
    screen = bytearray()
    while select.select([leader], [], [], 60)[0]:
        try:
            chunk = os.read(leader, 65536)
        except OSError:  # the last writer has gone
            break
        if not chunk:
            break
        screen += chunk
    os.close(leader)
    return process.wait(60), screen.decode()


# ---- pipes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["list {lace} //u//", "export {lace} -", "facts {lace} Field"])
def test_a_reader_that_leaves_ends_the_command_quietly(lace: Path, command: str) -> None:
    script = f"bobbin {command.format(lace=lace)} | head -c 1 >/dev/null; echo ${{PIPESTATUS[0]}}"
    assert _shell(script) == (0, "141\n", "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("command", ["list {lace} //u//", "stat {lace}", "export {lace} -", "--help"])
def test_a_full_disk_under_stdout_is_an_error(lace: Path, command: str) -> None:
    code, _, err = _shell(f"bobbin {command.format(lace=lace)} >/dev/full")
    assert code == 4
    assert "No space left" in err
    assert "Traceback" not in err


def test_a_closed_stdout_is_an_error_and_a_closed_stderr_is_none(lace: Path) -> None:
    assert _shell(f"bobbin stat {lace} >&-")[0] == 4
    code, out, _ = _shell(f"bobbin stat {lace} 2>&-")
    assert code == 0
    assert "records" in out
    assert _shell(f"bobbin get {lace} nonsense 2>&-")[0] == 2


def test_a_closed_stdin_is_a_usage_error(lace: Path) -> None:
    code, _, err = _shell(f"bobbin import {lace} - <&-")
    assert code == 2
    assert "Traceback" not in err


# ---- signals ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_an_import_in_order(lace: Path, tmp_path: Path, number: signal.Signals, code: int) -> None:
    ledger = tmp_path / "acknowledged"
    os.mkfifo(ledger)
    process = subprocess.Popen(
        [*COMMAND, "import", str(lace), "-", "--acknowledge", str(ledger), "--workers", "1"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    assert process.stdin is not None
    bundle = (lace.parent / "x.bundle").read_bytes()
    with ledger.open() as acknowledged:
        # Far less than fills a commit or the worker's queue, and stdin stays open: the signal finds the import waiting.
        process.stdin.write(bundle)
        process.stdin.flush()
        assert json.loads(acknowledged.readline())["duplicate"] > 0
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert process.returncode == code, err
    assert b"Traceback" not in out + err
    assert bobbin("fsck", lace).code == 0


def test_an_interrupted_export_leaves_no_file(lace: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    # Through a pipe that nobody goes on reading, the export cannot end by itself.
    process = subprocess.Popen([*COMMAND, "export", str(lace), str(pipe)], stderr=subprocess.PIPE, env=environment())
    reader = os.open(pipe, os.O_RDONLY)
    assert os.read(reader, 4) == "🖧".encode()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    os.close(reader)
    assert process.returncode == 130
    assert b"Traceback" not in err
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


# ---- terminals ----------------------------------------------------------------------------------------------------


def test_colour_in_a_terminal_and_none_with_no_color(lace: Path) -> None:
    code, screen = _in_terminal(["stat", str(lace)])
    assert code == 0
    assert "\x1b[" in screen
    assert "\x1b[" not in _in_terminal(["stat", str(lace)], NO_COLOR="1")[1]
    assert "\x1b[" not in bobbin("stat", lace).text


def test_data_on_a_terminal_is_shown_with_escapes(lace: Path) -> None:
    stored = bobbin("put", lace, *PLACE, "-", stdin=b"a\x1b[2J\x07b").text.strip()
    code, screen = _in_terminal(["get", str(lace), stored])
    assert code == 0
    assert "\x1b[2J" not in screen
    assert "\x07" not in screen
    assert "a\\x1b[2J\\x07b" in screen
    assert bobbin("get", lace, stored).out == b"a\x1b[2J\x07b"


def test_an_export_to_a_terminal_is_refused(lace: Path) -> None:
    code, screen = _in_terminal(["export", str(lace), "-"])
    assert code == 2
    assert "Signed-By" not in screen


def test_nothing_ever_asks(lace: Path) -> None:
    for arguments in (["remove", str(lace), PLEX_1], ["key", "new", str(lace)], ["put", str(lace), "-"]):
        code, _ = _in_terminal(arguments)
        assert code == 2


# ---- JSON and secrets ---------------------------------------------------------------------------------------------


def test_json_errors_are_one_json_object_on_stderr(tmp_path: Path, lace: Path) -> None:
    for arguments, code in (
        (("stat", tmp_path / "nothing"), 2),
        (("get", lace, "//no//such//thing"), 1),
        (("nosuchcommand",), 2),
        (("list", lace, "//u//", "--limit", "x"), 2),
    ):
        answer = bobbin(*arguments, "--json")
        assert (answer.code, answer.out) == (code, b"")
        assert json.loads(answer.err)["exit_code"] == code


@pytest.mark.slow
def test_no_command_prints_the_secret_unless_asked(lace: Path, tmp_path: Path) -> None:
    secret = (lace / "keys" / "main.key").read_text().strip()
    (lace / "keys" / "main.key").chmod(0o644)
    seen = ""
    commands: list[tuple[str | Path, ...]] = [("key", "show", lace), ("key", "list", lace), ("stat", lace)]
    for arguments in (*commands, ("put", lace, *PLACE, "--sign", "-"), ("fsck", lace)):
        answer = bobbin(*arguments)
        seen += answer.text + answer.err
    (lace / "keys" / "main.key").chmod(0o600)
    for arguments in (*commands, ("backup", lace, tmp_path / "copy")):
        answer = bobbin(*arguments)
        seen += answer.text + answer.err
    assert secret[2:45] not in seen
    assert bobbin("key", "show", lace, "--secret").text == secret + "\n"


@pytest.mark.slow
def test_two_processes_may_write_at_once(lace: Path) -> None:
    before = json.loads(bobbin("stat", lace, "--json").text)["records"]
    writers = [
        subprocess.Popen(
            [*COMMAND, "put", str(lace), *PLACE, "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()
        )
        for _ in range(6)
    ]
    names = {writer.communicate(b"from writer %d" % number)[0] for number, writer in enumerate(writers)}
    assert [writer.returncode for writer in writers] == [0] * 6
    assert len(names) == 6
    assert json.loads(bobbin("stat", lace, "--json").text)["records"] == before + 6
    assert bobbin("fsck", lace).code == 0
