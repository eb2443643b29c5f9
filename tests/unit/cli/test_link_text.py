"""What an operator reads of a node and its links."""

import pytest
from msgspec import structs

from bobbin.cli import link_text
from bobbin.cli.output import Output
from bobbin.runtime.status import Direction, Ended, LinkState, LinkStatus, NodeStatus, PastLink

_NOW = "1640995300:000000000"
_LINK = LinkStatus(
    id=1,
    direction=Direction.IN,
    state=LinkState.IDLE,
    address="tls:0.0.0.0:4791",
    remote="192.0.2.7:51234",
    peer="lab",
    verifier="V.x",
    encrypted=True,
    since="1640995200:000000000",
    age_seconds=100.0,
    phase="idle",
    waits="for anything new",
    fixed_point="1640995288:000000000",
    still_since="1640995230:000000000",
    rounds=2,
    records_in=1_000,
    records_out=3,
    bytes_in=12_300,
    bytes_out=999,
    bytes_by_phase={"setup": 0, "transfer": 12_000},
    offered=7,
    claimed=9,
)
STATUS = NodeStatus(
    version="0",
    verifier="V.y",
    at=_NOW,
    since="1640995200:000000000",
    age_seconds=100.0,
    stopping=False,
    health="ok",
    listening=("tls:0.0.0.0:4791", "unix:/run/x"),
    records=12,
    peers=1,
    links=(_LINK,),
    past=(),
    ended={},
    refused={},
)


def _lines(link: LinkStatus) -> list[str]:
    return list(link_text.link_lines(Output(as_json=False), link, _NOW))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (59.9, "59 s"),
        (60, "1 min"),
        (185, "3 min 5 s"),
        (7_500, "2 h 5 min"),
        (86_400, "1 d"),
        (360_000, "4 d 4 h"),
    ],
)
def test_lengths_of_time(seconds: float, text: str) -> None:
    assert link_text.duration_text(seconds) == text


@pytest.mark.parametrize(("seconds", "text"), [(5, "5 s"), (185, "3 min"), (86_399, "23 h"), (360_000, "4 d")])
def test_lengths_of_time_in_brief(seconds: float, text: str) -> None:
    assert link_text.brief_text(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0"),
        (99_999, "99,999"),
        (100_000, "100 k"),
        (1_234_567, "1.2 M"),
        (99_960_000, "100 M"),
        (123_456_789, "123 M"),
        (12_345_678_901, "12.3 G"),
    ],
)
def test_numbers_in_brief(count: int, text: str) -> None:
    assert link_text.brief_count(count) == text
    assert len(text) <= 6


def test_a_node_that_is_not_well_says_how_and_why() -> None:
    def first(**changes: str) -> str:
        return next(link_text.node_lines(Output(as_json=False), structs.replace(STATUS, **changes)))

    down = first(condition="degraded", health="1 of 2 followed peers without a link (link-lost 1)")
    assert down.startswith("node        degraded: 1 of 2 followed peers without a link (link-lost 1) · up")
    assert first(condition="stopping", health="stopping").startswith("node        stopping · up")
    older = first(health="the store failed: disk full")
    assert older.startswith("node        the store failed: disk full · up"), "a node of a version without conditions"


def test_how_long_ago() -> None:
    assert link_text.ago_text("1640995290:000000000", _NOW) == "10 s ago"
    assert link_text.ago_text(_NOW, "1640995290:000000000") == "0 s ago", "a clock that was set back"
    assert link_text.ago_text("nonsense", _NOW) == "at an unknown time"


def test_a_node() -> None:
    assert list(link_text.node_lines(Output(as_json=False), STATUS)) == [
        "node        ok · up 1 min 40 s · 12 records · 1 known peer",
        "our key     V.y",
        "listening   tls:0.0.0.0:4791, unix:/run/x",
    ]
    refusing = structs.replace(STATUS, refused={"no-proof": 2, "unknown-key": 1_000}, listening=(), verifier=None)
    assert list(link_text.node_lines(Output(as_json=False), refusing))[1:] == [
        "our key     none",
        "listening   nowhere",
        "turned away unknown-key 1,000, no-proof 2",
    ]


def test_a_link_at_rest() -> None:
    assert _lines(_LINK) == [
        "← lab  idle for 1 min 10 s · up 1 min 40 s · 192.0.2.7:51234 · encrypted",
        "    key          V.x",
        "    fixed point  12 s ago (2 rounds)",
        "    records      1,000 in, 3 out · offered 7, the peer offers 9",
        "    bytes        12.3 kB in, 999 B out · transfer 12.0 kB",
        "    waits        for anything new",
    ]


def test_what_is_missing_and_why() -> None:
    link = structs.replace(_LINK, missing=5, missing_why={"not-available": 2, "hash-mismatch": 1}, slowed=3)
    lines = _lines(link)
    assert "    missing      5 records: not-available 2, hash-mismatch 1, on the way 2" in lines
    assert "    slowed       3 times: it began too much in a short time" in lines
    assert link_text.missing_text(structs.replace(link, missing=3)).endswith("hash-mismatch 1")


def test_a_peer_that_does_not_answer() -> None:
    end = Ended(at="1640995290:000000000", reason="connect-failed", detail="refused", limit="x")
    link = LinkStatus(
        id=2,
        direction=Direction.OUT,
        state=LinkState.WAITING,
        address="tcp:h:1",
        peer="lab",
        since=_NOW,
        age_seconds=1.0,
        waits="2 seconds until the next attempt",
        attempts=3,
        last_end=end,
    )
    assert _lines(link) == [
        "→ lab  waiting for 1 s · tcp:h:1",
        "    waits        2 seconds until the next attempt",
        "    last end     10 s ago, connect-failed: refused (limit x), 3 attempts since the last good link",
    ]


def test_nothing_that_a_peer_says_reaches_the_terminal() -> None:
    end = Ended(at=_NOW, reason="x", detail="\x1b[2J")
    assert "\x1b" not in "".join(_lines(structs.replace(_LINK, last_end=end, peer=None, waits="\x1b[2J")))


def test_a_link_that_is_over() -> None:
    past = PastLink(
        id=1,
        direction=Direction.IN,
        remote="h:1",
        peer="lab",
        verifier=None,
        seconds=1.0,
        rounds=1,
        records_in=1_000,
        records_out=0,
        bytes_in=1,
        bytes_out=1,
        end=Ended(at="1640995290:000000000", reason="fixed-point"),
    )
    line = link_text.past_line(Output(as_json=False), past, _NOW)
    assert line == "← lab  10 s ago, fixed-point · 1,000 in, 0 out"


def test_a_link_that_works_says_how_long_it_is_up() -> None:
    working = structs.replace(_LINK, state=LinkState.EXCHANGING, phase="transfer")
    assert _lines(working)[0] == "← lab  exchanging · up 1 min 40 s · 192.0.2.7:51234 · encrypted"


def test_files_that_are_not_in_force() -> None:
    failing = structs.replace(STATUS, reload_failure="peers.toml: a\npeers.toml: b")
    lines = list(link_text.node_lines(Output(as_json=False), failing))
    assert lines[3:] == ["files       files on disk not in force: peers.toml: a; peers.toml: b"]
