"""What clients ask of a node."""

import asyncio

import pytest

from bobbin.cluster.key_value import Kind, Put
from bobbin.cluster.names import Index, NodeId, Term
from bobbin.cluster.raft.effects import Accepted, ReadReady, Refused, TransferDone, Why
from bobbin.cluster.raft.entries import Entry
from bobbin.cluster.raft.events import Propose, Read, RemoveNode, SnapshotWanted, Transfer
from bobbin.cluster.settings import RaftConfig
from bobbin.runtime.cluster_members import RESERVED, Rights
from bobbin.runtime.cluster_port import Patient
from bobbin.runtime.cluster_requests import Gathered, NotDone, Requests
from bobbin.runtime.cluster_settings import ClientBounds
from bobbin.wire.cluster import client
from bobbin.wire.cluster.chain import ChainPending, ChainRead, ChainVerify
from bobbin.wire.cluster.client import Answer, Done, Rejected, Rows, Unknown, Value
from bobbin.wire.cluster.commands import decode_outcome, encode_command
from tests.unit.runtime.asked import Scene, put, run

_LEADER = NodeId("1" * 32)


def test_writes_of_one_turn_are_one_proposal_and_answered_in_one_frame() -> None:
    async def story() -> None:
        scene = Scene()
        scene.take(put(1), put(2))
        scene.take(put(3))
        assert scene.core.heard == []
        await scene.turn()
        (proposed,) = scene.core.heard
        assert isinstance(proposed, Propose)
        assert len(proposed.commands) == 3
        scene.requests.accepted(Accepted(proposed.request, Index(5), 3, Term(2)))
        assert scene.flow.answers == []
        scene.apply(5, 2, *proposed.commands)
        await scene.turn()
        assert scene.flow.frames == 1
        assert [answer.number for answer in scene.flow.answers] == [1, 2, 3]
        done = scene.flow.answers[2]
        assert isinstance(done, Done)
        assert decode_outcome(done.result).kind is Kind.WRITTEN
        assert scene.port.in_flight == 0

    run(story)


def test_a_refused_proposal_tells_who_leads() -> None:
    async def story() -> None:
        scene = Scene()
        scene.take(put(1), put(2))
        await scene.turn()
        scene.requests.refused(Refused(1, Why.NOT_LEADER, _LEADER))
        await scene.turn()
        for answer in scene.flow.answers:
            assert isinstance(answer, Rejected)
            assert (answer.why, answer.leader, answer.address) == ("not-leader", _LEADER, "tls:h:1")
        assert len(scene.flow.answers) == 2

    run(story)


def test_another_entry_in_its_place_means_that_it_was_not_done() -> None:
    async def story() -> None:
        scene = Scene()
        scene.take(put(1))
        await scene.turn()
        scene.requests.accepted(Accepted(1, Index(5), 1, Term(2)))
        scene.apply(5, 3, encode_command(Put(b"", 0, b"other", b"v")))
        await scene.turn()
        (answer,) = scene.flow.answers
        assert isinstance(answer, Rejected)
        assert answer.why == "lost"

    run(story)


def test_what_nobody_can_tell_is_said_to_be_unknown() -> None:
    async def story() -> None:
        scene = Scene(ClientBounds(answer_seconds_max=5))
        for number in (1, 2, 3, 4):
            scene.take(put(number))
            await scene.turn()
        # Cut off and proposed anew at the same place; under a snapshot; too late; and the node stops.
        scene.requests.accepted(Accepted(1, Index(5), 1, Term(2)))
        scene.requests.accepted(Accepted(2, Index(5), 1, Term(4)))
        scene.requests.skipped(Index(5))
        scene.requests.accepted(Accepted(3, Index(6), 1, Term(4)))
        scene.now = 4.9
        scene.requests.sweep()
        await scene.turn()
        assert [answer.number for answer in scene.flow.answers] == [1, 2]
        scene.now = 5.0
        scene.requests.sweep()
        scene.requests.close()
        await scene.turn()
        assert [answer.number for answer in scene.flow.answers] == [1, 2, 3, 4]
        assert all(isinstance(answer, Unknown) for answer in scene.flow.answers)
        assert scene.requests.counts["unknown"] == 4
        assert scene.requests.waiting == 0

    run(story)


def test_whoever_is_patient_hears_of_an_entry_that_is_committed_after_the_time_is_up() -> None:
    """A shard's leader goes on from there: it would wait for ever for what it is not told."""

    class Listener(Patient):
        def __init__(self) -> None:
            self.answers: list[Answer] = []

        def answer(self, answer: Answer) -> None:
            self.answers.append(answer)

    async def story() -> None:
        scene = Scene()
        early, late = Listener(), Listener()
        command = encode_command(Put(b"", 0, b"k", b"v"))
        scene.requests.propose(early, [command])
        scene.requests.propose(late, [command])
        scene.take(put(3))
        await scene.turn()
        scene.requests.accepted(Accepted(1, Index(1), 3, Term(1)))
        scene.now = 60.0
        scene.requests.sweep()
        scene.apply(1, 1, command)
        scene.apply(2, 2, command)
        await scene.turn()
        assert [type(answer) for answer in early.answers] == [Done]
        assert [type(answer) for answer in late.answers] == [Rejected], "another entry came in its place"
        assert [type(answer) for answer in scene.flow.answers] == [Unknown], "a client has waited for long enough"
        assert scene.requests.waiting == 0

    run(story)


def test_reads_of_one_turn_share_a_confirmation_and_wait_for_what_is_applied() -> None:
    async def story() -> None:
        scene = Scene()
        scene.take(client.Get(1, b"k"), client.Get(2, b"none"), client.Get(3, b"k", linearizable=False))
        await scene.turn()
        assert scene.core.heard == [Read(1)]
        (stale,) = scene.flow.answers
        assert stale == Value(3, None, 0, 0)
        scene.requests.read_ready(ReadReady(1, Index(2)))
        await scene.turn()
        assert len(scene.flow.answers) == 1
        scene.apply(1, 1, encode_command(Put(b"", 0, b"a", b"1")), encode_command(Put(b"", 0, b"k", b"v")))
        await scene.turn()
        assert scene.flow.answers[1:] == [Value(1, b"v", 2, 2), Value(2, None, 0, 2)]

    run(story)


def test_reads_that_are_refused_or_too_late_are_told() -> None:
    async def story() -> None:
        scene = Scene(ClientBounds(answer_seconds_max=5))
        scene.take(client.Get(1, b"k"))
        await scene.turn()
        scene.take(client.Get(2, b"k"))
        await scene.turn()
        scene.take(client.Get(3, b"k"))
        await scene.turn()
        scene.requests.refused(Refused(1, Why.NO_QUORUM, None))
        scene.requests.read_ready(ReadReady(3, Index(9)))
        scene.now = 5.0
        scene.requests.sweep()
        scene.requests.skipped(Index(9))
        await scene.turn()
        assert [answer.why for answer in scene.flow.answers if isinstance(answer, Rejected)] == [
            "no-quorum",
            "timed-out",
            "timed-out",
        ]

    run(story)


def test_the_cluster_s_own_keys_are_out_of_reach() -> None:
    async def story() -> None:
        scene = Scene()
        scene.apply(
            1,
            1,
            *(
                encode_command(Put(b"", 0, key, b"v"))
                for key in (b"\x00a", RESERVED + b"x", RESERVED + b"y", b"\x01", b"z")
            ),
        )
        scene.take(
            put(1, RESERVED + b"x"),
            client.Get(2, RESERVED + b"x"),
            client.Scan(3, b"", b"", 1_000, linearizable=False),
        )
        scene.take(
            client.Scan(4, RESERVED, b"", 1_000, linearizable=False),
            client.Scan(5, b"", b"\x00a", 1, linearizable=False),
        )
        await scene.turn()
        answers = {answer.number: answer for answer in scene.flow.answers}
        assert isinstance(answers[1], Rejected)
        assert isinstance(answers[2], Rejected)
        whole, own, page = answers[3], answers[4], answers[5]
        assert isinstance(whole, Rows)
        assert isinstance(own, Rows)
        assert isinstance(page, Rows)
        assert [row.key for row in whole.rows] == [b"\x00a", b"\x01", b"z"]
        assert own.rows == ()
        assert ([row.key for row in page.rows], page.is_whole) == ([b"\x01"], False)

    run(story)


def test_what_makes_no_sense_is_not_proposed() -> None:
    async def story() -> None:
        scene = Scene()
        scene.take(client.Put(1, b"k", b"v", b"short", 1), client.Delete(2, b"k", b"", 7))
        await scene.turn()
        assert scene.core.heard == []
        assert [answer.why for answer in scene.flow.answers if isinstance(answer, Rejected)] == ["invalid"] * 2

    run(story)


def test_operators_requests_go_their_way() -> None:
    async def story() -> None:
        scene = Scene()
        scene.take(client.Status(1), client.Transfer(2, _LEADER), client.Remove(3, _LEADER), client.Snapshot(4))
        steps: list[client.Request] = [client.Members(7), client.Renew(8, b"", b""), client.Replace(9, (_LEADER,), ())]
        scene.take(client.Transfer(5, _LEADER), client.Snapshot(6), *steps)
        transfer, remove, snapshot, again, refused = scene.core.heard
        assert isinstance(transfer, Transfer)
        assert isinstance(remove, RemoveNode)
        assert isinstance(snapshot, SnapshotWanted)
        assert isinstance(again, Transfer)
        assert isinstance(refused, SnapshotWanted)
        scene.requests.transfer_done(TransferDone(transfer.request, _LEADER))
        scene.requests.transfer_done(TransferDone(again.request, NodeId("2")))
        scene.requests.accepted(Accepted(remove.request, Index(3), 1, Term(1)))
        scene.requests.accepted(Accepted(snapshot.request, Index(9), 0, Term(1)))
        scene.requests.refused(Refused(refused.request, Why.NOTHING_NEW, None))
        scene.requests.applied([Entry(Term(1), Index(3), None)], [b""])
        await scene.turn()
        answers = {answer.number: answer for answer in scene.flow.answers}
        assert answers[1] == Done(1, 77)
        assert answers[2] == Done(2, 0)
        assert answers[3] == Done(3, 3)
        assert answers[4] == Done(4, 9)
        assert isinstance(answers[5], Rejected)
        assert isinstance(answers[6], Rejected)
        assert scene.core.operated == steps

    run(story)


def test_an_invitation_is_for_joining_alone() -> None:
    async def story() -> None:
        scene = Scene(rights=Rights.JOIN)
        wanted = [client.Add(2, b"c", "tls:h:1", b""), client.AddListener(2, b"c", "tls:h:1", b"")]
        scene.take(put(1), *wanted, client.Invite(3, b"c", 1), client.Replace(4, (), ()), client.Renew(5, b"", b""))
        await scene.turn()
        assert scene.core.operated == wanted
        assert scene.core.heard == []
        assert [answer.why for answer in scene.flow.answers if isinstance(answer, Rejected)] == ["not-allowed"] * 4

    run(story)


def test_a_client_that_leaves_gets_the_answers_it_waits_for_and_no_more() -> None:
    async def story() -> None:
        scene = Scene()
        left: list[bool] = []
        scene.take(put(1))
        await scene.turn()
        scene.port.leave(lambda: left.append(True))
        assert left == []
        scene.take(put(2))
        scene.requests.refused(Refused(1, Why.NO_QUORUM, None))
        await scene.turn()
        assert left == [True]
        assert [answer.why for answer in scene.flow.answers if isinstance(answer, Rejected)] == [
            "not-allowed",
            "no-quorum",
        ]

    run(story)


def test_a_client_with_enough_under_way_waits() -> None:
    async def story() -> None:
        scene = Scene(ClientBounds(in_flight_max=1))
        scene.take(put(1))
        waiting = asyncio.create_task(scene.port.room())
        await scene.turn()
        assert not waiting.done()
        scene.requests.refused(Refused(1, Why.NO_QUORUM, None))
        await scene.turn()
        await waiting

    run(story)


def test_the_node_waits_for_its_own_commands() -> None:
    async def story() -> None:
        scene = Scene()
        gathered, failed = Gathered(2), Gathered(1)
        scene.requests.propose(gathered, [encode_command(Put(b"", 0, b"a", b"1"))] * 2)
        scene.requests.propose(failed, [encode_command(Put(b"", 0, b"a", b"1"))])
        await scene.turn()
        (proposed,) = scene.core.heard
        assert isinstance(proposed, Propose)
        scene.requests.accepted(Accepted(proposed.request, Index(1), 3, Term(1)))
        scene.apply(1, 1, *proposed.commands[:2])
        await gathered.wait()
        scene.requests.close()
        with pytest.raises(NotDone, match="stops"):
            await failed.wait()

    run(story)


def test_a_word_of_the_machine_that_comes_too_late_changes_nothing() -> None:
    """The machine is not told that a client was answered already; what it says then must not stop the node."""

    async def story() -> None:
        scene = Scene(ClientBounds(answer_seconds_max=5))
        scene.take(client.Get(1, b"k"))
        await scene.turn()
        scene.now = 5.0
        scene.requests.sweep()
        scene.requests.read_ready(ReadReady(1, Index(0)))
        scene.take(client.Get(2, b"k"), put(3), client.Snapshot(4))
        await scene.turn()
        scene.take(client.Get(5, b"k"), put(6))  # not handed over yet
        scene.requests.close()
        for event in scene.core.heard:
            if isinstance(event, Read):
                scene.requests.read_ready(ReadReady(event.request, Index(0)))
            else:
                assert isinstance(event, Propose | SnapshotWanted)
                scene.requests.accepted(Accepted(event.request, Index(1), 1, Term(1)))
        scene.apply(1, 1, encode_command(Put(b"", 0, b"k", b"v")))
        await scene.turn()
        assert sorted(answer.number for answer in scene.flow.answers) == [1, 2, 3, 4, 5, 6]
        assert all(isinstance(answer, Rejected | Unknown) for answer in scene.flow.answers)

    run(story)


def test_a_write_that_is_too_large_is_refused_alone() -> None:
    async def story() -> None:
        scene = Scene()
        requests = Requests(scene.core, ClientBounds(), clock=lambda: 0.0, command_bytes_max=100)
        requests.take(scene.port, [put(1), put(2, value=bytes(101)), put(3)])
        await scene.turn()
        (proposed,) = scene.core.heard
        assert isinstance(proposed, Propose)
        assert len(proposed.commands) == 2
        (answer,) = scene.flow.answers
        assert isinstance(answer, Rejected)
        # Not one of the reasons for which it is worth asking again.
        assert (answer.number, answer.why) == (2, "invalid")

    run(story)


def test_the_largest_values_are_within_what_the_log_takes() -> None:
    async def story() -> None:
        scene = Scene()
        key, value = bytes(client.KEY_BYTES_MAX), bytes(client.VALUE_BYTES_MAX)
        who = b"c" * 16
        scene.take(client.Put(1, key, value, who, 1), client.CompareAndSwap(2, key, value, value, who, 2))
        await scene.turn()
        (proposed,) = scene.core.heard
        assert isinstance(proposed, Propose)
        assert len(proposed.commands) == 2
        assert max(map(len, proposed.commands)) <= RaftConfig().command_bytes_max
        assert scene.flow.answers == []

    run(story)


def test_writes_for_which_there_is_no_room_do_not_take_the_others_with_them() -> None:
    async def story() -> None:
        scene = Scene()
        scene.take(*(put(number) for number in range(1, 2_502)))
        await scene.turn()
        proposed = [event for event in scene.core.heard if isinstance(event, Propose)]
        assert [len(event.commands) for event in proposed] == [1_000, 1_000, 501]
        scene.requests.accepted(Accepted(proposed[0].request, Index(1), 1_000, Term(1)))
        scene.requests.refused(Refused(proposed[2].request, Why.TOO_MUCH, None))
        scene.apply(1, 1, *proposed[0].commands)
        await scene.turn()
        done = [answer.number for answer in scene.flow.answers if isinstance(answer, Done)]
        refused = [answer.number for answer in scene.flow.answers if isinstance(answer, Rejected)]
        assert (done, refused) == ([*range(1, 1_001)], [*range(2_001, 2_502)])

    run(story)


@pytest.mark.parametrize("linearizable", [False, True])
@pytest.mark.parametrize("is_scan", [False, True])
def test_reads_wait_as_requests_while_the_client_does_not_take_their_answers(
    *, linearizable: bool, is_scan: bool
) -> None:
    async def story() -> None:
        scene = Scene()
        scene.apply(1, 1, encode_command(Put(b"", 0, b"k", bytes(1_000_000))))
        scene.flow.fills = True
        wanted: list[client.Request] = [
            client.Scan(number, b"", b"", 10, linearizable=linearizable)
            if is_scan
            else client.Get(number, b"k", linearizable=linearizable)
            for number in range(23)
        ]
        scene.take(*wanted)
        await scene.turn()
        if linearizable:
            scene.requests.read_ready(ReadReady(1, Index(1)))
        waiting = asyncio.create_task(scene.port.room())
        for turns in range(1, 6):
            for _ in range(3):
                await scene.turn()
            # One frame of about 4 MB, however much is asked for.
            assert len(scene.flow.answers) == 5 * turns - 2 * (turns == 5)
            assert waiting.done() == (scene.port.in_flight == 0 and not scene.flow.is_full)
            scene.flow.resume_writing()
        await waiting
        assert sorted(answer.number for answer in scene.flow.answers) == [*range(23)]
        assert scene.port.in_flight == 0

    run(story)


def test_a_turn_of_the_loop_answers_no_more_than_a_frame_of_reads() -> None:
    """Not even to a client that takes everything: others would wait for it, and the node's own timers."""

    async def story() -> None:
        scene = Scene()
        scene.apply(1, 1, encode_command(Put(b"", 0, b"k", bytes(1_000_000))))
        scene.take(*(client.Get(number, b"k", linearizable=False) for number in range(30)))
        assert len(scene.flow.answers) == 5
        await scene.port.room()
        assert len(scene.flow.answers) == 30
        scene.flow.pause_writing()
        scene.take(client.Status(30))
        await scene.turn()
        assert len(scene.flow.answers) == 30
        scene.flow.resume_writing()
        await scene.turn()
        assert len(scene.flow.answers) == 31

    run(story)


def test_reads_of_a_client_that_has_gone_are_forgotten() -> None:
    async def story() -> None:
        scene = Scene()
        scene.flow.pause_writing()
        scene.take(*(client.Get(number, b"k", linearizable=False) for number in range(3)))
        waiting = asyncio.create_task(scene.port.room())
        await scene.turn()
        assert not waiting.done()
        scene.flow.connection_lost(None)
        await waiting
        assert scene.port.in_flight == 0
        scene.port.close()

    run(story)


def test_what_the_node_does_not_know_is_for_what_is_attached_to_it() -> None:
    async def story() -> None:
        scene = Scene()
        scene.take(ChainVerify(1), ChainPending(2))
        await scene.turn()
        known, unknown = sorted(scene.flow.answers, key=lambda answer: answer.number)
        assert known == Done(1, 88)
        assert isinstance(unknown, Rejected)
        assert unknown.why == "not-allowed"
        invited = Scene(rights=Rights.JOIN)
        invited.take(ChainVerify(1))
        await invited.turn()
        assert isinstance(invited.flow.answers[0], Rejected)

    run(story)


def test_the_node_itself_has_its_leadership_confirmed() -> None:
    async def story() -> None:
        scene = Scene()
        told: list[Rejected | None] = []
        scene.requests.confirm(told.append)
        scene.requests.confirm(told.append)
        await scene.turn()
        (read,) = scene.core.heard
        assert isinstance(read, Read)
        scene.requests.read_ready(ReadReady(read.request, Index(1)))
        assert told == []
        scene.apply(1, 1, encode_command(Put(b"", 0, b"a", b"1")))
        assert told == [None, None]
        scene.requests.confirm(told.append)
        await scene.turn()
        asked = scene.core.heard[-1]
        assert isinstance(asked, Read)
        scene.requests.refused(Refused(asked.request, Why.NOT_LEADER, _LEADER))
        refused = told[-1]
        assert isinstance(refused, Rejected)
        assert (refused.why, refused.leader) == ("not-leader", _LEADER)

    run(story)


def test_a_node_that_does_not_know_what_is_committed_answers_no_unconfirmed_read() -> None:
    async def story() -> None:
        scene = Scene()
        scene.core.has_learnt = False
        scene.take(
            client.Get(1, b"k", linearizable=False),
            client.Scan(2, b"", b"", 10, linearizable=False),
            ChainPending(3),
            ChainVerify(4),
        )
        scene.take(ChainRead(5, (b"k",), None, linearizable=False))
        await scene.turn()
        refusals = [answer for answer in scene.flow.answers if isinstance(answer, Rejected)]
        assert [(answer.number, answer.why) for answer in refusals] == [(one, "not-learnt") for one in range(1, 6)]
        assert "not yet learnt what is committed" in refusals[0].text
        scene.take(client.Get(6, b"k"))
        await scene.turn()
        assert isinstance(scene.core.heard[-1], Read), "what a majority confirms is asked for as ever"
        scene.core.has_learnt = True
        scene.take(client.Get(7, b"k", linearizable=False))
        await scene.turn()
        assert scene.flow.answers[-1] == Value(7, None, 0, Index(0))

    run(story)
