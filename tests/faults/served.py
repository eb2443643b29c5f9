"""A real ``bobbin serve`` process, and what tests ask of it: its status, its log, its memory, its store afterwards."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from bobbin.lace import Lace
from bobbin.records import ids
from bobbin.records.ids import Verifier
from bobbin.records.record import Record
from bobbin.records.signing import SigningKey
from bobbin.runtime.status import NodeStatus, PastLink, decode_status
from tests.end_to_end.command import COMMAND, bobbin, environment
from tests.policy_worlds import EVERYTHING

PATIENCE_SECONDS: Final = 45.0
"""Nothing here depends on it; it ends a test that would wait for ever."""
MB: Final = 1024 * 1024
_LOOK_SECONDS: Final = 0.01


def _secret(number: int) -> bytes:
    return bytes([number]) * 32


def _key(number: int) -> SigningKey:
    return SigningKey.from_secret(_secret(number))


NODE: Final = _key(1)
BOB: Final = _key(2)
"""The peer that misbehaves."""
CAROL: Final = _key(3)
"""The peer that must be served all the same."""
MALLORY: Final = _key(4)
"""Nobody knows this one."""
_SECRETS: Final = {_key(number).verifier: _secret(number) for number in range(1, 5)}


def until(condition: Callable[[], object], what: str = "it never came") -> None:
    """Wait until it is so."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(_LOOK_SECONDS)


def make_lace(folder: Path, own: SigningKey, records: Iterable[Record] = ()) -> Path:
    """A lace with a key and some records."""
    with Lace.create(folder) as lace:
        lace.new_key(secret=ids.secret_text(_SECRETS[own.verifier]))
        lace.store.put_records(list(records))
    return folder


def peer_table(name: str, verifier: Verifier, **settings: object) -> str:
    """One peer of ``peers.toml``."""
    lines = [f'name = "{name}"', f'verifier = "{verifier}"', 'policy = "everything.policy"']
    lines += [f"{setting} = {_toml(value)}" for setting, value in settings.items()]
    return "\n".join(["[[peer]]", *lines, ""])


def _toml(value: object) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{name} = {_toml(inner)}" for name, inner in value.items()) + " }"
    return json.dumps(value)


class Served:
    """One node, from its start to its end. Bob, Carol and whoever else is in ``peers`` are known to it."""

    def __init__(
        self,
        folder: Path,
        *,
        records: Iterable[Record] = (),
        listen: tuple[str, ...] = ("tcp:127.0.0.1:0",),
        peers: Iterable[str] | None = None,
        settings: str = "",
        file_bytes_max: int | None = None,
        extra_environment: Mapping[str, str] | None = None,
    ) -> None:
        """``file_bytes_max``: no file of the process may grow beyond it; to the store that is a disk that is full."""
        self.folder: Final = folder if folder.exists() else make_lace(folder, NODE, records)
        if peers is None:
            peers = [peer_table("bob", BOB.verifier), peer_table("carol", CAROL.verifier)]
        (folder / "everything.policy").write_text(EVERYTHING)
        (folder / "peers.toml").write_text("\n".join(peers))
        self._config: Final = folder / "node.toml"
        self._config.write_text(f"listen = {json.dumps(list(listen))}\n{settings}")
        self._file_bytes_max: Final = file_bytes_max
        self._environment: Final = environment() | dict(extra_environment or {})
        self.log: Final[list[dict[str, object]]] = []
        self.noise: Final[list[str]] = []
        """What came on stderr and is no entry of the log."""
        self.addresses: dict[str, str] = {}
        """Where it listens, by scheme."""
        self._started: Final = threading.Event()
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None

    # ---- life -------------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Returns when it listens and answers."""
        command = [*COMMAND, "serve", str(self.folder), "--config", str(self._config)]
        if self._file_bytes_max is not None:
            # Limits are inherited, and a shell sets them without any code between fork and exec.
            blocks = self._file_bytes_max // 1024
            command = ["bash", "-c", f'ulimit -f {blocks}; exec "$@"', "limited", *command]
        self._process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=self._environment, text=True
        )
        self._reader = threading.Thread(target=self._read_log, args=(self._process,), daemon=True)
        self._reader.start()
        until(lambda: self._started.is_set() or not self.is_running, "the node did not start")
        assert self._started.is_set(), f"the node ended: {self.noise[-20:]}"
        until(self._answers, "the node does not answer its operator")

    def _answers(self) -> bool:
        with suppress(OSError, http.client.HTTPException):
            self.status()
            return True
        return False

    def _read_log(self, process: "subprocess.Popen[str]") -> None:
        assert process.stderr is not None
        for line in process.stderr:
            try:
                entry = json.loads(line)
            except ValueError:
                self.noise.append(line)
                continue
            self.log.append(entry)
            if entry.get("event") == "node-started":
                listening = entry["listening"]
                self.addresses = {address.partition(":")[0]: address for address in listening}
                self._started.set()

    @property
    def process(self) -> "subprocess.Popen[str]":
        assert self._process is not None
        return self._process

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def kill(self) -> None:
        """As a power cut does to a process."""
        self.process.send_signal(signal.SIGKILL)
        self._wait()

    def stop(self) -> None:
        """In order, if it still runs."""
        if self.is_running:
            self.process.send_signal(signal.SIGTERM)
        self._wait()

    def _wait(self) -> None:
        try:
            self.process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        finally:
            assert self._reader is not None
            self._reader.join(PATIENCE_SECONDS)
            assert self.process.stderr is not None
            self.process.stderr.close()

    # ---- what it says -----------------------------------------------------------------------------------------------

    @property
    def port(self) -> int:
        return self.port_of("tcp")

    def port_of(self, scheme: str) -> int:
        found = re.search(r":(\d+)(?:/|$)", self.addresses[scheme])
        assert found is not None
        return int(found[1])

    def status(self) -> NodeStatus:
        """By its socket, as ``bobbin links`` asks."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(PATIENCE_SECONDS)
            connection.connect(str(self.folder / "node.sock"))
            request = http.client.HTTPConnection("localhost")
            request.sock = connection
            request.request("GET", "/links")
            return decode_status(request.getresponse().read())

    def refusals(self, reason: str) -> int:
        return self.status().refused.get(reason, 0)

    def refuses(self, reason: str, count: int = 1) -> None:
        """Wait until so many links have been refused for this reason, and the log has said so."""
        until(lambda: self.refusals(reason) >= count, f"no {reason}: {self.status().refused}")
        until(lambda: any(entry.get("reason") == reason for entry in self.entries("link-refused")))

    def newest(self, peer: str) -> int:
        """The number of the last link of a peer that is over; 0 if there is none."""
        return max((past.id for past in self.status().past if past.peer == peer), default=0)

    def over(self, peer: str, seen: int) -> list[PastLink]:
        """The links of a peer that are over, with a higher number than was seen; the last one to end comes first."""
        return [past for past in self.status().past if past.peer == peer and past.id > seen]

    def ends(self, peer: str, seen: int) -> PastLink:
        """Wait until a link of a peer is over that was not seen before, and the log has said so."""
        until(lambda: self.over(peer, seen), f"no link of {peer} has ended")
        past = self.over(peer, seen)[0]
        until(lambda: any(entry.get("link") == past.id for entry in self.entries("link-ended")))
        return past

    def entries(self, event: str) -> list[dict[str, object]]:
        """Of the log."""
        return [entry for entry in list(self.log) if entry.get("event") == event]

    # ---- what it costs ----------------------------------------------------------------------------------------------

    @property
    def memory(self) -> int:
        """What it has now, in bytes."""
        return self._memory("VmRSS")

    @property
    def memory_peak(self) -> int:
        """The most that it has had since ``forget_peak``."""
        return self._memory("VmHWM")

    def forget_peak(self) -> int:
        """Measure peaks from now on; returns what it has now."""
        # 5 is the number by which Linux resets the peak of a process.
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")
        return self.memory

    def _memory(self, name: str) -> int:
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(rf"^{name}:\s+(\d+) kB$", text, re.MULTILINE)
        assert found is not None
        return int(found[1]) * 1024

    @property
    def descriptors(self) -> int:
        """Files and sockets that it has open."""
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))  # noqa: PTH208 -- names only, and some vanish meanwhile


def fsck(folder: Path) -> None:
    """Every stored byte and signature is right."""
    done = bobbin("fsck", folder)
    assert done.code == 0, done


def count(folder: Path) -> int:
    """Records in a lace."""
    with Lace.open(folder, read_only=True) as lace:
        return sum(lace.stat().records.values())
