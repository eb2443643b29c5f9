"""What a read of a client finds. That the cluster's own keys are out of reach is in ``test_cluster_requests``."""

from collections.abc import Iterable

from bobbin.cluster.key_value import Put
from bobbin.cluster.names import Index, Term
from bobbin.cluster.raft.entries import Entry
from bobbin.runtime.cluster_members import Directory, KnownMembers
from bobbin.runtime.cluster_reads import look
from bobbin.runtime.cluster_state import State
from bobbin.wire.cluster import client
from bobbin.wire.cluster.client import Rows, Value
from bobbin.wire.cluster.commands import encode_command


def _state(items: Iterable[tuple[bytes, bytes]]) -> State:
    state = State(known=KnownMembers(directory=Directory()), checkpoint_entries=1_000_000)
    commands = [encode_command(Put(b"", 0, key, value)) for key, value in items]
    state.apply([Entry(Term(1), Index(at), command) for at, command in enumerate(commands, start=1)])
    return state


def test_a_value_comes_with_its_version_and_with_how_much_is_applied() -> None:
    state = _state([(b"a", b"1"), (b"b", b"2")])
    assert look(state, client.Get(7, b"a")) == Value(7, b"1", 1, 2)
    assert look(state, client.Get(8, b"none")) == Value(8, None, 0, 2)


def test_a_scan_stops_at_its_prefix_and_at_a_size() -> None:
    values = [(b"a%d" % at, bytes(1_000_000)) for at in range(6)] + [(b"b", b""), (b"\xff\xff", b"")]
    state = _state(values)
    first = look(state, client.Scan(1, b"a", b"", 1_000))
    rest = look(state, client.Scan(2, b"a", b"a4", 1_000))
    last = look(state, client.Scan(3, b"\xff", b"", 1_000))
    assert isinstance(first, Rows)
    assert isinstance(rest, Rows)
    assert isinstance(last, Rows)
    assert (len(first.rows), first.is_whole) == (5, False)
    assert ([row.key for row in rest.rows], rest.is_whole) == ([b"a5"], True)
    assert [row.key for row in last.rows] == [b"\xff\xff"]
