"""Configuration files: any bytes are a configuration or a list of mistakes that each name the file.

The first byte says whether they are ``node.toml`` or ``peers.toml``. Policies that the file names are found if they are
called ``good`` or ``bad``; every other one is missing.
"""

from pathlib import Path

from bobbin.config.findings import Findings
from bobbin.config.node import Overrides, parse_node
from bobbin.config.peers import Defaults, make_roster, parse_peers
from bobbin.config.policies import Policies
from bobbin.config.sources import MissingFile, Sources
from tests.policy_worlds import EVERYTHING

_FOLDER = Path("folder")
_FILE = _FOLDER / "file.toml"


class _Files(Sources):
    """A folder with one file, and two policies."""

    def __init__(self, content: bytes) -> None:
        super().__init__()
        self._files = {_FILE: content, _FOLDER / "good": EVERYTHING.encode(), _FOLDER / "bad": b"SelectHave(P) :- \n"}

    def read(self, path: Path) -> bytes:
        if path not in self._files:
            raise MissingFile(f"there is no file {path}")
        return self._files[path]


def one_input(data: bytes) -> None:
    sources, findings = _Files(data[1:]), Findings()
    policies = Policies(sources, findings)
    if data[:1] > b"\x7f":
        config = parse_node(_FILE, Overrides(), policies, sources, findings)
        assert config is not None or len(findings)
    else:
        peers = parse_peers(_FILE, sources, findings, required=True)
        roster = make_roster(peers, Defaults(), policies, findings)
        assert not len(findings) or not len(roster)
        assert len(findings) or len(roster) == len(peers.entries)
    try:
        findings.raise_if_any()
    except Exception as refused:  # noqa: BLE001 -- whatever it is, it says where
        assert str(_FOLDER) in str(refused)  # noqa: PT017 -- no test of pytest's
        str(refused).encode()
