"""Whose id is which."""

import pytest

from bobbin.errors import UsageError
from bobbin.reactive.messages import SAFE_INTEGER_MAX, PeerId
from bobbin.records.signing import SigningKey
from bobbin.runtime.graph_peers import (
    ANYONE,
    OWNER,
    SIGNER_PEER_MIN,
    TOKEN_PEER_MIN,
    Credentials,
    Identities,
    signer_peer,
    token_digest,
)
from tests.unit.cli.command_line import SECRET, VERIFIER

KEY = SigningKey.from_text(SECRET)


def test_the_kinds_of_ids_do_not_meet() -> None:
    peer = signer_peer(KEY.verifier)
    assert SIGNER_PEER_MIN <= peer <= SAFE_INTEGER_MAX
    assert signer_peer(KEY.verifier) == peer != signer_peer(KEY.verifier.replace("V.O", "V.P"))  # type: ignore[arg-type]
    assert max(OWNER, ANYONE) < TOKEN_PEER_MIN


@pytest.mark.parametrize("peer", [0, OWNER, ANYONE, SIGNER_PEER_MIN, 2**64 - 1])
def test_a_token_does_not_get_somebody_elses_id(peer: int) -> None:
    with pytest.raises(UsageError, match="between 3 and"):
        Identities(tokens={token_digest("some-token"): PeerId(peer)})


@pytest.mark.parametrize("text", ["", "short", "with space", "a" * 129, "tökentöken", "line\nline\n"])
def test_what_is_no_token(text: str) -> None:
    with pytest.raises(UsageError, match="8 to 128"):
        token_digest(text)


def test_tokens_and_keys_lead_to_ids() -> None:
    identities = Identities(tokens={token_digest("some-token"): PeerId(5)}, signers=frozenset({KEY.verifier}))
    assert identities.of_token("some-token") == 5
    assert identities.of_token("some-tokem") is None
    assert identities.of_token("\udcff") is None
    assert identities.of_signer(KEY.verifier) == signer_peer(KEY.verifier)
    assert identities.of_signer(None) is None
    assert Identities().of_signer(KEY.verifier) is None


def test_what_an_observer_claims() -> None:
    assert Credentials().claims(is_own=True) == OWNER
    assert Credentials().claims(is_own=False) == ANYONE
    assert Credentials(peer=PeerId(5), token="some-token").claims(is_own=True) == 5
    assert Credentials(key=KEY).claims(is_own=True) == signer_peer(KEY.verifier)


def test_credentials_that_make_no_sense() -> None:
    with pytest.raises(UsageError, match="choose one"):
        Credentials(peer=PeerId(5), token="some-token", key=KEY)
    with pytest.raises(UsageError, match="belong together"):
        Credentials(token="some-token")
    with pytest.raises(UsageError, match="belong together"):
        Credentials(peer=PeerId(5))
    with pytest.raises(UsageError, match="8 to 128"):
        Credentials(peer=PeerId(5), token="short")
    with pytest.raises(UsageError, match="proves its key"):
        Credentials(verifier=VERIFIER)  # type: ignore[arg-type]
