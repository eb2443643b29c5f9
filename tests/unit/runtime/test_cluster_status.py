"""What a node says of itself."""

from random import Random

from msgspec import structs

from bobbin.cluster.identity import Identity
from bobbin.cluster.membership.machine import MembershipMachine
from bobbin.cluster.membership.messages import Health
from bobbin.cluster.names import Index, NodeId
from bobbin.cluster.raft.entries import Configuration
from bobbin.cluster.raft.events import Recovered, Tick
from bobbin.cluster.raft.machine import RaftMachine
from bobbin.runtime.cluster_certificate import make
from bobbin.runtime.cluster_members import Directory, Member
from bobbin.runtime.cluster_status import LAG_ENTRIES_MAX, problems_of, report, role_text
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
    assert [text for text in problems_of(leader, _gossip(), {}, {}) if "committed entries" in text] == [
        f"b lacks {leader.commit_index:,} committed entries"
    ]


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
    found = " · ".join(problems_of(_machine(four), gossip, {}, {_B: "bee"}))
    for words in (
        "no leader is known",
        "4 voters",
        "bee has failed",
        f"{_C[:8]} is suspected",
        "nobody knows where dddd",
    ):
        assert words in found
    joint = Configuration((_B,), (), (_C,))
    found = " · ".join(problems_of(_machine(joint), gossip, {}, {}))
    assert "several voters is under way" in found
    assert "no member of the configuration" in found
