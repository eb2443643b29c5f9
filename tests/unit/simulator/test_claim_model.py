"""The plain model of a peer's claims, against the machine's own parts, and what it complains about."""

from random import Random

from bobbin.interlace.advertise import advertisement
from bobbin.interlace.messages import Advertise, Advertisement, Partition
from bobbin.interlace.partitions import Partitions
from bobbin.policy.claims import ClaimedField
from bobbin.policy.operands import Origin
from bobbin.records.ids import Kind, hash_text
from bobbin.simulator.claim_model import ClaimModel, Table, misanswers, prefixes, summarise, tells, under

SOURCE = Origin("source:1")
FIELDS = (ClaimedField("Group", "0", "u"),)


def ads(count: int, seed: int = 0) -> list[Advertisement]:
    random = Random(seed)
    names = sorted(hash_text(Kind.PLEX, random.randbytes(32)) for _ in range(count))
    return [advertisement(name, SOURCE, FIELDS) for name in names]


def table(listed: list[Advertisement]) -> Table:
    return {ad.record: ad.fields for ad in listed}


def test_summaries_are_those_of_the_machine() -> None:
    for count in (1, 2, 3, 5, 8, 40):
        listed = ads(count, count)
        partitions = Partitions(1)
        for ad in listed:
            partitions.add(ad.record, ad.digest)
        for prefix in sorted(prefixes(table(listed), 1)):
            assert summarise(table(listed), prefix, SOURCE) == partitions.summary(prefix)
    assert summarise({}, "a", SOURCE) == Partitions(1).summary("a")


def test_a_listing_replaces_everything() -> None:
    first, second = ads(3, 1), ads(2, 2)
    model = ClaimModel(SOURCE, 1, table(first))
    assert model.open(Advertise(records=tuple(second))) is None
    assert model.table == table(second)
    assert model.open(Advertise()) is None
    assert model.table == table(second), "saying nothing changes nothing"
    assert ClaimModel(SOURCE, 1, table(first)).open(Advertise()) is None


def test_a_first_block_without_anything_empties_what_was_remembered() -> None:
    model = ClaimModel(SOURCE, 1, table(ads(3)))
    model.open(Advertise())
    assert model.table == {}


def test_partitions_are_proven_by_what_is_listed() -> None:
    (ad,) = ads(1)
    prefix = ad.record[2:3]
    announced = summarise(table([ad]), prefix, SOURCE)
    model = ClaimModel(SOURCE, 1)
    assert model.open(Advertise(partitions=(announced,))) is None
    assert model.unproven() == prefix
    assert model.hear(Advertise(records=(ad,)), Advertise(lists=(prefix,))) is None
    assert model.unproven() is None
    lie = ClaimModel(SOURCE, 1)
    lie.open(Advertise(partitions=(Partition(prefix=prefix, count=1, root=bytes(32)),)))
    assert lie.hear(Advertise(records=(ad,)), Advertise(lists=(prefix,))) is not None


def test_narrowing_drops_children_that_are_gone_and_adds_up() -> None:
    listed = ads(30, 4)
    prefix = max(prefixes(table(listed), 1), key=lambda one: len(under(table(listed), one)))
    kept = list(under(table(listed), prefix))[1:]
    now = dict.fromkeys(kept, FIELDS)
    children = tuple(summarise(now, child, SOURCE) for child in sorted(prefixes(now, 2)))
    model = ClaimModel(SOURCE, 1, under(table(listed), prefix))
    model.open(Advertise(partitions=(summarise(now, prefix, SOURCE),)))
    assert model.hear(Advertise(partitions=children), Advertise(narrows=(prefix,))) is None
    again = ClaimModel(SOURCE, 1)
    again.open(Advertise(partitions=(summarise(table(listed), prefix, SOURCE),)))
    assert again.hear(Advertise(partitions=children), Advertise(narrows=(prefix,))) == "children that do not add up"


def test_what_a_first_block_must_not_say() -> None:
    (ad,) = ads(1)
    part = summarise(table([ad]), ad.record[2:3], SOURCE)
    wrong = [
        Advertise(lists=("a",)),
        Advertise(records=(ad,), partitions=(part,)),
        Advertise(partitions=(Partition(prefix="abc", count=1, root=bytes(32)),)),
        Advertise(partitions=(Partition(prefix="a", count=0, root=bytes(32)),)),
    ]
    assert all(ClaimModel(SOURCE, 1).open(block) is not None for block in wrong)


def test_a_first_block_tells_the_whole_or_the_change() -> None:
    listed = ads(4, 7)
    whole, most = table(listed), table(listed[:3])
    assert tells(Advertise(records=tuple(listed)), whole, None, source=SOURCE, length=1)
    assert not tells(Advertise(records=tuple(listed[:3])), whole, None, source=SOURCE, length=1)
    changed = summarise(whole, listed[3].record[2:3], SOURCE)
    assert tells(Advertise(partitions=(changed,)), whole, most, source=SOURCE, length=1)
    assert not tells(Advertise(), whole, most, source=SOURCE, length=1)
    assert tells(Advertise(), whole, whole, source=SOURCE, length=1)


def test_an_answer_is_exactly_what_was_asked_for() -> None:
    listed = ads(6, 8)
    prefix = listed[0].record[2:3]
    asked = Advertise(lists=(prefix,))
    right = tuple(ad for ad in listed if ad.record[2:3] == prefix)
    assert misanswers(Advertise(records=right), asked, table(listed), source=SOURCE) is None
    assert misanswers(Advertise(), asked, table(listed), source=SOURCE) is not None
    narrowed = Advertise(narrows=(prefix,))
    children = tuple(
        summarise(table(listed), child, SOURCE) for child in sorted(prefixes(under(table(listed), prefix), 2))
    )
    assert misanswers(Advertise(partitions=children), narrowed, table(listed), source=SOURCE) is None
    assert misanswers(Advertise(), narrowed, table(listed), source=SOURCE) is not None


def test_what_was_announced_is_recognised_by_whoever_could_say_it() -> None:
    claims = ads(20)
    parts = tuple(summarise(table(claims), prefix, SOURCE) for prefix in sorted(prefixes(table(claims), 1)))
    for held, own in ((0, 20), (5, 15), (8, 20)):
        model = ClaimModel(SOURCE, 1, table(claims[:held]))
        assert model.open(Advertise(partitions=parts)) is None
        assert model.unproven() is not None
        model.recognise(table(claims[-own:]))
        assert model.unproven() is None
        assert model.table == table(claims)
    model = ClaimModel(SOURCE, 1)
    model.open(Advertise(partitions=parts))
    model.recognise(table(claims[1:]))
    assert model.unproven() == claims[0].record.split(".")[1][0], "of one record nobody knew"
