"""The text by which somebody is invited to join a cluster."""

import pytest

from bobbin.cli.cluster_token import Invitation, read_token, write_token
from bobbin.cluster.identity import Identity
from bobbin.errors import UsageError
from bobbin.runtime.cluster_certificate import make

_CERTIFICATE = make(Identity(bytes([1]) * 32)).certificate
_INVITATION = Invitation(bytes(16), bytes([7]) * 32, _CERTIFICATE, "tls:127.0.0.1:4795")


def test_a_token_is_read_again() -> None:
    token = write_token(_INVITATION)
    assert token.isascii()
    assert "\n" not in token
    assert read_token(token) == _INVITATION


def test_it_names_whom_to_ask_and_where() -> None:
    (member,) = _INVITATION.known().directory.members.values()
    assert (member.certificate, member.address) == (_CERTIFICATE, "tls:127.0.0.1:4795")
    (elsewhere,) = _INVITATION.known("tls:example.org:1").directory.members.values()
    assert elsewhere.address == "tls:example.org:1"
    with pytest.raises(UsageError):
        _INVITATION.known("tcp:example.org:1")


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "bobbin-join-1.",
        "bobbin-join-1.@@@@",
        write_token(_INVITATION)[:-20],
        write_token(Invitation(bytes(15), bytes(32), _CERTIFICATE, "tls:h:1")),
        write_token(Invitation(bytes(16), bytes(31), _CERTIFICATE, "tls:h:1")),
        write_token(Invitation(bytes(16), bytes(32), b"x", "tls:h:1")),
        write_token(Invitation(bytes(16), bytes(32), _CERTIFICATE, "tcp:h:1")),
        "bobbin-join-1." + "A" * 20_000,
    ],
)
def test_what_is_no_token_is_refused_and_not_repeated(wrong: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_token(wrong)
    assert not wrong or wrong not in str(caught.value)


def test_the_key_in_it_is_not_shown() -> None:
    assert bytes([7]).hex() * 3 not in repr(_INVITATION)
    assert r"\x07" not in repr(_INVITATION)
