"""What a node says of itself."""

from random import Random

from msgspec import structs

from bobbin.cluster.identity import Identity
from bobbin.cluster.membership.events import Tick as GossipTick
from bobbin.cluster.membership.machine import SETTLED_MS, MembershipMachine
from bobbin.cluster.membership.messages import Health
from bobbin.cluster.names import MILLISECOND_NS, Index, NodeId
from bobbin.cluster.raft.entries import Configuration
from bobbin.cluster.raft.events import Recovered, RemoveNode, Tick
from bobbin.cluster.raft.machine import RaftMachine
from bobbin.runtime.cluster_certificate import make
from bobbin.runtime.cluster_members import Directory, Member
from bobbin.runtime.cluster_status import LAG_ENTRIES_MAX, is_out, problems_of, report, role_text
from tests.support.clusters import GOSSIP, RAFT
from tests.support.raft_cluster import RaftCluster

_IDENTITIES = [Identity(bytes([number]) * 32) for number in (1, 2, 3)]
_A, _B, _C = (identity.node for identity in _IDENTITIES)
_DIRECTORY = Directory(
    [Member(certificate=make(one).certificate, address=f"tls:h:{at}") for at, one in enumerate(_IDENTITIES, start=1)]
)


def _machine(configuration: Configuration | None) -> RaftMachine:
    machine = RaftMachine(RAFT, node=_A, recovered=Recovered(), bootstrap=configuration, random=Random(1))
    machine.step(Tick(), now_ns=1)
    return machine


def _gossip() -> MembershipMachine:
    return MembershipMachine(GOSSIP, node=_A, incarnation=0, peers=[(_B, None), (_C, None)], random=Random(1))


def test_a_report_names_everybody_who_is_known() -> None:
    machine, gossip = _machine(Configuration(tuple(sorted((_A, _B))))), _gossip()
    told = report(9, machine, gossip, {}, _DIRECTORY, root=b"r", now_ns=5, problems=["x"], counters={"keys": 3})
    assert (told.number, told.node, told.role, told.leader) == (9, _A, "follower", None)
    assert {peer.node for peer in told.peers} == {_B, _C}
    assert {peer.address for peer in told.peers} == {"tls:h:2", "tls:h:3"}
    assert not any(peer.is_linked for peer in told.peers)
    assert told.problems == ("x",)
    assert told.counters == {"keys": 3}


def test_a_leader_reports_what_a_follower_holds_now_not_what_it_once_acknowledged() -> None:
    cluster = RaftCluster("abc")
    leader = cluster.elect("a")
    cluster.propose("a", *[b"command"] * (LAG_ENTRIES_MAX + 1))
    cluster.deliver()
    follower = leader.progress[NodeId("b")]
    acknowledged = follower.match_index
    assert acknowledged > LAG_ENTRIES_MAX
    # As when its disk has lost everything: it is told from the beginning again.
    follower.next_index = Index(1)
    told = report(1, leader, _gossip(), {}, Directory(), root=b"", now_ns=5, problems=[], counters={})
    assert {peer.node: peer.match_index for peer in told.peers} == {"b": 0, "c": acknowledged}
    assert [text for text in problems_of(leader, _gossip(), {}) if "committed entries" in text] == [
        f"b lacks {leader.commit_index:,} committed entries"
    ]


def test_what_a_node_lacks_that_has_not_answered_this_leader_is_not_known() -> None:
    cluster = RaftCluster("abc")
    leader = cluster.elect("a")
    cluster.propose("a", *[b"command"] * (LAG_ENTRIES_MAX + 1))
    cluster.deliver()
    silent = leader.progress[NodeId("b")]
    # As after a change of leader while it is down.
    silent.next_index, silent.last_contact_ns = Index(1), -1
    told = report(1, leader, _gossip(), {}, Directory(), root=b"", now_ns=5, problems=[], counters={})
    assert {peer.node: peer.contact_ms is None for peer in told.peers} == {"b": True, "c": False}
    assert not [text for text in problems_of(leader, _gossip(), {}) if "committed entries" in text]


def test_gossip_is_asked_about_those_who_vote_alone() -> None:
    """CL-120: a node that only listens and is down takes no majority away, nor does one that is up make one."""
    gossip = _gossip()
    gossip.step(GossipTick(), now_ns=0)
    gossip.step(GossipTick(), now_ns=(SETTLED_MS + 1) * MILLISECOND_NS)

    def told(configuration: Configuration) -> list[str]:
        return [text for text in problems_of(_machine(configuration), gossip, {}) if text.startswith("by gossip")]

    def voters(*nodes: NodeId) -> tuple[NodeId, ...]:
        return tuple(sorted(nodes))

    assert told(Configuration((_A,), (_B,))) == []
    assert told(Configuration(voters(_A, _B), (_C,))) == ["by gossip: stalemate, 1 of 2 voters within reach"]
    assert told(Configuration(voters(_A, _B, _C))) == ["by gossip: quorum-lost, 1 of 3 voters within reach"]
    assert told(Configuration((_A,), (), voters(_A, _B, _C))) == ["by gossip: quorum-lost, 1 of 3 voters within reach"]
    gossip.table.states[_C] = structs.replace(gossip.table.states[_C], health=Health.HEALTHY)
    assert told(Configuration(voters(_A, _B), (_C,))) == ["by gossip: stalemate, 1 of 2 voters within reach"]
    assert told(Configuration(voters(_A, _B, _C))) == []


def test_a_node_knows_that_it_is_out_by_what_is_committed() -> None:
    cluster = RaftCluster("abc")
    leader = cluster.elect("a")
    cluster.deliver()
    gone = cluster.machine("c")
    assert not is_out(gone)
    cluster.step("a", RemoveNode(99, NodeId("c")))
    cluster.deliver()
    assert NodeId("c") not in leader.configuration.members
    assert is_out(gone)
    assert problems_of(gone, _gossip(), {}) == ["this node is no member of the cluster any more: it was removed"]
    assert not is_out(leader)
    joining = _machine(Configuration((_B,)))
    assert not is_out(joining), "it has never been one"
    assert "it has not caught up, or was removed" in problems_of(joining, _gossip(), {})[0]


def test_roles_besides_those_of_raft() -> None:
    assert role_text(_machine(Configuration((_A,)))) == "follower"
    assert role_text(_machine(Configuration((_B,), (_A,)))) == "learner"
    assert role_text(_machine(Configuration((_B,)))) == "no member"


def test_what_is_wrong_is_named() -> None:
    gossip = _gossip()
    states = gossip.table.states
    states[_B] = structs.replace(states[_B], health=Health.FAILED)
    states[_C] = structs.replace(states[_C], health=Health.DEGRADED)
    four = Configuration(tuple(sorted((_A, _B, _C, "d" * 32))))  # type: ignore[arg-type]
    found = " · ".join(problems_of(_machine(four), gossip, {}))
    for words in (
        "no leader is known",
        "4 voters",
        f"{_B[:8]} has failed",
        f"{_C[:8]} is suspected",
        "nobody knows where dddd",
    ):
        assert words in found
    joint = Configuration((_B,), (), (_C,))
    found = " · ".join(problems_of(_machine(joint), gossip, {}))
    assert "several voters is under way" in found
    assert "no member of the configuration" in found
