"""Files of tokens, and allowances as people write them."""

from hashlib import sha256
from pathlib import Path

import pytest

from bobbin.config.graph_access import make_access, read_token, read_tokens
from bobbin.config.keys import KeyFileError
from bobbin.config.peers import Peers, read_peers
from bobbin.errors import UsageError
from bobbin.reactive.messages import PeerId
from bobbin.reactive.permissions import OpKind
from bobbin.runtime.graph_allowances import Allowance
from bobbin.runtime.graph_peers import ANYONE, OWNER, signer_peer, token_digest
from tests.unit.cli.command_line import VERIFIER

TOKEN = "some-token"
DIGEST = sha256(TOKEN.encode()).hexdigest()
TOKENS = {token_digest(TOKEN): PeerId(7)}


def _file(tmp_path: Path, text: str, mode: int = 0o600) -> Path:
    path = tmp_path / "tokens"
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return path


def _peers(tmp_path: Path) -> Peers:
    path = tmp_path / "peers.toml"
    path.write_text(f'[[peer]]\nname = "lab"\nverifier = "{VERIFIER}"\n', encoding="utf-8")
    path.chmod(0o600)
    return read_peers(path)


def test_tokens_and_digests(tmp_path: Path) -> None:
    text = f"# who watches\n7 {TOKEN}  # the screen in the hall\n\n8 sha256:{'ab' * 32}\n"
    assert read_tokens(_file(tmp_path, text)) == {**TOKENS, bytes.fromhex("ab" * 32): 8}
    assert read_tokens(_file(tmp_path, "")) == {}


def test_a_file_with_tokens_is_for_its_owner(tmp_path: Path) -> None:
    with pytest.raises(KeyFileError, match="read by others"):
        read_tokens(_file(tmp_path, f"7 {TOKEN}\n", 0o644))
    with pytest.raises(KeyFileError, match="read by others"):
        read_token(_file(tmp_path, f"7 {TOKEN}\n", 0o640))
    assert read_tokens(_file(tmp_path, f"7 sha256:{DIGEST}\n", 0o644)) == TOKENS, "who reads a digest cannot use it"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("seven some-token\n", "line 1: not the id"),
        ("7\n", "line 1: not the id"),
        ("\n7 some token\n", "line 2: not the id"),
        ("\n7 short\n", "line 2: a token has 8 to 128"),
        (f"2 {TOKEN}\n", "line 1: a token has an id between 3 and"),
        (f"7 {TOKEN}\n8 {TOKEN}\n", "line 2: another peer has this token"),
        (f"7 {TOKEN}\n8 sha256:{DIGEST}\n", "line 2: another peer has this token"),
        ("x" * 5_000_000, "more than"),
        ("7 \ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\n", "8 to 128"),
    ],
)
def test_what_is_wrong_with_a_file(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        read_tokens(_file(tmp_path, text))


def test_there_are_only_so_many_tokens(tmp_path: Path) -> None:
    text = "".join(f"7 sha256:{number:064x}\n" for number in range(10_001))
    with pytest.raises(UsageError, match="at most 10,000"):
        read_tokens(_file(tmp_path, text))


def test_an_observers_own_token(tmp_path: Path) -> None:
    assert read_token(_file(tmp_path, f"7 {TOKEN}\n")) == (7, TOKEN)
    for text, why in (
        ("", "0 tokens"),
        (f"7 {TOKEN}\n8 other-token\n", "2 tokens"),
        (f"7 sha256:{DIGEST}\n", "digest"),
    ):
        with pytest.raises(UsageError, match=why):
            read_token(_file(tmp_path, text))


def test_nothing_is_allowed_but_what_is_said_and_the_owner_reads(tmp_path: Path) -> None:
    access = make_access((), {}, Peers(file=tmp_path / "peers.toml"))
    assert access.allowed == (Allowance(OWNER, OpKind.READ, "*"),)
    assert access.names == {OWNER: "owner"}
    assert not access.identities.anyone
    said = make_access(["owner:read=records/*"], {}, Peers(file=tmp_path / "peers.toml"))
    assert said.allowed == (Allowance(OWNER, OpKind.READ, "records/*"),), "what is said of the owner holds for it"
    more = make_access(["owner:write=a"], {}, Peers(file=tmp_path / "peers.toml"))
    assert set(more.allowed) == {Allowance(OWNER, OpKind.WRITE, "a"), Allowance(OWNER, OpKind.READ, "*")}


def test_tokens_keys_and_anyone(tmp_path: Path) -> None:
    peers = _peers(tmp_path)
    lab = signer_peer(VERIFIER)  # type: ignore[arg-type]
    allow = ["7:read=records/*", "7:write=a=b", "lab:trigger_effect=*", "anyone:read=records/count", "7:read=records/*"]
    access = make_access(allow, TOKENS, peers)
    assert access.allowed == (
        Allowance(PeerId(7), OpKind.READ, "records/*"),
        Allowance(PeerId(7), OpKind.WRITE, "a=b"),
        Allowance(lab, OpKind.TRIGGER_EFFECT, "*"),
        Allowance(ANYONE, OpKind.READ, "records/count"),
        Allowance(OWNER, OpKind.READ, "*"),
    )
    assert access.names == {OWNER: "owner", ANYONE: "anyone", 7: "peer 7", lab: "lab"}
    assert access.identities.anyone
    assert access.identities.signers == {VERIFIER}
    assert make_access(["7:read=*"], TOKENS, peers).identities.signers == frozenset(), "who may nothing is not taken"


@pytest.mark.parametrize(
    "text", ["", "7", "7:read", "7:read=", ":read=*", "7:delete=*", "8:read=*", "nobody:read=*", "7:READ=*", "0:read=*"]
)
def test_what_is_no_allowance(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError):
        make_access([text], TOKENS, _peers(tmp_path))
