"""The benchmark of tangles: both modes and the reference bring what is missing, and an absent peer is an error."""

import json
import sys
from pathlib import Path

import pytest

from benchmarks import peer_pzp, tangles, tangles_growth
from benchmarks.network_processes import PeerFailedError, answer_of, next_answer, running
from benchmarks.tangles_material import Feed, Lacking, fill, make_feed, write_lines
from benchmarks.tangles_side import MODERN, PHASES
from bobbin.runtime.tangle_store import TangleStore
from bobbin.store.sqlite import open_store
from bobbin.tangles.message import decode
from tests.interop.pzp.node_peer import installed

pytestmark = pytest.mark.slow  # real processes

_POSTS = 24
_MISSING = 3


@pytest.fixture(scope="module")
def feed() -> Feed:
    return make_feed(_POSTS)


def test_a_feed_is_the_same_each_time_and_may_lack_posts(feed: Feed, tmp_path: Path) -> None:
    assert make_feed(_POSTS) == feed
    newest = feed.without(_MISSING, Lacking.NEWEST)
    assert newest == feed.posts[:-_MISSING]
    scattered = feed.without(_MISSING, Lacking.SCATTERED)
    gone = [number for number, post in enumerate(feed.posts) if post not in scattered]
    assert len(gone) == _MISSING
    assert gone[-1] - gone[0] > _POSTS // 2
    for name, posts in (("newest", newest), ("scattered", scattered)):
        fill(tmp_path / f"{name}.db", feed.id, feed.messages(posts))
        with open_store(tmp_path / f"{name}.db", now=lambda: 0) as opened:
            assert [row.id for row in TangleStore(opened.tangles).kept()] == [one.id for one in feed.messages(posts)]


def test_messages_are_written_as_the_reference_reads_them(feed: Feed, tmp_path: Path) -> None:
    write_lines(tmp_path / "lines", feed.messages())
    lines = [json.loads(line) for line in (tmp_path / "lines").read_text(encoding="utf-8").splitlines()]
    assert [id for id, _ in lines] == [message.id for message in feed.messages()]
    assert all(decode(json.dumps(message)).id == id for id, message in lines)


def test_what_cannot_be_stored_is_an_error(feed: Feed, tmp_path: Path) -> None:
    with pytest.raises(PeerFailedError, match="0 of 1 messages"):
        fill(tmp_path / "store.db", feed.id, feed.posts[:1])


@pytest.mark.parametrize("mode", [PHASES, MODERN])
@pytest.mark.parametrize("lacking", list(Lacking))
def test_two_processes_of_ours(mode: str, lacking: Lacking, feed: Feed, tmp_path: Path) -> None:
    writer, reader = tmp_path / "writer.db", tmp_path / "reader.db"
    fill(writer, feed.id, feed.messages())
    fill(reader, feed.id, feed.messages(feed.without(_MISSING, lacking)))
    command = [sys.executable, "-m", "benchmarks.tangles_side"]
    with running([*command, "serve", str(writer), feed.id, mode]) as server:
        where = str(next_answer(server)["address"])
        answer = answer_of([*command, "fetch", str(reader), feed.id, mode, where])
    assert answer["messages"] == _MISSING
    assert float(answer["seconds"]) > 0
    assert 0 < float(answer["metadata"]) < float(answer["frames_bytes"])
    assert (answer["turns"], answer["answers"]) == {
        (PHASES, Lacking.NEWEST): (9, 4),
        (PHASES, Lacking.SCATTERED): (9, 4),
        (MODERN, Lacking.NEWEST): (3, 1),
        (MODERN, Lacking.SCATTERED): (5, 2),
    }[mode, lacking]
    with open_store(reader, now=lambda: 0) as opened:
        assert {row.id for row in TangleStore(opened.tangles).kept()} == {one.id for one in feed.messages()}


def test_every_session_of_the_growth_is_complete(capsys: pytest.CaptureFixture[str]) -> None:
    tangles_growth.main(_MISSING, 2, 10, 20)
    spent = json.loads(capsys.readouterr().out)
    assert {length: len(seconds) for length, seconds in spent.items()} == {"10": 2, "20": 2}


def test_the_whole_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    installed()
    settings = {
        "POSTS": _POSTS,
        "MANY_POSTS": 2 * _POSTS,
        "MISSING": _MISSING,
        "ROUNDS": 1,
        "GROWTH_ROUNDS": 1,
        "CHANCES": 3,
    }
    for name, value in settings.items():
        monkeypatch.setenv(f"BOBBIN_BENCH_TANGLES_{name}", str(value))
    result = tangles.run()
    assert [ratio.comparison for ratio in result.ratios] == ["<="] * 7
    assert [ratio.bar for ratio in result.ratios] == [1 / 3, 1 / 10, 1000, 2, 1000, 2, 1.5]
    brought = [row.note for row in result.rows if row.unit == "s"]
    assert brought == [f"brought {_MISSING} of {_MISSING}"] * 8


def test_a_reference_that_is_absent_fails_the_benchmark(
    feed: Feed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("benchmarks.peer_packages.install", lambda _: tmp_path)
    with pytest.raises(PeerFailedError, match="not installed: node"):
        peer_pzp.fill(tmp_path / "reference", feed.messages())
    monkeypatch.setenv("BOBBIN_BENCH_TANGLES_POSTS", "12")
    with pytest.raises(PeerFailedError, match="not installed: node"):
        tangles.run()


def test_a_reference_that_brings_something_else_fails_the_benchmark() -> None:
    with pytest.raises(PeerFailedError, match="the reference brought"):
        tangles._same({2.0}, {3.0})
    with pytest.raises(PeerFailedError, match="the reference brought"):
        tangles._same({3.0}, {2.0, 3.0})
    tangles._same({3.0}, {3.0})
