"""Joining a cluster with an invitation: what a refusal means, and what stays behind."""

import asyncio
from pathlib import Path

import pytest

from bobbin.cli.cluster_token import Invitation
from bobbin.cli.joining import TokenRefused, Undecided, join_cluster, prepared
from bobbin.cluster.raft.effects import Why
from bobbin.config.cluster import NewNode, create_cluster, prepare
from bobbin.errors import ResourceError
from bobbin.runtime import cluster_links
from bobbin.runtime.cluster_client import ClusterClient, NotAccepted
from bobbin.runtime.cluster_connection import ClosedByNode
from bobbin.transport.base import EndedByPeer
from bobbin.wire.cluster.client import Rejected
from tests.support.clusters import free_ports, served_folder, until


def _invitation(node: NewNode) -> Invitation:
    """One that the node has never heard of, as it has not of one that was used."""
    return Invitation(bytes(16), bytes([9]) * 32, node.own.certificate, node.address)


def _join(folder: Path, port: int, invitation: Invitation, seconds: float) -> None:
    with prepared(folder):
        node = prepare(folder, listen=f"tls:127.0.0.1:{port}")
        asyncio.run(join_cluster(node, invitation, seconds))


def test_the_words_say_which_it_was() -> None:
    invitation = Invitation(bytes(16), bytes(32), b"", "tls:h:1", 1_000)
    assert "it was good until 1970-01-01 00:00 UTC" in str(TokenRefused(invitation, 1_000))
    assert "it was used already" in str(TokenRefused(invitation, 999))
    assert "`bobbin cluster invite`" in str(TokenRefused(invitation, 999))


def test_where_nobody_answers_the_keys_stay_for_the_next_time(tmp_path: Path) -> None:
    one, two = free_ports(2)
    first = prepare(tmp_path / "first", listen=f"tls:127.0.0.1:{one}")
    with pytest.raises(Undecided, match="again with the same folder"):
        _join(tmp_path / "there", two, _invitation(first), 0.3)
    assert (tmp_path / "there" / "node.key").exists()


@pytest.mark.parametrize("error", [ClosedByNode(), NotAccepted(Rejected(1, Why.CHANGE_PENDING.value, "under way"))])
def test_keys_that_were_named_to_the_cluster_stay_however_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: ResourceError
) -> None:
    """The request was sent, and perhaps done; a node that has not heard of that yet refuses both names."""
    one, two = free_ports(2)
    first = prepare(tmp_path / "first", listen=f"tls:127.0.0.1:{one}")
    asked: list[bytes] = []

    async def ask(self: ClusterClient, *_: object, **__: object) -> None:
        del self
        if asked:
            raise ClosedByNode

    async def add(self: ClusterClient, certificate: bytes, *_: object, **__: object) -> None:
        del self
        asked.append(certificate)
        raise error

    monkeypatch.setattr(ClusterClient, "ask", ask)
    monkeypatch.setattr(ClusterClient, "add", add)
    with pytest.raises(Undecided, match="again with the same folder"):
        _join(tmp_path / "there", two, _invitation(first), 0.3)
    assert len(asked) == 1
    assert (tmp_path / "there" / "node.key").exists()


def test_what_is_refused_for_good_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = free_ports(2)
    first = prepare(tmp_path / "first", listen=f"tls:127.0.0.1:{one}")

    async def ask(self: ClusterClient, *_: object, **__: object) -> None:
        del self
        raise NotAccepted(Rejected(1, "not-allowed", "no"))

    monkeypatch.setattr(ClusterClient, "ask", ask)
    with pytest.raises(NotAccepted):
        _join(tmp_path / "there", two, _invitation(first), 0.3)
    assert not (tmp_path / "there").exists()


def test_channels_that_end_while_they_come_up_are_a_refusal_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node sees who asks at the end of the handshake, and lets go; this side may see that before it is done."""
    one, two = free_ports(2)
    first = prepare(tmp_path / "first", listen=f"tls:127.0.0.1:{one}")

    async def dial(*_: object) -> None:
        raise EndedByPeer

    monkeypatch.setattr(cluster_links, "dial", dial)
    with pytest.raises(TokenRefused):
        _join(tmp_path / "there", two, _invitation(first), 0.3)
    assert not (tmp_path / "there").exists()


@pytest.mark.slow
def test_a_token_that_is_not_known_any_more_leaves_nothing(tmp_path: Path) -> None:
    one, two = free_ports(2)
    first = prepare(tmp_path / "first", listen=f"tls:127.0.0.1:{one}")
    create_cluster([first])
    with served_folder(tmp_path / "first") as running:
        asyncio.run(until(lambda: running.leader is not None))
        with pytest.raises(TokenRefused):
            # It is final, so nobody waits for as long as a node may take to come up.
            _join(tmp_path / "there", two, _invitation(first), 3600)
    assert not (tmp_path / "there").exists()
