"""What is advertised, and how the other side gets to know it: the effective send set, listings, partitions, cursors."""

from collections.abc import Iterable, Sequence

import pytest
from msgspec import structs

from bobbin.interlace import merkle
from bobbin.interlace.config import Open
from bobbin.interlace.events import StoreChanged
from bobbin.interlace.limits import Limits, Service
from bobbin.interlace.messages import Advertise, Advertisement, Delivered, Message, Partition, Request, Transfer
from bobbin.interlace.partitions import Partitions, payload
from bobbin.interlace.reasons import Reason
from bobbin.interlace.schema import Schema
from bobbin.interlace.setup import Party
from bobbin.policy.modules import compile_query
from bobbin.records import b64a
from bobbin.records.record import Record, build_plex
from tests.policy_worlds import ALICE, BOB, DING, EVERYTHING, SHOW_EVERYTHING
from tests.support.exchanges import (
    BY_GROUP,
    START_NS,
    Against,
    Changes,
    Meeting,
    Watched,
    config,
    delivered,
    hashes,
    meet,
    record,
    records,
)

_SUMMARIES = Service(list_outright_max=1)
"""Two records are too many to be listed outright."""


def _listed(blocks: Iterable[Advertise]) -> set[str]:
    return {one.record for block in blocks for one in block.records}


def _claims(meeting: Meeting, side: str) -> tuple[Advertisement, ...]:
    epoch = (meeting.left if side == "left" else meeting.right).machine.epoch
    assert epoch is not None
    return epoch.learned.advertisements()


def test_selected_records_are_advertised_and_no_others() -> None:
    """IL-001, IL-112, IL-173, IL-179: each once, and nothing of the unselected."""
    selected, others = records(4), records(3, first=10, group="x")
    meeting = meet([*selected, *others], [], BY_GROUP)
    meeting.run()
    (block, *_) = meeting.advertised("left")
    assert [one.record for one in block.records] == sorted(hashes(selected))
    assert _listed(meeting.advertised("left")) == hashes(selected)


def test_what_was_rejected_is_never_advertised() -> None:
    """IL-001, IL-038, IL-042, IL-182, IL-211: neither the bytes nor the claim make a record of it."""
    good, bad = records(2)
    against = Against(config(), Watched())
    against.to_transfer([good, bad])
    wrong = Delivered(record=bad.hash, raw=bad.raw[:-1] + b"!")
    (block,) = against.say(Transfer(responses=(Delivered(record=good.hash, raw=good.raw), wrong), last=True))
    assert isinstance(block, Advertise)
    assert _listed([block]) == {good.hash}
    assert set(against.holdings.records) == {good.hash}


def test_a_claim_is_no_record() -> None:
    """IL-038, IL-041, IL-042, IL-014: not held, not advertised on, no ``Field`` for any rule, until the bytes came."""
    rules = (
        "SelectAdvertised(P,S) :- Advertised(P,S).\n"
        "SelectHave(P) :- Have(P), Field(P,'Group',_,'u').\n"
        "SelectHave(P) :- Field(P,'Group',_,'u'), not Have(P).\n"
    )
    one = record(1)
    against = Against(config(rules), rules=EVERYTHING)
    assert against.to_request([against.claim(one, [("Group", "u")])]).records == (one.hash,)
    assert isinstance(against.holdings, Watched)
    assert not any(answer.send_added for answer in against.holdings.answers)
    against.say(Request())
    against.say(Transfer(last=True))
    assert not any(answer.send_added for answer in against.holdings.answers)
    against.say(Advertise())
    against.say(Request())
    against.say(delivered(one))
    assert against.holdings.answers[-1].send_added == {one.hash}


def test_withheld_records_show_in_nothing() -> None:
    """IL-112, ILC-076: with and without them, every block is the same, whichever way it goes."""
    query = compile_query("Queryable(P,O) :- OwnSelected(P), not Field(P,'App',_,'secret'), Viewer(O).\n")
    shown, withheld = records(40), [record(number, app="secret") for number in range(100, 140)]
    for service in (Service(), _SUMMARIES):
        said = []
        for here in ([*shown, *withheld], shown):
            meeting = meet(Watched(here, query=query), [], service=service)
            meeting.run()
            said.append(meeting.said)
        assert said[0] == said[1]


def test_a_deleted_record_is_no_longer_advertised() -> None:
    """IL-173, IL-031, IL-195, IL-197, IL-216, IL-240: nor does the peer go on believing in it."""
    some = records(6)
    holdings = Watched(some)
    meeting = meet(holdings, [], service=Service(request_records_max=1))
    gone = max(hashes(some))
    holdings.before_load = lambda _: holdings.remove(gone)
    _, right = meeting.run()
    assert right.fixed_point
    assert right.received == hashes(some) - {gone}
    assert gone in _listed(meeting.advertised("left")[:1])
    assert gone not in _listed(meeting.advertised("left")[1:])
    assert gone not in {one.record for one in _claims(meeting, "right")}


@pytest.mark.parametrize("service", [Service(), _SUMMARIES], ids=["listing", "partitions"])
def test_what_is_learned_is_what_is_offered(service: Service) -> None:
    """IL-030, IL-106, IL-107, IL-181, IL-195: by full listing, or by partitions; each side may do it its own way."""
    here, there = records(30), records(30, first=20)
    meeting = meet(here, there, service=service, right=Changes(service=Service()))
    results = meeting.run()
    assert [result.fixed_point for result in results] == [True, True]
    for side in ("left", "right"):
        assert [one.record for one in _claims(meeting, side)] == sorted(hashes([*here, *there]))


def test_on_first_contact_every_partition_is_looked_at() -> None:
    """IL-291, IL-109, IL-110: each is listed, or narrowed and its children listed."""
    here = records(300)
    meeting = meet(here, [], service=Service(list_outright_max=1, list_partition_max=1))
    _, right = meeting.run()
    assert right.received == hashes(here)
    summaries = meeting.advertised("left")[0].partitions
    assert {part.prefix for part in summaries} == {payload(one.hash)[:2] for one in here}
    assert sum(part.count for part in summaries) == 300
    asked = {prefix for block in meeting.advertised("right") for prefix in (*block.lists, *block.narrows)}
    assert {part.prefix for part in summaries} <= asked


def test_answers_fit_the_questions() -> None:
    """IL-109, IL-110, IL-187: records under the listed prefixes, children one symbol longer of the narrowed ones."""
    here = records(400)
    against = Against(config(service=_SUMMARIES), Watched(here))
    against.to_loop()
    (empty,) = against.say(Advertise())
    assert isinstance(empty, Advertise)
    prefix = payload(here[0].hash)[:2]
    other = next(payload(one.hash)[:2] for one in here if payload(one.hash)[:2] != prefix)
    (answer,) = against.say(Advertise(lists=(prefix,), narrows=(other,)))
    assert isinstance(answer, Advertise)
    assert _listed([answer]) == {one.hash for one in here if payload(one.hash).startswith(prefix)}
    children = {payload(one.hash)[:3] for one in here if payload(one.hash).startswith(other)}
    assert {part.prefix for part in answer.partitions} == children


def test_there_is_no_request_before_reconciliation_is_over() -> None:
    """IL-180, IL-217, IL-218: as long as anybody asks, the next block is an advertise block."""
    some = records(3)
    against = Against(config(), Watched())
    against.to_loop()
    summaries, _ = _summarised(against, some)
    (asking,) = against.say(Advertise(partitions=summaries))
    assert isinstance(asking, Advertise)
    assert set(asking.lists) == {part.prefix for part in summaries}
    (waiting,) = against.say(Advertise())
    assert isinstance(waiting, Advertise)
    (request,) = against.say(Advertise(records=tuple(sorted(map(against.claim, some), key=lambda one: one.record))))
    assert isinstance(request, Request)
    assert set(request.records) == hashes(some)


_PLEX_1 = build_plex(group="u", app="ding", name="links/1", tai_ns=START_NS, data=b"hello")


def test_the_vectors_hold_in_an_exchange() -> None:
    """IL-004, IL-146, ILC-061, ILC-064, ILC-065, ILC-103, ILC-104, ILC-106, ILC-107, ILC-108: whoever dials."""
    schema = Schema(names=frozenset({"App", "Group", "Name", "Type"}))
    for holder in ("left", "right"):
        some = [_PLEX_1]
        meeting = meet(some, [], DING, signed=True, schema=schema)
        if holder == "right":
            meeting = meet([], some, DING, own=Party(verifier=BOB), peer=Party(verifier=ALICE), schema=schema,
                           right=Changes(own=Party(verifier=ALICE), peer=Party(verifier=BOB)))  # fmt: skip
        for result in meeting.run():
            assert result.plan == "E.VVBTh8kMnUEQp95bnyjcvTDW8z1sUF7rXwzSGiDdudC"
            assert result.link == "Zw0Pp5roXlBSvgIx4Y~xqwiTntvfHbAJYpJjpNynuZK"
        (claim,) = meeting.advertised(holder)[0].records
        assert b64a.encode(claim.digest) == "mj5ZQyphg472Zi6kk~4sXinPl6uH6V9R2lb_iPlrRnh"
        side = meeting.left if holder == "left" else meeting.right
        assert side.machine.epoch is not None
        (part,) = side.machine.epoch.offers.summary()
        assert (part.prefix, part.count) == ("ty", 1)
        assert b64a.encode(part.root) == "Czk8BxPUxrafFseZusyZgyDs9CeuALpgpWAcuKiv0k8"


# ---- what a peer can do wrong ---------------------------------------------------------------------------------------


def _summarised(against: Against, some: Iterable[Record]) -> tuple[tuple[Partition, ...], list[Advertisement]]:
    claims = sorted(map(against.claim, some), key=lambda one: one.record)
    parts = Partitions(2)
    for claim in claims:
        parts.add(claim.record, claim.digest)
    return parts.summaries(), claims


def _summaries(some: Sequence[Record]) -> tuple[Against, tuple[Partition, ...], list[Advertisement]]:
    """A machine in its first block, and what an honest peer with these records would summarise and list."""
    against = Against(config(), Watched())
    against.to_loop()
    summaries, claims = _summarised(against, some)
    return against, summaries, claims


def _play(against: Against, *messages: Message) -> Reason | None:
    for message in messages:
        against.say(message)
    return None if against.result is None else against.result.reason


def test_a_listing_must_have_the_announced_root() -> None:
    """IL-194, IL-266: the count is right, a digest is not; nothing is requested and no cursor is saved."""
    against, summaries, claims = _summaries([record(1)])
    forged = [against.claim(record(1), [("Group", "forged")])]
    assert forged[0].digest != claims[0].digest
    assert _play(against, Advertise(partitions=summaries), Advertise(), Advertise(records=tuple(forged))) is (
        Reason.ROOT_MISMATCH
    )
    assert not against.holdings.cursors
    assert not [message for message in against.said if isinstance(message, Request)]


def test_a_listing_must_have_the_announced_count() -> None:
    """IL-194, IL-266: one record is left out, and one whose root alone is right."""
    against, summaries, claims = _summaries(records(2))
    assert _play(against, Advertise(partitions=summaries), Advertise(), Advertise(records=(claims[0],))) is (
        Reason.ROOT_MISMATCH
    )
    against, summaries, claims = _summaries([record(1)])
    doubled = (structs.replace(summaries[0], count=2),)
    assert _play(against, Advertise(partitions=doubled), Advertise(), Advertise(records=tuple(claims))) is (
        Reason.ROOT_MISMATCH
    )


def test_where_nothing_was_announced_nothing_is_verified() -> None:
    """ILC-140."""
    against = Against(config(), Watched())
    assert against.to_request([against.claim(record(1), [("Group", "whatever")])]).records


@pytest.mark.parametrize(
    "partition",
    [
        Partition(prefix="a", count=1, root=bytes(32)),
        Partition(prefix="abc", count=1, root=bytes(32)),
        Partition(prefix="ab", count=0, root=merkle.EMPTY),
    ],
    ids=["short", "long", "empty"],
)
def test_a_malformed_first_summary_aborts(partition: Partition) -> None:
    """IL-265, IL-185, ILC-110: a prefix of another length, an empty partition that should not have been sent."""
    against = Against(config())
    against.to_loop()
    assert _play(against, Advertise(partitions=(partition,))) is Reason.MALFORMED_SUMMARY


def test_later_an_emptied_partition_has_the_empty_root() -> None:
    """ILC-110, IL-195, IL-265, IL-240: then what was claimed there is withdrawn; with another root it aborts."""
    for root, reason in ((merkle.EMPTY, None), (bytes(32), Reason.MALFORMED_SUMMARY)):
        against = Against(config(), Watched())
        request = against.to_request([against.claim(record(1))])
        against.say(Request())
        against.say(Transfer(last=True))
        prefix = payload(request.records[0])[:2]
        assert _play(against, Advertise(partitions=(Partition(prefix=prefix, count=0, root=root),))) is reason
        assert against.machine.epoch is not None
        assert len(against.machine.epoch.learned) == (1 if reason else 0)


def test_children_nobody_asked_for_abort() -> None:
    """IL-265, IL-110."""
    against, summaries, _ = _summaries([record(1)])
    stranger = Partition(prefix=summaries[0].prefix + "a", count=1, root=bytes(32))
    assert _play(against, Advertise(partitions=summaries), Advertise(partitions=(stranger,))) is (
        Reason.MALFORMED_SUMMARY
    )


def test_records_nobody_asked_for_abort() -> None:
    """IL-109, IL-261."""
    against, summaries, _ = _summaries([record(1)])
    elsewhere = next(one for one in records(50) if payload(one.hash)[:2] != summaries[0].prefix)
    stray = Advertise(records=(against.claim(elsewhere),))
    assert _play(against, Advertise(partitions=summaries), Advertise(), stray) is Reason.MALFORMED_BLOCK


def test_children_must_add_up() -> None:
    """IL-194, IL-266: fewer than the partition was announced with."""
    many = records(500)
    prefix = max({payload(one.hash)[:2] for one in many}, key=lambda two: sum(payload(o.hash)[:2] == two for o in many))
    some: list[Record] = [one for one in many if payload(one.hash).startswith(prefix)]
    assert len(some) > 1
    against = Against(
        config(service=Service(list_partition_max=1), limits=Limits(max_advertisement_records_listed=1)), Watched()
    )
    against.to_loop()
    summaries, _ = _summarised(against, some)
    (asking,) = against.say(Advertise(partitions=summaries))
    assert isinstance(asking, Advertise)
    assert asking.narrows == (prefix,)
    child = Partition(prefix=prefix + "a", count=1, root=bytes(32))
    assert _play(against, Advertise(), Advertise(partitions=(child,))) is Reason.ROOT_MISMATCH


def test_children_that_add_up_under_a_wrong_root_abort() -> None:
    """IL-194, IL-266: each child is what is held, and still they do not make the partition that was announced."""
    many = records(500)
    prefix = max({payload(one.hash)[:2] for one in many}, key=lambda two: sum(payload(o.hash)[:2] == two for o in many))
    some: list[Record] = [one for one in many if payload(one.hash).startswith(prefix)]
    against = Against(config(service=Service(list_partition_max=1), lifecycle=Open()), Watched(some))
    against.to_loop()
    _, claims = _summarised(against, some)
    against.say(Advertise(records=tuple(claims)))
    against.say(Request())
    children = Partitions(3)
    for claim in claims:
        children.add(claim.record, claim.digest)
    wrong = Partition(prefix=prefix, count=len(some), root=bytes(32))
    (asking,) = against.say(Advertise(partitions=(wrong,)))
    assert isinstance(asking, Advertise)
    assert asking.narrows == (prefix,)
    against.say(Advertise())
    against.say(Advertise(partitions=children.summaries()))
    assert _play(against, Advertise()) is Reason.ROOT_MISMATCH


def test_the_first_block_asks_nothing_and_has_one_form() -> None:
    """IL-265, IL-256: questions in it, or records beside summaries, abort."""
    for block, reason in (
        (Advertise(lists=("ab",)), Reason.OUT_OF_PHASE),
        (Advertise(narrows=("ab",)), Reason.OUT_OF_PHASE),
    ):
        against = Against(config())
        against.to_loop()
        assert _play(against, block) is reason
    against, summaries, claims = _summaries([record(1)])
    assert _play(against, Advertise(records=tuple(claims), partitions=summaries)) is Reason.MALFORMED_SUMMARY


def test_a_question_about_a_prefix_that_is_too_short_aborts() -> None:
    """IL-265, IL-185."""
    for question in (Advertise(lists=("a",)), Advertise(narrows=("a",))):
        against = Against(config(service=_SUMMARIES), Watched(records(5)))
        against.to_loop()
        against.say(Advertise())
        assert _play(against, question) is Reason.MALFORMED_SUMMARY


# ---- claims that change ---------------------------------------------------------------------------------------------


def test_later_blocks_say_only_what_has_changed() -> None:
    """ILC-127, IL-031, IL-216: nothing, or the partitions that changed."""
    holdings = Watched(records(200))
    meeting = meet(holdings, [], service=_SUMMARIES, lifecycle=Open())
    meeting.start()
    before = len(meeting.advertised("left"))
    late = record(1_000)
    holdings.put(late)
    meeting.give("left", StoreChanged())
    (block, *_) = meeting.advertised("left")[before:]
    assert [part.prefix for part in block.partitions] == [payload(late.hash)[:2]]
    assert late.hash in meeting.there.records


def test_a_change_of_claims_evaluates_again() -> None:
    """IL-046, IL-196, IL-221, IL-030: what the peer advertises now decides, not what it did before."""
    rules = "SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'App',_,'yes').\nSelectHave(P) :- Have(P).\n"
    one, two = records(2)
    against = Against(config(rules))
    request = against.to_request([against.claim(one, [("App", "yes")]), against.claim(two, [("App", "no")])])
    assert request.records == (one.hash,)
    against.say(Request())
    against.say(Transfer(last=True))
    again = against.claiming([against.claim(one, [("App", "no")]), against.claim(two, [("App", "yes")])])
    assert again.records == (two.hash,)


# ---- cursors --------------------------------------------------------------------------------------------------------


def test_a_cursor_has_the_accepted_claims_and_saves_asking() -> None:
    """IL-034, IL-147, IL-182, IL-181: the next exchange ends in the same state and lists nothing again."""
    here = records(60)
    holdings, there = Watched(here), Watched()
    first = meet(holdings, there, signed=True, service=_SUMMARIES)
    link = first.run()[1].link
    assert link is not None
    assert set(there.cursors) == {link}
    assert [one.record for one in there.cursors[link].advertisements] == sorted(hashes(here))
    holdings.put(record(1_000))
    again = meet(holdings, there, signed=True, service=_SUMMARIES)
    assert again.run()[1].received == {record(1_000).hash}
    assert _listed(again.advertised("left")) < hashes([*here, record(1_000)])
    without = meet(holdings, Watched(there.records.values()), signed=True, service=_SUMMARIES)
    without.run()
    assert _claims(again, "right") == _claims(without, "right")


def test_a_cursor_is_no_proof() -> None:
    """IL-182, IL-038, IL-196: a forged one is corrected by the roots, and makes no record held."""
    here = records(20)
    there = Watched()
    meet(here, there, signed=True, service=_SUMMARIES).run()
    ((key, cursor),) = there.cursors.items()
    forged = structs.replace(cursor.advertisements[0], digest=bytes(32), fields=())
    there.cursors[key] = structs.replace(cursor, advertisements=(forged, *cursor.advertisements[2:]))
    there.records = {}
    meeting = meet(here, there, signed=True, service=_SUMMARIES)
    assert meeting.run()[1].received == hashes(here)
    assert {one.record for one in _claims(meeting, "right")} == hashes(here)


def test_a_cursor_of_another_link_plan_source_or_schema_is_not_used() -> None:
    """IL-147, IL-149, IL-174, IL-234."""
    there = Watched()
    meet(records(20), there, signed=True).run()
    ((key, cursor),) = there.cursors.items()
    usable = {
        "used": {key: cursor},
        "plan": {key: structs.replace(cursor, plan="E.other")},
        "source": {key: structs.replace(cursor, source="source:0")},
        "schema": {key: structs.replace(cursor, schema=Schema(all=True))},
        "link": {"another": cursor},
    }
    for name, cursors in usable.items():
        meeting = meet(records(20), Watched(), signed=True)
        meeting.there.cursors = cursors
        meeting.run()
        assert isinstance(meeting.there, Watched)
        assert len(meeting.there.questions[0].claimed) == (20 if name == "used" else 0), name


def test_the_first_evaluation_uses_the_stored_claims() -> None:
    """IL-174, IL-239: what the cursor says the peer advertises, or nothing."""
    rules = (
        "SelectAdvertised(P,S) :- Advertised(P,S).\n"
        "SelectHave(Q) :- Have(Q), Advertised(_,_).\n"
        "SelectHave(Q) :- Field(Q,'Group',_,'x').\n"
    )
    here = Watched(records(2), query=compile_query(SHOW_EVERYTHING))
    there = Watched(records(1, first=50, group="x"))
    first = meet(here, there, rules, EVERYTHING, cursor_key="k")
    first.run()
    assert not _listed(first.advertised("left")[:1])
    again = meet(here, there, rules, EVERYTHING, cursor_key="k")
    again.run()
    assert _listed(again.advertised("left")[:1]) == hashes([*records(2), *records(1, first=50, group="x")])


def test_no_cursor_is_saved_from_a_broken_phase() -> None:
    """IL-182, IL-266."""
    against = Against(config(cursor_key="k"), Watched())
    against.to_loop()
    summaries, _ = _summarised(against, [record(1)])
    against.say(Advertise(partitions=summaries))
    against.say(Advertise())
    against.say(Advertise())
    assert against.result is not None
    assert against.result.reason is Reason.ROOT_MISMATCH
    assert not against.result.cursor_updated
    assert not against.holdings.cursors
