"""``bobbin signal serve``: a process, and clients of it."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

import pytest

from bobbin.reactive.messages import PeerId
from bobbin.runtime.signal_client import Credentials, JoinRefused, join
from bobbin.transport import certificate
from bobbin.transport.tls import TlsClient
from bobbin.wire import address
from bobbin.wire.address import Address
from tests.end_to_end.command import environment
from tests.support.signal_rooms import run
from tests.unit.cli.command_line import Cli


@contextmanager
def serving(*options: str | Path) -> Iterator[Address]:
    """A served address; stops it in order."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bobbin", "signal", "serve", "--listen", "127.0.0.1:0", "--json", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    assert process.stdout is not None
    try:
        started = json.loads(process.stdout.readline())
        assert started["event"] == "started"
        yield address.parse(started["address"])
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (0, b"")
        assert json.loads(out.splitlines()[-1]) == {"event": "stopped"}
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
def test_an_open_server_lets_everybody_in() -> None:
    async def main(place: Address) -> None:
        async with await join(place, "room", PeerId(1)), await join(place, "room", PeerId(2)) as two:
            assert two.peers == {PeerId(1)}

    with serving("--open") as place:
        run(main(place))


@pytest.mark.slow
def test_a_file_says_who_may_join_over_an_encrypted_connection(tmp_path: Path) -> None:
    file, shown, key = tmp_path / "rooms.toml", tmp_path / "certificate.pem", tmp_path / "key.pem"
    file.write_text(f'[[peer]]\nid = 1\ntoken_sha256 = "{sha256(b"secret").hexdigest()}"\n', encoding="utf-8")
    pin = certificate.create(shown, key, names=["127.0.0.1"])

    async def main(place: Address) -> None:
        demands = TlsClient(pin=pin)
        async with await join(
            place, "room", PeerId(1), credentials=Credentials(token="secret"), tls_demands=demands
        ) as one:
            assert one.peer == 1
        with pytest.raises(JoinRefused):
            await join(place, "room", PeerId(1), tls_demands=demands)

    with serving("--access", file, "--certificate", shown, "--private-key", key) as place:
        assert place.scheme == "wss"
        run(main(place))


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--open", "--access", "file"),
        ("--open", "--certificate", "file"),
        ("--open", "--listen", "nowhere at all"),
        ("--open", "--listen", "0.0.0.0:0"),
    ],
)
def test_what_is_not_served(
    options: tuple[str, ...], cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    answer = cli("signal", "serve", *options)
    assert (answer.code, answer.out) == (2, b"")
    assert answer.err.startswith("error: ")


def test_a_file_that_is_wrong_is_named_with_everything_in_it(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "rooms.toml"
    file.write_text('mode = "closed"\n[[peer]]\nid = 1\n', encoding="utf-8")
    answer = cli("signal", "serve", "--access", file)
    assert answer.code == 2
    assert "mode" in answer.err
    assert "peer 1" in answer.err
