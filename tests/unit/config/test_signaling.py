from hashlib import sha256
from pathlib import Path

import pytest

from bobbin.config.findings import InvalidConfiguration
from bobbin.config.signaling import read_signaling
from bobbin.reactive.messages import PeerId
from bobbin.reactive.signaling import Mode
from tests.local_exchanges import ALICE, EVE

DIGEST = sha256(b"secret").hexdigest()


def _write(folder: Path, text: str) -> Path:
    file = folder / "rooms.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_who_may_join_and_how_they_are_known(tmp_path: Path) -> None:
    settings = read_signaling(
        _write(
            tmp_path,
            f"""
            origins = ["https://example.org"]
            [[peer]]
            id = 1
            token_sha256 = "{DIGEST}"
            signal = [2, 9007199254740991]
            [[peer]]
            id = 2
            verifier = "{ALICE.verifier}"
            """,
        )
    )
    assert settings.access.mode is Mode.ALLOWLIST
    assert settings.access.grants == {PeerId(1): {PeerId(2), PeerId(2**53 - 1)}, PeerId(2): frozenset()}
    assert settings.access.reserved == {PeerId(1), PeerId(2)}
    assert settings.tokens == {sha256(b"secret").digest(): PeerId(1)}
    assert settings.signers == {ALICE.verifier: PeerId(2)}
    assert settings.origins == {"https://example.org"}
    assert not settings.allow_insecure


def test_an_open_server_may_know_some(tmp_path: Path) -> None:
    settings = read_signaling(_write(tmp_path, f'mode = "open"\n[[peer]]\nid = 7\ntoken_sha256 = "{DIGEST}"\n'))
    assert settings.access.mode is Mode.OPEN
    assert settings.access.reserved == {PeerId(7)}


def test_nobody_is_known_by_default(tmp_path: Path) -> None:
    settings = read_signaling(_write(tmp_path, ""))
    assert not settings.access.may_join(PeerId(1))


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("mode = 'closed'", ["mode"]),
        ("nonsense = 1", ["nonsense"]),
        ("[[peer]]\nid = 1", ["peer 1"]),
        (f"[[peer]]\nid = 1\ntoken_sha256 = '{DIGEST}'\nverifier = '{EVE.verifier}'", ["peer 1"]),
        ("[[peer]]\nid = 1\ntoken_sha256 = 'abc'", ["peer 1, token_sha256"]),
        ("[[peer]]\nid = 1\nverifier = 'abc'", ["peer 1, verifier"]),
        (f"[[peer]]\nid = -1\ntoken_sha256 = '{DIGEST}'", ["peer 1, id"]),
        (f"[[peer]]\nid = 9007199254740992\ntoken_sha256 = '{DIGEST}'", ["peer 1"]),
        (
            f"[[peer]]\nid = 1\ntoken_sha256 = '{DIGEST}'\n[[peer]]\nid = 1\nverifier = '{EVE.verifier}'",
            ["peer 1", "peer 2"],
        ),
        (
            f"[[peer]]\nid = 1\ntoken_sha256 = '{DIGEST}'\n[[peer]]\nid = 2\ntoken_sha256 = '{DIGEST}'",
            ["peer 2, token_sha256"],
        ),
        (
            f"[[peer]]\nid = 1\nverifier = '{EVE.verifier}'\n[[peer]]\nid = 2\nverifier = '{EVE.verifier}'",
            ["peer 2, verifier"],
        ),
        ("[[peer", [""]),
    ],
)
def test_everything_that_is_wrong_is_named(tmp_path: Path, text: str, problems: list[str]) -> None:
    with pytest.raises(InvalidConfiguration) as wrong:
        read_signaling(_write(tmp_path, text))
    assert [problem.key for problem in wrong.value.problems] == problems


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfiguration):
        read_signaling(tmp_path / "nowhere.toml")
