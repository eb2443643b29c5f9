"""Advertise and request blocks, line by line: what is malformed, what is out of phase, and what reaches a limit."""

from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin import profile
from bobbin.errors import PeerError
from bobbin.facts import block
from bobbin.facts.block import MalformedBlock
from bobbin.interlace.advertise import advertisement
from bobbin.interlace.messages import Advertise, Partition, Request, Unavailable
from bobbin.interlace.reasons import LimitReached, Reason
from bobbin.interlace.schema import Schema
from bobbin.policy.claims import ClaimedField, Claims
from bobbin.policy.operands import Origin
from bobbin.records import b64a
from bobbin.wire import loop
from tests.policy_worlds import ALICE, BOB
from tests.unit.wire.streams import SCHEMA, SOURCE, advertises, encoded, hash_of

P1, P2, P3 = (hash_of(number) for number in (1, 2, 3))
ROOT = b64a.encode(bytes(range(32)))
TICK = "TickReady('1640995200:000000000')\n"


def said(record: str, source: str = ALICE) -> str:
    return f"Advertised('{record}','{source}')\n"


def field(record: str, name: str, index: str = "0", value: str = "x", source: str = ALICE) -> str:
    return f"AdvertisedField('{record}','{source}','{name}','{index}','{value}')\n"


def read(
    text: str, *, schema: Schema = SCHEMA, records_max: int = 9, partitions_max: int = 9, **more: int
) -> Advertise:
    return loop.read_advertise(
        text.encode(),
        source=SOURCE,
        schema=schema,
        bytes_max=more.get("bytes_max", 10**6),
        records_max=records_max,
        partitions_max=partitions_max,
    )


def slowly(text: str) -> Advertise:
    """The same block by the line reader alone: after a line that is no record, nothing is taken at once."""
    return read(f"ListAdvertisementPartition('~~')\n{text}")


def code(reader: Callable[[], object]) -> str:
    with pytest.raises(PeerError) as refused:
        reader()
    return refused.value.code


def outcome(reader: Callable[[], object]) -> object:
    """What was read, or why it was refused and where."""
    try:
        return reader()
    except PeerError as refused:
        return refused.code, refused.line if isinstance(refused, MalformedBlock) else 0


# ---- listings -------------------------------------------------------------------------------------------------------


def test_a_listing() -> None:
    """ILC-112: every ``Advertised`` line begins a record, and its digest is that of its own lines."""
    fields = (ClaimedField("App", "0", "ding"), ClaimedField("Group", "0", "u"))
    text = said(P1) + said(P2) + field(P2, "App", value="ding") + field(P2, "Group", value="u") + said(P3)
    expected = (advertisement(P1, SOURCE, ()), advertisement(P2, SOURCE, fields), advertisement(P3, SOURCE, ()))
    assert read(text) == Advertise(records=expected)
    assert slowly(text).records == expected


def test_a_tick_is_no_part_of_a_digest() -> None:
    """IL-116."""
    plain = said(P1) + field(P1, "App") + said(P2)
    for mixed in (TICK + plain, plain + TICK, said(P1) + field(P1, "App") + TICK + said(P2)):
        assert read(mixed).records == read(plain).records
        assert read(mixed).tick == "1640995200:000000000"


@pytest.mark.parametrize(
    "text",
    [
        said(P2) + said(P1),
        said(P1) + said(P1),
        said(P1) + said(P2) + said(P1),
        said("P.EXAMPLE.H3"),
        said("V" + P1[1:]),
        said(P1[:-4] + "1.H3"),
        said(f"{P1}','x"),
        said(f"{P1}'x"),
        f"Advertised('{P1}')\n",
        said(P1)[:-1],
        said(P1) + "\n",
        said(P1).replace("\n", "\r\n"),
        said(P1) + " " + said(P2),
    ],
)
def test_the_records_of_a_listing_ascend(text: str) -> None:
    """ILC-112, ILC-133, IL-057, IL-080."""
    assert code(lambda: read(text)) == Reason.MALFORMED_BLOCK
    assert code(lambda: slowly(text)) == Reason.MALFORMED_BLOCK


FIELD_FAULTS = {
    "outside the schema": field(P1, "Secret"),
    "name out of order": field(P1, "Group") + field(P1, "App"),
    "repeated": field(P1, "App") * 2,
    "repeated with another value": field(P1, "App", value="x") + field(P1, "App", value="y"),
    "index as text": field(P1, "App", "10") + field(P1, "App", "2"),
    "another record": field(P2, "App"),
    "no value": field(P1, "App", value=""),
    "a tab": field(P1, "App", value="a\\tb"),
    "index with zero": field(P1, "App", "00"),
    "index with sign": field(P1, "App", "-1"),
    "index too long": field(P1, "App", "1" * 20),
    "six values": field(P1, "App", value="x','y"),
    "four values": f"AdvertisedField('{P1}','{ALICE}','App','0')\n",
    "raw quote": field(P1, "App", value="a'b"),
    "raw quotes": field(P1, "App", value="'b") + field(P1, "Group", "0", "c"),
    "raw control": field(P1, "App", value="a\x01b"),
    "unknown escape": field(P1, "App", value="\\x"),
    "too long": field(P1, "App", value="x" * 4097),
    "not closed": field(P1, "App")[:-2] + "\n",
    "two on a line": field(P1, "App")[:-1] + field(P1, "Group"),
    "decomposed": field(P1, "App", value="e\u0301"),
    "after another line": TICK + field(P1, "App"),
}


@pytest.mark.parametrize("fault", sorted(FIELD_FAULTS))
def test_a_field_that_does_not_belong_makes_the_listing_malformed(fault: str) -> None:
    """ILC-113, IL-101, IL-103, IL-104."""
    text = said(P1) + FIELD_FAULTS[fault] + said(P3)
    assert code(lambda: read(text)) == Reason.MALFORMED_BLOCK
    assert code(lambda: slowly(text)) == Reason.MALFORMED_BLOCK


def test_a_field_needs_its_record_before_it() -> None:
    """ILC-113, IL-102."""
    assert code(lambda: read(field(P1, "App"))) == Reason.MALFORMED_BLOCK
    assert code(lambda: read(field(P1, "App") + said(P1))) == Reason.MALFORMED_BLOCK


def test_the_line_of_a_fault_is_named() -> None:
    text = said(P1) + field(P1, "App") + said(P2) + field(P2, "Group") + field(P2, "App")
    with pytest.raises(MalformedBlock) as refused:
        read(text)
    assert refused.value.line == 5
    with pytest.raises(MalformedBlock) as refused:
        slowly(text)
    assert refused.value.line == 6
    with pytest.raises(MalformedBlock) as refused:
        read(said(P1) + field(P1, "App", value="a'b"))
    assert refused.value.line == 2


@pytest.mark.parametrize(
    "text", [said(P1, BOB), said(P1, BOB) + said(P2), said(P1) + field(P1, "App", source=BOB), said(P1, "source:0")]
)
def test_a_peer_speaks_for_itself(text: str) -> None:
    """ILC-060, ILC-113."""
    assert code(lambda: read(text)) == Reason.FOREIGN_SOURCE
    assert code(lambda: slowly(text)) == Reason.FOREIGN_SOURCE


def test_a_source_with_quotes_in_it() -> None:
    """ILC-060: a label may need escapes, and then nothing is taken at once."""
    source = Origin("source:it's \\ é")
    fields = (ClaimedField("App", "0", "x"),)
    raw = block.render([("Advertised", (P1, source)), ("AdvertisedField", (P1, source, "App", "0", "x"))])
    bounds = {"bytes_max": 10**6, "records_max": 9, "partitions_max": 9}
    found = loop.read_advertise(raw, source=source, schema=SCHEMA, **bounds)
    assert found.records == (advertisement(P1, source, fields),)


def test_with_all_fields_every_name_will_do() -> None:
    """ILC-113."""
    text = said(P1) + field(P1, "Anything") + field(P1, "it\\'s") + field(P1, "Ünicode")
    names = [one.name for one in read(text, schema=Schema(all=True)).records[0].fields]
    assert names == ["Anything", "it's", "Ünicode"]
    text = said(P1) + field(P1, "it's")
    assert code(lambda: read(text, schema=Schema(all=True))) == Reason.MALFORMED_BLOCK


def test_indexes_go_by_number() -> None:
    """IL-104."""
    text = said(P1) + "".join(field(P1, "App", index) for index in ("0", "2", "10", "9" * 19))
    found = read(text).records
    assert [one.index for one in found[0].fields] == ["0", "2", "10", "9" * 19]
    assert slowly(text).records == found


@given(advertises())
def test_both_ways_of_reading_agree(message: Advertise) -> None:
    """ILC-112: taken at once or line by line, the same records with the same digests, which claims can hold."""
    text = encoded(message)[:-1].decode()
    found = read(text)
    assert found == message
    lines = text.split("\n")[:-1]
    listing = loop._Listing(SOURCE, SCHEMA, 9)
    loop._read_lines("\n".join(lines), 0, listing, loop._Summaries(9))
    assert tuple(listing.records) == message.records
    assert len(Claims(SOURCE, {one.record: one.fields for one in found.records})) == len(message.records)


@given(advertises(), st.data())
def test_both_ways_of_reading_refuse_alike(message: Advertise, data: st.DataObject) -> None:
    """ILC-113: after any edit, both accept the same or refuse with the same code."""
    raw = encoded(message)[:-1]
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(raw)))
        new = data.draw(st.sampled_from([b"'", b"\\", b"','", b"')\n", b"\n", b"0", b"", b"')", b"A", b"\t", b"\xff"]))
        raw = raw[:at] + new + raw[at + data.draw(st.integers(0, 3)) :]

    def quick() -> tuple[object, ...]:
        found = loop.read_advertise(raw, source=SOURCE, schema=SCHEMA, bytes_max=10**6, records_max=9, partitions_max=9)
        return found.records, found.partitions

    def slow() -> tuple[object, ...]:
        listing, summaries = loop._Listing(SOURCE, SCHEMA, 9), loop._Summaries(9)
        loop._read_lines(loop._text(raw, 10**6)[:-1], 0, listing, summaries)
        return tuple(listing.records), tuple(summaries.partitions)

    assert outcome(quick) == outcome(slow)


# ---- while more is on its way ---------------------------------------------------------------------------------------


def in_parts(raw: bytes, cuts: list[int], *, records_max: int = 9, records_max_at_the_end: int = 9) -> Advertise | None:
    """A block as it is read where its bytes come in pieces."""
    reader = loop.AdvertiseReader(source=SOURCE, schema=SCHEMA, records_max=records_max, partitions_max=9)
    for begin, end in pairwise([0, *sorted(cuts), len(raw)]):
        reader.take(raw[begin:end])
    return reader.finish(raw, bytes_max=10**6, records_max=records_max_at_the_end)


@given(advertises(), st.data())
def test_a_block_in_parts_is_what_it_is_as_a_whole(message: Advertise, data: st.DataObject) -> None:
    """ILC-113: whatever the pieces are, and after any edit; or it is left to whoever reads it as a whole."""
    raw = encoded(message)[:-1]
    for _ in range(data.draw(st.integers(0, 2))):
        at = data.draw(st.integers(0, len(raw)))
        new = data.draw(st.sampled_from([b"'", b"\\", b"')\n", b"\n", b"0", b"", b"A", b"\xff"]))
        raw = raw[:at] + new + raw[at + data.draw(st.integers(0, 3)) :]
    cuts = data.draw(st.lists(st.integers(0, len(raw)), max_size=8))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "_AT_ONCE_BYTES", data.draw(st.sampled_from([1, 100, 10_000])))
        found = outcome(lambda: in_parts(raw, cuts))
    whole = outcome(
        lambda: loop.read_advertise(raw, source=SOURCE, schema=SCHEMA, bytes_max=10**6, records_max=9, partitions_max=9)
    )
    assert found in (None, whole)


@pytest.mark.parametrize("at_once", [20, 100, 10_000])
def test_a_usual_block_is_read_as_it_comes(monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    monkeypatch.setattr(loop, "_AT_ONCE_BYTES", at_once)
    text = (
        said(P1)
        + field(P1, "App")
        + said(P2)
        + field(P2, "App")
        + said(P3)
        + f"AdvertisementPartition('00','1','{ROOT}')\n"
    )
    whole = read(text + TICK)
    raw = (text + TICK).encode()
    for size in (1, 7, 50, 500):
        assert in_parts(raw, list(range(0, len(raw), size))) == whole


def test_what_was_read_of_an_unusual_block_is_let_go_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "_AT_ONCE_BYTES", 1)
    good = said(P1) + said(P2)
    for raw in (
        good + said(P1) + said(P3),
        good + "Nothing('x')\n" + said(P3),
        good + said("\u00e9") + said(P3),
        TICK + good,
    ):
        assert in_parts(raw.encode(), list(range(0, len(raw), 20))) is None
    reader = loop.AdvertiseReader(source=SOURCE, schema=SCHEMA, records_max=9, partitions_max=9)
    for line in (said(P1), said(P2), said(P1), said(P3)):
        reader.take(line.encode())
    assert not reader._listing.records


def test_how_many_records_there_may_be_is_said_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "_AT_ONCE_BYTES", 1)
    raw = (said(P1) + said(P2) + said(P3)).encode()
    assert in_parts(raw, [80, 160], records_max=2) is None, "it is for the whole to say whether they are too many"
    assert in_parts(raw, [80, 160], records_max_at_the_end=2) is None
    assert in_parts(raw, [80, 160], records_max=3, records_max_at_the_end=3) == read(raw.decode())


# ---- limits ---------------------------------------------------------------------------------------------------------


def test_the_limit_on_listed_records() -> None:
    """ILC-128, IL-047."""
    text = said(P1) + said(P2) + said(P3)
    assert len(read(text, records_max=3).records) == 3
    for reader in (read, lambda text, **more: read(TICK + text, **more)):
        with pytest.raises(LimitReached) as reached:
            reader(text, records_max=2)
        assert reached.value.reason is Reason.LISTING_LIMIT
        assert reached.value.limit == "max_advertisement_records_listed"


def test_the_limit_on_summaries() -> None:
    """IL-047."""
    text = "".join(f"AdvertisementPartition('{prefix}','1','{ROOT}')\n" for prefix in ("aa", "ab"))
    assert len(read(text, partitions_max=2).partitions) == 2
    with pytest.raises(LimitReached) as reached:
        read(text, partitions_max=1)
    assert reached.value.reason is Reason.SUMMARY_LIMIT
    assert reached.value.limit == "max_partition_summaries"


def test_a_block_has_a_bound() -> None:
    """IL-268."""
    text = said(P1)
    assert len(read(text, bytes_max=len(text)).records) == 1
    assert code(lambda: read(text, bytes_max=len(text) - 1)) == Reason.OVERSIZED_BLOCK
    assert loop.lines_max(10) == profile.FACT_BLOCK_LINES_MAX
    assert loop.lines_max(2**28) == 2**22


# ---- summaries and questions ----------------------------------------------------------------------------------------


def test_summaries_and_questions() -> None:
    """IL-108, IL-109, IL-110, IL-111, ILC-107."""
    text = (
        f"AdvertisementPartition('aa','3','{ROOT}')\nAdvertisementPartition('ab','0','{ROOT}')\n"
        "ListAdvertisementPartition('zz')\nNarrowAdvertisementPartition('~')\nListAdvertisementPartition('a')\n"
    )
    root = bytes(range(32))
    assert read(text) == Advertise(
        partitions=(Partition(prefix="aa", count=3, root=root), Partition(prefix="ab", count=0, root=root)),
        lists=("zz", "a"),
        narrows=("~",),
    )


@pytest.mark.parametrize(
    "values",
    [
        f"'','1','{ROOT}'",
        f"'a-','1','{ROOT}'",
        f"'{'a' * 44}','1','{ROOT}'",
        f"'aa','01','{ROOT}'",
        f"'aa','-1','{ROOT}'",
        f"'aa','{2**64}','{ROOT}'",
        f"'aa','1','{ROOT[:-1]}'",
        f"'aa','1','{ROOT[:-1]}z'",
        f"'aa','1','{bytes(32).hex()}'",
        f"'ab','1','{ROOT}')\nAdvertisementPartition('aa','1','{ROOT}'",
        f"'aa','1','{ROOT}')\nAdvertisementPartition('aa','1','{ROOT}'",
    ],
)
def test_a_malformed_summary(values: str) -> None:
    """ILC-107, ILC-109, IL-111, IL-265."""
    assert code(lambda: read(f"AdvertisementPartition({values})\n")) == Reason.MALFORMED_SUMMARY


@pytest.mark.parametrize(
    "text",
    [
        "ListAdvertisementPartition('')\n",
        "NarrowAdvertisementPartition('.')\n",
        "ListAdvertisementPartition('a')\n" * 2,
        "ListAdvertisementPartition('a','b')\n",
        "AdvertisementPartition('a','1')\n",
        TICK * 2,
        "TickReady()\n",
        "Unknown('x')\n",
        "# a comment\n",
        "Have(P) :- Advertised(P,S).\n",
    ],
)
def test_a_malformed_question(text: str) -> None:
    """IL-108, IL-109, IL-110, IL-057."""
    assert code(lambda: read(text)) == Reason.MALFORMED_BLOCK


@pytest.mark.parametrize("line", [f"MayRequest('{P1}')\n", f"NotAvailable('{P1}')\n", "HelloTAI('x')\n"])
def test_what_an_advertise_block_has_not(line: str) -> None:
    """ILC-095, ILC-096."""
    assert code(lambda: read(said(P1) + line)) == Reason.OUT_OF_PHASE


# ---- requests and answers -------------------------------------------------------------------------------------------


def request(text: str) -> Request:
    return loop.read_request(text.encode(), bytes_max=10**6)


def test_a_request() -> None:
    """ILC-119, IL-113."""
    lines = f"MayRequest('{P1}')\nMayRequest('{P2}')\n"
    assert request(lines + TICK) == Request(records=(P1, P2), tick="1640995200:000000000")
    assert request("") == Request()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"MayRequest('{P2}')\nMayRequest('{P1}')\n", Reason.MALFORMED_BLOCK),
        (f"MayRequest('{P1}')\nMayRequest('{P1}')\n", Reason.MALFORMED_BLOCK),
        ("MayRequest('P.EXAMPLE.H3')\n", Reason.MALFORMED_BLOCK),
        (f"MayRequest('{P1}','x')\n", Reason.MALFORMED_BLOCK),
        (TICK * 2, Reason.MALFORMED_BLOCK),
        (said(P1), Reason.OUT_OF_PHASE),
        (f"NotAvailable('{P1}')\n", Reason.OUT_OF_PHASE),
    ],
)
def test_a_request_list_ascends(text: str, reason: Reason) -> None:
    """ILC-119, ILC-096, IL-080, IL-113."""
    assert code(lambda: request(text)) == reason


def test_the_facts_of_a_transfer() -> None:
    """ILC-096, IL-114."""
    text = f"NotAvailable('{P2}')\n{TICK}NotAvailable('{P1}')\n"
    found = loop.read_responses(text.encode(), bytes_max=10**6)
    assert found == ([Unavailable(record=P2), Unavailable(record=P1)], "1640995200:000000000")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"MayRequest('{P1}')\n", Reason.OUT_OF_PHASE),
        ("NotAvailable('x')\n", Reason.MALFORMED_BLOCK),
        ("NotAvailable()\n", Reason.MALFORMED_BLOCK),
        (TICK * 2, Reason.MALFORMED_BLOCK),
    ],
)
def test_what_a_transfer_has_not(text: str, reason: Reason) -> None:
    """ILC-095, ILC-096, IL-114."""
    assert code(lambda: loop.read_responses(text.encode(), bytes_max=10**6)) == reason


# ---- records that say the same --------------------------------------------------------------------------------------


def test_records_with_equal_fields_are_read_alike() -> None:
    def lines(record: str) -> str:
        return said(record) + field(record, "App", value="ding") + field(record, "Group", value="u")

    text = lines(P1) + said(P2) + lines(P3)
    assert read(text).records == slowly(text).records
    one, _, other = read(text).records
    assert one.fields is other.fields, "what is equal is held once"
    assert code(lambda: read(lines(P1) + lines(P1))) == Reason.MALFORMED_BLOCK, "no record stands twice"
    assert code(lambda: read(lines(P2) + lines(P1))) == Reason.MALFORMED_BLOCK
    assert code(lambda: read(lines(P1) + lines(P2), records_max=1)) == Reason.LISTING_LIMIT


@pytest.mark.parametrize("value", ["{0}", "x{0}", "{0}{0}", "{1}", "x"])
def test_a_value_that_names_the_record_is_its_own(value: str) -> None:
    """The next record may say the same of itself, which is then another value."""
    text = "".join(said(one) + field(one, "App", value=value.format(one, P1)) for one in (P1, P2, P3))
    expected = tuple(
        advertisement(one, SOURCE, (ClaimedField("App", "0", value.format(one, P1)),)) for one in (P1, P2, P3)
    )
    assert read(text).records == slowly(text).records == expected


@pytest.mark.parametrize("record", ["", "x", "P.'.H3", "P.", ALICE])
def test_what_is_no_record_is_refused_among_records_that_say_the_same(record: str) -> None:
    text = said(P1) + field(P1, "App") + said(record) + field(record, "App") + said(P3)
    assert code(lambda: read(text)) == code(lambda: slowly(text)) == Reason.MALFORMED_BLOCK


@pytest.mark.parametrize("tick", ["", TICK, "TickReady('a\\\\b')\n", "TickReady('')\n"])
@pytest.mark.parametrize("wanted", [(), (P1,), (P1, P2, P3), ("P.x.K9",)])
def test_a_request_is_the_same_however_it_is_read(wanted: tuple[str, ...], tick: str) -> None:
    raw = ("".join(f"MayRequest('{record}')\n" for record in wanted) + tick).encode()
    slow = loop._read_request(raw, 10**6)
    assert loop.read_request(raw, bytes_max=10**6) == slow
    assert slow.records == wanted


@pytest.mark.parametrize(
    "text",
    [
        f"MayRequest('{P1}')\n{TICK}MayRequest('{P2}')\n{TICK}",
        f"MayRequest('{P1}','{P2}')\n",
        f"MayRequest('{P1}')\nMayRequest('{P1}')\n",
        f"MayRequest('{P2}')\nMayRequest('{P1}')\n",
        f"MayRequest('{P1}')\nHave('{P2}')\n",
        f"MayRequest('{P1}')\nTickReady('a','b')\n",
        f"MayRequest('{P1}')\nTickReady('a'\n",
        f"MayRequest('{P1}')",
        "MayRequest('')\n",
    ],
)
def test_what_is_wrong_with_a_request_is_said_as_before(text: str) -> None:
    with pytest.raises(PeerError) as refused:
        loop.read_request(text.encode(), bytes_max=10**6)
    with pytest.raises(PeerError) as slowly_refused:
        loop._read_request(text.encode(), 10**6)
    assert (refused.value.code, str(refused.value)) == (slowly_refused.value.code, str(slowly_refused.value))
