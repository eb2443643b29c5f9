"""Three nodes of etcd in the cluster benchmark, asked by ``h2load``, which speaks its protocol without a library.

Every request is the same put, as the bytes of one gRPC call; etcd cannot tell that from a client of its own.
"""

import json
import re
import statistics
import struct
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final
from urllib.request import Request, urlopen

from benchmarks.network_processes import (
    HOST,
    START_SECONDS_MAX,
    PeerFailedError,
    free_port,
    is_listening,
    output_of,
    running,
    wait_until,
)

KEY: Final = b"key"
VALUE: Final = b"x" * 100
CONNECTIONS: Final = 4


class Etcd:
    """A cluster that is up."""

    def __init__(self, port: int, body: Path) -> None:
        self._port: Final = port
        self._body: Final = body

    def rate(self, count: int, in_flight: int) -> float:
        """Committed puts a second, with so many on their way."""
        said = self._load(count, connections=CONNECTIONS, streams=in_flight // CONNECTIONS)
        found = re.search(r"^finished in [^,]+, ([\d.]+) req/s", said, re.MULTILINE)
        if found is None:
            raise PeerFailedError(f"h2load did not say how fast it was: {said[-300:]}")
        return float(found[1])

    def latency(self, count: int) -> float:
        """The median seconds of one put after the other."""
        log = self._body.with_name("times")
        self._load(count, connections=1, streams=1, options=["--log-file", str(log)])
        taken = [int(line.split("\t")[2]) for line in log.read_text("ascii").splitlines()]
        log.unlink()
        if len(taken) != count:
            raise PeerFailedError(f"h2load has noted {len(taken)} of {count} puts")
        return statistics.median(taken) / 1_000_000

    def _load(self, count: int, *, connections: int, streams: int, options: Sequence[str] = ()) -> str:
        headers = ["-H", "content-type: application/grpc", "-H", "te: trailers"]
        numbers = ["-n", str(count), "-c", str(connections), "-m", str(streams)]
        address = f"http://{HOST}:{self._port}/etcdserverpb.KV/Put"
        before = self._version()
        said = output_of(["h2load", *numbers, *options, "-d", str(self._body), *headers, address])
        if self._version() - before != count:
            raise PeerFailedError(f"etcd has not done {count} puts")
        return said

    def _version(self) -> int:
        """How often the key has been put."""
        found = _post(self._port, "/v3/kv/range", {"key": "a2V5"}).get("kvs")
        return int(found[0]["version"]) if isinstance(found, list) else 0


@contextmanager
def etcd(folder: Path) -> Iterator[Etcd]:
    """Three nodes for as long as the block lasts."""
    peers = [free_port() for _ in range(3)]
    clients = [free_port() for _ in range(3)]
    names = ",".join(f"n{number}=http://{HOST}:{port}" for number, port in enumerate(peers))
    with ExitStack() as stack:
        for number, (peer, client) in enumerate(zip(peers, clients, strict=True)):
            here, there = f"http://{HOST}:{peer}", f"http://{HOST}:{client}"
            options = {
                "name": f"n{number}",
                "data-dir": str(folder / f"n{number}"),
                "listen-peer-urls": here,
                "initial-advertise-peer-urls": here,
                "listen-client-urls": there,
                "advertise-client-urls": there,
                "initial-cluster": names,
                "initial-cluster-state": "new",
            }
            words = [word for name, value in options.items() for word in (f"--{name}", value)]
            stack.enter_context(running(["etcd", *words], quiet=True))
        wait_until(lambda: all(map(is_listening, clients)), what="etcd listens", seconds_max=START_SECONDS_MAX)
        wait_until(lambda: _leader(clients) is not None, what="etcd has a leader", seconds_max=START_SECONDS_MAX)
        port = _leader(clients)
        assert port is not None
        call = _field(1, KEY) + _field(2, VALUE)
        body = folder / "put"
        body.write_bytes(b"\0" + struct.pack(">I", len(call)) + call)
        yield Etcd(port, body)


def version() -> str:
    """The version of etcd that is installed."""
    found = re.search(r"^etcd Version: (\S+)", output_of(["etcd", "--version"]), re.MULTILINE)
    if found is None:
        raise PeerFailedError("etcd does not say which version it is")
    return found[1]


def _leader(clients: list[int]) -> int | None:
    """The port of the leader."""
    for port in clients:
        status = _post(port, "/v3/maintenance/status", {})
        header = status.get("header")
        if isinstance(header, dict) and status.get("leader") == header.get("member_id"):
            return port
    return None


def _post(port: int, path: str, body: dict[str, str]) -> dict[str, object]:
    content = json.dumps(body).encode()
    request = Request(f"http://{HOST}:{port}{path}", data=content, headers={"content-type": "application/json"})
    with urlopen(request, timeout=10) as answer:  # noqa: S310 (loopback)
        found = json.load(answer)
    assert isinstance(found, dict)
    return found


def _field(number: int, content: bytes) -> bytes:
    """A field of bytes, as protocol buffers write it; the length must fit in seven bits."""
    assert len(content) < 128
    return bytes([number << 3 | 2, len(content)]) + content
