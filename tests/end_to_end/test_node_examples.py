"""Every example configuration of a node is right: it loads, records move, and the unit agrees with the code."""

import configparser
import re
import shutil
import signal
from pathlib import Path

import pytest

from bobbin.cli.exit_codes import ExitCode
from bobbin.config.layout import Layout
from bobbin.config.reload import Loaded, Origin, load
from bobbin.lace import Lace
from bobbin.policy.check import check
from bobbin.runtime import admin, node
from bobbin.runtime.node_settings import LinkBounds
from tests.end_to_end.command import bobbin
from tests.end_to_end.served_process import PATIENCE_SECONDS, make_lace, names, serving, until

_EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "node"
_FOLDERS = sorted(path.parent.name for path in _EXAMPLES.glob("*/node.toml"))


def _load(name: str) -> Loaded:
    return load(Origin(layout=Layout(_EXAMPLES / name), file=_EXAMPLES / name / "node.toml"))


@pytest.mark.parametrize("name", _FOLDERS)
def test_every_example_loads_and_allows_nothing_insecure(name: str) -> None:
    loaded = _load(name)
    assert len(loaded.roster) > 0 or loaded.roster.anonymous is not None
    assert not loaded.config.settings.allow_insecure


@pytest.mark.parametrize("name", _FOLDERS)
def test_every_example_names_its_peers(name: str, tmp_path: Path) -> None:
    """Copied anywhere, and run on any lace, it knows whom it is about."""
    loaded = load(Origin(layout=Layout(tmp_path), file=_EXAMPLES / name / "node.toml"))
    assert loaded.config.peers == _EXAMPLES / name / "peers.toml"


def test_a_laptop_that_does_not_reach_its_server_says_so(tmp_path: Path) -> None:
    laptop = tmp_path / "laptop.lace"
    make_lace(laptop)
    home = _copy("laptop", tmp_path / "home", address="tls:127.0.0.1:1")
    with serving(laptop, "--config", home / "node.toml") as node:
        status = until(laptop, lambda status: status.links[0].last_end is not None)
        assert (status.condition, status.links[0].peer) == ("degraded", "server")
        node.signal(signal.SIGTERM)
        _, log = node.process.communicate(timeout=PATIENCE_SECONDS)
    line = next(line for line in log.splitlines() if "followed-peer-unreached" in line)
    assert "WARNING" in line
    assert all(word in line for word in ('peer="server"', 'reason="connect-failed"', "next_attempt_seconds="))


def test_every_file_of_the_examples_is_used() -> None:
    used = {"README.md", "bobbin.service"}
    for name in _FOLDERS:
        texts = [path.read_text(encoding="utf-8") for path in (_EXAMPLES / name).glob("*.toml")]
        used |= {f"{name}/node.toml", f"{name}/peers.toml"}
        used |= {f"{name}/{policy}" for text in texts for policy in re.findall(r'policy = "(.+)"', text)}
    found = {path.relative_to(_EXAMPLES).as_posix() for path in _EXAMPLES.rglob("*") if path.is_file()}
    assert found == used


def test_the_readme_names_every_example() -> None:
    text = (_EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert [name for name in (*_FOLDERS, "bobbin.service") if f"| `{name}` |" not in text] == []


def test_the_laptop_dials_and_cannot_be_reached() -> None:
    loaded = _load("laptop")
    assert loaded.config.settings.listen == ()
    assert [peer.name for peer in loaded.roster.followed()] == ["server"]
    assert [peer.admit for peer in loaded.roster] == [False]


def test_the_server_turns_away_who_proves_nothing() -> None:
    loaded = _load("server")
    assert loaded.roster.anonymous is None
    assert all(peer.verifier is not None for peer in loaded.roster)
    assert all(peer.query is not None for peer in loaded.roster)


def test_the_unit_agrees_with_the_code() -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(_EXAMPLES / "bobbin.service", encoding="utf-8")
    service = unit["Service"]
    pages = 2 * 2 * admin._STOP_SECONDS
    assert int(service["TimeoutStopSec"]) > LinkBounds().stop_seconds_max + 2 * node._CLOSE_SECONDS + pages
    wrong = {ExitCode.USAGE, ExitCode.INTEGRITY, ExitCode.PROGRAM}
    assert {int(code) for code in service["RestartPreventExitStatus"].split()} == {int(code) for code in wrong}
    assert service["ExecStart"].split()[1:2] == ["serve"]
    assert service["ProtectSystem"] == "strict"
    assert service["NoNewPrivileges"] == "yes"


# ---- records move ---------------------------------------------------------------------------------------------------


def _put(folder: Path, *, group: str, name: str) -> None:
    with Lace.open(folder) as lace:
        lace.put(b"x", group=group, app="notes", name=name)


def _copy(name: str, to: Path, **replaced: str) -> Path:
    """An example with other keys and addresses in it, as its README asks for."""
    shutil.copytree(_EXAMPLES / name, to)
    peers = to / "peers.toml"
    text = peers.read_text(encoding="utf-8")
    for key, value in replaced.items():
        text, count = re.subn(rf'^{key} = ".*"$', f'{key} = "{value}"', text, count=1, flags=re.MULTILINE)
        assert count == 1
    peers.write_text(text, encoding="utf-8")
    return to


@pytest.mark.parametrize("policy", sorted(_EXAMPLES.rglob("*.policy")), ids=lambda path: path.name)
def test_every_policy_lets_something_move(policy: Path) -> None:
    assert check(policy.read_text(encoding="utf-8")).remarks == ()


def test_public_records_move_both_ways_at_the_local_node(tmp_path: Path) -> None:
    here, there = tmp_path / "here.lace", tmp_path / "there.lace"
    make_lace(there)
    Lace.create(here).close()
    for folder, name in ((here, "brought"), (there, "had")):
        _put(folder, group="public", name=name)
        _put(folder, group="private", name=f"{name} by nobody")
    example = _EXAMPLES / "local"
    with serving(there, "--config", example / "node.toml", "--listen", f"unix:{tmp_path}/s") as node:
        answer = bobbin("sync", here, node.addresses["unix"], "--policy", example / "policies" / "public.policy")
    assert answer.code == 0, answer.err
    assert names(here) == {"brought", "brought by nobody", "had"}
    assert names(there) == {"brought", "had", "had by nobody"}


def test_shared_records_move_both_ways_between_the_server_and_the_laptop(tmp_path: Path) -> None:
    server, laptop = tmp_path / "server.lace", tmp_path / "laptop.lace"
    servers, laptops = make_lace(server), make_lace(laptop)
    for folder, name in ((server, "from the server"), (laptop, "from the laptop")):
        _put(folder, group="shared", name=name)
    etc = _copy("server", tmp_path / "etc", verifier=laptops)
    config = etc / "node.toml"
    config.write_text(config.read_text(encoding="utf-8").replace("127.0.0.1:9790", "127.0.0.1:0"), encoding="utf-8")
    with serving(server, "--config", config, "--listen", "tls:127.0.0.1:0") as node:
        home = _copy("laptop", tmp_path / "home", verifier=servers, address=node.addresses["tls"])
        with serving(laptop, "--config", home / "node.toml"):
            until(laptop, lambda status: any((one.records_in, one.records_out) == (1, 1) for one in status.links))
    assert names(server) == names(laptop) == {"from the server", "from the laptop"}
