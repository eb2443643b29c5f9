"""Changes to ``peers.toml`` that a command makes: a peer comes in, a peer goes.

The file belongs to the people who write it: their comments, their order and their spelling stay. A change is made under
a lock, checked as the whole file that it would give, and put in place in one step, so that a crash leaves the old file
or the new one. The file is readable by its owner only, since it says with whom one exchanges.

Trust on first use is the weakest way to learn a key: it believes whoever answered first. So it happens only when
somebody asks for it by name, it never replaces a key, and a name that comes with another key than before is an alarm.
And it is trust in who was dialled, for being dialled: such a peer's own links are not taken until somebody changes that
by hand. Else whoever answered once would be served under a policy that was meant for others.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import tomlkit
from msgspec import Struct, structs
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import AoT, Table

from bobbin.config import durable
from bobbin.config.findings import Findings
from bobbin.config.peers import (
    PeerEntry,
    Peers,
    certificate_text,
    check_name,
    parse_peers,
    read_peers,
)
from bobbin.config.sources import Sources, current_digest
from bobbin.errors import IntegrityError, ResourceError, UsageError
from bobbin.records.ids import Verifier
from bobbin.runtime.roster import Way

_PRIVATE: Final = 0o600
_HEAD: Final = "# The known peers of this lace: who they are, and on which terms records are exchanged with them.\n"


class KnownPeerExists(UsageError):
    """A peer of this name, or with this key, is known already. Nothing was changed."""


class OtherKey(IntegrityError):
    """A peer of this name is known, and has proven another key than the known one. Nothing was changed."""


class NewPeer(Struct, frozen=True, kw_only=True):
    """A peer that is to be known."""

    name: str
    verifier: Verifier | None = None
    """None for whoever answers at the address."""
    ways: tuple[Way, ...] = ()
    """Where it is dialled. Either all of them have a pin or none has."""
    policy: Path | None = None
    """As the caller names it; in the file it is relative to the file, unless it is absolute here."""
    query_policy: Path | None = None
    limits: str | None = None
    follow: bool = False
    admit: bool = True


def add_peer(file: Path, peer: NewPeer) -> PeerEntry:
    """Make a peer known. Durable when this returns; a peer that is known is never changed by it."""
    check_name(peer.name)
    with _editing(file) as editing:
        known = editing.peers
        if known.named(peer.name) is not None:
            raise KnownPeerExists(f"there is a peer {peer.name!r} already; `bobbin peers remove` takes it away")
        _refuse_known_key(known, peer)
        editing.append(_table(file, peer))
    return _written(file, peer.name)


def trust_new(file: Path, peer: NewPeer) -> PeerEntry:
    """Trust on first use: take the key that a peer has just proven for the key of this name, from now on.

    A new one is not admitted, whatever ``peer`` says of that: it can be dialled, and may not dial us. A peer that is
    known under this name with this key stays as it is. Raises ``OtherKey`` where the name stands for
    another key, and ``KnownPeerExists`` where the key has another name.
    """
    if peer.verifier is None:
        raise UsageError("a peer that has proven no key cannot be trusted by one")
    check_name(peer.name)
    with _editing(file) as editing:
        same = editing.peers.named(peer.name)
        if same is not None and same.verifier == peer.verifier:
            return same
        if same is not None:
            raise OtherKey(_alarm(same, peer.verifier, file))
        _refuse_known_key(editing.peers, peer)
        editing.append(_table(file, structs.replace(peer, admit=False)))
    return _written(file, peer.name)


def remove_peer(file: Path, name: str) -> PeerEntry | None:
    """Forget a peer. Durable when this returns; None if nobody has this name."""
    with _editing(file) as editing:
        entry = editing.peers.named(name)
        if entry is not None:
            editing.remove(name)
        return entry


class _Editing:
    """The file while it is changed: as it is read, and as it can be written back."""

    def __init__(self, file: Path) -> None:
        sources, findings = Sources(), Findings()
        self.peers: Final = parse_peers(file, sources, findings)
        findings.raise_if_any()
        self.before: Final = sources.seen[file].digest
        """Of the content that is changed; None if there is no file yet."""
        self.changed = False
        self._file: Final = file
        text = _HEAD if self.before is None else sources.read(file).decode()
        try:
            self._document: Final = tomlkit.parse(text)
        except (TOMLKitError, ValueError, RecursionError) as error:
            raise UsageError(f"{file} cannot be changed by a command: {error}; edit it by hand") from error

    def append(self, table: Table) -> None:
        listed = self._document.get("peer")
        if isinstance(listed, AoT):
            listed.append(table)
        elif not listed:
            self._document.pop("peer", None)
            tables = tomlkit.aot()
            tables.append(table)
            self._document.append("peer", tables)
        else:
            raise self._by_hand()
        self.changed = True

    def remove(self, name: str) -> None:
        listed = self._document.get("peer")
        if not isinstance(listed, AoT):
            raise self._by_hand()
        at = next(number for number, table in enumerate(listed) if table.get("name") == name)
        del listed[at]
        if not listed:
            self._document.remove("peer")
        self.changed = True

    def text(self) -> str:
        return tomlkit.dumps(self._document)

    def _by_hand(self) -> UsageError:
        return UsageError(f"{self._file} lists its peers in another form than [[peer]]; edit it by hand")


@contextmanager
def _editing(file: Path) -> Iterator[_Editing]:
    """The file, for one change at a time among all processes."""
    # A link stays a link: what it leads to is replaced.
    target = Path(os.path.realpath(file))
    with _locked(target.parent):
        editing = _Editing(file)
        yield editing
        if editing.changed:
            _check_whole(editing.text(), file)
            if current_digest(target) != editing.before:
                raise ResourceError(f"{file} was changed by somebody else in the same moment", retry=True)
            _replace(target, editing.text())


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise ResourceError(f"{folder} cannot be opened: {error.strerror}", retry=False) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _replace(target: Path, text: str) -> None:
    try:
        owner = target.stat() if target.exists() else target.parent.stat()
        with durable.replacing(target) as stream:
            os.fchmod(stream.fileno(), _PRIVATE)
            if os.geteuid() == 0:
                # Else a node that runs as another user could not read what root has changed.
                os.fchown(stream.fileno(), owner.st_uid, owner.st_gid)
            stream.write(text.encode())
    except OSError as error:
        raise ResourceError(f"{target} cannot be written: {error.strerror}", retry=False) from error


class _Draft(Sources):
    """The file as it would be."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text: Final = text

    def read(self, path: Path) -> bytes:  # noqa: ARG002 (there is only one)
        return self._text.encode()


def _check_whole(text: str, file: Path) -> None:
    """A change that would leave a file that cannot be read is not made."""
    findings = Findings()
    parse_peers(file, _Draft(text), findings)
    findings.raise_if_any()


def _table(file: Path, peer: NewPeer) -> Table:
    table = tomlkit.table()
    table["name"] = peer.name
    if peer.verifier is not None:
        table["verifier"] = str(peer.verifier)
    else:
        table["unproven"] = True
    if peer.ways:
        table["address"] = _one_or_all([str(way.address) for way in peer.ways])
    if pins := [certificate_text(way.certificate) for way in peer.ways if way.certificate is not None]:
        table["certificate"] = _one_or_all(pins)
    for key, path in (("policy", peer.policy), ("query_policy", peer.query_policy)):
        if path is not None:
            table[key] = _from(file, path)
    if peer.limits is not None:
        table["limits"] = peer.limits
    if peer.follow:
        table["follow"] = True
    if not peer.admit:
        table["admit"] = False
    return table


def _one_or_all(texts: list[str]) -> str | list[str]:
    """A single one as a text, as most people have it."""
    return texts[0] if len(texts) == 1 else texts


def _from(file: Path, path: Path) -> str:
    """A path as the file has to spell it."""
    # Real paths: what leads up from a folder that is a link leads up from where the link goes.
    return str(path) if path.is_absolute() else os.path.relpath(os.path.realpath(path), os.path.realpath(file.parent))


def _written(file: Path, name: str) -> PeerEntry:
    entry = read_peers(file).named(name)
    if entry is None:
        raise ResourceError(f"{file} was changed by somebody else in the same moment; look at it", retry=True)
    return entry


def _refuse_known_key(known: Peers, peer: NewPeer) -> None:
    if peer.verifier is not None and (other := known.find(peer.verifier)) is not None:
        raise KnownPeerExists(f"the key {peer.verifier} is known already, as {other.name!r}; one key is one peer")


def _alarm(known: PeerEntry, verifier: Verifier, file: Path) -> str:
    was = "no key at all" if known.verifier is None else known.verifier
    return (
        f"THE KEY OF {known.name!r} IS NOT THE KNOWN ONE.\n"
        f"  known   {was}\n"
        f"  proven  {verifier}\n"
        f"Either {known.name!r} has a new key, or somebody else answers in its place and would receive what is meant "
        f"for it. Nothing was exchanged and nothing was changed. Ask its owner on another way; if the key is new, "
        f"take the old one out of {file} (`bobbin peers remove`) and add the new one."
    )
