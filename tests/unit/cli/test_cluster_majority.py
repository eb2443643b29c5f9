"""Why a cluster does not answer."""

import asyncio
from pathlib import Path

import pytest

from bobbin.cli.cluster_majority import NoMajority, explained, why_no_majority, why_of_set
from bobbin.cli.cluster_view import ClusterView, NodeView
from bobbin.cluster.names import Index, NodeId, Term
from bobbin.cluster.raft.effects import Why
from bobbin.cluster.raft.entries import Configuration
from bobbin.config.cluster import create_cluster, prepare, read_folder
from bobbin.errors import ResourceError
from bobbin.runtime.cluster_client import NotAccepted, OutcomeUnknown
from bobbin.wire.cluster.client import Rejected, Report
from tests.support.clusters import free_ports

_A, _B, _C, _D = (NodeId(letter * 32) for letter in "abcd")
_THREE = Configuration((_A, _B, _C))


def _up(
    node: NodeId, role: str = "follower", configuration: Configuration = _THREE, commit_index: int = 10
) -> NodeView:
    report = Report(
        number=1,
        node=node,
        role=role,
        term=Term(4),
        leader=None,
        leader_address=None,
        commit_index=Index(commit_index),
        applied_index=Index(commit_index),
        first_index=Index(1),
        last_index=Index(commit_index),
        snapshot_index=Index(0),
        configuration=configuration,
        root=bytes(32),
        peers=(),
        problems=(),
        counters={},
    )
    return NodeView(node=node, address="tls:h:1", report=report)


def _down(node: NodeId, *, is_shut: bool = False) -> NodeView:
    return NodeView(node=node, address="tls:h:1", report=None, why="refused", is_shut=is_shut)


def _view(*nodes: NodeView) -> ClusterView:
    return ClusterView(cluster="12" * 16, nodes=nodes)


def test_too_few_that_answer_are_named_with_those_who_do_not() -> None:
    assert why_no_majority(_view(_up(_A, "leader"), _down(_B), _down(_C))) == (
        "no majority of the 3 voters answers: aaaaaaaa does, bbbbbbbb, cccccccc do not"
    ), "also where one still thinks that it leads"
    four = Configuration((_A, _B, _C, _D))
    assert why_no_majority(_view(_up(_A, "follower", four), _up(_B, "follower", four), _down(_C), _down(_D))) == (
        "no majority of the 4 voters answers: aaaaaaaa, bbbbbbbb do, cccccccc, dddddddd do not"
    )
    assert why_no_majority(_view(_down(_A), _down(_B))) == (
        "none of the 2 nodes of the cluster answers: aaaaaaaa, bbbbbbbb"
    )
    assert why_no_majority(_view(_down(_A))) == "the only node of the cluster, aaaaaaaa, does not answer"


def test_whoever_only_listens_makes_no_majority() -> None:
    pair = Configuration((_A, _B), (_C, _D))
    found = why_no_majority(_view(_down(_A), _up(_B, configuration=pair), _up(_C, "learner", pair), _down(_D)))
    assert found == "no majority of the 2 voters answers: bbbbbbbb does, aaaaaaaa does not"
    found = why_no_majority(_view(_down(_A), _down(_B), _up(_C, "learner", pair), _down(_D)))
    assert found == "no majority of the 2 voters answers: none does, aaaaaaaa, bbbbbbbb do not"


def test_both_majorities_of_a_joint_configuration_are_needed() -> None:
    joint = Configuration((_A, _B, _C), (), (_D,))
    # Whoever is ahead knows of the change; the others have not heard yet.
    found = why_no_majority(_view(_up(_A, "leader", joint, 11), _up(_B), _up(_C), _down(_D)))
    assert found == "no majority of the 4 voters answers: aaaaaaaa, bbbbbbbb, cccccccc do, dddddddd does not"


def test_a_majority_without_a_leader_is_said_to_be_one() -> None:
    found = why_no_majority(_view(_up(_A), _up(_B), _down(_C)))
    assert found == "a majority of the 3 voters answers (aaaaaaaa, bbbbbbbb), but none of them leads"
    assert why_no_majority(_view(_up(_A, "leader"), _up(_B), _down(_C))) is None, "then it is something else"


def test_nothing_is_said_that_is_not_known() -> None:
    assert why_no_majority(_view(_up(_A), _down(_B))) is None, "one voter was not asked"
    assert why_no_majority(_view(_up(_A), _down(_B), _down(_C, is_shut=True))) is None, "it runs, and lets nobody in"
    assert why_no_majority(_view()) is None


def test_a_node_that_is_out_counts_for_nothing() -> None:
    alone = Configuration((_B, _C))
    found = why_no_majority(_view(_up(_A, "no member", alone, 99), _down(_B, is_shut=True), _down(_C)))
    assert found == "aaaaaaaa is no member of the cluster, whose nodes do not let this folder in"
    found = why_no_majority(_view(_up(_A, "no member", Configuration(())), _down(_B), _down(_C)))
    assert found == "none of the 2 nodes of the cluster answers: bbbbbbbb, cccccccc"


def test_of_several_shards_the_first_is_told_and_the_others_are_counted() -> None:
    whole = _view(_up(_A, "leader"), _up(_B), _up(_C))
    lost = _view(_up(_A), _down(_B), _down(_C))
    text = why_no_majority(lost)
    assert why_of_set([whole, lost, whole], is_set=True) == f"shard 1: {text}"
    assert why_of_set([lost, whole, lost], is_set=True) == f"shard 0: {text}, and so it is with 1 more of 3 shards"
    assert why_of_set([lost], is_set=False) == text
    assert why_of_set([whole, whole], is_set=True) is None


def test_an_error_is_replaced_by_one_of_the_same_meaning(tmp_path: Path) -> None:
    """Nobody runs. What may have been done stays in doubt, and what no time would change stays as it is."""
    folder = tmp_path / "here"
    create_cluster([prepare(folder, listen=f"tls:127.0.0.1:{free_ports(1)[0]}")])
    read = read_folder(folder)

    def better(error: ResourceError) -> ResourceError | None:
        return asyncio.run(explained(error, [read], folder))

    refused = better(NotAccepted(Rejected(1, Why.NOT_LEADER.value, "this node does not lead")))
    assert isinstance(refused, NoMajority)
    assert refused.retry
    why = f"the only node of the cluster, {read.node[:8]}, does not answer; see `bobbin cluster status {folder}`"
    assert str(refused) == f"{why} (this node does not lead)"
    unknown = better(OutcomeUnknown("the node did not answer in time"))
    assert isinstance(unknown, OutcomeUnknown)
    assert str(unknown) == f"whether it was done is not known: the node did not answer in time; {why}"
    assert better(NotAccepted(Rejected(1, Why.UNKNOWN_NODE.value, "there is no such node"))) is None


def test_an_error_stands_where_somebody_leads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def whole(*_: object, **__: object) -> ClusterView:
        await asyncio.sleep(0)
        return _view(_up(_A, "leader"), _up(_B), _up(_C))

    folder = tmp_path / "here"
    create_cluster([prepare(folder, listen=f"tls:127.0.0.1:{free_ports(1)[0]}")])
    monkeypatch.setattr("bobbin.cli.cluster_majority.look", whole)
    assert asyncio.run(explained(ResourceError("x", retry=True), [read_folder(folder)], folder)) is None
