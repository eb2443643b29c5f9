import msgspec
import pytest

from bobbin.cluster.names import Index, Term
from bobbin.cluster.raft.effects import Append, Cut, DurableRecord, Reset
from bobbin.cluster.raft.entries import Configuration
from bobbin.errors import IntegrityError
from bobbin.wire.cluster.durable import (
    VERSION,
    Header,
    SealedFile,
    SnapshotFooter,
    Standing,
    decode_footer,
    decode_group,
    decode_header,
    decode_standing,
    encode_record,
    encode_whole,
    entry_records,
    group,
)
from tests.support.log_records import CLUSTER, NODE, OTHER, append, entry, metadata, truncate, vote

RECORDS: list[DurableRecord] = [
    vote(7, NODE),
    vote(8),
    append(1, 3),
    Append(()),
    Append((entry(1, payload=Configuration((NODE,), (OTHER,), (NODE, OTHER))), entry(2, payload=None))),
    truncate(2),
    Cut(Index(2), metadata(3, data=b"state")),
    Reset(metadata(9, term=4)),
]
HEADER = Header(
    version=VERSION,
    node=NODE,
    cluster=CLUSTER,
    number=3,
    boot=2,
    previous=SealedFile(2, 1_000),
    filled=77,
    term=Term(5),
    voted_for=OTHER,
    snapshot=metadata(12),
    first_index=Index(10),
    last_index=Index(20),
    lost=(Term(4), Index(9)),
)
FOOTER = SnapshotFooter(version=VERSION, cluster=CLUSTER, metadata=metadata(12))
STANDING = Standing(version=VERSION, node=NODE, cluster=CLUSTER, incarnation=5)


def _spelled(value: object) -> bytes:
    return msgspec.msgpack.encode(value)


@pytest.mark.parametrize(
    ("record", "form"),
    [
        (vote(7, NODE), "930107d920" + NODE.encode().hex()),
        (vote(300), "9301cd012cc0"),
        (truncate(2), "920302"),
        (Append((entry(1, 2, b"ab"), entry(2, 2, None))), "92" + "02" + "92" + "930201c4026162" + "930202c0"),
        (Append((entry(1, 2, Configuration((NODE,))),)), "92029193020193" + "91d920" + NODE.encode().hex() + "9090"),
    ],
)
def test_records_have_these_bytes(record: DurableRecord, form: str) -> None:
    assert encode_record(record).hex() == form


@pytest.mark.parametrize("record", RECORDS)
def test_every_record_comes_back(record: DurableRecord) -> None:
    assert decode_group(group([encode_record(record)])) == [record]


@pytest.mark.parametrize("count", [0, 1, 15, 16, 65_535, 65_536])
def test_a_group_keeps_its_order_whatever_its_size(count: int) -> None:
    records = [truncate(index) for index in range(count)]
    data = group([encode_record(record) for record in records])
    assert data == _spelled([[3, index] for index in range(count)])
    assert decode_group(data) == records


def test_a_text_that_is_not_utf_8_and_a_nest_too_deep_are_refused() -> None:
    name = b"\xd9\x20" + NODE.encode()
    for data in (group([encode_record(vote(7, NODE))]), encode_whole(HEADER)):
        assert name in data
    broken = name.replace(b"0", b"\xff")
    with pytest.raises(IntegrityError, match="no group of records"):
        decode_group(group([encode_record(vote(7, NODE))]).replace(name, broken))
    with pytest.raises(IntegrityError, match="does not decode"):
        decode_header(encode_whole(HEADER).replace(name, broken))
    for data in (b"\x91" * 100_000, b"\xdd\xff\xff\xff\xff", b"\x91\x92\x02\xdd\xff\xff\xff\xff"):
        with pytest.raises(IntegrityError):
            decode_group(data)


@pytest.mark.parametrize(
    "value",
    [
        None,
        {},
        [[]],
        [[6, 1]],
        [["3", 1]],
        [[3]],
        [[3, "1"]],
        [[3, 1, 2]],
        [[1, 1, b"node"]],
        [[2, [[1, 1]]]],
        [[2, [[1, 1, 2.5]]]],
        [[4, 1, None]],
        [[5, {"last_index": 1}]],
    ],
)
def test_what_is_no_group_is_refused(value: object) -> None:
    with pytest.raises(IntegrityError):
        decode_group(_spelled(value))


def test_every_part_and_every_longer_form_of_a_group_is_refused() -> None:
    data = group([encode_record(record) for record in RECORDS])
    for end in range(len(data)):
        with pytest.raises(IntegrityError):
            decode_group(data[:end])
    for longer in (data + b"\xc0", b"\xdc\x00\x01\x92\x03\x01", b"\x91\x92\x03\xcc\x01", b"\x91\x93\x03\x01\xc0"):
        with pytest.raises(IntegrityError):
            decode_group(longer)


def test_values_that_stand_alone_come_back() -> None:
    assert decode_header(encode_whole(HEADER)) == HEADER
    first = msgspec.structs.replace(HEADER, previous=None, snapshot=None, voted_for=None, lost=None)
    assert decode_header(encode_whole(first)) == first
    assert decode_footer(encode_whole(FOOTER)) == FOOTER
    assert decode_standing(encode_whole(STANDING)) == STANDING


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"number": 0},
        {"boot": 0},
        {"filled": -1},
        {"term": -1},
        {"first_index": 0},
        {"last_index": 8},
        {"node": 5},
        {"previous": [1]},
        {"unknown": 1},
    ],
)
def test_a_header_that_makes_no_sense_is_refused(change: dict[str, object]) -> None:
    fields = msgspec.msgpack.decode(encode_whole(HEADER)) | change
    with pytest.raises(IntegrityError):
        decode_header(_spelled(fields))


def test_another_version_is_named() -> None:
    with pytest.raises(IntegrityError, match="version 2; this program knows version 1"):
        decode_footer(encode_whole(msgspec.structs.replace(FOOTER, version=2)))
    with pytest.raises(IntegrityError, match="incarnation in a standing is -1"):
        decode_standing(encode_whole(msgspec.structs.replace(STANDING, incarnation=-1)))
    with pytest.raises(IntegrityError, match="does not decode"):
        decode_standing(b"\xc1")


@pytest.mark.parametrize("bytes_max", [1, 60, 100, 10_000])
def test_entries_are_split_by_size_and_none_is_left_out(bytes_max: int) -> None:
    entries = [entry(index, payload=b"x" * index) for index in range(1, 20)]
    entries.append(entry(20, payload=Configuration((NODE, OTHER))))
    records = entry_records(entries, bytes_max=bytes_max)
    found = decode_group(group(records))
    assert [each for record in found if isinstance(record, Append) for each in record.entries] == entries
    for data, record in zip(records, found, strict=True):
        assert isinstance(record, Append)
        assert len(data) <= bytes_max + 10 or len(record.entries) == 1
    assert entry_records([], bytes_max=1) == []
