"""Who is who in a cluster: the certificates and addresses of its nodes, and who else may ask them for something.

This stands in the replicated state itself, under keys that no client can write. So every node that has applied the log
knows the same members and callers, a snapshot carries them, and adding or removing one is an entry like any other. A
copy in the node's folder is what it begins with before it has applied anything.

What always holds: a certificate that is not in the directory opens no channel, in either direction.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from bobbin.cluster.identity import node_id_of
from bobbin.cluster.names import Index, NodeId
from bobbin.errors import IntegrityError, UsageError
from bobbin.runtime import cluster_certificate
from bobbin.wire import address as addresses
from bobbin.wire.address import Scheme

RESERVED: Final = b"\x00bobbin/"
"""Keys that begin so belong to the cluster itself; clients neither read nor write them."""
_MEMBER: Final = RESERVED + b"member/"
_CALLER: Final = RESERVED + b"caller/"
LEARNT_MAX: Final = 256
"""Members that are taken from the word of others: each of them is dialled."""
KEY_END: Final = RESERVED[:-1] + bytes([RESERVED[-1] + 1])
"""The first key after the reserved ones."""


class Rights(Enum):
    """What a caller that is no node may ask for."""

    OPERATOR = "operator"
    """Everything."""
    JOIN = "join"
    """To be taken in as a node, once; it was invited."""


class Member(Struct, frozen=True, kw_only=True):
    """A node that may speak."""

    certificate: bytes
    address: str
    """Where the others dial it: ``tls:host:port``."""
    seat: NodeId | None = None
    """The node that the log knows, where its key is not the first one that it had."""
    next_certificate: bytes | None = None
    """Of a key that counts as well, while the node changes from one to the other."""
    wants_vote: bool = True
    """To be made a voter as soon as it has caught up."""

    @property
    def node(self) -> NodeId:
        """As the log knows it."""
        return self.seat or node_id_of(cluster_certificate.public_key(self.certificate))

    @property
    def certificates(self) -> tuple[bytes, ...]:
        """That count for it, one or two."""
        return (self.certificate,) if self.next_certificate is None else (self.certificate, self.next_certificate)


class Caller(Struct, frozen=True, kw_only=True):
    """Somebody who may ask, and is no node."""

    certificate: bytes
    rights: Rights
    member: NodeId | None = None
    """The node in whose folder this identity was made; it goes when the node is removed."""
    expires_ms: int | None = None
    """By wall clock; None for never."""


class Directory:
    """Everybody who is known, as of one moment. Never changes."""

    def __init__(self, members: Iterable[Member] = (), callers: Iterable[Caller] = ()) -> None:
        self._members: Final = {member.node: member for member in members}
        self._callers: Final = {caller.certificate: caller for caller in callers}
        self._by_certificate: Final = {
            certificate: node for node, member in self._members.items() for certificate in member.certificates
        }

    @property
    def members(self) -> Mapping[NodeId, Member]:
        return MappingProxyType(self._members)

    @property
    def callers(self) -> Mapping[bytes, Caller]:
        """By certificate."""
        return MappingProxyType(self._callers)

    @property
    def certificates(self) -> list[bytes]:
        """Of everybody who may open a channel."""
        return [*self._by_certificate, *self._callers]

    @property
    def keys(self) -> dict[bytes, NodeId]:
        """The public keys that count, and the node that each of them speaks for."""
        return {cluster_certificate.public_key(one): node for one, node in self._by_certificate.items()}

    def member_of(self, certificate: bytes) -> NodeId | None:
        """The node that shows this certificate."""
        return self._by_certificate.get(certificate)

    def caller_of(self, certificate: bytes, *, now_ms: int) -> Caller | None:
        """Who else shows it, unless it has expired."""
        caller = self._callers.get(certificate)
        if caller is None or (caller.expires_ms is not None and now_ms >= caller.expires_ms):
            return None
        return caller

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Directory) and self._members == other._members and self._callers == other._callers

    __hash__ = None  # type: ignore[assignment]

    def entries(self) -> list[tuple[bytes, bytes]]:
        """Keys and values of the replicated state that say the same."""
        members = [(member_key(node), msgspec.msgpack.encode(member)) for node, member in self._members.items()]
        callers = [
            (caller_key(caller.certificate), msgspec.msgpack.encode(caller)) for caller in self._callers.values()
        ]
        return sorted(members + callers)

    @staticmethod
    def of_entries(entries: Iterable[tuple[bytes, bytes]]) -> "Directory":
        """Who is known by the replicated state. What cannot be read was not written by this program, and is nobody."""
        members: list[Member] = []
        callers: list[Caller] = []
        for key, value in sorted(entries):
            try:
                if key.startswith(_MEMBER):
                    member = msgspec.msgpack.decode(value, type=Member)
                    if member_key(member.node) == key:
                        members.append(member)
                elif key.startswith(_CALLER):
                    caller = msgspec.msgpack.decode(value, type=Caller)
                    if caller_key(caller.certificate) == key:
                        callers.append(caller)
            except (msgspec.MsgspecError, IntegrityError):
                continue
        return Directory.of_good(members, callers)

    @staticmethod
    def of_good(members: Iterable[Member], callers: Iterable[Caller]) -> "Directory":
        """Those whose certificates are good, and whose keys speak for one of them alone.

        A key that is in use counts for whoever uses it, not for whoever names it as the next one.
        """
        good = [member for member in members if all(map(_is_good, member.certificates))]
        good.sort(key=lambda member: member.seat is not None)
        using: dict[bytes, Member] = {}
        for member in good:
            using.setdefault(cluster_certificate.public_key(member.certificate), member)
        taken = set(using)
        kept: list[Member] = []
        for member in using.values():
            following = member.next_certificate
            public = None if following is None else cluster_certificate.public_key(following)
            kept.append(msgspec.structs.replace(member, next_certificate=None) if public in taken else member)
            taken.update(() if public is None else (public,))
        return Directory(kept, [caller for caller in callers if _is_good(caller.certificate)])

    def with_words(self, words: Iterable["Directory"], *, enough: int) -> "Directory":
        """The same callers and nobody fewer, and the nodes beside them that enough others name alike.

        A key that is known here goes on speaking for whom it spoke.
        """
        told = Counter(member for word in words for member in word.members.values())
        members, keys = dict(self._members), self.keys
        for member, count in told.items():
            node = member.node
            is_free = all(keys.get(cluster_certificate.public_key(one), node) == node for one in member.certificates)
            if count >= enough and is_free and (node in members or len(members) < LEARNT_MAX):
                members[node] = member
                keys |= {cluster_certificate.public_key(one): node for one in member.certificates}
        return Directory.of_good(members.values(), self._callers.values())


def _is_good(certificate: bytes) -> bool:
    try:
        cluster_certificate.public_key(certificate)
    except IntegrityError:
        return False
    return True


class _Table(Struct, frozen=True, kw_only=True):
    index: Annotated[int, Meta(ge=0)]
    members: tuple[Member, ...]
    callers: tuple[Caller, ...]


class KnownMembers(Struct, frozen=True, kw_only=True):
    """Who was known at some place of the log: kept in the node's folder, and told to a node that joins."""

    directory: Directory
    index: Index = Index(0)
    """How much of the log was applied by then: once that is applied again, the replicated state says who is known."""

    def encode(self) -> bytes:
        """As text."""
        members, callers = self.directory.members, self.directory.callers
        table = _Table(
            index=self.index,
            members=tuple(members[node] for node in sorted(members)),
            callers=tuple(callers[one] for one in sorted(callers)),
        )
        return msgspec.json.format(msgspec.json.encode(table)) + b"\n"

    @staticmethod
    def decode(content: bytes) -> "KnownMembers":
        """What ``encode`` gave; ``IntegrityError`` for anything else. Who has no good certificate is left out."""
        try:
            table = msgspec.json.decode(content, type=_Table)
        except (msgspec.MsgspecError, ValueError) as error:
            raise IntegrityError(f"this is no list of members: {error}") from error
        directory = Directory.of_good(table.members, table.callers)
        if table.members and not directory.members:
            raise IntegrityError("this is no list of members: no certificate in it is good")
        return KnownMembers(directory=directory, index=Index(table.index))


def member_key(node: NodeId) -> bytes:
    """Where a member stands in the replicated state."""
    return _MEMBER + node.encode()


def caller_key(certificate: bytes) -> bytes:
    """Where a caller stands."""
    return _CALLER + cluster_certificate.public_key(certificate).hex().encode()


def check_address(text: str) -> str:
    """An address at which a node can be reached by others: encrypted, with a port that is known."""
    parsed = addresses.parse(text)
    if parsed.scheme is not Scheme.TLS:
        raise UsageError(f"nodes of a cluster speak TLS alone: tls:host:port, not {text[:80]!r}")
    return text
