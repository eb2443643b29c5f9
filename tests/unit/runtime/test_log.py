"""The log: one line an entry, no secrets, nothing that a peer said does anything."""

import io
import json

import pytest

from bobbin.records import ids
from bobbin.runtime.log import KINDS_MAX, TEXT_CHARACTERS_MAX, Repeats, clean, clean_text, make_log
from bobbin.runtime.node_settings import LogForm, Logging, LogLevel
from tests.support.nodes import key

_HOSTILE = "line\nnext\r\x1b[2J\u2028\u202e\x00\ud800 and so on"
_SECRET = ids.secret_text(b"\x07" * 32)


def _entries(output: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in output.getvalue().splitlines()]


def test_an_entry_is_one_json_object_on_one_line() -> None:
    output = io.StringIO()
    make_log(output=output).bind(link=3).info("link-up", peer="bob", count=2, encrypted=True, nothing=None)
    (entry,) = _entries(output)
    assert list(entry)[:3] == ["time", "level", "event"]
    assert entry["event"] == "link-up"
    assert (entry["link"], entry["count"], entry["encrypted"], entry["nothing"]) == (3, 2, True, None)


@pytest.mark.parametrize("form", LogForm)
def test_what_a_peer_said_stays_on_its_line_and_commands_no_terminal(form: LogForm) -> None:
    output = io.StringIO()
    make_log(Logging(format=form), output=output).info("link-ended", detail=_HOSTILE, more=[_HOSTILE, {"a": _HOSTILE}])
    written = output.getvalue()
    assert written.count("\n") == 1
    assert written.endswith("\n")
    assert not set(written[:-1]) & set("\r\x1b\x00\u2028\u202e\ud800")


@pytest.mark.parametrize("form", LogForm)
def test_no_secret_gets_through(form: LogForm) -> None:
    output = io.StringIO()
    log = make_log(Logging(format=form), output=output)
    log.info("a", detail=f"the key is {_SECRET}.", more={"x": [_SECRET]}, object=key(7))
    cut = "x" * (TEXT_CHARACTERS_MAX - 12) + _SECRET
    log.info("b", detail=cut)
    body = _SECRET.removeprefix("&.")[:6]
    assert body not in output.getvalue()
    assert "(secret)" in output.getvalue()


def test_texts_lists_and_depths_are_bounded() -> None:
    deep: object = "end"
    for _ in range(100):
        deep = [deep]
    cleaned = clean({"text": "x" * 100_000, "list": list(range(10_000)), "deep": deep, "raw": b"\xff" * 10_000})
    assert len(json.dumps(cleaned)) < 5 * TEXT_CHARACTERS_MAX
    assert clean_text("x" * 1_000, 10) == "x" * 10 + "… (1000 characters)"


def test_a_number_that_json_cannot_hold_is_spelled() -> None:
    assert clean(2**70) == hex(2**70)
    assert clean(-5) == -5


def test_levels_below_the_wanted_one_are_left_out() -> None:
    output = io.StringIO()
    log = make_log(Logging(level=LogLevel.WARNING), output=output)
    log.info("no")
    log.warning("yes")
    assert [entry["event"] for entry in _entries(output)] == ["yes"]


def test_an_exception_is_written_with_its_place() -> None:
    output = io.StringIO()
    log = make_log(output=output)
    try:
        raise ValueError(_HOSTILE)
    except ValueError:
        log.exception("link-crashed")
    (entry,) = _entries(output)
    trace = entry["exception"]
    assert isinstance(trace, list)
    assert any("test_log.py" in line for line in trace)


def test_a_log_that_cannot_be_written_is_no_error() -> None:
    output = io.StringIO()
    log = make_log(output=output)
    output.close()
    log.info("into the void")


def test_repeated_entries_are_counted_instead_of_written() -> None:
    output, now = io.StringIO(), [0]
    repeats = Repeats(make_log(output=output), per_minute=3, clock=lambda: now[0])
    for _ in range(10):
        repeats.info("link-refused", "unknown-key", remote="192.0.2.7:1")
    repeats.info("link-refused", "no-proof", remote="192.0.2.7:1")
    assert [entry["reason"] for entry in _entries(output)] == ["unknown-key"] * 3 + ["no-proof"]
    now[0] = 61_000_000_000
    repeats.info("link-refused", "unknown-key", remote="192.0.2.7:1")
    left_out, again = _entries(output)[4:]
    assert left_out["counts"] == {"unknown-key": 7}
    assert again["reason"] == "unknown-key"


def test_kinds_of_repeated_entries_are_bounded() -> None:
    output = io.StringIO()
    repeats = Repeats(make_log(output=output), per_minute=1, clock=lambda: 0)
    for number in range(KINDS_MAX + 100):
        repeats.info("odd", f"kind {number}")
    assert len(_entries(output)) == KINDS_MAX + 1
