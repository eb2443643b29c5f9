"""The situation that a policy is tried in."""

from pathlib import Path

import pytest

from bobbin.cli import policy_situation
from bobbin.cli.policy_situation import Link
from bobbin.errors import UsageError
from bobbin.lace import Lace
from bobbin.policy.claims import ClaimedField, Claims
from bobbin.policy.operands import Origin
from tests.unit.cli.command_line import AT, PLEX_1, VERIFIER, Cli
from tests.unit.cli.policy_texts import PEER


def _link(here: str | None = None, peer: str | None = None, tick: str | None = AT) -> Link:
    return Link(here=here, peer=peer, tick=tick, transport="tcp://lab:1", encrypted=True)


def test_here_is_the_default_key_unless_somebody_is_named(folder: Path) -> None:
    with Lace.open(folder, read_only=True) as lace:
        assert policy_situation.own_origin(lace, _link()) == VERIFIER
        assert policy_situation.own_origin(lace, _link(here=PEER)) == PEER


def test_without_a_key_this_side_has_proven_nothing(tmp_path: Path, cli: Cli) -> None:
    cli("init", tmp_path / "new.lace")
    with Lace.open(tmp_path / "new.lace", read_only=True) as lace:
        assert policy_situation.own_origin(lace, _link()).startswith("source:")
        assert policy_situation.runtime_facts(lace, _link(peer="source:lab")).tuples() == {
            "Transport": {("tcp://lab:1",)},
            "TransportEncrypted": {()},
            "StartTAI": {(AT,)},
            "TickTAI": {(AT,)},
        }


def test_proven_parties_are_told_to_the_rules(folder: Path) -> None:
    with Lace.open(folder, read_only=True) as lace:
        facts = policy_situation.runtime_facts(lace, _link(peer=PEER)).tuples()
        assert facts["Here"] == {(VERIFIER,)}
        assert facts["Peer"] == {(PEER,)}
        now = policy_situation.runtime_facts(lace, _link(tick=None)).tick_tai
        assert now is not None
        assert now > AT


def test_the_tick_may_be_given_in_utc(folder: Path) -> None:
    with Lace.open(folder, read_only=True) as lace:
        assert policy_situation.runtime_facts(lace, _link(tick="2021-12-31T23:59:23Z")).tick_tai == AT
        with pytest.raises(UsageError, match="Expected TAI"):
            policy_situation.runtime_facts(lace, _link(tick="noon"))


def test_refusals_are_found_among_the_records_asked_for(filled: Path) -> None:
    with Lace.open(filled) as lace:
        assert policy_situation.refusals_among(lace, (PLEX_1,)) == {}
        lace.remove(PLEX_1, reason="wrong")
        (refusal,) = policy_situation.refusals_among(lace, {PLEX_1}).values()
        assert (refusal.hash, refusal.reason) == (PLEX_1, "wrong")
        assert policy_situation.refusals_among(lace, ()) == {}


@pytest.mark.parametrize("text", ["local", "V.x", ""])
def test_who_is_nobody_cannot_be_a_peer(text: str) -> None:
    with pytest.raises(UsageError, match="source:LABEL"):
        policy_situation.peer_origin(_link(peer=text))


def test_a_peer_offers_what_a_lace_holds(filled: Path) -> None:
    peer = Origin(PEER)
    assert policy_situation.offered_claims(peer, None) == Claims(peer)
    claims = policy_situation.offered_claims(peer, filled)
    assert list(claims.records()) == [PLEX_1]
    assert ClaimedField("Name", "0", "links/1") in claims.fields(PLEX_1)
