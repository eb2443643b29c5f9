"""A cluster as its operator sees it."""

import json

from msgspec import structs

from bobbin.cli.cluster_view import ClusterView, NodeView, Shown, lines
from bobbin.cli.output import Output, encode
from bobbin.cluster.names import NodeId
from bobbin.cluster.raft.entries import Configuration
from bobbin.wire.cluster.client import PeerReport, Report

_A, _B, _C = (NodeId(letter * 32) for letter in "abc")


def _report(node: NodeId, role: str, **values: object) -> Report:
    peers = tuple(
        PeerReport(peer, "tls:h:1", "healthy", is_linked=True, match_index=7, next_index=8, contact_ms=3, failures=0)
        for peer in (_A, _B, _C)
        if peer != node
    )
    report = Report(
        number=1,
        node=node,
        role=role,
        term=4,
        leader=_A,
        leader_address="tls:h:1",
        commit_index=10,
        applied_index=10,
        first_index=1,
        last_index=10,
        snapshot_index=0,
        configuration=Configuration((_A, _B, _C)),
        root=bytes(32),
        peers=peers,
        problems=(),
        counters={},
    )
    return structs.replace(report, **values)


def _view(*reports: Report | None) -> ClusterView:
    nodes = [
        NodeView(node=node, address="tls:h:1", report=report, why="" if report is not None else "refused")
        for node, report in zip((_A, _B, _C), reports, strict=True)
    ]
    return ClusterView(cluster="12" * 16, nodes=tuple(nodes))


def _text(view: ClusterView) -> str:
    return "\n".join(lines(view, Output(as_json=False)))


def test_who_leads_and_how_far_everybody_is() -> None:
    view = _view(_report(_A, "leader"), _report(_B, "follower", applied_index=6), _report(_C, "follower"))
    text = _text(view)
    assert "aaaaaaaa leads in term 4, 3 of 3 nodes answer" in text
    assert "!" not in text
    row = next(line for line in text.splitlines() if line.startswith("bbbbbbbb"))
    assert row.split() == ["bbbbbbbb", "tls:h:1", "follower", "4", "10", "6", "4", "10", "healthy", "00000000"]
    assert view.problems == []


def test_a_node_that_is_down_hides_nothing_of_the_others() -> None:
    view = _view(_report(_A, "leader", problems=("cccccccc has failed",)), _report(_B, "follower"), None)
    text = _text(view)
    assert "2 of 3 nodes answer" in text
    assert "! cccccccc does not answer: refused" in text
    assert "! cccccccc has failed" in text
    row = next(line for line in text.splitlines() if line.startswith("cccccccc"))
    # What it lacks is what its leader knows of it.
    assert row.split() == ["cccccccc", "tls:h:1", "down", "3", "healthy"]


def test_what_a_node_lacks_is_not_known_before_it_has_answered_this_leader() -> None:
    leader = _report(_A, "leader")
    silent = tuple(
        structs.replace(peer, match_index=0, contact_ms=None) if peer.node == _C else peer for peer in leader.peers
    )
    view = _view(structs.replace(leader, peers=silent), _report(_B, "follower"), None)
    row = next(line for line in _text(view).splitlines() if line.startswith("cccccccc"))
    assert row.split() == ["cccccccc", "tls:h:1", "down", "?", "healthy"]
    lags = [node["lag"] for node in json.loads(encode(view.value()))["nodes"]]
    assert lags == [0, 0, None]
    leaderless = _view(None, _report(_B, "follower"), None)
    assert [node["lag"] for node in json.loads(encode(leaderless.value()))["nodes"]] == [None, None, None]
    assert "?" not in _text(leaderless)


def test_a_node_that_was_removed_says_so_beside_a_leader_that_does_not_speak_of_it() -> None:
    gone = _report(_C, "no member", problems=("this node is no member of the cluster any more", "no leader is known"))
    view = _view(_report(_A, "leader"), _report(_B, "follower"), gone)
    assert view.problems == ["cccccccc says: this node is no member of the cluster any more"]


def test_without_a_leader_everybody_is_heard() -> None:
    view = _view(None, _report(_B, "follower", problems=("b is alone",)), _report(_C, "candidate", term=6))
    assert view.leader is None
    assert view.problems[0] == "no node that answers leads"
    assert "b is alone" in view.problems
    assert "no leader; the highest term is 6" in _text(view)


def test_of_two_that_think_they_lead_the_later_term_counts() -> None:
    view = _view(_report(_A, "leader"), _report(_B, "leader", term=5), _report(_C, "follower"))
    assert view.leader is not None
    assert view.leader.node == _B
    assert any("two nodes think that they lead" in problem for problem in view.problems)


def test_different_data_after_the_same_log_are_told() -> None:
    view = _view(_report(_A, "leader"), _report(_B, "follower", root=bytes([1]) * 32), _report(_C, "follower"))
    assert any("different data" in problem for problem in view.problems)
    ahead = _view(_report(_A, "leader"), _report(_B, "follower", root=bytes([1]), applied_index=9), None)
    assert not any("different data" in problem for problem in ahead.problems)


def test_a_node_whose_store_lags_shows_no_root_and_is_not_compared() -> None:
    view = _view(_report(_A, "leader"), _report(_B, "follower", root=b""), _report(_C, "follower"))
    assert view.problems == []
    row = next(line for line in _text(view).splitlines() if line.startswith("bbbbbbbb"))
    assert row.endswith("behind")
    value = json.loads(encode(view.value()))
    assert [node["root"] for node in value["nodes"]] == ["00" * 32, None, "00" * 32]


def test_a_set_is_whole_when_each_of_its_shards_is() -> None:
    whole = _view(_report(_A, "leader"), _report(_B, "follower"), _report(_C, "follower"))
    leaderless = _view(_report(_A, "follower"), _report(_B, "follower"), _report(_C, "follower"))
    silent = _view(None, None, None)
    shown = Shown(views=(whole, silent), is_set=True)
    assert (shown.is_whole, shown.is_heard) == (False, True)
    assert not Shown(views=(whole, leaderless), is_set=True).is_whole
    assert not Shown(views=(silent,), is_set=False).is_heard
    both = Shown(views=(whole, whole), is_set=True)
    assert both.is_whole
    out = Output(as_json=False)
    heads = [line for line in both.lines(out) if " leads in term 4" in line]
    assert [head[:17] for head in heads] == ["shard 0, cluster ", "shard 1, cluster "]
    assert len(json.loads(encode(both.value()))["shards"]) == 2
    alone = Shown(views=(whole,), is_set=False)
    assert alone.value() == whole.value()
    assert alone.lines(out) == lines(whole, out)


def test_programs_get_the_same() -> None:
    value = _view(_report(_A, "leader"), None, _report(_C, "follower")).value()
    assert isinstance(value, dict)
    assert value["leader"] == _A
    nodes = value["nodes"]
    assert isinstance(nodes, list)
    assert nodes[1] == {"node": _B, "address": "tls:h:1", "answers": False, "why": "refused", "lag": 3}
    assert nodes[2]["lag"] == 0
