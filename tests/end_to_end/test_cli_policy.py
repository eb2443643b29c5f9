"""Policies with real processes and real files: from a built policy to the reason why a record stays."""

import json
from pathlib import Path

from tests.end_to_end.command import AT, PLACE, PLEX_1, bobbin

REPOSITORY = Path(__file__).resolve().parents[2]
COOKBOOK = REPOSITORY / "docs" / "cookbook"

COMPANION = (
    "SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'App',_,'ding'), "
    "AdvertisedField(P,S,'Group',_,'u').\n"
    "SelectHave(P) :- Have(P), Field(P,'App',_,'ding'), Field(P,'Group',_,'u').\n"
)


def test_the_example_of_the_protocol_page_has_its_identifier(tmp_path: Path) -> None:
    file = tmp_path / "example.policy"
    file.write_text(COMPANION, encoding="utf-8")
    answer = bobbin("policy", "id", file)
    assert (answer.code, answer.text, answer.err) == (0, "R.no0zpA989ba4DQLVF~dswkCbzd5aK1Dn373LKs5I1gC\n", "")
    assert bobbin("policy", "id", COOKBOOK / "group.policy").text == answer.text


def test_the_cookbook_passes_its_cases_and_checks() -> None:
    tested = bobbin("policy", "test", *sorted(COOKBOOK.glob("*.cases")), "--json")
    assert tested.code == 0
    assert len(tested.lines) > 20
    assert all(json.loads(line)["passed"] for line in tested.lines)
    assert bobbin("policy", "check", *sorted(COOKBOOK.glob("*.policy"))).code == 0


def test_from_a_built_policy_to_the_reason_why_a_record_stays(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "a.lace", tmp_path / "b.lace"
    for lace in (ours, theirs):
        bobbin("init", lace)
    bobbin("key", "new", ours)
    peer = bobbin("key", "new", theirs).text.strip()
    bobbin("put", ours, *PLACE, *AT, "-", stdin=b"hello")
    offered = bobbin("put", theirs, *PLACE, "--sign", "-", stdin=b"from the peer").text.strip()
    wide, narrow = tmp_path / "wide.policy", tmp_path / "narrow.policy"
    wide.write_bytes(bobbin("policy", "build", "--group", "u").out)
    narrow.write_bytes(bobbin("policy", "build", "--group", "u", "--signer", peer).out)

    change = bobbin("policy", "diff", ours, wide, narrow, "--peer", peer, "--peer-lace", theirs, "--json")
    assert change.code == 1
    assert [json.loads(line) for line in change.lines] == [{"change": "no-longer-leaves", "record": PLEX_1}]

    reason = bobbin("policy", "explain", ours, "--policy", narrow, "--peer", peer, "//u//ding//links/1")
    assert reason.code == 0
    assert f"because {PLEX_1[:10]}… has no Signed-By" in reason.text
    wanted = bobbin("policy", "explain", ours, "--policy", narrow, "--peer", peer, "--peer-lace", theirs, offered)
    assert f"from {peer[:10]}…: requested" in wanted.text


def test_a_hostile_policy_ends_in_an_error_not_in_a_traceback(tmp_path: Path) -> None:
    file = tmp_path / "x.policy"
    file.write_bytes(b"SelectHave(P) :- Have(P).\n" * 200_000)
    answer = bobbin("policy", "check", file)
    assert answer.code == 7
    assert "Traceback" not in answer.err
    file.write_bytes(b"\xff\xfe\x00")
    answer = bobbin("policy", "id", file)
    assert answer.code == 7
    assert f"{file}:1:1: " in answer.err
