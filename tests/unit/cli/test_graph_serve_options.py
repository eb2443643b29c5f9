"""What ``bobbin graph serve`` is told, as texts."""

from pathlib import Path

import pytest

from bobbin.cli.graph_serve_options import read_cells, read_replicas, read_view
from bobbin.config.peers import Peers, read_peers
from bobbin.errors import UsageError
from tests.unit.cli.command_line import VERIFIER


def _peers(tmp_path: Path) -> Peers:
    path = tmp_path / "peers.toml"
    bare = '[[peer]]\nname = "bare"\naddress = "tls:x:1"\nunproven = true\n'
    path.write_text(f'[[peer]]\nname = "lab"\nverifier = "{VERIFIER}"\n\n{bare}', encoding="utf-8")
    path.chmod(0o600)
    return read_peers(path)


def test_cells() -> None:
    assert read_cells(["board/text=string", "a=b=i64"]) == {"board/text": "string", "a=b": "i64"}
    for texts in (["x"], ["=i64"], ["x=int"], ["a//b=i64"], ["x=i64", "x=string"], ["x="]):
        with pytest.raises(UsageError):
            read_cells(texts)


def test_views() -> None:
    assert read_view("links=//u//ding//links/") == ("links", "//u//ding//links/")
    for text in ("x", "x=y", "X=//u//"):
        with pytest.raises(UsageError):
            read_view(text)


def test_replicas_are_known_by_their_keys(tmp_path: Path) -> None:
    peers = _peers(tmp_path)
    (waited,) = read_replicas(["lab"], peers)
    assert (waited.verifier, waited.address) == (VERIFIER, None)
    (dialled,) = read_replicas(["lab=ws://127.0.0.1:4796/graph"], peers)
    assert str(dialled.address) == "ws:127.0.0.1:4796"
    for texts in (["nobody"], ["bare"], ["lab="], ["lab", "lab=tcp:x:1"], ["tcp:127.0.0.1:4796"]):
        with pytest.raises(UsageError):
            read_replicas(texts, peers)
