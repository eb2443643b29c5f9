"""Who is who in a cluster."""

import msgspec
import pytest

from bobbin.cluster.identity import Identity
from bobbin.cluster.names import Index, NodeId
from bobbin.errors import IntegrityError, UsageError
from bobbin.runtime.cluster_certificate import make
from bobbin.runtime.cluster_members import (
    KEY_END,
    LEARNT_MAX,
    RESERVED,
    Caller,
    Directory,
    KnownMembers,
    Member,
    Rights,
    caller_key,
    check_address,
    member_key,
)

_IDENTITIES = [Identity(bytes([number]) * 32) for number in (1, 2, 3)]
_ONE, _TWO, _THREE = (make(identity).certificate for identity in _IDENTITIES)
_NODE = _IDENTITIES[0].node
_DIRECTORY = Directory(
    [Member(certificate=_ONE, address="tls:127.0.0.1:1")],
    [
        Caller(certificate=_TWO, rights=Rights.OPERATOR, member=_NODE),
        Caller(certificate=_THREE, rights=Rights.JOIN, expires_ms=1_000),
    ],
)


def test_a_certificate_is_a_member_or_a_caller_or_nobody() -> None:
    assert _DIRECTORY.member_of(_ONE) == _NODE
    assert _DIRECTORY.caller_of(_ONE, now_ms=0) is None
    assert _DIRECTORY.member_of(_TWO) is None
    found = _DIRECTORY.caller_of(_TWO, now_ms=10**15)
    assert found is not None
    assert found.rights is Rights.OPERATOR
    assert Directory().member_of(_ONE) is None
    assert Directory().caller_of(_TWO, now_ms=0) is None


def test_an_invitation_expires() -> None:
    assert _DIRECTORY.caller_of(_THREE, now_ms=999) is not None
    assert _DIRECTORY.caller_of(_THREE, now_ms=1_000) is None


def test_what_is_written_is_read_again() -> None:
    known = KnownMembers(directory=_DIRECTORY, index=Index(7))
    assert KnownMembers.decode(known.encode()) == known
    assert Directory.of_entries(_DIRECTORY.entries()) == _DIRECTORY
    nobody = KnownMembers(directory=Directory())
    assert KnownMembers.decode(nobody.encode()) == nobody


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b'{"index":0,"members":[{"certificate":"eA==","address":"tls:h:1"}],"callers":[]}',
        b'{"index":0,"members":1}',
        b"\xff",
    ],
)
def test_what_is_no_list_of_members_is_refused(content: bytes) -> None:
    with pytest.raises(IntegrityError):
        KnownMembers.decode(content)


def test_an_entry_of_the_state_that_cannot_be_read_is_nobody() -> None:
    entries = _DIRECTORY.entries()
    # A member whose key is that of another one would be two nodes at once.
    stolen = [(member_key(_IDENTITIES[1].node), value) for key, value in entries if key == member_key(_NODE)]
    assert Directory.of_entries([*stolen, (caller_key(_TWO), b"\xc1"), (RESERVED + b"other", b"")]) == Directory()


_BAD = _TWO.replace(_IDENTITIES[1].public.hex().encode(), b"\xff" * 64)


def test_whoever_has_no_good_certificate_is_nobody_and_the_others_stay() -> None:
    node = _IDENTITIES[1].node
    # Its seat is given, so that nothing has to be read from the certificate.
    members = [
        Member(certificate=_BAD, address="tls:127.0.0.1:2", seat=node),
        Member(certificate=_THREE, address="tls:127.0.0.1:3", next_certificate=_BAD),
    ]
    entries = [(member_key(member.node), msgspec.msgpack.encode(member)) for member in members]
    caller = msgspec.msgpack.encode(Caller(certificate=_BAD, rights=Rights.OPERATOR))
    assert Directory.of_entries([*_DIRECTORY.entries(), *entries, (caller_key(_ONE), caller)]) == _DIRECTORY
    good = Member(certificate=_ONE, address="tls:127.0.0.1:1")
    known = KnownMembers(directory=Directory([*members, good], [Caller(certificate=_BAD, rights=Rights.OPERATOR)]))
    assert KnownMembers.decode(known.encode()).directory == Directory([good])


def test_a_caller_stands_under_its_own_key() -> None:
    value = msgspec.msgpack.encode(Caller(certificate=_TWO, rights=Rights.OPERATOR))
    assert Directory.of_entries([(caller_key(_ONE), value)]) == Directory()


def test_a_key_speaks_for_whoever_uses_it_not_for_whoever_names_it_next() -> None:
    thief = Member(certificate=_ONE, address="tls:127.0.0.1:1", next_certificate=_TWO)
    owner = Member(certificate=_TWO, address="tls:127.0.0.1:2")
    heir = Member(certificate=_TWO, address="tls:127.0.0.1:3", seat=_IDENTITIES[2].node)
    found = Directory.of_good([thief, heir, owner], [])
    assert found.keys == {_IDENTITIES[0].public: _NODE, _IDENTITIES[1].public: owner.node}
    assert found.members[owner.node] == owner


def test_the_word_of_others_makes_no_two_nodes_of_one_key() -> None:
    many = Directory(Member(certificate=_TWO, address="tls:127.0.0.1:2", seat=NodeId(f"{at:032x}")) for at in range(9))
    assert len(_DIRECTORY.with_words([many], enough=1).members) == 2


def test_the_word_of_others_adds_no_more_nodes_than_can_be_dialled() -> None:
    certificates = [make(Identity(at.to_bytes(32))).certificate for at in range(1, LEARNT_MAX + 9)]
    many = Directory(Member(certificate=one, address="tls:127.0.0.1:2") for one in certificates)
    assert len(_DIRECTORY.with_words([many], enough=1).members) == LEARNT_MAX


def test_every_key_lies_in_the_reserved_range() -> None:
    assert all(RESERVED <= key < KEY_END for key, _ in _DIRECTORY.entries())


def test_everybody_who_may_open_a_channel_is_named() -> None:
    assert set(_DIRECTORY.certificates) == {_ONE, _TWO, _THREE}
    assert _DIRECTORY.keys == {_IDENTITIES[0].public: _NODE}


def test_while_a_key_is_changed_both_speak_for_the_node() -> None:
    changing = Directory([Member(certificate=_ONE, address="tls:127.0.0.1:1", next_certificate=_TWO)])
    assert changing.member_of(_ONE) == changing.member_of(_TWO) == _NODE
    changed = Directory([Member(certificate=_TWO, address="tls:127.0.0.1:1", seat=_NODE)])
    assert changed.member_of(_ONE) is None
    assert changed.keys == {_IDENTITIES[1].public: _NODE}
    assert Directory.of_entries(changing.entries()) == changing


def test_nodes_are_reached_by_tls_alone() -> None:
    assert check_address("tls:127.0.0.1:4795") == "tls:127.0.0.1:4795"
    for wrong in ("tcp:127.0.0.1:1", "unix:/x", "ws:host", "nonsense", "tls:h:0"):
        with pytest.raises(UsageError):
            check_address(wrong)
