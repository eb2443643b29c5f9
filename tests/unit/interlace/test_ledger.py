"""The books of an exchange: what was told to the peer, and how its claims turned out."""

from collections.abc import Collection

from bobbin.interlace.choice import Strategy
from bobbin.interlace.config import Config
from bobbin.interlace.effects import Send
from bobbin.interlace.events import Event, Received, Started
from bobbin.interlace.ledger import Difference, Ledger
from bobbin.interlace.limits import Service
from bobbin.interlace.machine import InterlaceMachine
from bobbin.interlace.messages import Advertise, Message
from bobbin.interlace.reconciliation import Sketched
from bobbin.interlace.schema import Schema
from bobbin.interlace.setup import Party
from bobbin.policy.claims import ClaimedField
from bobbin.policy.modules import compile_selector
from bobbin.runtime.local_peer import Manner, run_local
from bobbin.simulator.holdings import MemoryHoldings
from tests.local_exchanges import APP, GROUP_U, SERVER, Clock, Liar, plex, side


class Exaggerating(MemoryHoldings):
    """A side that claims another group than its records have."""

    def describe(self, records: Collection[str], schema: Schema) -> list[tuple[ClaimedField, ...] | None]:
        described = super().describe(records, schema)
        return [
            None if fields is None else tuple(ClaimedField(field.name, field.index, "u") for field in fields)
            for fields in described
        ]


class Withdrawing(MemoryHoldings):
    """A side that has nothing any more when it is asked for it."""

    def load(self, record: str) -> bytes | None:
        del record
        return None


def test_everything_that_was_said_is_in_the_disclosure() -> None:
    ours, theirs, private = plex("links/1"), plex("links/2"), plex("secret", group="private")
    ran = run_local(side([ours, private]), side([theirs]), clock=Clock())
    told = ran.own.ledger.disclosure()
    assert told.modules == (ran.own.config.selector.identifier,)
    assert told.fields == {"Group"}, "the schema is as small as the rules allow"
    assert told.advertised == {ours.hash, theirs.hash}, "what came is offered from then on"
    assert private.hash not in told.advertised
    assert told.requested == {theirs.hash}
    assert told.sent == {ours.hash}
    assert told.summaries == 0
    there = ran.peer.ledger.disclosure()
    assert there.requested == {ours.hash}
    assert there.sent == {theirs.hash}


def test_summaries_are_counted_where_records_are_not_listed() -> None:
    records = [plex(f"links/{number}") for number in range(40)]
    sides = side(records, key=APP), side(key=SERVER)
    manner = Manner(service=Service(list_outright_max=1), direct=False, strategy=Strategy.PARTITIONS)
    first = run_local(*sides, manner, clock=Clock()).own.ledger.disclosure()
    assert len(first.advertised) == 40, "a peer that knows nothing asks for everything"
    again = run_local(*sides, manner, clock=Clock()).own.ledger.disclosure()
    assert again.advertised == first.advertised, "nothing is listed, and all of it is confirmed"
    assert 1 < again.summaries <= 40


def test_an_honest_peer() -> None:
    theirs = plex("links/2")
    mine = side()
    honest = run_local(mine, side([theirs]), clock=Clock()).own.ledger.honesty(mine.holdings.describe)
    assert (honest.received, honest.differing) == (1, {})
    assert honest.never_served == honest.rejected == frozenset()


def test_claims_that_differ_from_the_record() -> None:
    theirs = plex("links/2", group="other")
    policy = "SelectHave(P) :- Have(P).\n" + GROUP_U.splitlines()[1] + "\n"
    mine = side(policy=policy)
    ran = run_local(mine, side([theirs], policy, holdings=Exaggerating()), clock=Clock())
    assert ran.own.result.received == {theirs.hash}, "the record is valid, whatever was claimed about it"
    honest = ran.own.ledger.honesty(mine.holdings.describe)
    assert honest.differing == {theirs.hash: (Difference(name="Group", index="0", claimed="u", actual="other"),)}


class Numbering(MemoryHoldings):
    """A peer that says of every record that it has eleven links, and hides its group."""

    def describe(self, records: Collection[str], schema: Schema) -> list[tuple[ClaimedField, ...] | None]:
        del schema
        return [tuple(ClaimedField("Also", str(index), "x") for index in range(11)) for _ in records]


def test_differences_stand_by_name_and_by_index_as_a_number() -> None:
    theirs = plex("links/2", group="other")
    rules = (
        "SelectHave(P) :- Have(P).\nSelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,N,_,V), Ne(N,V).\n"
    )
    mine = side(policy=rules)
    ran = run_local(mine, side([theirs], rules, holdings=Numbering()), clock=Clock())
    (differing,) = ran.own.ledger.honesty(mine.holdings.describe).differing.values()
    assert [one.index for one in differing if one.name == "Also"] == [str(index) for index in range(11)]
    assert [one.name for one in differing] == sorted(one.name for one in differing)
    assert {(one.claimed, one.actual) for one in differing if one.name == "Group"} == {(None, "other")}


def test_what_was_never_served_and_what_came_as_other_bytes() -> None:
    theirs = plex("links/2")
    mine = side()
    honest = run_local(mine, side([theirs], holdings=Withdrawing()), clock=Clock()).own.ledger.honesty(
        mine.holdings.describe
    )
    assert honest.never_served == {theirs.hash}
    assert not honest.rejected
    assert honest.received == 0
    honest = run_local(mine, side([theirs], holdings=Liar()), clock=Clock()).own.ledger.honesty(mine.holdings.describe)
    assert honest.rejected == {theirs.hash}
    assert not honest.never_served
    assert honest.received == 0


def test_what_both_have_is_recognised_by_its_summaries_and_never_listed() -> None:
    records = [plex(f"links/{number}") for number in range(40)]
    manner = Manner(service=Service(list_outright_max=1), direct=False, strategy=Strategy.PARTITIONS)
    ran = run_local(side(records, key=APP), side(records, key=SERVER), manner, clock=Clock())
    for told in (ran.own.ledger.disclosure(), ran.peer.ledger.disclosure()):
        assert told.advertised == {record.hash for record in records}, "each side knows what the other offers"
        assert told.fields == {"Group"}
        assert told.requested == frozenset()
        assert 1 < told.summaries <= 40
        assert told.sketches == 0
    assert ran.own.result.fixed_point


def test_what_is_said_of_all_claims_together_is_in_the_books() -> None:
    records = [plex(f"links/{number}") for number in range(40)]
    manner = Manner(direct=False, strategy=Strategy.SKETCH)
    ran = run_local(side(records, key=APP), side(records[4:], key=SERVER), manner, clock=Clock())
    told, heard = ran.own.ledger.disclosure(), ran.peer.ledger.disclosure()
    assert told.advertised == heard.advertised == {record.hash for record in records}, "listed were four of them"
    assert told.fields == heard.fields == {"Group"}
    assert told.sketches == 2, "a standing and a probe, and nothing new afterwards"
    assert heard.sketches == 3, "a standing, symbols, and the standing after the transfer"


def test_what_both_offer_is_told_by_a_count_and_a_root() -> None:
    records = [plex(f"links/{number}") for number in range(300)]
    private = plex("secret", group="private")
    ran = run_local(side([*records, private], key=APP), side(records, key=SERVER), Manner(direct=False), clock=Clock())
    assert ran.own.result.strategies == ("equal",)
    told = ran.own.ledger.disclosure()
    assert told.advertised == {record.hash for record in records}
    assert told.fields == {"Group"}


def test_an_exchange_that_ends_after_a_sketch_has_told_of_everything_in_it() -> None:
    """A peer that has nearly the same finds out from the symbols, whether it goes on or not."""
    records = [plex(f"links/{number}") for number in range(40)]
    machines = [
        InterlaceMachine(
            Config(
                selector=compile_selector(GROUP_U),
                own=Party(verifier=None),
                peer=Party(verifier=None),
                initiator=initiator,
                strategy=Strategy.SKETCH,
                share=7,
            ),
            side(held).holdings,
        )
        for initiator, held in ((True, records[3:]), (False, records))
    ]
    ledger = Ledger(machines[1])
    events: list[list[Event]] = [[Started()], [Started()]]
    told: list[int] = []
    clock = Clock()
    while any(events) and not any(isinstance(one, Received) and _is_sketch(one.message) for one in events[0]):
        for at, machine in enumerate(machines):
            waiting, events[at] = events[at], []
            for event in waiting:
                effects = machine.step(event, now=clock())
                if at:
                    ledger.observe(event, effects)
                    told.append(len(ledger.disclosure().advertised))
                events[1 - at] += [Received(one.message) for one in effects if isinstance(one, Send)]
    assert sorted(set(told)) == [0, 40], "a standing alone says nothing of a record, symbols do"


def _is_sketch(message: Message) -> bool:
    return isinstance(message, Advertise) and isinstance(message.part, Sketched)
