"""The folder of a node of a cluster."""

from pathlib import Path
from shutil import rmtree

import pytest

from bobbin.cluster.settings import PRESETS
from bobbin.config.cluster import ClusterLayout, complete, create_cluster, prepare, read_folder
from bobbin.config.findings import InvalidConfiguration
from bobbin.config.keys import KeyFileError
from bobbin.errors import IntegrityError, ResourceError, UsageError
from bobbin.runtime.cluster_members import Directory, KnownMembers

_LISTEN = "tls:127.0.0.1:4795"


def _make(folder: Path, text: str = "") -> ClusterLayout:
    """A node in a folder, with more lines in its settings."""
    create_cluster([prepare(folder, listen=_LISTEN)])
    layout = ClusterLayout(folder)
    layout.settings.write_text(layout.settings.read_text("utf-8") + text, "utf-8")
    return layout


def test_what_is_created_is_read_again(tmp_path: Path) -> None:
    nodes = [prepare(tmp_path / f"n{number}", listen=f"tls:127.0.0.1:{4795 + number}") for number in range(3)]
    cluster = create_cluster(nodes, preset="region")
    for node in nodes:
        read = read_folder(node.layout.folder)
        assert read.settings.cluster == cluster
        assert read.settings.raft == PRESETS["region"]
        assert read.settings.bootstrap is not None
        assert read.settings.bootstrap.voters == tuple(sorted(one.node for one in nodes))
        assert read.node == node.node
        assert set(read.known.directory.members) == {one.node for one in nodes}
        assert set(read.known.directory.callers) == {one.operator.certificate for one in nodes}
        assert read.settings.gossip.require_signatures


def test_a_node_that_joins_has_no_first_configuration(tmp_path: Path) -> None:
    node = prepare(tmp_path / "n", listen=_LISTEN, address="tls:example.org:4795")
    complete(node, bytes(16), KnownMembers(directory=Directory([node.member])))
    read = read_folder(tmp_path / "n")
    assert read.settings.bootstrap is None
    assert read.settings.address == "tls:example.org:4795"


def test_keys_are_private_and_never_replaced(tmp_path: Path) -> None:
    first = prepare(tmp_path / "n", listen=_LISTEN)
    again = prepare(tmp_path / "n", listen=_LISTEN)
    assert first.node == again.node
    assert first.layout.node_key.stat().st_mode & 0o077 == 0
    create_cluster([again])
    with pytest.raises(UsageError, match="already a node"):
        prepare(tmp_path / "n", listen=_LISTEN)
    with pytest.raises(UsageError, match="already a node"):
        create_cluster([again])


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"thesis\.txt"):
        prepare(tmp_path, listen=_LISTEN)


def test_there_is_no_node_without_settings(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="bobbin cluster init"):
        read_folder(tmp_path)


@pytest.mark.parametrize("listen", ["tcp:127.0.0.1:1", "unix:/x", "here"])
def test_nodes_listen_with_tls_alone(tmp_path: Path, listen: str) -> None:
    with pytest.raises(UsageError):
        prepare(tmp_path / "n", listen=listen)
    assert not (tmp_path / "n").exists()


def test_settings_take_the_place_of_those_of_the_preset(tmp_path: Path) -> None:
    layout = _make(
        tmp_path / "n",
        "[raft]\nelection_timeout = [900, 1800]\n[gossip]\nfanout = 5\n[clients]\nin_flight_max = 7\n"
        '[metrics]\nlisten = "tcp:127.0.0.1:0"\n',
    )
    settings = read_folder(layout.folder).settings
    assert settings.raft.election_timeout == (900, 1800)
    assert settings.raft.heartbeat_interval == PRESETS["lan"].heartbeat_interval
    assert settings.gossip.fanout == 5
    assert settings.clients.in_flight_max == 7
    assert settings.metrics.listen is not None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[raft]\nelection_timout = [1, 2]\n", "election_timeout"),
        ("[raft]\nheartbeat_interval = 140\n", "heartbeat_interval"),
        ("[raft]\nelection_timeout = 3\n", "election_timeout"),
        ("[gossip]\nfanout = 0\n", "fanout"),
        ('colour = "red"\n', "colour"),
        ('[metrics]\nlisten = "tls:h:1"\n', "tcp"),
        ("raft = 3\n", "raft"),
    ],
)
def test_mistakes_in_the_settings_are_named(tmp_path: Path, text: str, told: str) -> None:
    layout = _make(tmp_path / "n", text)
    with pytest.raises(InvalidConfiguration, match=told):
        read_folder(layout.folder)


def test_a_preset_or_a_cluster_that_is_none_is_named(tmp_path: Path) -> None:
    layout = _make(tmp_path / "n")
    text = layout.settings.read_text("utf-8")
    for wrong in (
        text.replace('"lan"', '"moon"'),
        text.replace('cluster = "', 'cluster = "zz'),
        text.replace("1\n", "2\n", 1),
    ):
        layout.settings.write_text(wrong, "utf-8")
        with pytest.raises(InvalidConfiguration):
            read_folder(layout.folder)
    with pytest.raises(UsageError, match="moon"):
        create_cluster([prepare(tmp_path / "m", listen=_LISTEN)], preset="moon")


def test_two_nodes_have_two_addresses(tmp_path: Path) -> None:
    nodes = [prepare(tmp_path / name, listen=_LISTEN) for name in "ab"]
    with pytest.raises(UsageError, match="address of its own"):
        create_cluster(nodes)


def test_files_that_cannot_be_trusted_are_refused(tmp_path: Path) -> None:
    layout = _make(tmp_path / "n")
    layout.node_key.chmod(0o644)
    with pytest.raises(KeyFileError, match="chmod 600"):
        read_folder(layout.folder)
    layout.node_key.chmod(0o600)
    layout.node_key.write_text("not a key\n")
    with pytest.raises(KeyFileError, match="64 hexadecimal"):
        read_folder(layout.folder)
    layout.node_key.unlink()
    with pytest.raises(KeyFileError, match="missing"):
        read_folder(layout.folder)


def test_a_list_of_members_that_is_damaged_is_refused(tmp_path: Path) -> None:
    layout = _make(tmp_path / "n")
    layout.members.write_text("{}")
    with pytest.raises(IntegrityError, match="members"):
        read_folder(layout.folder)


def test_who_is_known_is_kept(tmp_path: Path) -> None:
    folder = read_folder(_make(tmp_path / "n").folder)
    folder.remember(KnownMembers(directory=Directory()))
    assert read_folder(tmp_path / "n").known.directory == Directory()


def test_that_a_log_was_begun_is_noted_outside_of_it(tmp_path: Path) -> None:
    folder = read_folder(_make(tmp_path / "n").folder)
    assert not folder.has_begun
    for _ in range(2):
        folder.begin()
        assert folder.has_begun
    assert folder.layout.log not in folder.layout.begun.parents
    assert read_folder(folder.layout.folder).has_begun


def test_a_note_that_cannot_be_written_is_a_typed_error(tmp_path: Path) -> None:
    folder = read_folder(_make(tmp_path / "n").folder)
    rmtree(folder.layout.folder)
    with pytest.raises(ResourceError, match="begun"):
        folder.begin()
