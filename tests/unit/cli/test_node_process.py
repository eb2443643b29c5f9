"""A node as a process: what signals and changed files do to it, in this process."""

import asyncio
import io
import os
import signal
import socket
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import pytest

from bobbin.cli import node_process
from bobbin.cli.node_client import ask_links
from bobbin.cli.node_process import NodeProcess, OwnCertificate, check_purpose
from bobbin.cli.output import Json
from bobbin.config.layout import Layout
from bobbin.config.node import CertificateFiles, NodeConfig, Overrides
from bobbin.config.reload import Origin, Reloader, load
from bobbin.config.replicated import create_nodes, prepare_node
from bobbin.errors import UsageError
from bobbin.lace import Lace
from bobbin.runtime.admin import AdminError
from bobbin.runtime.connection import Destination
from bobbin.runtime.log import make_log
from bobbin.runtime.node_settings import NodeSettings
from bobbin.transport import certificate as certificates
from bobbin.transport.base import ByteStream, TransportError
from bobbin.wire import address
from tests.support.nodes import until
from tests.support.served import Served

_HERE: Final = "tcp:127.0.0.1:0"


class _Told:
    """What a process has said."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Json]]] = []

    def __call__(self, event: str, values: dict[str, Json]) -> None:
        self.events.append((event, values))

    @property
    def names(self) -> list[str]:
        return [event for event, _ in self.events]

    def last(self, name: str) -> dict[str, Json]:
        return [values for event, values in self.events if event == name][-1]


class _Scene:
    """One process, and what a test does while it runs."""

    def __init__(self, folder: Path, *listen: str, file: Path | None = None) -> None:
        self.told: Final = _Told()
        self.log: Final = io.StringIO()
        self._folder: Final = folder
        where = tuple(address.parse(text, to_listen=True) for text in listen)
        self._origin: Final = Origin(layout=Layout(folder), file=file, overrides=Overrides(listen=where))

    def run(self, act: Callable[[], Awaitable[None]] | None = None) -> None:
        async def run() -> None:
            with Lace.open(self._folder) as lace:
                log = make_log(output=self.log)
                process = NodeProcess(lace, Reloader(self._origin), log=log, tell=self.told)
                running = asyncio.create_task(process.run())
                await until(lambda: "started" in self.told.names or running.done())
                if not running.done():
                    if act is not None:
                        await act()
                    os.kill(os.getpid(), signal.SIGTERM)
                await running

        kept = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            asyncio.run(run())
        finally:
            for number, handler in kept.items():
                signal.signal(number, handler)


@pytest.fixture(autouse=True)
def _look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_process, "LOOK_SECONDS", 0.02)


def test_a_process_says_where_it_is_and_stops_in_order(elsewhere: Path) -> None:
    scene = _Scene(elsewhere, _HERE, "tls:127.0.0.1:0")
    scene.run()
    assert scene.told.names == ["started", "stopping", "stopped"]
    started = scene.told.last("started")
    assert isinstance(started["listening"], list)
    assert [text.partition(":")[0] for text in map(str, started["listening"])] == ["tcp", "tls"]
    assert not any(str(text).endswith(":0") for text in started["listening"])
    assert (started["peers"], started["process"]) == (1, os.getpid())
    assert str(started["certificate"]).startswith("sha256:")
    assert scene.told.last("stopping") == {"signal": "SIGTERM"}
    assert '"event":"node-ready"' in scene.log.getvalue()
    assert not (elsewhere / "node.sock").exists()


def test_a_changed_file_is_taken_up_and_a_wrong_one_is_said_once(elsewhere: Path) -> None:
    peers = elsewhere / "peers.toml"
    good = peers.read_text()
    scene = _Scene(elsewhere, _HERE)
    seen: list[str | None] = []

    async def act() -> None:
        peers.write_text("[[peer]]\nname = 1\n")
        await until(lambda: "reload-failed" in scene.told.names)
        seen.append((await asyncio.to_thread(ask_links, elsewhere)).reload_failure)
        os.kill(os.getpid(), signal.SIGHUP)
        peers.write_text(good.replace('"x"', '"xavier"'))
        await until(lambda: "reloaded" in scene.told.names)
        seen.append((await asyncio.to_thread(ask_links, elsewhere)).reload_failure)

    scene.run(act)
    assert seen == [scene.told.last("reload-failed")["message"], None]
    assert scene.told.names.count("reload-failed") == 1
    assert "peers.toml" in str(scene.told.last("reload-failed")["message"])
    assert scene.told.last("reloaded")["peers"] == 1


def test_a_hangup_has_everything_read(elsewhere: Path) -> None:
    scene = _Scene(elsewhere, _HERE)

    async def act() -> None:
        os.kill(os.getpid(), signal.SIGHUP)
        await until(lambda: "reloaded" in scene.told.names)

    scene.run(act)
    assert scene.told.last("reloaded")["listening"] == scene.told.last("started")["listening"]


def test_an_address_that_is_taken_is_tried_again(elsewhere: Path, tmp_path: Path) -> None:
    file, taken = tmp_path / "node.toml", tmp_path / "taken.sock"
    file.write_text(f'listen = ["{_HERE}"]\n')
    scene = _Scene(elsewhere, file=file)

    async def act() -> None:
        taken.touch()
        file.write_text(f'listen = ["unix:{taken}"]\n')
        await until(lambda: "reload-failed" in scene.told.names)
        taken.unlink()
        await until(lambda: "reloaded" in scene.told.names)

    scene.run(act)
    assert scene.told.names.count("reload-failed") == 1
    assert scene.told.last("reloaded")["listening"] == [f"unix:{taken}"]


def test_a_lace_has_one_node(node: Served) -> None:
    second = _Scene(node.folder, _HERE)
    with pytest.raises(AdminError, match="another node"):
        second.run()
    assert second.told.names == []


def test_without_key_and_peers_the_log_warns(tmp_path: Path) -> None:
    Lace.create(tmp_path / "x.lace").close()
    scene = _Scene(tmp_path / "x.lace", _HERE)
    scene.run()
    assert scene.told.last("started")["verifier"] is None
    assert '"event":"no-key"' in scene.log.getvalue()
    assert "`bobbin key new` makes one" in scene.log.getvalue()
    assert '"event":"nobody-known"' in scene.log.getvalue()


def test_a_node_of_a_replicated_lace_is_told_to_keep_the_key_of_the_others(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "hall")
    create_nodes([prepare_node(layout.folder, listen="tls:127.0.0.1:1")], preset="lan")
    Lace.create(layout.folder).close()
    scene = _Scene(layout.folder, _HERE)
    scene.run()
    assert "`bobbin key new DIR --from FILE` keeps the one" in scene.log.getvalue()


def test_a_key_by_name(elsewhere: Path, tmp_path: Path) -> None:
    with Lace.open(elsewhere) as lace:
        verifier = lace.new_key("second").verifier
    file = tmp_path / "node.toml"
    file.write_text('key = "second"\n')
    scene = _Scene(elsewhere, _HERE, file=file)
    scene.run()
    assert scene.told.last("started")["verifier"] == verifier
    file.write_text('key = "third"\n')
    with pytest.raises(UsageError, match="third"):
        _Scene(elsewhere, _HERE, file=file).run()


def test_a_node_has_something_to_do(elsewhere: Path) -> None:
    with pytest.raises(UsageError, match="nothing to do"):
        check_purpose(load(Origin(layout=Layout(elsewhere))))
    check_purpose(load(Origin(layout=Layout(elsewhere), overrides=Overrides(listen=(address.parse("stdio"),)))))
    with (elsewhere / "peers.toml").open("a") as file:
        file.write('address = "tcp:127.0.0.1:1"\nfollow = true\n')
    check_purpose(load(Origin(layout=Layout(elsewhere))))


def _dialled(where: str, pin: bytes) -> Awaitable[ByteStream]:
    return Destination(address=address.parse(where), certificate=pin).dial()


def test_a_renewed_certificate_is_shown_without_a_restart(elsewhere: Path, tmp_path: Path) -> None:
    config = tmp_path / "node.toml"
    config.write_text('[tls]\ncertificate = "c.pem"\nkey = "k.pem"\n')
    files = tmp_path / "c.pem", tmp_path / "k.pem"
    old = certificates.create(*files, names=["localhost"])
    new = certificates.create(tmp_path / "new.pem", tmp_path / "new.key", names=["localhost"])
    scene = _Scene(elsewhere, "tls:127.0.0.1:0", "wss:127.0.0.1:0", file=config)

    async def act() -> None:
        listening = scene.told.last("started")["listening"]
        assert isinstance(listening, list)
        # Half of a renewal: the files do not fit, so the old certificate stays.
        (tmp_path / "new.pem").replace(files[0])
        await until(lambda: "reload-failed" in scene.told.names)
        assert "no certificate and its key" in str(scene.told.last("reload-failed")["message"])
        for where in listening:
            await (await _dialled(str(where), old)).close()
        (tmp_path / "new.key").replace(files[1])
        await until(lambda: "reloaded" in scene.told.names)
        assert scene.told.last("reloaded")["certificate"] == f"sha256:{new.hex()}"
        for where in listening:
            stream = await _dialled(str(where), new)
            assert stream.route.binding == new
            await stream.close()
            with pytest.raises(TransportError, match="pin"):
                await _dialled(str(where), old)
        assert scene.told.last("reloaded")["listening"] == listening

    scene.run(act)
    assert scene.told.names.count("reload-failed") == 1
    assert '"event":"certificate-renewed"' in scene.log.getvalue()


def test_a_signal_renews_a_certificate_that_the_node_made_itself(elsewhere: Path) -> None:
    scene = _Scene(elsewhere, "tls:127.0.0.1:0")

    async def act() -> None:
        made = Layout(elsewhere)
        made.certificate.unlink()
        made.certificate_key.unlink()
        os.kill(os.getpid(), signal.SIGHUP)
        await until(lambda: "reloaded" in scene.told.names)

    scene.run(act)
    before, after = scene.told.last("started")["certificate"], scene.told.last("reloaded")["certificate"]
    assert before != after
    assert after == f"sha256:{certificates.fingerprint(Layout(elsewhere).certificate).hex()}"


def test_a_certificate_stays_where_the_rest_of_a_change_cannot_be_taken_up(elsewhere: Path, tmp_path: Path) -> None:
    config = tmp_path / "node.toml"
    text = '[tls]\ncertificate = "c.pem"\nkey = "k.pem"\n'
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        here = f'"tls:127.0.0.1:0", "tcp:127.0.0.1:{taken.getsockname()[1]}"'
        config.write_text(f'listen = ["tls:127.0.0.1:0"]\n{text}')
        old = certificates.create(tmp_path / "c.pem", tmp_path / "k.pem", names=["localhost"])
        certificates.create(tmp_path / "d.pem", tmp_path / "e.pem", names=["localhost"])
        scene = _Scene(elsewhere, file=config)

        async def act() -> None:
            changed = text.replace("c.pem", "d.pem").replace("k.pem", "e.pem")
            config.write_text(f"listen = [{here}]\n{changed}")
            await until(lambda: "reload-failed" in scene.told.names)
            listening = scene.told.last("started")["listening"]
            assert isinstance(listening, list)
            await (await _dialled(str(listening[0]), old)).close()

        scene.run(act)


# ---- the certificate ------------------------------------------------------------------------------------------------


def test_a_certificate_of_its_own_is_made_once(folder: Path) -> None:
    listen = (address.parse("tls:0.0.0.0"), address.parse("wss:node.example"))
    config = NodeConfig(settings=NodeSettings(listen=listen))
    made = OwnCertificate(Layout(folder), config)
    assert not made.files.certificate.exists(), "not before it is needed"
    made.prepare()
    before = made.fingerprint()
    OwnCertificate(Layout(folder), config).prepare()
    assert OwnCertificate(Layout(folder), config).fingerprint() == before
    assert stat.S_IMODE((folder / "tls").stat().st_mode) == 0o700
    assert stat.S_IMODE(made.files.key.stat().st_mode) == 0o600


def test_a_configured_certificate_is_used_and_never_made(folder: Path, tmp_path: Path) -> None:
    files = CertificateFiles(certificate=tmp_path / "c.pem", key=tmp_path / "k.pem")
    given = OwnCertificate(Layout(folder), NodeConfig(certificate=files))
    assert given.prepare().certificate == files.certificate
    assert not files.certificate.exists()
    digest = certificates.create(files.certificate, files.key)
    assert given.fingerprint() == f"sha256:{digest.hex()}"
    assert not (folder / "tls").exists()
