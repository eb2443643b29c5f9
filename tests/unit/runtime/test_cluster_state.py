"""The state that a node applies the log to."""

from collections.abc import Iterable, Sequence

import msgspec
import pytest
from msgspec import structs

from bobbin.cluster.composite import Placed
from bobbin.cluster.identity import Identity
from bobbin.cluster.key_value import Delete, Put
from bobbin.cluster.names import Index, NodeId, Term
from bobbin.cluster.raft.entries import Configuration, Entry, Payload
from bobbin.cluster.state_machine import Capture
from bobbin.runtime.cluster_certificate import make
from bobbin.runtime.cluster_members import (
    RESERVED,
    Caller,
    Directory,
    KnownMembers,
    Member,
    Rights,
    member_key,
)
from bobbin.runtime.cluster_state import Divergence, State, commands_of, delete_entry, put_entry
from bobbin.wire.cluster.commands import encode_command

_MEMBERS = [
    Member(certificate=make(Identity(bytes([number]) * 32)).certificate, address=f"tls:127.0.0.1:{number}")
    for number in (1, 2)
]
_ONE, _TWO = Directory(_MEMBERS[:1]), Directory(_MEMBERS)


class _Log:
    """Numbers what is applied."""

    def __init__(self, *, known: KnownMembers | None = None, every: int = 4) -> None:
        self.state = State(known=known or KnownMembers(directory=_ONE), checkpoint_entries=every)

    def apply(self, *payloads: Payload) -> list[bytes]:
        at = self.state.index + 1
        entries = [Entry(Term(1), Index(at + place), payload) for place, payload in enumerate(payloads)]
        return self.state.apply(entries)


def _put(key: bytes, value: bytes = b"v") -> bytes:
    return encode_command(Put(b"", 0, key, value))


def test_commands_are_answered_in_order_and_other_entries_with_nothing() -> None:
    log = _Log()
    answers = log.apply(None, _put(b"a"), Configuration((), (), ()), _put(b"b"))
    assert [bool(answer) for answer in answers] == [False, True, False, True]
    assert log.state.index == 4
    item = log.state.table.get(b"b")
    assert item is not None
    assert item.version == 4


def test_members_are_known_by_the_table_once_all_of_the_first_are_in_it() -> None:
    log = _Log()
    *members, last = commands_of(_TWO)
    log.apply(*members)
    assert log.state.directory == _ONE
    log.apply(last)
    assert log.state.directory == _TWO


def test_a_member_that_is_taken_away_is_known_no_more() -> None:
    log = _Log()
    log.apply(*commands_of(_TWO))
    before = log.state.changes
    gone = _MEMBERS[1].node
    log.apply(delete_entry(member_key(gone)))
    assert gone not in log.state.directory.members
    assert log.state.changes > before


def test_what_was_known_before_a_restart_holds_until_as_much_is_applied_again() -> None:
    commands = commands_of(_ONE)
    log = _Log(known=KnownMembers(directory=_TWO, index=Index(len(commands) + 1)))
    log.apply(*commands)
    assert log.state.directory == _TWO
    log.apply(_put(b"a"))
    assert log.state.directory == _ONE


def _word(*members: Member, index: int = 2**62) -> KnownMembers:
    stranger = Caller(certificate=make(Identity(bytes([66]) * 32)).certificate, rights=Rights.OPERATOR)
    return KnownMembers(directory=Directory(members, [stranger]), index=Index(index))


_A, _B = NodeId("a"), NodeId("b")


def test_the_word_of_a_node_that_is_ahead_helps_until_this_one_has_caught_up() -> None:
    log = _Log()
    log.apply(*commands_of(_ONE))
    assert not log.state.learn(_A, _word(*_MEMBERS, index=log.state.index), enough=1)
    assert log.state.directory == _ONE
    assert log.state.learn(_A, _word(*_MEMBERS, index=log.state.index + 2), enough=1)
    assert log.state.directory == _TWO
    # The leader has one entry more than this node.
    log.state.settle(Index(log.state.index + 1))
    assert log.state.directory == _TWO
    before = log.state.changes
    log.apply(_put(b"a"))
    assert log.state.directory == _ONE
    assert log.state.changes > before


def test_a_word_makes_nobody_a_caller_and_nobody_unknown() -> None:
    log = _Log(known=KnownMembers(directory=_TWO))
    log.apply(*commands_of(_TWO))
    assert log.state.learn(_A, _word(_MEMBERS[0]), enough=1)
    assert log.state.directory == _TWO
    assert log.state.own_directory == _TWO
    assert not log.state.says_who_is_known


def test_no_index_that_somebody_claims_holds_for_ever() -> None:
    log = _Log(known=KnownMembers(directory=_TWO, index=Index(2**62)))
    log.apply(*commands_of(_ONE))
    log.state.learn(_A, _word(*_MEMBERS), enough=1)
    waited = log.state.is_waiting
    assert log.state.directory == _TWO
    log.state.settle(log.state.index)
    assert (waited, log.state.is_waiting) == (True, False)
    assert log.state.says_who_is_known
    assert log.state.directory == _ONE


def test_a_word_counts_when_enough_say_the_same() -> None:
    log = _Log()
    moved = structs.replace(_MEMBERS[0], address="tls:127.0.0.1:9")
    log.state.learn(_A, _word(moved), enough=2)
    assert log.state.directory == _ONE
    log.state.learn(_B, _word(_MEMBERS[0]), enough=2)
    assert log.state.directory == _ONE
    log.state.learn(_B, _word(moved), enough=2)
    assert log.state.directory == Directory([moved])
    # One that takes its word back, since it is not ahead any more.
    assert log.state.learn(_B, _word(moved, index=0), enough=2)
    assert log.state.directory == _ONE


def test_where_two_words_differ_the_newest_counts() -> None:
    log = _Log()
    moved = structs.replace(_MEMBERS[0], address="tls:127.0.0.1:9")
    log.state.learn(_A, _word(moved), enough=1)
    log.state.learn(_B, _word(*_MEMBERS), enough=1)
    assert log.state.directory == _TWO
    log.state.learn(_A, _word(moved), enough=1)
    assert log.state.directory.members[moved.node] == moved


def test_a_word_gives_no_key_that_is_known_to_another_node() -> None:
    log = _Log(known=KnownMembers(directory=_TWO))
    one, two = _MEMBERS
    for stolen in (
        structs.replace(one, next_certificate=two.certificate),
        structs.replace(one, certificate=two.certificate, seat=one.node),
    ):
        log.state.learn(_A, _word(stolen), enough=1)
        assert log.state.directory == _TWO
    # Nor does it make two of one that is new.
    new = Member(certificate=make(Identity(bytes([3]) * 32)).certificate, address="tls:127.0.0.1:3")
    log.state.learn(_A, _word(new), enough=1)
    log.state.learn(_B, _word(structs.replace(one, certificate=new.certificate, seat=one.node)), enough=1)
    assert log.state.directory == Directory([*_MEMBERS, new])


def test_a_value_that_quotes_a_reserved_key_changes_no_member() -> None:
    log = _Log()
    log.apply(*commands_of(_TWO))
    before = log.state.changes
    log.apply(_put(b"a", RESERVED + b"member/x"), b"no command " + RESERVED)
    assert log.state.changes == before


def test_a_root_that_is_that_of_the_leader_is_fine() -> None:
    leader, follower = _Log(), _Log()
    commands = [_put(bytes([at])) for at in range(1, 5)]
    leader.apply(*commands)
    follower.apply(*commands)
    (checkpoint,) = leader.state.take_checkpoints()
    assert leader.state.take_checkpoints() == []
    follower.apply(checkpoint)
    assert follower.state.table.root != b""


def test_a_root_that_differs_stops_the_node() -> None:
    leader, follower = _Log(), _Log()
    leader.apply(*[_put(bytes([at])) for at in range(1, 5)])
    follower.apply(*[_put(bytes([at])) for at in range(2, 6)])
    (checkpoint,) = leader.state.take_checkpoints()
    with pytest.raises(Divergence, match="index 4"):
        follower.apply(checkpoint)


def test_a_root_of_a_place_that_is_not_remembered_is_not_compared() -> None:
    log = _Log()
    log.apply(put_entry(RESERVED + b"root", msgspec.msgpack.encode((400, b"other"))))
    log.apply(put_entry(RESERVED + b"root", b"\xc1"))
    assert log.state.index == 2


def test_a_snapshot_brings_members_along() -> None:
    one = _Log()
    one.apply(*commands_of(_TWO), *[_put(f"key {at}".encode()) for at in range(5)])
    other = _Log()
    other.state.restore(
        other.state.build(one.state.machines.snapshot(one.state.index), one.state.index), one.state.index
    )
    assert other.state.directory == _TWO
    assert other.state.table.root == one.state.table.root
    assert other.state.index == one.state.index


def test_deleting_is_a_command() -> None:
    assert delete_entry(b"k") == encode_command(Delete(b"", 0, b"k"))


class _Kept:
    """A machine beside the table that keeps its state by itself: it is ahead of the log after a start."""

    def __init__(self, applied: int) -> None:
        self.applied: Index | None = Index(applied)
        self.batches: list[list[int]] = []
        self.closed = 0

    def apply_many(self, commands: Sequence[Placed]) -> list[bytes]:
        self.batches.append([index for index, _, _ in commands])
        assert self.applied is not None
        self.applied = max(self.applied, commands[-1][0])
        return [b"%d" % index for index, _, _ in commands]

    @property
    def root(self) -> bytes:
        return bytes(32)

    def settle(self, index: Index) -> None:
        """Nothing to note."""

    def snapshot(self) -> Capture:
        return []

    def adopt(self) -> None:
        """Nothing to do."""

    def close(self) -> None:
        self.closed += 1


class _KeptSource:
    tags = range(48, 64)

    def __init__(self, part: _Kept) -> None:
        self.part = part

    def open(self) -> _Kept:
        return self.part

    def build(self, entries: Iterable[bytes], index: Index) -> _Kept:
        assert list(entries) == []
        return _Kept(index)


_OTHER = msgspec.msgpack.encode([48, b"command"])


def _log_with(part: _Kept, every: int) -> _Log:
    log = _Log(every=every)
    log.state = State(known=KnownMembers(directory=_ONE), checkpoint_entries=every, sources=[_KeptSource(part)])
    return log


def test_a_machine_beside_the_table_gets_its_commands_together_and_members_are_still_seen() -> None:
    part = _Kept(0)
    log = _log_with(part, 4)
    answers = log.apply(_OTHER, None, *commands_of(_TWO), _OTHER, _OTHER)
    places = [at for at, answer in enumerate(answers, start=1) if answer == b"%d" % at]
    assert places == [1, len(answers) - 1, len(answers)]
    assert answers[1] == b""
    assert log.state.directory == _TWO
    assert [index for some in part.batches for index in some] == places
    assert len(part.batches) < len(places) + 1
    log.state.close()
    assert part.closed == 1


def test_the_root_is_of_all_machines_and_not_of_one_that_is_ahead() -> None:
    ahead, level = _log_with(_Kept(5), 2), _log_with(_Kept(0), 2)
    for log in (ahead, level):
        log.apply(*[_put(b"%d" % at) for at in range(4)])
    assert ahead.state.take_checkpoints() == []
    assert len(level.state.take_checkpoints()) == 2
    assert level.state.machines.root not in (level.state.table.root, bytes(32))
    ahead.apply(_put(b"a"), _put(b"b"))
    assert len(ahead.state.take_checkpoints()) == 1


def test_a_snapshot_is_of_all_machines() -> None:
    part = _Kept(0)
    one = _log_with(part, 100)
    one.apply(_put(b"a"), _OTHER)
    entries = list(one.state.machines.snapshot(one.state.index))
    built = one.state.build(iter(entries), Index(9))
    one.state.restore(built, Index(9))
    assert part.closed == 1
    assert one.state.machines.part(48) is not part
    assert (one.state.index, one.state.table.get(b"a") is not None) == (9, True)
