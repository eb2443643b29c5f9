"""Who may see what of a graph that is served: a file of tokens, and allowances as people write them.

A token file has one peer on each line, ``ID TOKEN`` or ``ID sha256:HEX``; ``#`` begins a comment. With digests only,
whoever reads the file cannot use it; with tokens in it, it must be readable by its owner alone. An observer's own file
has its one line, with the token.

An allowance is ``PEER:KIND=PATTERN``: the id of a token, the name of a known peer, ``owner`` or ``anyone``; ``read``,
``write`` or ``trigger_effect``; and a pattern of keys, as in ``7:read=records/*``.
"""

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from bobbin.config.keys import check_private
from bobbin.config.peers import Peers
from bobbin.errors import UsageError
from bobbin.reactive.messages import PeerId
from bobbin.reactive.permissions import OpKind
from bobbin.records.ids import Verifier
from bobbin.runtime.graph_allowances import EVERYTHING, Allowance
from bobbin.runtime.graph_peers import (
    NAMES,
    OWNER,
    SIGNER_PEER_MIN,
    TOKEN_PEER_MIN,
    Identities,
    signer_peer,
    token_digest,
)

TOKENS_MAX: Final = 10_000
FILE_BYTES_MAX: Final = 4 * 1024 * 1024

_ALLOWANCE: Final = re.compile(r"([^:=]+):([a-z_]+)=(.+)", re.DOTALL)
_DIGEST: Final = re.compile(r"sha256:([0-9a-fA-F]{64})", re.ASCII)
_ID: Final = re.compile(r"[0-9]{1,16}", re.ASCII)
_PARTS: Final = 2


class Access(Struct, frozen=True, kw_only=True):
    """Who is known, by what, and what each may do."""

    identities: Identities
    allowed: tuple[Allowance, ...]
    names: Mapping[PeerId, str]
    """What everybody is called here, who could come."""


class _File(Struct, frozen=True):
    """A token file."""

    status: os.stat_result
    lines: tuple[tuple[int, PeerId, str], ...]
    """Number, id and token of each."""


def read_tokens(file: Path) -> dict[bytes, PeerId]:
    """The peers of a token file, by the digests of their tokens.

    Raises ``UsageError``, and ``IntegrityError`` where others can read the tokens in it.
    """
    found: dict[bytes, PeerId] = {}
    content = _read(file)
    for number, peer, text in content.lines:
        digest = _DIGEST.fullmatch(text)
        if digest is None:
            check_private(file, content.status)
        key = _digest(file, number, text) if digest is None else bytes.fromhex(digest[1])
        if key in found:
            raise UsageError(f"{file}, line {number}: another peer has this token already")
        found[key] = peer
    if len(found) > TOKENS_MAX:
        raise UsageError(f"{file} has {len(found):,} tokens; a server knows at most {TOKENS_MAX:,}")
    return found


def read_token(file: Path) -> tuple[PeerId, str]:
    """An observer's own id and token. Raises as ``read_tokens`` does."""
    content = _read(file)
    if len(content.lines) != 1:
        raise UsageError(f"{file} has {len(content.lines)} tokens; an observer has one")
    ((number, peer, text),) = content.lines
    if _DIGEST.fullmatch(text):
        raise UsageError(f"{file} has only the digest of a token, which shows nothing")
    check_private(file, content.status)
    _digest(file, number, text)
    return peer, text


def _digest(file: Path, number: int, text: str) -> bytes:
    try:
        return token_digest(text)
    except UsageError as error:
        raise UsageError(f"{file}, line {number}: {error}") from error


def _read(file: Path) -> _File:
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as stream:
        status, content = os.fstat(stream.fileno()), stream.read(FILE_BYTES_MAX + 1)
    if len(content) > FILE_BYTES_MAX:
        raise UsageError(f"{file} has more than {FILE_BYTES_MAX:,} bytes, so it is no file of tokens")
    lines: list[tuple[int, PeerId, str]] = []
    for number, line in enumerate(content.decode("utf-8", "replace").splitlines(), start=1):
        words = line.partition("#")[0].split()
        if words and (len(words) != _PARTS or not _ID.fullmatch(words[0])):
            raise UsageError(f"{file}, line {number}: not the id of a peer and its token")
        if words and not TOKEN_PEER_MIN <= int(words[0]) < SIGNER_PEER_MIN:
            raise UsageError(
                f"{file}, line {number}: a token has an id between {TOKEN_PEER_MIN} and 2^52 - 1, not {words[0]}"
            )
        if words:
            lines.append((number, PeerId(int(words[0])), words[1]))
    return _File(status, tuple(lines))


def make_access(allow: Iterable[str], tokens: Mapping[bytes, PeerId], peers: Peers) -> Access:
    """What texts and files allow. Where they do not say what the owner reads, that is everything, as it may anyway."""
    known = {entry.name: entry.verifier for entry in peers.entries if entry.verifier is not None}
    signers: dict[str, Verifier] = {}
    allowed: dict[Allowance, None] = {}
    for text in allow:
        found = _ALLOWANCE.fullmatch(text)
        if found is None or found[2] not in set(OpKind):
            kinds = ", ".join(OpKind)
            raise UsageError(
                f"an allowance is PEER:KIND=KEYS, as in 7:read=records/*, not {text[:80]!r}; KIND: {kinds}"
            )
        name, kind, pattern = found.groups()
        if name in known:
            signers[name] = known[name]
        allowed[Allowance(_peer(name, tokens, known, peers.file), OpKind(kind), pattern)] = None
    if not any(one.peer == OWNER and one.kind is OpKind.READ for one in allowed):
        allowed[Allowance(OWNER, OpKind.READ, EVERYTHING)] = None
    who = {one.peer for one in allowed}
    identities = Identities(tokens=tokens, signers=frozenset(signers.values()), anyone=NAMES["anyone"] in who)
    names = {peer: name for name, peer in NAMES.items() if peer in who or peer == OWNER}
    names |= {peer: f"peer {peer}" for peer in sorted(tokens.values())}
    names |= {signer_peer(verifier): name for name, verifier in signers.items()}
    return Access(identities=identities, allowed=tuple(allowed), names=names)


def _peer(name: str, tokens: Mapping[bytes, PeerId], known: Mapping[str, Verifier], file: Path) -> PeerId:
    if name in NAMES:
        return NAMES[name]
    if _ID.fullmatch(name):
        if int(name) in tokens.values():
            return PeerId(int(name))
        raise UsageError(
            f"peer {name} has no token; ids of tokens begin at {TOKEN_PEER_MIN}, and --token-file has them"
        )
    if name in known:
        return signer_peer(known[name])
    raise UsageError(f"{name[:64]!r} is neither the id of a token, nor owner or anyone, nor known by a key in {file}")
