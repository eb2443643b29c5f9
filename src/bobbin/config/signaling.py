"""The file of a signaling server: who may join its rooms, how they are known, and whom each of them may signal.

::

    origins = ["https://example.org"]

    [[peer]]
    id = 1
    token_sha256 = "…"  # or: verifier = "V.….H3"
    signal = [2, 3]

Tokens are not in it, only their SHA-256 (``printf %s TOKEN | sha256sum``), so that who reads the file cannot join.
"""

from collections import Counter
from pathlib import Path
from typing import Annotated, Final

from msgspec import Meta, Struct

from bobbin.config.findings import Findings
from bobbin.config.schema import convert, read_table
from bobbin.config.sources import Sources
from bobbin.errors import IntegrityError
from bobbin.reactive.messages import SAFE_INTEGER_MAX, PeerId
from bobbin.reactive.signaling import Access, Mode
from bobbin.records import ids
from bobbin.records.ids import Verifier
from bobbin.runtime.signal_server import SignalSettings

PEERS_MAX: Final = 100_000
_DIGEST_SIZE: Final = 32


class PeerTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``[[peer]]``: one peer that is known."""

    id: Annotated[int, Meta(description="Its id in every room.", ge=0)]
    token_sha256: Annotated[str | None, Meta(description="SHA-256 of its token, in hex.")] = None
    verifier: Annotated[str | None, Meta(description="Its key, where it proves itself instead.")] = None
    signal: Annotated[tuple[int, ...], Meta(description="Ids of the peers that it may signal.")] = ()


class SignalTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole file."""

    mode: Annotated[
        Mode,
        Meta(description="`allowlist`: only what is granted here. `open`: everybody may join, under any other id."),
    ] = Mode.ALLOWLIST
    origins: Annotated[
        tuple[str, ...], Meta(description="Pages whose browsers are taken, as in `https://example.org`.")
    ] = ()
    peer: tuple[PeerTable, ...] = ()


def read_signaling(file: Path) -> SignalSettings:
    """The settings in a file, or ``InvalidConfiguration`` with everything that is wrong with it."""
    findings = Findings()
    table = read_table(file, Sources(), findings)
    content = None if table is None else convert(table, SignalTable, file, findings, partly=True)
    settings = None if content is None else _settings(content, file, findings)
    findings.raise_if_any()
    assert settings is not None, "what cannot be read was found to be wrong"
    return settings


def _settings(content: SignalTable, file: Path, findings: Findings) -> SignalSettings:
    tokens: dict[bytes, PeerId] = {}
    signers: dict[Verifier, PeerId] = {}
    grants: dict[PeerId, frozenset[PeerId]] = {}
    # A table that is wrong stands as None in the list, and was found already.
    entries: tuple[PeerTable | None, ...] = content.peer
    peers = [(number, peer) for number, peer in enumerate(entries, start=1) if peer is not None]
    twice = {number for number, count in Counter(peer.id for _, peer in peers).items() if count > 1}
    if len(peers) > PEERS_MAX:
        findings.add(file, "peer", f"there are {len(peers)}; a server knows at most {PEERS_MAX}")
    for number, peer in peers:
        key = f"peer {number}"
        if any(one > SAFE_INTEGER_MAX or one < 0 for one in (peer.id, *peer.signal)):
            findings.add(file, key, "ids lie between 0 and 2^53 - 1, so that browsers do not round them")
        if peer.id in twice:
            findings.add(file, key, f"the id {peer.id} stands here more than once")
        if (peer.token_sha256 is None) == (peer.verifier is None):
            findings.add(file, key, "a peer is known by token_sha256 or by verifier: give one of them")
        known = PeerId(peer.id)
        grants[known] = frozenset(map(PeerId, peer.signal))
        if peer.token_sha256 is not None:
            digest = _digest(peer.token_sha256)
            if digest is None or digest in tokens:
                findings.add(file, f"{key}, token_sha256", "not 64 hex digits, or those of another peer's token")
            else:
                tokens[digest] = known
        if peer.verifier is not None:
            verifier = _verifier(peer.verifier)
            if verifier is None or verifier in signers:
                findings.add(file, f"{key}, verifier", "not a verifier (V.….H3), or that of another peer")
            else:
                signers[verifier] = known
    return SignalSettings(
        access=Access(mode=content.mode, grants=grants, reserved=frozenset(grants)),
        tokens=tokens,
        signers=signers,
        origins=frozenset(content.origins),
    )


def _digest(text: str) -> bytes | None:
    try:
        digest = bytes.fromhex(text)
    except ValueError:
        return None
    return digest if len(digest) == _DIGEST_SIZE else None


def _verifier(text: str) -> Verifier | None:
    try:
        ids.parse_verifier(text)
    except IntegrityError:
        return None
    return Verifier(text)
