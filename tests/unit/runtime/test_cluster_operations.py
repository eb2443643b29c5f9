"""What takes several entries of the log."""

import asyncio
import json
import time
from pathlib import Path
from unittest.mock import Mock, patch

import msgspec
import pytest

from bobbin.cluster.identity import Identity
from bobbin.cluster.names import Index, NodeId
from bobbin.errors import BobbinError
from bobbin.runtime.cluster_certificate import Credentials, make
from bobbin.runtime.cluster_client import ClusterClient, NotAccepted
from bobbin.runtime.cluster_members import Caller, KnownMembers, Member, Rights, caller_key, member_key
from bobbin.runtime.cluster_port import Port
from bobbin.runtime.cluster_state import put_entry
from bobbin.wire.cluster.client import Add, Unknown
from tests.support.clusters import OPERATOR, Nodes, Place, cluster, free_ports, until

_NEW = make(Identity(bytes([50]) * 32))
_GUEST = make(Identity(bytes([60]) * 32))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def test_members_stand_in_the_table_soon_after_the_first_election(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as nodes:
            await nodes.elected()
            await until(lambda: all(node.state.says_who_is_known for node in nodes.running))
            for node in nodes.running:
                assert node.directory == nodes.known.directory

    asyncio.run(run())


def test_a_node_is_taken_in_once_and_again_without_harm(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path, 1) as nodes:
            leader = await nodes.elected()
            async with nodes.client() as client:
                known = await client.add(_NEW.certificate, "tls:127.0.0.1:1", _GUEST.certificate)
                node = _NEW.identity.node
                assert node in known.directory.members
                assert known.index >= 1
                assert leader.configuration.learners == (node,)
                # It does not run, so it has not caught up, however little there is to catch up with.
                assert leader.lag_of(node) is None
                index = leader.machine.last_index
                again = await client.add(_NEW.certificate, "tls:127.0.0.1:1")
                assert again.directory == known.directory
                assert leader.machine.last_index == index
                moved = await client.add(_NEW.certificate, "tls:127.0.0.1:2")
                assert moved.directory.members[node].address == "tls:127.0.0.1:2"
                # Whoever operates it may ask; when it is put out, that is over as well.
                async with ClusterClient(nodes.known, own=_GUEST, seconds=5) as guest:
                    await guest.put(b"a", b"1")
                await client.remove(node)
                await until(lambda: node not in leader.directory.members)
                assert _GUEST.certificate not in leader.directory.callers
                assert OPERATOR.certificate in leader.directory.callers

    asyncio.run(run())


def test_whether_a_node_is_to_vote_is_said_by_the_last_that_took_it_in(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path, 1) as nodes:
            leader = await nodes.elected()
            async with nodes.client() as client:
                for wants_vote in (True, False, True, False):
                    known = await client.add(
                        _NEW.certificate, "tls:127.0.0.1:1", _GUEST.certificate, wants_vote=wants_vote
                    )
                    assert known.directory.members[_NEW.identity.node].wants_vote is wants_vote
            assert leader.configuration.learners == (_NEW.identity.node,)
            # As the node does by itself when it has moved: it does not come to vote by that.
            async with ClusterClient(nodes.known, own=_NEW, seconds=5) as itself:
                known = await itself.add(_NEW.certificate, "tls:127.0.0.1:2")
            assert not known.directory.members[_NEW.identity.node].wants_vote

    asyncio.run(run())


def test_whoever_is_taken_in_is_told_what_is_committed_and_not_what_another_node_said_before(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path, 1) as nodes:
            leader = await nodes.elected()
            node = _NEW.identity.node
            async with nodes.client() as client:
                before = await client.add(_NEW.certificate, "tls:127.0.0.1:1", _GUEST.certificate)
                # As a node asks for it that hears of no leader, just before it begins to lead itself.
                leader.learn(node, KnownMembers(directory=before.directory, index=Index(2**40)))
                assert leader.state.is_waiting
                known = await client.add(_NEW.certificate, "tls:127.0.0.1:2")
            assert known.directory.members[node].address == "tls:127.0.0.1:2"
            assert not leader.state.is_waiting

    asyncio.run(run())


@pytest.mark.parametrize(("certificate", "address"), [(b"x", "tls:127.0.0.1:1"), (_NEW.certificate, "tcp:127.0.0.1:1")])
def test_what_is_no_node_is_not_taken_in(tmp_path: Path, certificate: bytes, address: str) -> None:
    async def run() -> None:
        async with cluster(tmp_path, 1) as nodes:
            leader = await nodes.elected()
            async with nodes.client(seconds=5) as client:
                with pytest.raises(NotAccepted):
                    await client.add(certificate, address)
            assert leader.configuration.learners == ()

    asyncio.run(run())


def test_an_invitation_holds_for_its_time_and_for_a_new_node_alone(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path, 1) as nodes:
            leader = await nodes.elected()
            async with nodes.client(seconds=5) as client:
                with pytest.raises(NotAccepted, match="over before it began"):
                    await client.invite(_GUEST.certificate, _now_ms())
                await client.invite(_GUEST.certificate, _now_ms() + 3_600_000)
                async with ClusterClient(nodes.known, own=_GUEST, seconds=5) as guest:
                    with pytest.raises(NotAccepted, match="for a new node"):
                        await guest.add(nodes.places[0].own.certificate, "tls:127.0.0.1:9")
                # One that is over is taken out of the table, and opens no channel.
                await client.invite(_GUEST.certificate, _now_ms() + 50)
                await until(lambda: _GUEST.certificate not in leader.directory.callers)

    asyncio.run(run())


def _identity(number: int) -> Credentials:
    return make(Identity(bytes([number, 1]) * 16))


async def _invited(nodes: Nodes) -> ClusterClient:
    async with nodes.client(seconds=10) as client:
        await client.invite(_GUEST.certificate, _now_ms() + 3_600_000)
    return ClusterClient(nodes.known, own=_GUEST, seconds=3)


@pytest.mark.slow  # those who come too late try for a while
def test_an_invitation_is_for_one_node_also_where_many_come_at_once(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path, 1) as nodes:
            leader = await nodes.elected()
            async with await _invited(nodes) as guest:
                answers = await asyncio.gather(
                    *(
                        guest.add(_identity(at).certificate, f"tls:127.0.0.1:{at}", _identity(at + 50).certificate)
                        for at in range(1, 5)
                    ),
                    return_exceptions=True,
                )
            assert sum(isinstance(answer, KnownMembers) for answer in answers) == 1
            assert all(isinstance(answer, KnownMembers | BobbinError) for answer in answers)
            assert len(leader.directory.members) == len(leader.configuration.members) == 2
            assert len(leader.directory.callers) == 2, "the first operator, and that of the new node"
            assert _GUEST.certificate not in leader.directory.callers

    asyncio.run(run())


def test_an_invitation_that_was_used_for_a_node_is_for_that_node_until_it_is_in(tmp_path: Path) -> None:
    """As a leader leaves it that was lost in between."""

    async def run() -> None:
        async with cluster(tmp_path, 1) as nodes:
            leader = await nodes.elected()
            async with await _invited(nodes) as guest:
                member = Member(certificate=_NEW.certificate, address="tls:127.0.0.1:1")
                bound = Caller(
                    certificate=_GUEST.certificate,
                    rights=Rights.JOIN,
                    expires_ms=_now_ms() + 3_600_000,
                    member=member.node,
                )
                await leader.operations._do([put_entry(caller_key(_GUEST.certificate), msgspec.msgpack.encode(bound))])
                with pytest.raises(NotAccepted, match="has been used"):
                    await guest.add(_identity(1).certificate, "tls:127.0.0.1:1")
                assert member.node in (await guest.add(_NEW.certificate, "tls:127.0.0.1:1")).directory.members
            assert _GUEST.certificate not in leader.directory.callers
            # Where it was left behind although the node is in, it is taken away.
            await leader.operations._do([put_entry(caller_key(_GUEST.certificate), msgspec.msgpack.encode(bound))])
            await until(lambda: _GUEST.certificate not in leader.directory.callers)

    asyncio.run(run())


def test_nobody_takes_another_s_key_or_entry(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path, 1) as nodes:
            leader = await nodes.elected()
            await until(lambda: leader.state.says_who_is_known)
            node = nodes.places[0].own.certificate
            forged = bytearray(OPERATOR.certificate)
            forged[-1] ^= 1
            async with await _invited(nodes) as guest:
                before = leader.directory
                for certificate, operator, why in (
                    (_NEW.certificate, bytes(forged), "signature"),
                    (_NEW.certificate, OPERATOR.certificate, "known already"),
                    (_NEW.certificate, node, "that of a node"),
                    (_NEW.certificate, _NEW.certificate, "that of a node"),
                    (OPERATOR.certificate, b"", "another's"),
                    (_GUEST.certificate, b"", "another's"),
                ):
                    with pytest.raises(NotAccepted, match=why):
                        await guest.add(certificate, "tls:127.0.0.1:1", operator)
            async with nodes.client(seconds=5) as client:
                for known in (OPERATOR.certificate, node):
                    with pytest.raises(NotAccepted, match="known already"):
                        await client.invite(known, _now_ms() + 3_600_000)
                with pytest.raises(NotAccepted, match="signature"):
                    await client.invite(bytes(forged), _now_ms() + 3_600_000)
            # A node's next key is not one that is known.
            async with ClusterClient(nodes.known, own=nodes.places[0].own, seconds=5) as itself:
                with pytest.raises(NotAccepted, match="another's"):
                    await itself.add(OPERATOR.certificate, nodes.places[0].address)
            assert leader.directory == before

    asyncio.run(run())


@pytest.mark.slow
def test_a_certificate_that_openssl_refuses_stops_nobody(tmp_path: Path) -> None:
    """Neither where somebody sends it, nor where it stands in the log and in a snapshot already."""
    poison = _NEW.certificate.replace(_NEW.identity.public.hex().encode(), b"\xff" * 64)
    weak = _NEW.certificate.replace(_NEW.identity.public, b"\1" + bytes(31))

    async def run() -> None:
        async with cluster(tmp_path, 1) as nodes:
            leader = await nodes.elected()
            async with await _invited(nodes) as guest:
                for wrong in (poison, weak):
                    with pytest.raises(NotAccepted):
                        await guest.add(wrong, "tls:127.0.0.1:1")
                    with pytest.raises(NotAccepted):
                        await guest.add(_NEW.certificate, "tls:127.0.0.1:1", wrong)
            seats = [NodeId("0" * 32), NodeId("1" * 32)]
            entries = [
                (member_key(seat), Member(certificate=wrong, address="tls:127.0.0.1:1", seat=seat))
                for seat, wrong in zip(seats, (poison, weak), strict=True)
            ]
            await leader.operations._do([put_entry(key, msgspec.msgpack.encode(value)) for key, value in entries])
            assert set(leader.directory.members) == {nodes.places[0].id}
            async with nodes.client(seconds=10) as client:
                await client.put(b"a", b"1")
                await client.snapshot()
            await nodes.stop(nodes.places[0])
            again = await nodes.start(nodes.places[0])
            await nodes.elected()
            async with nodes.client(seconds=10) as client:
                assert (await client.get(b"a")).value == b"1"
            assert not again.is_halted

    asyncio.run(run())


def test_an_operation_that_breaks_is_answered_and_heard_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        async with cluster(tmp_path, 1) as nodes:
            leader = await nodes.elected()
            monkeypatch.setattr(leader.operations, "_why_not", Mock(side_effect=RuntimeError("broken")))
            port = Mock(spec=Port, certificate=None, rights=Rights.OPERATOR)
            with pytest.raises(RuntimeError, match="broken"):
                await leader.operations._operate(port, Add(7, _NEW.certificate, "tls:127.0.0.1:1", b""))
            (answer,) = port.answer.call_args.args
            assert isinstance(answer, Unknown)
            assert answer.number == 7
            assert not leader.operations._adding
            assert not leader.operations._using

    asyncio.run(run())


def test_a_node_speaks_for_itself_alone(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as nodes:
            await nodes.elected()
            own, other = nodes.places[0], nodes.places[1]
            async with ClusterClient(nodes.known, own=own.own, seconds=5) as itself:
                with pytest.raises(NotAccepted, match="for itself"):
                    await itself.add(other.own.certificate, "tls:127.0.0.1:9")
                with pytest.raises(NotAccepted):
                    await itself.remove(other.id)

    asyncio.run(run())


def test_a_follower_says_who_leads(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as nodes:
            leader = await nodes.elected()
            follower = next(place for place in nodes.places if place.node is not leader)
            only = ClusterClient(nodes.known, socket=follower.folder / "node.sock", seconds=0.2)
            async with only as client:
                with pytest.raises(NotAccepted) as caught:
                    await client.add(_NEW.certificate, "tls:127.0.0.1:1")
            assert caught.value.leader == leader.node

    asyncio.run(run())


# ---- an operator's key ----------------------------------------------------------------------------------------------


def test_an_operator_goes_on_under_another_key(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as nodes:
            leader = await nodes.elected()
            async with nodes.client() as client:
                await client.renew(_GUEST.certificate, replaces=OPERATOR.certificate)
            await until(lambda: set(leader.directory.callers) == {_GUEST.certificate})
            async with nodes.client(own=_GUEST, seconds=10) as guest:
                index = leader.machine.last_index
                # It was done, and nothing is written for asking again but what shows that this is so.
                await guest.renew(_GUEST.certificate, replaces=OPERATOR.certificate)
                assert leader.machine.last_index == index + 1
                await guest.put(b"a", b"1")
            async with nodes.client(seconds=0.5) as old:
                with pytest.raises(BobbinError):
                    await old.put(b"a", b"2")

    asyncio.run(run())


def test_a_key_is_renewed_by_operators_and_for_operators_and_with_a_new_one(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path, 1) as nodes:
            leader = await nodes.elected()
            await until(lambda: leader.state.says_who_is_known)
            node = nodes.places[0].own
            forged = bytearray(_NEW.certificate)
            forged[-1] ^= 1
            async with await _invited(nodes) as guest:
                with pytest.raises(NotAccepted, match="for joining"):
                    await guest.renew(_NEW.certificate, replaces=OPERATOR.certificate)
            before = leader.directory
            async with ClusterClient(nodes.known, socket=nodes.places[0].folder / "node.sock", seconds=5) as client:
                for certificate, replaces, why in (
                    (_NEW.certificate, _identity(9).certificate, "is no operator's"),
                    (_NEW.certificate, node.certificate, "is no operator's"),
                    (_NEW.certificate, _GUEST.certificate, "not an operator's"),
                    (_GUEST.certificate, OPERATOR.certificate, "not an operator's"),
                    (node.certificate, OPERATOR.certificate, "known already"),
                    (OPERATOR.certificate, OPERATOR.certificate, "known already"),
                    (bytes(forged), OPERATOR.certificate, "signature"),
                    (_NEW.certificate, b"x", "certificate"),
                ):
                    with pytest.raises(NotAccepted, match=why):
                        await client.renew(certificate, replaces=replaces)
            async with ClusterClient(nodes.known, own=node, seconds=5) as itself:
                with pytest.raises(NotAccepted):
                    await itself.renew(_NEW.certificate, replaces=OPERATOR.certificate)
            assert leader.directory == before
            assert not leader.operations._using

    asyncio.run(run())


def test_an_operator_renews_its_own_key_alone(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path, 1) as nodes:
            leader = await nodes.elected()
            async with nodes.client(seconds=5) as client:
                await client.add(_NEW.certificate, "tls:127.0.0.1:1", _GUEST.certificate)
                before = leader.directory
                with pytest.raises(NotAccepted, match="its own key alone"):
                    await client.renew(_identity(8).certificate, replaces=_GUEST.certificate)
            async with ClusterClient(nodes.known, socket=nodes.places[0].folder / "node.sock", seconds=5) as client:
                # Whoever comes here is the operator of this node, and not of the other.
                with pytest.raises(NotAccepted, match="its own key alone"):
                    await client.renew(_identity(8).certificate, replaces=_GUEST.certificate)
                assert leader.directory == before
                await client.renew(_identity(9).certificate, replaces=OPERATOR.certificate)
            async with nodes.client(own=_GUEST, seconds=5) as client:
                await client.renew(_identity(8).certificate, replaces=_GUEST.certificate)
            await until(lambda: set(leader.directory.callers) == {_identity(8).certificate, _identity(9).certificate})

    asyncio.run(run())


def test_a_key_that_was_renewed_while_its_node_was_put_out_goes_as_well(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path, 1) as nodes:
            leader = await nodes.elected()
            await until(lambda: leader.state.says_who_is_known)
            node = _NEW.identity.node

            def entry(own: Credentials) -> bytes:
                caller = Caller(certificate=own.certificate, rights=Rights.OPERATOR, member=node)
                return put_entry(caller_key(own.certificate), msgspec.msgpack.encode(caller))

            # As a renewal leaves it whose entries come after those that put out the node and the key before.
            await leader.operations._do([entry(_identity(7))])
            await until(lambda: _identity(7).certificate not in leader.state.own_directory.callers)
            assert OPERATOR.certificate in leader.directory.callers
            # And before it is tidied up, nobody gets another key for it.
            with patch.object(leader.operations, "tidy"):
                await leader.operations._do([entry(_identity(7))])
                async with ClusterClient(nodes.known, own=_identity(7), seconds=5) as client:
                    with pytest.raises(NotAccepted, match="the node of this operator is out"):
                        await client.renew(_identity(8).certificate, replaces=_identity(7).certificate)
            assert _identity(8).certificate not in leader.directory.callers

    asyncio.run(run())


# ---- replacing ------------------------------------------------------------------------------------------------------


async def _listener(nodes: Nodes, folder: Path, number: int) -> Place:
    """One more node, which listens."""
    place = Place(folder / f"n{number}", number, free_ports(1)[0])
    nodes.places.append(place)
    async with nodes.client() as client:
        known = await client.add(place.own.certificate, place.address, wants_vote=False)
    await nodes.start(place, known=known, joins=True)
    return place


async def _caught_up(nodes: Nodes, place: Place) -> None:
    await until(lambda: (leader := nodes.leader) is not None and leader.lag_of(place.id) == 0)


@pytest.mark.slow
def test_a_lost_node_is_replaced_and_there_is_a_majority_at_all_times(tmp_path: Path) -> None:
    """CL-040: the old one is dead, writes go on all the while, and never do fewer than three vote."""

    async def run() -> None:
        async with cluster(tmp_path) as nodes:
            leader = await nodes.elected()
            dead = next(place for place in nodes.places if place.node is not leader)
            async with nodes.client() as client:
                await client.put(b"a", b"0")
                await nodes.stop(dead)
                new = await _listener(nodes, tmp_path, 4)
                await _caught_up(nodes, new)
                # It has caught up, and a leader that tidies up leaves it where it is.
                tidied = asyncio.get_running_loop().time() + 1.5
                written = 0
                while asyncio.get_running_loop().time() < tidied:
                    written += 1
                    await client.put(b"b", b"%d" % written)
                assert leader.configuration.learners == (new.id,)
                replaced = asyncio.create_task(client.replace([new.id], [dead.id]))
                while not replaced.done():
                    written += 1
                    await client.put(b"b", b"%d" % written)
                await replaced
                assert (await client.get(b"b")).value == b"%d" % written
                ids = tuple(sorted({place.id for place in nodes.places} - {dead.id}))
                assert (leader.configuration.voters, leader.configuration.members) == (ids, ids)
                assert leader.is_settled
                index = leader.machine.last_index
                await client.replace([new.id], [dead.id])
                assert leader.machine.last_index - index <= 1, "what is so already is done already"
                await until(lambda: dead.id not in leader.directory.members)
                # One of the three may be down again, and the new one counts.
                down = next(place for place in nodes.places if place.node not in (None, leader, new.node))
                await nodes.stop(down)
                await client.put(b"c", b"1")
            lines = map(json.loads, nodes.place_of(leader).audit.read_text("utf-8").splitlines())
            changes = [line["to"] for line in lines if line["kind"] == "configuration"]
            sizes = [len(text.split(",")[0].split()) - 1 for text in changes]
            assert set(sizes) == {3}
            assert sum("outgoing" in text for text in changes) == 2, "in force, and committed"

    asyncio.run(run())


@pytest.mark.slow
def test_whoever_leads_is_replaced_too_and_two_at_once(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as nodes:
            leader = await nodes.elected()
            old = [nodes.place_of(leader), next(place for place in nodes.places if place.node is not leader)]
            new = [await _listener(nodes, tmp_path, number) for number in (4, 5)]
            for place in new:
                await _caught_up(nodes, place)
            async with nodes.client() as client:
                await client.put(b"a", b"1")
                await client.replace([place.id for place in new], [place.id for place in old])
                for place in old:
                    await nodes.stop(place)
                await client.members()
                await client.put(b"a", b"2")
            after = await nodes.elected()
            assert after.configuration.members == tuple(sorted(place.id for place in nodes.places if place.node))
            await until(lambda: len(after.directory.members) == 3)

    asyncio.run(run())


@pytest.mark.slow
def test_one_node_is_replaced_by_one_node_also_where_two_ask_for_it(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as nodes:
            leader = await nodes.elected()
            dead = next(place for place in nodes.places if place.node is not leader)
            await nodes.stop(dead)
            new = [await _listener(nodes, tmp_path, number) for number in (4, 5)]
            for place in new:
                await _caught_up(nodes, place)
            async with nodes.client() as one, nodes.client() as two:
                answers = await asyncio.gather(
                    *(client.replace([place.id], [dead.id]) for client, place in zip((one, two), new, strict=True)),
                    return_exceptions=True,
                )
            (refused,) = (answer for answer in answers if answer is not None)
            assert isinstance(refused, NotAccepted)
            assert f"{dead.id} is out already, by another change" in str(refused)
            assert len(leader.configuration.voters) == 3

    asyncio.run(run())


def test_a_replacement_that_makes_no_sense_or_would_stop_everything_is_not_begun(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as nodes:
            leader = await nodes.elected()
            mates = [place for place in nodes.places if place.node is not leader]
            stranger = NodeId("f" * 32)
            async with nodes.client(seconds=3) as client:
                silent = (await client.add(_NEW.certificate, "tls:127.0.0.1:1", wants_vote=False)).directory
                absent = _NEW.identity.node
                assert not silent.members[absent].wants_vote
                before = leader.configuration
                for additions, removals, why in (
                    ([], [], "come or go"),
                    ([absent], [absent], "none of them twice"),
                    ([stranger], [mates[0].id], "there is no node ffff"),
                    ([], [absent], "only listens"),
                    ([absent], [mates[0].id], "has not caught up"),
                ):
                    with pytest.raises(NotAccepted, match=why):
                        await client.replace(additions, removals)
            async with await _invited(nodes) as guest:
                with pytest.raises(NotAccepted, match="for joining"):
                    await guest.replace([], [mates[0].id])
            await nodes.stop(mates[0])
            await until(lambda: leader.lag_of(mates[0].id) is None)
            async with nodes.client(seconds=3) as client:
                # Two of three answer. Without one of those it would be one of two, and nothing would go on any more.
                with pytest.raises(NotAccepted, match="of the 2 that would vote then, 1 answer"):
                    await client.replace([], [mates[1].id])
                assert leader.configuration == before
                await client.replace([], [mates[0].id])
                await client.put(b"a", b"1")

    asyncio.run(run())


def test_a_follower_does_not_replace_anybody(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as nodes:
            leader = await nodes.elected()
            follower = next(place for place in nodes.places if place.node is not leader)
            async with ClusterClient(nodes.known, socket=follower.folder / "node.sock", seconds=0.2) as client:
                with pytest.raises(NotAccepted) as caught:
                    await client.replace([], [follower.id])
                assert caught.value.leader == leader.node
                with pytest.raises(NotAccepted) as caught:
                    await client.renew(_NEW.certificate, replaces=OPERATOR.certificate)
            assert caught.value.leader == leader.node

    asyncio.run(run())
