"""The reactive benchmark: our side gives right answers, peers are pinned, and one that is absent fails it."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import peer_environments, reactive, reactive_bobbin, reactive_view
from benchmarks.material import cache_folder
from benchmarks.network_processes import PeerFailedError
from benchmarks.reactive import CASES, LAZILY, OURS, PEERS, PYCRDT, REAKTIV, Bar, Case
from benchmarks.reactive_side import WrongAnswerError, answer, check, timed

_ROOT = Path(reactive.__file__).parent.parent


# ---- sides ----------------------------------------------------------------------------------------------------------


def test_our_side_knows_every_question_and_answers_it_rightly() -> None:
    asked = "".join(f'{{"question": "{case.question}", "count": 4}}\n' for case in CASES)
    command = [sys.executable, "-m", "benchmarks.reactive_bobbin"]
    said = subprocess.run(command, cwd=_ROOT, input=asked, check=True, capture_output=True, text=True).stdout
    answers = [json.loads(line) for line in said.splitlines()]
    assert len(answers) == len(CASES)
    assert all(one["seconds"] > 0 for one in answers)


@pytest.mark.parametrize("side", [OURS, *PEERS])
def test_every_side_has_a_module_that_names_the_questions_it_is_asked(side: str) -> None:
    source = (_ROOT / "benchmarks" / f"reactive_{side}.py").read_text(encoding="utf-8")
    asked = {case.question for case in CASES if side in case.counts}
    assert asked
    assert {question for question in asked if f'"{question}":' not in source} == set()


def test_a_wrong_result_is_no_figure() -> None:
    check([1], [1])
    with pytest.raises(WrongAnswerError, match=r"expected \[2\], found \[1\]"):
        check([1], [2])


def test_questions_come_by_line_and_so_do_answers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", iter(['{"question": "a", "count": 2}\n', '{"question": "b", "count": 3}\n']))
    answer({"a": lambda count: {"seconds": count}, "b": lambda count: {"seconds": 0, "bytes": count}})
    assert capsys.readouterr().out == '{"seconds": 2}\n{"seconds": 0, "bytes": 3}\n'


def test_seconds_are_for_one_repetition() -> None:
    calls: list[int] = []
    assert timed(lambda: calls.append(1), 10)["seconds"] < timed(lambda: sum(range(10**6)), 1)["seconds"]
    assert calls == [1]


def test_the_snapshot_has_the_size_that_is_shown() -> None:
    figures = reactive_bobbin.snapshot(1)
    assert figures["bytes"] > 10_000 * 50


# ---- peers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("peer", PEERS)
def test_every_package_of_a_peer_is_pinned_by_hash(peer: str) -> None:
    text = (peer_environments.LOCKS / "reactive" / f"{peer}.lock").read_text(encoding="utf-8")
    packages = re.split(r"^(?=\S+==)", text, flags=re.MULTILINE)[1:]
    assert any(package.startswith(f"{peer}=={peer_environments.version_of(peer)} ") for package in packages)
    assert all(re.search(r"--hash=sha256:[0-9a-f]{64}", package) for package in packages)


def test_the_peers_are_those_that_were_named() -> None:
    assert set(PEERS) == {LAZILY, REAKTIV, PYCRDT}
    assert peer_environments.version_of(LAZILY).startswith("0.45.")


def test_a_python_that_is_new_enough_is_found_and_ours_will_do() -> None:
    assert peer_environments.find_python((3, 11), whom="x") == (sys.executable, sys.version_info[:2])


def test_a_command_that_does_not_run_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in (("python3.12", "exit 127"), ("python3.13", "echo 3 13"), ("python3.14", "echo nonsense")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.executable", str(tmp_path / "python3.14"))
    assert peer_environments.find_python((3, 12), whom="x") == (str(tmp_path / "python3.13"), (3, 13))


def test_what_pyenv_keeps_is_found_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = tmp_path / "root" / "versions" / "3.12.9" / "bin"
    kept.mkdir(parents=True)
    for path, text in ((tmp_path / "pyenv", f"echo {tmp_path / 'root'}"), (kept / "python", "echo 3 12")):
        path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.executable", str(tmp_path / "pyenv"))
    assert peer_environments.find_python((3, 12), whom="x") == (str(kept / "python"), (3, 12))


def test_a_named_peer_without_a_python_for_it_fails_the_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reactive, "PEERS", {LAZILY: (99, 0)})
    monkeypatch.setattr(reactive.install, "__defaults__", ({LAZILY: (99, 0)},))
    with pytest.raises(PeerFailedError, match=r"lazily needs Python 99.0 or newer"):
        reactive.run()


def test_a_named_peer_that_cannot_be_installed_fails_the_benchmark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(peer_environments, "LOCKS", tmp_path)
    with pytest.raises(PeerFailedError, match="no lock for absent"):
        peer_environments.install("absent")
    lock = tmp_path / "peers" / "absent.lock"
    lock.parent.mkdir()
    lock.write_text(f"absent==1 --hash=sha256:{'0' * 64}\n", encoding="utf-8")
    # A Python whose environments have a pip that fails, or that makes none.
    python = tmp_path / "python"
    made = 'mkdir -p "$3/bin"; printf "#!/bin/sh\\nexit 1\\n" > "$3/bin/python"; chmod +x "$3/bin/python"'
    for text, message in ((made, "absent cannot be installed"), ("exit 1", "no environment for absent")):
        python.write_text(f'#!/bin/sh\n[ "$1" = -c ] && echo 3 11 && exit\n{text}\n', encoding="utf-8")
        python.chmod(0o755)
        monkeypatch.setattr("sys.executable", str(python))
        with pytest.raises(PeerFailedError, match=message):
            peer_environments.install("absent")
        assert not list(cache_folder().glob("absent-*"))


def test_a_side_that_has_ended_is_an_error() -> None:
    case = Case(question="no such question", name="x", counts={OURS: 1})
    with pytest.raises(PeerFailedError):
        reactive.measure(case, {OURS: Path(sys.executable)}, rounds=2)


# ---- figures --------------------------------------------------------------------------------------------------------


def test_times_are_ours_by_theirs_and_rates_the_other_way_about() -> None:
    case = Case(question="q", name="n", counts={OURS: 1, LAZILY: 1}, bars=(Bar(LAZILY, 0.5), Bar(LAZILY, 2, ">=")))
    times, rates = reactive.case_ratios(case, {OURS: [1.0, 2.0, 1.0], LAZILY: [4.0, 8.0, 4.0]})
    assert (times.value, times.verdict, times.name) == (0.25, "pass", "n: time / lazily's")
    assert (rates.value, rates.verdict, rates.name) == (4.0, "pass", "n: rate / lazily's")
    assert reactive.case_ratios(case, {OURS: [3.0], LAZILY: [4.0]})[0].missed


def test_the_bars_are_those_that_were_promised() -> None:
    promised = {(case.question, bar.peer): (bar.comparison, bar.bar) for case in CASES for bar in case.bars if bar.bar}
    assert promised == {
        ("chain", REAKTIV): ("<=", 0.1),
        ("chain", LAZILY): ("<=", 1),
        ("batch", REAKTIV): ("<=", 0.1),
        ("batch", LAZILY): ("<=", 1),
        ("fan", LAZILY): ("<=", 1),
        ("suppressed", LAZILY): ("<=", 1),
        ("snapshot", LAZILY): ("<=", 0.25),
        ("merge-new", LAZILY): (">=", 1.0),
        ("merge-new-batched", LAZILY): (">=", 2.0),
        ("merge-old", LAZILY): (">=", 1.0),
        ("merge-old-batched", LAZILY): (">=", 2.0),
        ("arena", LAZILY): ("<=", 0.05),
    }
    assert reactive.VIEW_BAR == 1.5


def test_rows_show_what_each_side_took_and_said() -> None:
    case = Case(question="q", name="n", counts={OURS: 1})
    (row,) = reactive.case_rows(case, {OURS: [0.001, 0.003, 0.002]}, {OURS: [{"seconds": 0.001, "bytes": 1234}]})
    assert (row.name, row.value, row.unit, row.note) == ("n, bobbin", 2000.0, "µs", "1,234 bytes")


# ---- views ----------------------------------------------------------------------------------------------------------


def test_a_view_takes_in_each_record_in_laces_of_every_size(capsys: pytest.CaptureFixture[str]) -> None:
    reactive_view.main(2, 30, 301)
    found = json.loads(capsys.readouterr().out)
    assert {size: len(seconds) for size, seconds in found["more"].items()} == {"30": 2, "301": 2}
    rows = reactive.view_rows(found["more"], found["whole"])
    assert [row.name for row in rows] == [
        "live view of 30 records: one new record",
        "live view of 301 records: one new record",
    ]
    assert all(isinstance(row.value, int) and row.value > 0 for row in rows)


def test_half_of_the_records_of_the_view_are_selected() -> None:
    assert [reactive_view.make(number).app for number in range(4)] == ["even", "odd", "even", "odd"]
    assert len({reactive_view.make(number).hash for number in range(4)}) == 4
