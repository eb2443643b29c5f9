"""A lace on three machines, here three processes, that goes on exchanging while its leader is killed."""

import json
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic, sleep

from bobbin.lace import Lace
from demo.tour import COMMAND, Tour, place_names, program

READINGS = 200
NODES = ("n1", "n2", "n3")
_ANYWHERE = "tls:127.0.0.1:0"
_PATIENCE_SECONDS = 60
"""For a process that has to come up, or to say something. Nothing here depends on how long it takes."""


def survive(tour: Tour) -> None:
    """Everything that needs a replicated lace."""
    tour.step(
        "A lace that survives its machine",
        "One lace, three nodes, each with all of it. They agree on one order; a record is stored when two of the "
        "three have it on disk. The lace has one key, so a peer does not care which node it talks to.",
    )
    made = tour.run(f"bobbin init hall --cluster --nodes 3 --listen tls:127.0.0.1:{_free_port()}")
    key = tour.quietly("key", "show", "hall/n1").out.strip()
    tour.claim("three folders, one key", made.code == 0 and key in made.out)
    _know_each_other(tour)
    rows = [line.split() for line in made.out.splitlines()[1:]]
    with _Nodes(tour, {row[0]: row[2].rpartition("/")[2] for row in rows}).running() as nodes:
        _write_and_follow(tour, nodes, key)
    tour.say("All nodes have stopped. The record that was written last, at each of them:")
    last = [tour.run(f"bobbin list hall/{name} //ward/9//readings//bed/last").out for name in NODES]
    tour.claim("it is at every node, also at the one that was away", last[0] != "" and last == [last[0]] * len(NODES))
    held = [_numbers(tour, name) for name in NODES]
    tour.claim(
        f"all three have the same {len(held[0])} records under the same numbers",
        len(held[0]) == READINGS + 2 and held[0] == held[1] == held[2],
    )
    clean = [tour.quietly("fsck", f"hall/{name}").code for name in NODES]
    tour.claim("and each is in order, byte by byte", clean == [0, 0, 0])


def _know_each_other(tour: Tour) -> None:
    tour.quietly("init", "doctor.lace")
    doctor = tour.quietly("key", "new", "doctor.lace").out.strip()
    policy = tour.quietly("policy", "build", "--group", "ward/9").out
    (tour.folder / "hall.policy").write_text(policy, encoding="utf-8")
    for name in NODES:
        tour.quietly("peers", "add", f"hall/{name}", "doctor", "--verifier", doctor, "--policy", "hall.policy")


def _write_and_follow(tour: Tour, nodes: "_Nodes", key: str) -> None:
    leader = nodes.leader()
    second, writer = (name for name in NODES if name != leader)
    program(
        tour,
        f'with bobbin.Lace.open("hall/{writer}") as lace:\n'
        f"    records = [lace.build(b'%d' % n, group='ward/9', app='readings', name=f'bed/{{n}}', sign=True)\n"
        f"               for n in range({READINGS})]\n"
        "    lace.store.put_records(records)\n",
    )
    tour.say(
        f"The doctor knows the hall by one key at three addresses, and follows it at the first: {leader}, who leads."
    )
    ways = [f"--address {nodes.addresses[name]}" for name in (leader, second, writer)]
    tour.run(f"bobbin peers add doctor.lace hall --verifier {key} {' '.join(ways)} --policy hall.policy")
    tour.show_command(f"bobbin follow doctor.lace hall --count {READINGS + 1} &")
    command = (*COMMAND, "follow", "doctor.lace", "hall", "--count", str(READINGS + 1), "--json")
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=tour.folder, stdout=pipe, stderr=pipe, text=True) as follower:
        tour.claim("the link is up and has nothing left to do", _is_idle(tour, leader))
        nodes.kill(leader)
        tour.say("The leader is gone without a word, and the link with it. Somebody writes at another node:")
        put = f"bobbin put hall/{writer} -g ward/9 -a readings -N bed/late --sign -"
        written = tour.run(f"echo 38.9 | {put}", stdin="38.9\n")
        out, events = follower.communicate(timeout=_PATIENCE_SECONDS)
    tour.claim("the two that are left have taken it", written.code == 0)
    linked = [row["address"] for row in map(json.loads, events.splitlines()) if row.get("event") == "linked"]
    tour.show_output([f"following hall at {address}" for address in linked])
    tour.claim(
        f"the doctor went on at {second} by itself", linked == [nodes.addresses[name] for name in (leader, second)]
    )
    came = [row["name"] for row in map(json.loads, out.splitlines()) if row.get("name")]
    tour.claim(
        f"it has all {READINGS} readings from before and this one from after, each once",
        len(came) == len(set(came)) == READINGS + 1 and came[-1] == "bed/late",
    )
    tour.say("The old leader is started again, as it was before, and catches up. Now the next one is killed:")
    nodes.show_start(leader)
    nodes.start(leader)
    nodes.kill(second)
    tour.say("Somebody writes at the node that has come back, and the doctor asks once more:")
    put = f"bobbin put hall/{leader} -g ward/9 -a readings -N bed/last --sign -"
    written = tour.run(f"echo 37.2 | {put}", stdin="37.2\n")
    tour.claim("the two that are there have taken it", written.code == 0)
    synced = tour.run("bobbin sync doctor.lace hall")
    tour.claim("whoever is there gives it the one record that is new", "1 record," in synced.out)
    tour.claim("nothing is missing", len(place_names(tour, "doctor.lace", "//ward/9//")) == READINGS + 2)
    nodes.show_start(second)
    nodes.start(second)
    tour.claim("the last one has caught up, too", nodes.until_all_have(READINGS + 2))


class _Nodes:
    """The nodes, in processes of their own."""

    def __init__(self, tour: Tour, ids: dict[str, str]) -> None:
        """``ids``: the names of the nodes by their ids in the cluster."""
        self._tour = tour
        self._ids = ids
        self._processes: dict[str, subprocess.Popen[str]] = {}
        self.addresses: dict[str, str] = {}

    @contextmanager
    def running(self) -> Iterator["_Nodes"]:
        try:
            for name in NODES:
                self.show_start(name)
            self.start(*NODES)
            yield self
        finally:
            for process in self._processes.values():
                process.terminate()
            for process in self._processes.values():
                try:
                    process.wait(timeout=_PATIENCE_SECONDS)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
                assert process.stdout is not None
                process.stdout.close()

    def show_start(self, name: str) -> None:
        """How one would type it. A node that comes back listens where it was known before."""
        self._tour.show_command(f"bobbin serve hall/{name} --listen {self.addresses.get(name, _ANYWHERE)} &")

    def start(self, *names: str) -> None:
        """Run nodes. One that was killed comes back where it was."""
        for name in names:
            with (self._tour.folder / f"hall-{name}.log").open("a") as errors:
                self._processes[name] = subprocess.Popen(
                    [*COMMAND, "serve", f"hall/{name}", "--listen", self.addresses.get(name, _ANYWHERE), "--json"],
                    cwd=self._tour.folder,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    text=True,
                )
        for name in names:
            stdout = self._processes[name].stdout
            assert stdout is not None
            line = stdout.readline()
            if not line:
                raise SystemExit(f"{name} did not come up:\n{(self._tour.folder / f'hall-{name}.log').read_text()}")
            self.addresses[name] = json.loads(line)["listening"][0]

    def kill(self, name: str) -> None:
        self._tour.show_command(f"kill -9 {name}")
        process = self._processes.pop(name)
        process.kill()
        process.communicate()

    def leader(self) -> str:
        """The name of whoever leads, as soon as somebody does."""
        deadline = monotonic() + _PATIENCE_SECONDS
        while monotonic() < deadline:
            seen = self._tour.quietly("cluster", "status", "hall/n1/cluster", "--json").rows
            if seen and seen[0]["leader"] in self._ids:
                return self._ids[seen[0]["leader"]]
            sleep(0.2)
        raise SystemExit("no node came to lead")

    def until_all_have(self, count: int) -> bool:
        """Whether every node comes to have as many records."""
        deadline = monotonic() + _PATIENCE_SECONDS
        while monotonic() < deadline:
            if all(len(_numbers(self._tour, name)) == count for name in NODES):
                return True
            sleep(0.2)
        return False


def _numbers(tour: Tour, name: str) -> list[tuple[int, str]]:
    """What a node has stored, under which numbers."""
    with Lace.open(tour.folder / "hall" / name, read_only=True) as lace:
        return [(stored.id, stored.hash) for stored in lace.store.scan()]


def _is_idle(tour: Tour, name: str) -> bool:
    """Whether a node comes to have a link that stands at its fixed point."""
    deadline = monotonic() + _PATIENCE_SECONDS
    while monotonic() < deadline:
        links = tour.quietly("links", f"hall/{name}", "--json").rows[0]["links"]
        if any(link["fixed_point"] for link in links):
            return True
        sleep(0.2)
    return False


def _free_port() -> int:
    """The first of three ports in a row that nobody has."""
    while True:
        with socket.socket() as first:
            first.bind(("127.0.0.1", 0))
            port: int = first.getsockname()[1]
        if port < 65_000 and all(_is_free(port + step) for step in range(len(NODES))):
            return port


def _is_free(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) != 0
