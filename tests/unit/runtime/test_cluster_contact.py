"""Keeps a node known to the others. How a node finds back that was away is in ``end_to_end/test_cluster_nodes``."""

import asyncio
from pathlib import Path

import pytest
from msgspec import structs

from bobbin.cluster.identity import Identity
from bobbin.cluster.names import Index, NodeId
from bobbin.runtime.cluster_certificate import make
from bobbin.runtime.cluster_client import ClusterClient
from bobbin.runtime.cluster_contact import Contact
from bobbin.runtime.cluster_members import Caller, Directory, KnownMembers, Member, Rights
from bobbin.runtime.log import make_log
from tests.support.clusters import Nodes, cluster, until


def test_a_node_with_another_address_tells_the_leader(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as nodes:
            leader = await nodes.elected()
            place = next(place for place in nodes.places if place.node is not leader)
            node = place.running
            # As if its settings had been edited.
            node.__dict__["settings"] = structs.replace(node.settings, address="tls:localhost:4795")
            contact = Contact(node, place.own, make_log(output=place.log), look_seconds=0.02)
            await until(lambda: leader.address_of(place.id) == "tls:localhost:4795")
            await until(lambda: node.address_of(place.id) == "tls:localhost:4795")
            await until(lambda: not contact._has_news())
            await contact.close()

    asyncio.run(run())


def test_a_key_that_is_to_come_is_no_news(tmp_path: Path) -> None:
    """The node goes on with the one it has, and has nothing to say about it."""

    async def run() -> None:
        async with cluster(tmp_path) as nodes:
            leader = await nodes.elected()
            place = next(place for place in nodes.places if place.node is not leader)
            new = make(Identity(bytes([68]) * 32))
            async with ClusterClient(nodes.known, own=place.own, seconds=10) as itself:
                await itself.add(new.certificate, place.address)
            await until(lambda: place.running.directory.member_of(new.certificate) == place.id)
            old = Contact(place.running, place.own, make_log(output=place.log), look_seconds=60)
            started = Contact(place.running, new, make_log(output=place.log), look_seconds=60)
            assert (old._has_news(), started._has_news()) == (False, True)
            await old.close()
            await started.close()

    asyncio.run(run())


_STRANGER = make(Identity(bytes([66]) * 32)).certificate


def _lie(nodes: Nodes) -> KnownMembers:
    """One node and an operator of its own, at a place of the log that nobody ever reaches."""
    (member, *_) = nodes.known.directory.members.values()
    stranger = Member(certificate=_STRANGER, address="tls:127.0.0.1:9")
    operator = Caller(certificate=make(Identity(bytes([67]) * 32)).certificate, rights=Rights.OPERATOR)
    return KnownMembers(directory=Directory([member, stranger], [operator]), index=Index(2**62))


def test_a_lie_about_who_is_known_is_over_when_a_leader_is_heard(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as nodes:
            leader = await nodes.elected()
            await until(lambda: all(node.state.says_who_is_known for node in nodes.running))
            for place in nodes.places:
                node = place.running
                true = node.directory
                node.learn(nodes.places[0].id, _lie(nodes))
                assert node.directory.callers == true.callers
                assert set(node.directory.members) > set(true.members)
                contact = Contact(node, place.own, make_log(output=place.log), look_seconds=0.02)
                await until(lambda node=node: node.state.says_who_is_known)  # type: ignore[misc]
                await contact.close()
                assert node.directory == true
            assert leader.directory == nodes.known.directory

    asyncio.run(run())


def test_a_node_that_nobody_leads_asks_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as nodes:
            leader = await nodes.elected()
            place = next(place for place in nodes.places if place.node is not leader)
            node = place.running
            nodes.cut({place.id}, {other.id for other in nodes.places if other is not place})
            asked: list[NodeId] = []
            monkeypatch.setattr(node, "learn", lambda teller, _: asked.append(teller))
            contact = Contact(node, place.own, make_log(output=place.log), look_seconds=0.02)
            others = {other.id for other in nodes.places if other is not place}
            await until(lambda: set(asked) == others)
            await contact.close()

    asyncio.run(run())
