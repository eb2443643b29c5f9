"""Where a graph is, and what is shown there."""

from pathlib import Path

import pytest
from msgspec import structs

from bobbin.cli import graph_options
from bobbin.cli.graph_options import NotServed, Shown, connect, find_graph, reach
from bobbin.cli.sources import MissingFile
from bobbin.errors import UsageError
from bobbin.wire import address as addresses

WEB = addresses.parse("ws:127.0.0.1:1")


def test_an_address_or_a_lace(folder: Path) -> None:
    assert str(find_graph("ws:127.0.0.1:4794")) == "ws:127.0.0.1:4794"
    assert str(find_graph("ws://127.0.0.1:4794/graph")) == "ws:127.0.0.1:4794"
    with pytest.raises(NotServed):
        find_graph(str(folder))
    (folder / "graph.sock").touch()
    assert str(find_graph(str(folder))) == f"unix:{folder.resolve()}/graph.sock"
    for text in ("nowhere", str(folder.parent), "unix:relative"):
        with pytest.raises(UsageError):
            find_graph(text)


def test_what_can_be_wrong_before_anybody_is_dialled(folder: Path, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("7 some-token\n", encoding="utf-8")
    token.chmod(0o600)
    for shown, why in (
        (Shown(token_file=token, key_of=folder), "choose one"),
        (Shown(pin="ab" * 32), "shows no certificate"),
        (Shown(authorities=token), "shows no certificate"),
        (Shown(verifier="V.x.H3"), "V.x.H3"),
        (Shown(key_of=tmp_path), "no lace"),
    ):
        with pytest.raises(UsageError, match=why):
            connect(WEB, shown, lost=lambda _: None)
    with pytest.raises(MissingFile):
        connect(WEB, Shown(token_file=tmp_path / "none"), lost=lambda _: None)


def test_a_room_an_address_or_a_lace_and_one_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token = tmp_path / "token"
    token.write_text("9 some-token\n", encoding="utf-8")
    token.chmod(0o600)
    shown = Shown(signal="ws://127.0.0.1:4793/session/hall", room="hall")
    room = reach(None, shown)
    assert str(room) == "hall at ws:127.0.0.1:4793"
    assert connect(room, shown, lost=lambda _: None).epoch is None
    with pytest.raises(UsageError, match="would read the token: prove a key instead"):
        connect(room, structs.replace(shown, token_file=token), lost=lambda _: None)
    known = structs.replace(shown, signal_token=token)
    named = reach(None, known)
    assert (named.peer, named.token) == (9, "some-token")  # type: ignore[union-attr]
    assert connect(named, structs.replace(known, token_file=token), lost=lambda _: None).epoch is None
    for where, given, why in (
        (None, Shown(), "say where"),
        ("ws:x:1", Shown(signal_token=token), "for a room"),
        ("ws:x:1", shown, "choose one"),
        (None, structs.replace(shown, shared_memory=True), "shares memory"),
        (None, Shown(signal="nowhere"), "nowhere"),
    ):
        with pytest.raises(UsageError, match=why):
            reach(where, given)
    monkeypatch.setattr(graph_options, "find_spec", lambda _: None)
    with pytest.raises(UsageError, match=r"pip install 'bobbin\[webrtc\]'"):
        reach(None, shown)


def test_memory_is_shared_over_a_unix_socket(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="unix addresses"):
        connect(WEB, Shown(shared_memory=True), lost=lambda _: None)
    assert connect(addresses.parse(f"unix:{tmp_path}/s"), Shown(shared_memory=True), lost=lambda _: None).epoch is None


def test_nothing_is_dialled_yet(folder: Path) -> None:
    mirror = connect(addresses.parse("wss:127.0.0.1:1"), Shown(key_of=folder, pin="ab" * 32), lost=lambda _: None)
    assert mirror.epoch is None
