"""Another key for a node or its operator, and what a crash between any two steps leaves."""

import asyncio
import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest.mock import Mock

import pytest

from bobbin.cli.cluster_rotation import NoMember, Rotated, rotate_node, rotate_operator
from bobbin.cluster.names import NodeId
from bobbin.cluster.raft.entries import Configuration
from bobbin.config import rotation
from bobbin.config.cluster import NodeFolder, create_cluster, prepare, read_folder
from bobbin.config.shards import create_set
from bobbin.errors import ResourceError, UsageError
from bobbin.runtime.cluster_client import ClusterClient, NotAccepted
from bobbin.runtime.cluster_members import Directory, KnownMembers, Member
from bobbin.runtime.cluster_node import ClusterNode
from bobbin.transport.base import TransportError
from tests.support.clusters import free_ports, served_folder, until

pytestmark = pytest.mark.slow


class _Killed(BaseException):
    """Stands for ``kill -9``: nothing after it is done."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of the one node of a cluster."""
    create_cluster([prepare(tmp_path / "n", listen=f"tls:127.0.0.1:{free_ports(1)[0]}")])
    return tmp_path / "n"


@contextmanager
def _served(folder: Path) -> Iterator[ClusterNode]:
    """That node, which leads."""
    with served_folder(folder) as node:
        asyncio.run(until(lambda: node.leader is not None and node.state.says_who_is_known))
        yield node


@pytest.fixture
def running(folder: Path) -> Iterator[ClusterNode]:
    with _served(folder) as node:
        yield node


def _member(node: ClusterNode) -> Member:
    return node.state.own_directory.members[node.node]


def _take_into_use(folder: Path) -> None:
    """As a node does by itself when it was started with another key."""
    read = read_folder(folder)

    async def say() -> None:
        async with ClusterClient(read.known, own=read.own, seconds=10) as client:
            await client.add(read.own.certificate, read.settings.address)

    asyncio.run(say())


def _killed(
    monkeypatch: pytest.MonkeyPatch, owner: object, name: str, *, is_done: bool, do: Callable[[], object]
) -> None:
    """Do something that is killed before a step, or after it."""
    real = getattr(owner, name)

    def step(*arguments: object, **named: object) -> object:
        if is_done:
            real(*arguments, **named)
        raise _Killed

    async def asked(*arguments: object, **named: object) -> object:
        if is_done:
            await real(*arguments, **named)
        raise _Killed

    with monkeypatch.context() as patched:
        patched.setattr(owner, name, asked if inspect.iscoroutinefunction(real) else step)
        with pytest.raises(_Killed):
            do()


def test_a_node_gets_another_key_and_keeps_its_seat(folder: Path) -> None:
    before = read_folder(folder)
    comment = "# mine\n" + (folder / "cluster.toml").read_text("utf-8")
    (folder / "cluster.toml").write_text(comment, "utf-8")
    with _served(folder) as running:
        done = rotate_node(folder, seconds=10)
        node, key = done.node, done.key
        after = read_folder(folder)
        assert done.silent == ()
        assert (node, after.node, after.own.identity.node) == (before.node, before.node, key)
        assert key != before.own.identity.node
        assert (folder / "cluster.toml").read_text("utf-8").startswith("# mine\n")
        assert _member(running).certificates == (before.own.certificate, after.own.certificate)
        assert _member(running).address == before.settings.address
        # Until the node was started with it nothing more is changed: its old key and the new one count, and no third.
        assert rotate_node(folder, seconds=10) == Rotated(node, key)
        assert _member(running).certificates == (before.own.certificate, after.own.certificate)
    with _served(folder) as running:
        _take_into_use(folder)
        assert _member(running).certificates == (after.own.certificate,)
        assert _member(running).node == node
        assert rotate_node(folder, seconds=10).key not in (key, before.own.identity.node)


def test_a_third_key_does_not_push_out_the_one_that_is_to_come(folder: Path, running: ClusterNode) -> None:
    """The folder holds that one alone, while the node that runs has the first."""
    rotate_node(folder, seconds=10)
    known = _member(running).certificates
    rotation.prepare_key(read_folder(folder).layout.node_key)
    with pytest.raises(NotAccepted, match="not in use yet"):
        rotate_node(folder, seconds=10)
    assert _member(running).certificates == known


@pytest.mark.parametrize("is_done", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", ["prepare_key", "add", "keep_seat", "switch_key"])
def test_a_kill_at_any_step_leaves_a_node_with_a_key_and_is_made_up_for(
    folder: Path, running: ClusterNode, monkeypatch: pytest.MonkeyPatch, step: str, *, is_done: bool
) -> None:
    """CL-366."""
    before = read_folder(folder)
    owner = ClusterClient if step == "add" else rotation
    _killed(monkeypatch, owner, step, is_done=is_done, do=lambda: rotate_node(folder, seconds=10))
    left = read_folder(folder)
    assert left.node == before.node, "whatever key it has, it is the same node"
    assert left.own.certificate in _member(running).certificates, "and the key in the folder counts"
    prepared = rotation.prepared_key(left.layout.node_key)
    done = rotate_node(folder, seconds=10)
    node, key = done.node, done.key
    after = read_folder(folder)
    assert (node, after.node, after.own.identity.node) == (before.node, before.node, key)
    assert _member(running).certificates == (before.own.certificate, after.own.certificate)
    assert rotation.prepared_key(after.layout.node_key) is None
    if prepared is not None:
        assert prepared.identity.node == key, "the key that was made is the one that is used"
    if is_done and step == "switch_key":
        assert left.own.identity.node == key, "it was finished already"


def test_a_new_key_that_was_announced_is_not_announced_under_itself(
    folder: Path, running: ClusterNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would count as said by the node, which still runs with the old one and would be put out by that."""
    before = read_folder(folder)
    _killed(monkeypatch, ClusterClient, "add", is_done=True, do=lambda: rotate_node(folder, seconds=10))
    real, asked = ClusterClient.members, 0

    async def members(self: ClusterClient, node: NodeId | None = None) -> KnownMembers:
        nonlocal asked
        asked += 1
        if asked == 1:
            raise TransportError("nobody answered in time", retry=True)
        return await real(self, node)

    monkeypatch.setattr(ClusterClient, "members", members)
    done = rotate_node(folder, seconds=5)
    after = read_folder(folder)
    assert done.key == after.own.identity.node
    assert _member(running).certificates == (before.own.certificate, after.own.certificate)


def test_a_switch_that_was_forgotten_by_the_disk_is_made_again(folder: Path) -> None:
    """The node has used the new key, and the power went before its new name was durable."""
    old = (folder / "node.key").read_bytes()
    with _served(folder):
        rotate_node(folder, seconds=10)
    with _served(folder) as running:
        _take_into_use(folder)
        (folder / "node.key").rename(folder / "node.key.next")
        (folder / "node.key").write_bytes(old)
        (folder / "node.key").chmod(0o600)
        rotate_node(folder, seconds=2)
        assert _member(running).certificates == (read_folder(folder).own.certificate,)


def test_who_does_not_answer_is_named(folder: Path, running: ClusterNode, tmp_path: Path) -> None:
    new = prepare(tmp_path / "new", listen=f"tls:127.0.0.1:{free_ports(1)[0]}")
    read = read_folder(folder)

    async def add() -> None:
        async with ClusterClient(read.known, own=read.operator, seconds=10) as client:
            await client.add(new.own.certificate, new.address)

    asyncio.run(add())
    asyncio.run(until(lambda: new.node in read_folder(folder).known.directory.members))
    assert rotate_node(folder, seconds=10).silent == (new.node,)
    assert running.leader == running.node


@pytest.fixture
def three(tmp_path: Path) -> Iterator[list[Path]]:
    """The folders of three nodes that run."""
    folders = [tmp_path / f"n{number}" for number in range(3)]
    ports = free_ports(len(folders))
    create_cluster([prepare(one, listen=f"tls:127.0.0.1:{port}") for one, port in zip(folders, ports, strict=True)])
    with ExitStack() as stack:
        nodes = [stack.enter_context(served_folder(one)) for one in folders]
        asyncio.run(until(lambda: all(node.state.says_who_is_known for node in nodes)))
        yield folders


def test_a_key_is_not_switched_before_every_node_that_answers_knows_it(
    three: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """That it is committed is not enough: of two nodes that are left, the other may not have heard that it is."""
    folder, other, _ = three
    old, late = read_folder(folder), read_folder(other)
    real, answered = ClusterClient.members, 0
    is_late = True

    async def members(self: ClusterClient, node: NodeId | None = None) -> KnownMembers:
        nonlocal answered
        known = await real(self, node)
        if node != late.node or not is_late:
            return known
        answered += 1
        assert read_folder(folder).own.certificate == old.own.certificate
        return late.known if answered <= 3 else known

    monkeypatch.setattr(ClusterClient, "members", members)
    assert rotate_node(folder, seconds=30).silent == ()
    assert answered == 4
    assert read_folder(folder).own.certificate in read_folder(other).known.directory.members[old.node].certificates


def test_a_key_that_others_do_not_know_in_time_waits_for_the_next_time(
    three: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, *others = three
    old = read_folder(folder)
    late = {read.node: read.known for read in map(read_folder, others)}
    real = ClusterClient.members

    async def members(self: ClusterClient, node: NodeId | None = None) -> KnownMembers:
        return await real(self, node) if node is None else late[node]

    with monkeypatch.context() as patched:
        patched.setattr(ClusterClient, "members", members)
        with pytest.raises(ResourceError, match="too few nodes know it") as caught:
            rotate_node(folder, seconds=1)
    assert caught.value.retry
    assert all(f"{node} has not learnt of it" in str(caught.value) for node in late)
    left = read_folder(folder)
    assert left.own.certificate == old.own.certificate
    prepared = rotation.prepared_key(left.layout.node_key)
    assert prepared is not None
    assert rotate_node(folder, seconds=30).key == prepared.identity.node


def test_one_who_does_not_know_a_key_in_time_is_named_where_a_majority_knows_it(
    three: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, other, _ = three
    old, late = read_folder(folder), read_folder(other)
    real = ClusterClient.members

    async def members(self: ClusterClient, node: NodeId | None = None) -> KnownMembers:
        return late.known if node == late.node else await real(self, node)

    monkeypatch.setattr(ClusterClient, "members", members)
    done = rotate_node(folder, seconds=1)
    assert (done.silent, done.behind) == ((), (late.node,))
    assert read_folder(folder).own.certificate != old.own.certificate


def test_where_voters_are_about_to_be_replaced_a_majority_of_both_has_to_know_it(
    three: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, other, third = three
    own, silent, late = (read_folder(one) for one in (folder, other, third))
    ask = ClusterClient.members

    async def members(self: ClusterClient, node: NodeId | None = None) -> KnownMembers:
        return late.known if node == late.node else await ask(self, node)

    async def status(_: ClusterClient) -> Mock:
        return Mock(configuration=configuration)

    monkeypatch.setattr(ClusterClient, "members", members)
    monkeypatch.setattr(ClusterClient, "status", status)
    configuration = Configuration((own.node, silent.node), outgoing=(own.node, late.node))
    with pytest.raises(ResourceError, match=f"{late.node} has not learnt of it"):
        rotate_node(folder, seconds=1)
    configuration = Configuration((own.node, silent.node), outgoing=(own.node,))
    assert rotate_node(folder, seconds=1).behind == (late.node,)


def test_who_is_known_is_told_when_it_is_on_the_disk(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    is_broken = False

    def remember(self: NodeFolder, known: KnownMembers) -> None:
        if is_broken:
            raise ResourceError("no space is left", retry=True)
        real(self, known)

    real = NodeFolder.remember
    monkeypatch.setattr(NodeFolder, "remember", remember)
    guest = prepare(folder.parent / "guest", listen=f"tls:127.0.0.1:{free_ports(1)[0]}").own.certificate
    with _served(folder):
        read = read_folder(folder)

        async def ask() -> None:
            nonlocal is_broken
            async with ClusterClient(read.known, own=read.operator, seconds=0.5) as client:
                is_broken = True
                await client.invite(guest, 1 << 50)
                with pytest.raises(NotAccepted, match="cannot be kept: no space is left"):
                    await client.members()
                assert guest not in read_folder(folder).known.directory.callers
                is_broken = False
                assert guest in (await client.members()).directory.callers
                assert guest in read_folder(folder).known.directory.callers

        asyncio.run(ask())


def test_without_the_cluster_nothing_is_switched(folder: Path) -> None:
    before = (folder / "node.key").read_bytes(), (folder / "cluster.toml").read_bytes()
    with pytest.raises(ResourceError):
        rotate_node(folder, seconds=0.3)
    assert ((folder / "node.key").read_bytes(), (folder / "cluster.toml").read_bytes()) == before


def test_a_node_that_is_out_needs_no_key(folder: Path, running: ClusterNode, monkeypatch: pytest.MonkeyPatch) -> None:
    async def nobody(self: ClusterClient, node: NodeId | None = None) -> KnownMembers:
        del self, node
        return KnownMembers(directory=Directory())

    monkeypatch.setattr(ClusterClient, "members", nobody)
    with pytest.raises(NoMember):
        rotate_node(folder, seconds=5)
    assert rotation.prepared_key(folder / "node.key") is None
    assert len(_member(running).certificates) == 1


# ---- the operator's -------------------------------------------------------------------------------------------------


def _callers(node: ClusterNode) -> set[bytes]:
    return set(node.state.own_directory.callers)


def test_an_operator_gets_another_key_and_the_old_one_opens_nothing(folder: Path, running: ClusterNode) -> None:
    before = read_folder(folder)
    (caller,) = running.state.own_directory.callers.values()
    key = rotate_operator(folder, seconds=10)
    after = read_folder(folder)
    assert after.operator.identity.node == key != before.operator.identity.node
    (renewed,) = running.state.own_directory.callers.values()
    assert (renewed.certificate, renewed.rights, renewed.member) == (
        after.operator.certificate,
        caller.rights,
        caller.member,
    )

    async def put(own: object, seconds: float) -> None:
        assert isinstance(own, type(after.operator))
        async with ClusterClient(after.known, own=own, seconds=seconds) as client:
            await client.put(b"a", b"1")

    asyncio.run(put(after.operator, 10))
    with pytest.raises(ResourceError):
        asyncio.run(put(before.operator, 0.5))


@pytest.mark.parametrize("is_done", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", ["prepare_key", "renew", "switch_key"])
def test_a_kill_at_any_step_leaves_a_folder_with_an_operator(
    folder: Path, running: ClusterNode, monkeypatch: pytest.MonkeyPatch, step: str, *, is_done: bool
) -> None:
    before = read_folder(folder).operator.certificate
    owner = ClusterClient if step == "renew" else rotation
    _killed(monkeypatch, owner, step, is_done=is_done, do=lambda: rotate_operator(folder, seconds=10))
    left = read_folder(folder)
    prepared = rotation.prepared_key(left.layout.operator_key)
    (counts,) = _callers(running)
    assert counts in (left.operator.certificate, None if prepared is None else prepared.certificate)
    # By the network alone, as where the node of the folder is down: one of the two keys is let in.
    monkeypatch.setattr(type(left.layout), "socket", property(lambda layout: layout.folder / "nowhere"))
    key = rotate_operator(folder, seconds=2)
    assert _callers(running) == {read_folder(folder).operator.certificate}
    assert before not in _callers(running)
    if prepared is not None:
        assert prepared.identity.node == key


def test_the_operator_of_a_set_of_shards_keeps_its_key(tmp_path: Path) -> None:
    places = [[f"tls:127.0.0.1:{port}"] for port in free_ports(2)]
    create_set([tmp_path / "n1"], places)
    with pytest.raises(UsageError, match="set of shards"):
        rotate_operator(tmp_path / "n1" / "s0", seconds=1)
    with pytest.raises(UsageError, match="name one of them"):
        rotate_node(tmp_path / "n1", seconds=1)
