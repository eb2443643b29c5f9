"""Every error has a code, every code has a meaning, and the manual shows the same table."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import typer

from bobbin.cli.app import app
from bobbin.cli.exit_codes import MEANING, ExitCode, of_error
from bobbin.errors import BobbinError, IntegrityError, PeerError, ProgramError, ResourceError, UsageError
from bobbin.store.base import DamagedStore, StoreError
from tests.unit.cli.command_line import PLEX_1, VERIFIER, Cli
from tests.unit.cli.policy_texts import DING

_PAGE = Path(__file__).resolve().parents[3] / "docs" / "cli.md"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("x"), ExitCode.USAGE),
        (IntegrityError("x"), ExitCode.INTEGRITY),
        (ResourceError("x", retry=False), ExitCode.RESOURCE),
        (ResourceError("x", retry=True), ExitCode.TRY_AGAIN),
        (PeerError("code", "x"), ExitCode.PEER),
        (ProgramError("x"), ExitCode.PROGRAM),
        (OSError(28, "No space left on device"), ExitCode.RESOURCE),
    ],
)
def test_each_family_has_its_code(error: BobbinError | OSError, code: ExitCode) -> None:
    assert of_error(error) is code


def test_no_family_is_forgotten() -> None:
    families = {family.__name__ for family in BobbinError.__subclasses__()}
    assert families == {"UsageError", "IntegrityError", "ResourceError", "PeerError", "ProgramError"}


def test_every_code_has_a_meaning() -> None:
    assert set(MEANING) == set(ExitCode)


def test_the_manual_shows_the_same_table() -> None:
    rows = re.findall(r"^\| (\d+) \| (.+?) \|$", _PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert [(int(code), words) for code, words in rows] == [(int(code), words) for code, words in MEANING.items()]


def test_damage_is_the_laces_affair_and_other_trouble_of_a_store_the_machines() -> None:
    assert of_error(DamagedStore("x")) is ExitCode.INTEGRITY
    assert of_error(StoreError("x", retry=False)) is ExitCode.RESOURCE
    assert of_error(StoreError("x", retry=True)) is ExitCode.TRY_AGAIN


# ---- what is not there ----------------------------------------------------------------------------------------------

_OTHER_PAGES: Final = frozenset({"pipeline", "lake"})
"""Groups of commands whose tests say what is missing there."""
_MAKES_ITS_FOLDER: Final = frozenset({"init", "cluster init", "cluster join"})

_TLS: Final = "tls:127.0.0.1:1"
_WS: Final = "ws:127.0.0.1:1"
_PEER: Final = {"--peer": VERIFIER}
_AT: Final = {"--group": "u", "--app": "a", "--name": "n"}
_TANGLE: Final = "8VMZ3cZdR2iUcJbAqXEg5nL4oYkHfWtPmNsTrQvUwXyA"
_CALLS: Final[dict[str, dict[str, str]]] = {
    "put": {"folder": "LACE", "file": "FILE", **_AT},
    "get": {"folder": "LACE", "wanted": PLEX_1},
    "list": {"folder": "LACE"},
    "show": {"folder": "LACE", "wanted": PLEX_1},
    "sign": {"folder": "LACE", "wanted": PLEX_1},
    "facts": {"folder": "LACE", "predicate": "Have"},
    "remove": {"folder": "LACE", "wanted": PLEX_1, "--reason": "test"},
    "lift": {"folder": "LACE", "wanted": PLEX_1},
    "refusals": {"folder": "LACE"},
    "import": {"folder": "LACE", "files": "FILE"},
    "export": {"folder": "LACE", "file": "FILE"},
    "verify": {"target": "FILE"},
    "sync": {"folder": "LACE", "peer": "OTHER", "--policy": "POLICY"},
    "follow": {"folder": "LACE", "peer": _TLS, "--policy": "POLICY"},
    "replay": {"file": "FILE"},
    "serve": {"folder": "LACE"},
    "signal serve": {},
    "graph serve": {"folder": "LACE"},
    "graph watch": {"where": _TLS},
    "graph dump": {"where": _TLS},
    "graph set": {"where": _TLS, "values": "key=value"},
    "links": {"folder": "LACE"},
    "top": {"folder": "LACE"},
    "stat": {"folder": "LACE"},
    "fsck": {"folder": "LACE"},
    "backup": {"folder": "LACE", "target": "copy"},
    "compact": {"folder": "LACE"},
    "key new": {"folder": "LACE", "name": "another"},
    "key show": {"folder": "LACE"},
    "key list": {"folder": "LACE"},
    "quarantine list": {"folder": "LACE"},
    "quarantine show": {"folder": "LACE", "number": "1"},
    "quarantine release": {"folder": "LACE", "numbers": "1"},
    "policy check": {"files": "POLICY"},
    "policy id": {"file": "POLICY"},
    "policy fmt": {"file": "POLICY"},
    "policy test": {"files": "POLICY"},
    "policy eval": {"folder": "LACE", "file": "POLICY", **_PEER},
    "policy diff": {"folder": "LACE", "old": "POLICY", "new": "POLICY", **_PEER},
    "policy explain": {"folder": "LACE", "wanted": PLEX_1, "--policy": "POLICY", **_PEER},
    "remote get": {"folder": "LACE", "peer": _TLS, "wanted": PLEX_1},
    "remote list": {"folder": "LACE", "peer": _TLS, "place": "//u//"},
    "remote put": {"folder": "LACE", "peer": _TLS, "records": PLEX_1},
    "statement show": {"folder": "LACE", "wanted": PLEX_1},
    "statement check": {"folder": "LACE", "wanted": PLEX_1, "--policy": "POLICY"},
    "peers list": {"folder": "LACE"},
    "peers show": {"folder": "LACE", "name": "lab"},
    "peers add": {"folder": "LACE", "name": "lab", "--verifier": VERIFIER.replace("V.O", "V.P")},
    "peers remove": {"folder": "LACE", "name": "lab"},
    "tangle new": {"folder": "LACE", "kind": "thread", "file": "FILE"},
    "tangle append": {"folder": "LACE", "tangle": _TANGLE, "file": "FILE"},
    "tangle show": {"folder": "LACE", "tangle": _TANGLE},
    "tangle log": {"folder": "LACE"},
    "tangle goal": {"folder": "LACE"},
    "tangle gc": {"folder": "LACE"},
    "tangle sync": {"folder": "LACE", "peer": "OTHER"},
    "tangle serve": {"folder": "LACE"},
    "tangle key new": {"folder": "LACE", "name": "another"},
    "tangle key list": {"folder": "LACE"},
    "tangle account show": {"folder": "LACE", "account": _TANGLE},
    "tangle account consent": {"folder": "LACE", "account": _TANGLE},
    "tangle account add": {"folder": "LACE", "new": "another", "consent": "CONSENT"},
    "tangle account del": {"folder": "LACE", "gone": "another"},
    "cluster invite": {"folder": "LACE"},
    "cluster serve": {"folder": "LACE"},
    "cluster status": {"folder": "LACE"},
    "cluster transfer": {"folder": "LACE", "node": "5f1c"},
    "cluster remove": {"folder": "LACE", "node": "5f1c"},
    "cluster promote": {"folder": "LACE", "node": "5f1c"},
    "cluster replace": {"folder": "LACE", "nodes": "5f1c"},
    "cluster rotate": {"folder": "LACE"},
    "cluster snapshot": {"folder": "LACE"},
    "cluster put": {"folder": "LACE", "key": "colour", "value": "green"},
    "cluster get": {"folder": "LACE", "key": "colour"},
    "cluster delete": {"folder": "LACE", "key": "colour"},
    "cluster scan": {"folder": "LACE"},
    "chain tx": {"folder": "LACE", "--put": "a=b"},
    "chain get": {"folder": "LACE", "keys": "a"},
    "chain history": {"folder": "LACE", "key": "a"},
    "chain blocks": {"folder": "LACE"},
    "chain verify": {"folder": "LACE"},
    "chain pending": {"folder": "LACE"},
    "chain resolve": {"folder": "LACE", "tx": "ab" * 16, "outcome": "abort", "--shard": "0", "--reason": "x"},
    "chain codebook": {"folder": "LACE"},
}
"""How each command is called, with everything there; capitals stand for what the test has made."""
_OTHERWISE: Final[dict[tuple[str, str], dict[str, str | None]]] = {
    ("sync", "--ca"): {"peer": _TLS},
    ("sync", "--peers"): {"peer": _TLS},
    ("policy eval", "--selector"): {"file": "QUERY"},
    ("graph serve", "--signal-token"): {"--signal": _WS},
    ("graph watch", "--signal-token"): {"--signal": _WS, "where": None},
    ("graph dump", "--signal-token"): {"--signal": _WS, "where": None},
}
_NAMED_OTHERWISE: Final = {("policy diff", "old"): "FILE", ("policy diff", "new"): "FILE"}
"""Files whose place on the command line is called something else."""


def _commands(command: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:  # noqa: ANN401 -- click's
    command = typer.main.get_command(app) if command is None else command
    below = getattr(command, "commands", None)
    if below is None:
        yield " ".join(path), command
        return
    for name, child in below.items():
        if (*path, name)[0] not in _OTHER_PAGES:
            yield from _commands(child, (*path, name))


def _places(command: Any) -> dict[str, str]:  # noqa: ANN401 -- click's own class
    """The parameters of a command, with what stands there: arguments by name in their order, options as typed."""
    return {
        parameter.opts[0] if parameter.param_type_name == "option" else parameter.name: parameter.metavar or ""
        for parameter in command.params
    }


def _cases() -> Iterator[tuple[str, str, ExitCode]]:
    for name, command in _commands():
        for place, metavar in _places(command).items():
            kind = _NAMED_OTHERWISE.get((name, place), metavar)
            if kind in ("FILE", "FILE|DIR"):
                yield name, place, ExitCode.RESOURCE
            elif kind == "DIR" and name not in _MAKES_ITS_FOLDER:
                yield name, place, ExitCode.USAGE
    yield "sync", "peer", ExitCode.USAGE  # the folder of a lace, too


@pytest.mark.parametrize(("name", "place", "code"), [*_cases()])
def test_what_is_missing_ends_every_command_alike(
    name: str, place: str, code: ExitCode, filled: Path, tmp_path: Path, cli: Cli
) -> None:
    """A file that is not there, to read or to write into a folder: 4. A lace that is not there: 2."""
    there = {"LACE": filled, "OTHER": tmp_path / "y.lace", "FILE": tmp_path / "file"}
    there |= {"POLICY": tmp_path / "ding.policy", "QUERY": tmp_path / "ding.query"}
    cli("init", there["OTHER"])
    there["FILE"].write_bytes(b"hello")
    there["POLICY"].write_text(DING)
    there["QUERY"].write_text("Queryable(P,O) :- OwnSelected(P), Viewer(O).\n")
    missing = tmp_path / "none" / "here"
    usual = {**_CALLS[name], **_OTHERWISE.get((name, place), {}), place: str(missing)}
    called = {one: value for one, value in usual.items() if value is not None}
    places = _places(dict(_commands())[name])
    assert called.keys() <= places.keys(), "the table names what there is"
    words: list[str | Path] = [*name.split()]
    words += [there.get(called[one], called[one]) for one in places if one in called and not one.startswith("-")]
    for option, value in called.items():
        words += [option, there.get(value, value)] if option.startswith("-") else []
    answer = cli(*words)
    assert answer.code == code, answer.err
    assert str(missing) in answer.err or str(missing.parent) in answer.err
    assert not missing.parent.exists()
