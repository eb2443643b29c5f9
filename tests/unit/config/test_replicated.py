"""The folder of a node of a replicated lace."""

from pathlib import Path

import pytest

from bobbin.config import keys
from bobbin.config.cluster import ClusterLayout
from bobbin.config.layout import Layout
from bobbin.config.replicated import (
    create_nodes,
    is_replicated,
    lace_of,
    need_node,
    open_replicated,
    prepare_node,
    read_node,
    share_key,
)
from bobbin.errors import UsageError
from bobbin.lace import Lace
from bobbin.runtime.replicated_proposing import NoNodeHere
from tests.conformance.samples import plex


def make(folder: Path) -> Layout:
    create_nodes([prepare_node(folder, listen="tls:127.0.0.1:4795")], preset="lan")
    Lace.create(folder).close()
    return Layout(folder)


def test_it_is_a_lace_and_a_node_of_a_cluster(tmp_path: Path) -> None:
    layout = make(tmp_path / "n1")
    assert layout.is_lace()
    assert is_replicated(layout)
    node = read_node(layout)
    assert node.layout == ClusterLayout(layout.cluster)
    assert node.settings.raft.snapshot_threshold == 1_000, "few entries with many records each"
    assert not is_replicated(Layout(tmp_path / "nothing"))


def test_a_node_of_a_cluster_is_known_by_the_lace_around_it(tmp_path: Path) -> None:
    layout = make(tmp_path / "n1")
    assert lace_of(layout.cluster) == layout.folder.resolve()
    (tmp_path / "link").symlink_to(layout.cluster)
    assert lace_of(tmp_path / "link") == layout.folder.resolve()
    assert lace_of(layout.folder) is None
    assert lace_of(tmp_path / "nothing" / "cluster") is None


def test_all_nodes_have_the_one_key(tmp_path: Path) -> None:
    one, two = Layout(tmp_path / "a"), Layout(tmp_path / "b")
    for layout in (one, two):
        layout.folder.mkdir()
    verifier = share_key(one, [two])
    assert {keys.load_key(layout.keys, "main").verifier for layout in (one, two)} == {verifier}


def test_a_folder_in_use_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "other").touch()
    with pytest.raises(UsageError, match="other"):
        prepare_node(tmp_path / "x", listen="tls:127.0.0.1:4795")
    Lace.create(tmp_path / "lace").close()
    with pytest.raises(UsageError, match="already a lace"):
        prepare_node(tmp_path / "lace", listen="tls:127.0.0.1:4795")


def test_without_its_node_it_is_read_and_not_written(tmp_path: Path) -> None:
    layout = make(tmp_path / "n1")
    with open_replicated(layout, now=lambda: 0) as store:
        assert store.high_water() == 0
        with pytest.raises(NoNodeHere):
            store.put_records([plex(1)])
        assert store.high_water() == 0
    with Lace.open(layout.folder) as lace:
        assert lace.new_key().verifier, "what is no record needs no node"
        with pytest.raises(NoNodeHere):
            lace.put(b"x", group="u", app="a", name="n")


def test_whoever_needs_the_node_is_told_how_to_start_it(tmp_path: Path) -> None:
    layout = make(tmp_path / "n1")
    with pytest.raises(NoNodeHere, match=r"is replicated .* does not run; `bobbin serve ") as found:
        need_node(layout)
    assert found.value.retry
    Lace.create(tmp_path / "alone").close()
    need_node(Layout(tmp_path / "alone"))
