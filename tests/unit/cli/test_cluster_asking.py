"""Asking a cluster from the command line."""

from pathlib import Path

import pytest

from bobbin.cli.cluster_asking import ask, find_node
from bobbin.cluster.identity import Identity
from bobbin.errors import UsageError
from bobbin.runtime.cluster_certificate import make
from bobbin.runtime.cluster_client import ClusterClient
from bobbin.runtime.cluster_members import Directory, Member

_IDENTITIES = [Identity(bytes([number]) * 32) for number in range(1, 40)]
_DIRECTORY = Directory(
    [
        Member(certificate=make(identity).certificate, address=f"tls:127.0.0.1:{at}")
        for at, identity in enumerate(_IDENTITIES, start=1)
    ]
)


def test_a_node_is_named_by_its_id_the_beginning_of_it_or_its_address() -> None:
    node = _IDENTITIES[0].node
    assert find_node(node, _DIRECTORY) == node
    assert find_node(node[:9].upper(), _DIRECTORY) == node
    assert find_node("tls:127.0.0.1:1", _DIRECTORY) == node


def test_a_name_that_is_none_or_not_enough_is_refused() -> None:
    with pytest.raises(UsageError, match="there is no node"):
        find_node("zz", _DIRECTORY)
    with pytest.raises(UsageError, match="there is no node"):
        find_node("", _DIRECTORY)
    # Of 39 ids two begin alike.
    shared = next(first for first in "0123456789abcdef" if sum(one.node.startswith(first) for one in _IDENTITIES) > 1)
    with pytest.raises(UsageError, match="give more of it"):
        find_node(shared, _DIRECTORY)


def test_a_folder_that_holds_no_node_is_refused(tmp_path: Path) -> None:
    async def question(client: ClusterClient, _: object) -> None:
        raise AssertionError(client)

    with pytest.raises(UsageError, match="there is no node of a cluster"):
        ask(tmp_path, question)
