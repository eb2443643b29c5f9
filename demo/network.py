"""The third part: two processes, two owners, TLS between them."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

from demo.tour import COMMAND, Tour, place_names, program

if TYPE_CHECKING:
    from pathlib import Path

READINGS = 8_000
_AT_ONCE_SECONDS = 3
_PATIENCE_SECONDS = 60
"""For a process that has to come up, or to say something. Nothing here depends on how long it takes."""


def over_the_network(tour: Tour) -> None:
    """Everything that needs a node."""
    tour.step(
        "A node",
        "Two owners, two processes, TLS between them. The station serves its lace to peers whose keys it knows, and "
        "nobody else learns anything, not even whose lace it is. Each side has a policy of its own: the station gives "
        "away the readings of ward 5, the clinic takes whatever the station has signed for that ward.",
    )
    keys = _prepare(tour)
    known = tour.run(f"bobbin peers add station.lace clinic --verifier {keys['clinic']} --policy station.policy")
    tour.claim("the station knows the clinic now", known.code == 0)
    with _serving(tour) as started:
        address = started["listening"][0]
        tour.claim("the station listens, with a certificate of its own", address.startswith("tls:127.0.0.1:"))
        tour.run(
            f"bobbin peers add clinic.lace station --verifier {keys['station']} --address {address} "
            "--policy clinic.policy"
        )
        _exchange(tour)
        _turn_strangers_away(tour, address, keys["station"])
        _follow(tour)
    tour.claim("the station stopped in order", started["code"] == 0)


def _prepare(tour: Tour) -> dict[str, str]:
    keys = {}
    for name in ("station", "clinic", "stranger"):
        tour.quietly("init", f"{name}.lace")
        keys[name] = tour.quietly("key", "new", f"{name}.lace").out.strip()
    program(
        tour,
        'with bobbin.Lace.open("station.lace") as lace:\n'
        f"    for n in range({READINGS:_}):\n"
        '        lace.put(b"%d" % n, group="ward/5", app="readings", name=f"bed/{n % 40}/{n}", sign=True)\n'
        '    lace.put(b"not sure yet", group="ward/5", app="drafts", name="1", sign=True)\n',
    )
    station = tour.quietly("policy", "build", "--group", "ward/5", "--app", "readings").out
    clinic = tour.quietly("policy", "build", "--group", "ward/5", "--signer", keys["station"]).out
    (tour.folder / "station.policy").write_text(station, encoding="utf-8")
    (tour.folder / "clinic.policy").write_text(clinic, encoding="utf-8")
    return keys


def _exchange(tour: Tour) -> None:
    tour.say("The clinic asks for everything that both policies allow, and why a draft did not come:")
    began = monotonic()
    synced = tour.run_on_terminal("bobbin sync clinic.lace station --explain //ward/5//drafts//1")
    seconds = monotonic() - began
    names = place_names(tour, "clinic.lace", "//ward/5//")
    tour.claim(
        f"all {READINGS:,} readings came over the encrypted link, and nothing else",
        synced.code in (0, 1) and len(names) == READINGS and all(name.startswith("bed/") for name in names),
    )
    # What is over at once shows no progress, and a machine may be that fast.
    tour.claim("it showed how far it was while it ran", "records" in synced.err or seconds < _AT_ONCE_SECONDS)
    draft = tour.quietly("list", "station.lace", "//ward/5//drafts//", "--json").rows[0]["hash"]
    tour.say("The clinic cannot look behind the station's policy. The station can say why, record by record:")
    reason = tour.run(
        "bobbin policy explain station.lace --policy station.policy --peer-policy clinic.policy "
        f"--peer {_clinic(tour)} {draft}",
        lines_max=12,
    )
    tour.claim(
        "the draft is withheld by the station's own policy", "withheld" in reason.out and "'drafts'" in reason.out
    )


def _clinic(tour: Tour) -> str:
    return tour.quietly("key", "show", "clinic.lace").out.strip()


def _turn_strangers_away(tour: Tour, address: str, station: str) -> None:
    tour.say("A stranger tries, with a key that the station does not know:")
    refused = tour.run(f"bobbin sync stranger.lace {address} --policy clinic.policy --verifier {station}")
    tour.claim(
        "it gets nothing, and the exit code says so",
        refused.code not in (0, 1) and place_names(tour, "stranger.lace", "//ward/5//") == [],
    )


def _follow(tour: Tour) -> None:
    tour.say(
        "The clinic follows the station: the link stays open. Once it stands still, somebody writes a record at the "
        "station, with another process, and it comes by itself:"
    )
    command = ("follow", "clinic.lace", "station", "--count", "1", "--json")
    tour.show_command("bobbin follow clinic.lace station --count 1 &")
    # What it says of its link on stderr is for programs, as all of --json is.
    pipe = subprocess.PIPE
    with subprocess.Popen([*COMMAND, *command], cwd=tour.folder, stdout=pipe, stderr=pipe, text=True) as follower:
        assert follower.stdout is not None
        tour.claim("the link is up and has nothing left to do", _is_idle(tour))
        put = "bobbin put station.lace -g ward/5 -a readings -N bed/7/late --sign -"
        tour.run(f"echo 38.9 | {put}", stdin="38.9\n")
        out, _ = follower.communicate(timeout=_PATIENCE_SECONDS)
    came = [row for row in map(json.loads, out.splitlines()) if row.get("name")]
    tour.show_output([f"{row['hash']}  //{row['group']}//{row['app']}//{row['name']}" for row in came])
    tour.claim("the follower received it", [row["name"] for row in came] == ["bed/7/late"])
    got = tour.run("bobbin get clinic.lace //ward/5//readings//bed/7/late")
    tour.claim("and has it stored", got.out == "38.9\n")
    linked = tour.run("bobbin links station.lace", lines_max=20)
    tour.claim("the station tells what its links did, and why each ended", "fixed-point" in linked.out)


def _is_idle(tour: Tour) -> bool:
    """Whether the station comes to have a link that stands at its fixed point."""
    deadline = monotonic() + _PATIENCE_SECONDS
    while monotonic() < deadline:
        links = tour.quietly("links", "station.lace", "--json").rows[0]["links"]
        if any(link["fixed_point"] for link in links):
            return True
        sleep(0.2)
    return False


@contextmanager
def _serving(tour: Tour) -> Iterator[dict[str, Any]]:
    """A node of the station, for as long as this lasts."""
    tour.show_command("bobbin serve station.lace --listen tls:127.0.0.1:0 &")
    log: Path = tour.folder / "station.log"
    with log.open("w") as errors:
        node = subprocess.Popen(
            [*COMMAND, "serve", "station.lace", "--listen", "tls:127.0.0.1:0", "--json"],
            cwd=tour.folder,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        try:
            assert node.stdout is not None
            line = node.stdout.readline()
            if not line:
                raise SystemExit(f"the node did not come up:\n{log.read_text()}")
            started = json.loads(line)
            tour.show_output(
                [
                    f"listening on {', '.join(started['listening'])}",
                    f"our key      {started['verifier']}",
                    f"certificate  {started['certificate']}",
                ]
            )
            yield started
        finally:
            node.terminate()
            try:
                started_code = node.wait(timeout=_PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                node.kill()
                started_code = node.wait()
            if node.stdout is not None:
                node.stdout.close()
        started["code"] = started_code
