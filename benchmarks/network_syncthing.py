"""Syncthing between two of its own processes on loopback: as many files, with the same bytes, as there are records.

The sender has scanned its folder before anything is measured. The receiver starts with an empty folder and an empty
database, and with the sender paused; it is then told to go on. The clock runs from the moment when the receiver says
that it is connected until it says that it has every file and is idle. Discovery, relays, address mapping, upgrades,
reports and watching the disk are off; its low priority is off too; all else is as it comes, its waiting for the disk
after each file included.
"""

import http.client
import json
import secrets
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final
from xml.sax.saxutils import quoteattr

from msgspec import Struct

from benchmarks.material import FOLDER_RECORDS, RECORD_BYTES, VERSION, bundle, cache_folder
from benchmarks.network_processes import (
    HOST,
    START_SECONDS_MAX,
    WORK_SECONDS_MAX,
    PeerFailedError,
    free_port,
    plain_environment,
    running,
    wait_until,
)

_FOLDER: Final = "bench"
_CONFIG: Final = """\
<configuration version="36">
    <folder id="{folder}" label="" path={path} type="{type}" rescanIntervalS="0" fsWatcherEnabled="false">
        <device id="{own}"></device>
        <device id="{peer}"></device>
    </folder>
    <device id="{own}" name="own"><address>dynamic</address></device>
    <device id="{peer}" name="peer"><address>{peer_address}</address><paused>{paused}</paused></device>
    <gui enabled="true" tls="false"><address>{host}:{gui_port}</address><apikey>{api_key}</apikey></gui>
    <options>
        <listenAddress>tcp://{host}:{port}</listenAddress>
        <globalAnnounceEnabled>false</globalAnnounceEnabled>
        <localAnnounceEnabled>false</localAnnounceEnabled>
        <relaysEnabled>false</relaysEnabled>
        <natEnabled>false</natEnabled>
        <stunKeepaliveStartS>0</stunKeepaliveStartS>
        <reconnectionIntervalS>1</reconnectionIntervalS>
        <startBrowser>false</startBrowser>
        <autoUpgradeIntervalH>0</autoUpgradeIntervalH>
        <urAccepted>-1</urAccepted>
        <crashReportingEnabled>false</crashReportingEnabled>
        <setLowPriority>false</setLowPriority>
    </options>
</configuration>
"""


class Side(Struct, frozen=True, kw_only=True):
    """One of the two instances."""

    home: Path
    files: Path
    device: str
    port: int
    gui_port: int
    api_key: str

    def ask(self, method: str, path: str) -> dict[str, object]:
        """A question to its interface on loopback."""
        connection = http.client.HTTPConnection(HOST, self.gui_port, timeout=START_SECONDS_MAX)
        try:
            connection.request(method, f"/rest/{path}", headers={"X-API-Key": self.api_key})
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        if answer.status != http.client.OK:
            raise PeerFailedError(f"Syncthing answers {answer.status} to {path}: {content[:200]!r}")
        decoded = json.loads(content) if content.strip() else {}
        return decoded if isinstance(decoded, dict) else {}

    def is_up(self) -> bool:
        """Whether its interface answers."""
        try:
            return self.ask("GET", "system/ping") == {"ping": "pong"}
        except (OSError, http.client.HTTPException):
            return False

    def has(self, count: int) -> bool:
        """Whether it says that there are so many files, that it has all of them and that it has nothing to do."""
        status = self.ask("GET", f"db/status?folder={_FOLDER}")
        if status.get("errors") or status.get("error"):
            raise PeerFailedError(f"Syncthing reports errors: {status}")
        numbers = [status.get(name) for name in ("globalFiles", "localFiles", "needFiles", "needDirectories")]
        return numbers == [count, count, 0, 0] and status.get("state") == "idle"

    def is_connected_to(self, device: str) -> bool:
        """Whether it has a connection to the other one."""
        connections = self.ask("GET", "system/connections").get("connections")
        entry = connections.get(device) if isinstance(connections, dict) else None
        return isinstance(entry, dict) and entry.get("connected") is True


def version() -> str:
    """What it says of its version, up to the name of the release."""
    said = subprocess.run([_executable(), "--version"], check=True, stdout=subprocess.PIPE, text=True).stdout
    return " ".join(said.split()[:2])


def prepare(count: int) -> None:
    """Files, scanned by a sender that keeps its database. Quick when that is done."""
    with tempfile.TemporaryDirectory(prefix="bobbin-bench-") as temporary, ExitStack() as stack:
        stack.enter_context(_sender(count, _make_receiver(Path(temporary))))


def files_per_second(count: int) -> float:
    """Everything into an empty folder of a new instance."""
    with tempfile.TemporaryDirectory(prefix="bobbin-bench-") as temporary, ExitStack() as stack:
        receiver = _make_receiver(Path(temporary))
        sender = stack.enter_context(_sender(count, receiver))
        _configure(receiver, sender, kind="receiveonly", dial=True)
        stack.enter_context(_serving(receiver))
        receiver.ask("POST", f"system/resume?device={sender.device}")
        wait_until(
            lambda: receiver.is_connected_to(sender.device),
            what="Syncthing connects",
            seconds_max=START_SECONDS_MAX,
            every_seconds=0.01,
        )
        start = time.perf_counter()
        wait_until(lambda: receiver.has(count), what="Syncthing is in sync", seconds_max=WORK_SECONDS_MAX)
        seconds = time.perf_counter() - start
        _compare(receiver.files, count)
    return count / seconds


@contextmanager
def _sender(count: int, receiver: Side) -> Iterator[Side]:
    """The instance that has all files and knows it."""
    folder = cache_folder() / f"syncthing-{count}-v{VERSION}"
    if not folder.exists():
        with tempfile.TemporaryDirectory(dir=cache_folder()) as temporary:
            unfinished = Path(temporary) / "sender"
            _write_files(unfinished / "files", count)
            _generate(unfinished / "home")
            unfinished.rename(folder)
    sender = _side(folder / "home", folder / "files")
    _configure(sender, receiver, kind="sendonly", dial=False)
    with _serving(sender):
        wait_until(lambda: sender.has(count), what="Syncthing scans", seconds_max=WORK_SECONDS_MAX)
        yield sender


def _make_receiver(folder: Path) -> Side:
    """A new instance with nothing."""
    home, files = folder / "home", folder / "files"
    files.mkdir()
    _generate(home)
    return _side(home, files)


def _side(home: Path, files: Path) -> Side:
    """An instance at free ports, with a new key to its interface."""
    said = _run("serve", f"--home={home}", "--device-id")
    return Side(
        home=home,
        files=files,
        device=said.strip(),
        port=free_port(),
        gui_port=free_port(),
        api_key=secrets.token_hex(16),
    )


def _configure(side: Side, peer: Side, *, kind: str, dial: bool) -> None:
    """Write all of a side's settings. One that dials begins with the peer paused."""
    (side.files / ".stfolder").mkdir(exist_ok=True)
    text = _CONFIG.format(
        folder=_FOLDER,
        path=quoteattr(str(side.files)),
        type=kind,
        own=side.device,
        peer=peer.device,
        peer_address=f"tcp://{HOST}:{peer.port}" if dial else "dynamic",
        paused=str(dial).lower(),
        host=HOST,
        port=side.port,
        gui_port=side.gui_port,
        api_key=side.api_key,
    )
    (side.home / "config.xml").write_text(text, encoding="utf-8")


@contextmanager
def _serving(side: Side) -> Iterator[None]:
    """An instance at work. Its log is shown only if it fails."""
    log = side.home / "bench.log"
    command = [_executable(), "serve", f"--home={side.home}", f"--logfile={log}"]
    options = ["--no-browser", "--no-restart", "--no-upgrade", "--no-default-folder"]
    # What it prints besides goes nowhere: nobody reads a pipe here, and a full one would hold it up.
    with running([*command, *options], environment=_environment(side.home), quiet=True) as process:
        try:
            wait_until(
                lambda: process.poll() is not None or side.is_up(), what="Syncthing", seconds_max=START_SECONDS_MAX
            )
            yield
        except PeerFailedError as error:
            lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
            raise PeerFailedError("\n".join([str(error), *lines[-20:]])) from error


def _generate(home: Path) -> None:
    home.mkdir()
    _run("generate", f"--home={home}", "--no-default-folder", "--skip-port-probing", user_home=home)


def _run(*arguments: str, user_home: Path | None = None) -> str:
    command = [_executable(), *arguments]
    environment = _environment(user_home or Path(tempfile.gettempdir()))
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
    except subprocess.CalledProcessError as error:
        raise PeerFailedError(f"{error}: {error.stderr[-500:]}") from error


def _environment(home: Path) -> dict[str, str]:
    """Nothing of this machine's user is read or written."""
    return plain_environment(HOME=str(home), STNOUPGRADE="1")


def _executable() -> str:
    found = shutil.which("syncthing")
    if found is None:
        raise PeerFailedError("syncthing is not installed: scripts/system-packages syncthing")
    return found


def _records(count: int) -> Iterator[tuple[str, bytes]]:
    """For each record the name of its file and its bytes."""
    with bundle(count).open("rb") as file:
        for number in range(count):
            yield f"folder-{number // FOLDER_RECORDS:06d}/record-{number:08d}", file.read(RECORD_BYTES)


def _write_files(folder: Path, count: int) -> None:
    for name, raw in _records(count):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(raw)


def _compare(folder: Path, count: int) -> None:
    """Whether every file arrived as it was."""
    for name, raw in _records(count):
        if (folder / name).read_bytes() != raw:
            raise PeerFailedError(f"Syncthing brought something else than {name}")
