from bobbin.cluster.codebook.global_book import GlobalCodebook
from bobbin.cluster.geometry import Embedding
from bobbin.cluster.operations import Put
from bobbin.cluster.shard.commands import Append, Prepare, ReplaceCodebook, Resolve
from bobbin.cluster.shard.events import ReplaceCodebookWanted, ResolveWanted
from bobbin.cluster.transactions.names import TxId
from bobbin.cluster.transactions.phases import Ended
from tests.unit.cluster.shard.driven import DrivenShards
from tests.unit.cluster.shard.participating import Participating

BOOK = GlobalCodebook(1, [Embedding(16, (at,), (1.0,)) for at in range(16)]).encode()


def replace_codebook(world: DrivenShards, centroids: bytes = BOOK) -> int:
    request = world.request()
    world[0].step(ReplaceCodebookWanted(request, centroids))
    return request


def resolve(one: Participating, tx: TxId, *, commits: bool, operator: str = "ann", reason: str = "it burns") -> int:
    request = one.world.request()
    one.shard.step(ResolveWanted(request, tx, commits, operator, reason))
    return request


def test_no_block_is_made_while_a_codebook_is_on_its_way_and_the_next_one_is_of_its_version() -> None:
    world = DrivenShards()
    first = world.commit(world.transaction(Put(b"a", b"1")))
    asked = replace_codebook(world)
    second = world.commit(world.transaction(Put(b"b", b"1")))
    assert [type(proposal.command) for proposal in world[0].proposals] == [Append, ReplaceCodebook]
    world.run()
    assert {world.ended(request) for request in (first, asked, second)} == {Ended.COMMITTED}
    blocks = world[0].state.ledger.blocks(1, 2)
    assert [block.header.codebook_version for block in blocks] == [0, 1]
    assert blocks[1].header.quantized_codes != ()


def test_a_codebook_that_is_none_or_one_too_many_is_refused() -> None:
    world = DrivenShards()
    assert world.ended(replace_codebook(world, b"no book")) is Ended.REFUSED
    other = GlobalCodebook(1, [Embedding(3, (1,), (1.0,))]).encode()
    assert world.ended(replace_codebook(world, other)) is Ended.REFUSED
    first = replace_codebook(world)
    assert world.ended(replace_codebook(world)) is Ended.BUSY
    world[0].lose_next()
    assert world.ended(first) is Ended.BUSY
    assert world.put(b"k").ended is Ended.COMMITTED
    world.check_quiet()


def test_a_promise_is_ended_by_hand_through_the_log_and_marked() -> None:
    for commits in (True, False):
        one = Participating()
        message = one.promise(one.part(Put(one.key(), b"1")))
        request = resolve(one, message.tx, commits=commits)
        one.settle()
        assert one.world.ended(request) is Ended.COMMITTED
        assert one.world.value(one.key()) == (b"1" if commits else None)
        expected = [Prepare, Resolve, Append] if commits else [Prepare, Resolve]
        assert [type(command) for command, _ in one.shard.log] == expected
        (end,) = one.state.participant.heuristics
        assert end.heuristic is not None
        assert (end.heuristic.operator, end.heuristic.reason, end.commits) == ("ann", "it burns", commits)
        assert [alarm.code for alarm in one.world.alarms] == ["heuristic"]
        one.check_nothing_left()
        # What the coordinator decides afterwards is answered for what it is.
        one.said()
        one.commit(message.tx)
        assert one.acks() == [commits]
        one.abort(message.tx)
        one.settle()
        assert one.acks() == [not commits]


def test_a_new_leader_goes_on_with_what_an_operator_wants_to_be_done() -> None:
    one = Participating()
    message = one.promise(one.part(Put(one.key(), b"1")))
    one.shard.write(Resolve(message.tx, commits=True, operator="ann", reason="it burns"))
    one.shard.lead()
    one.settle()
    assert one.world.value(one.key()) == b"1"
    one.check_nothing_left()


def test_who_does_not_say_who_it_is_or_why_ends_nothing() -> None:
    one = Participating()
    message = one.promise(one.part(Put(one.key(), b"1")))
    refused = [
        resolve(one, message.tx, commits=True, operator=""),
        resolve(one, message.tx, commits=True, reason=""),
        resolve(one, message.tx, commits=True, reason="x" * 1_001),
        resolve(one, TxId(bytes(16)), commits=True),
    ]
    assert {one.world.ended(request) for request in refused} == {Ended.REFUSED}
    lost = resolve(one, message.tx, commits=True)
    one.shard.lose_next()
    assert one.world.ended(lost) is Ended.BUSY
    assert message.tx in one.state.participant.promises
