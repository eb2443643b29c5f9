from itertools import pairwise

import pytest

from bobbin.cluster.names import Index, Term
from bobbin.cluster.raft.effects import DurableRecord
from bobbin.errors import IntegrityError
from bobbin.store.wal.record import HEAD, PAYLOAD_BYTES_MAX, frame, payload_at
from bobbin.store.wal.segment import (
    SECTOR,
    Segment,
    framed_size,
    placed,
    segment_name,
    segment_numbers,
    segment_start,
)
from bobbin.wire.cluster.durable import VERSION, Header, encode_record, group
from tests.support.crashing_files import CrashingFiles, Inode
from tests.support.log_records import CLUSTER, NODE, append, truncate, vote

SALT = b"\x01salt\xfe\xff\x80"
NAME = segment_name(1)
GROUPS: list[list[DurableRecord]] = [[vote(1, NODE)], [append(1, 3), truncate(3)], [vote(2)], [append(3, 80)]]


def _body(records: list[DurableRecord]) -> bytes:
    return group([encode_record(record) for record in records])


def _header(filled: int, number: int = 1) -> Header:
    return Header(
        version=VERSION,
        node=NODE,
        cluster=CLUSTER,
        number=number,
        boot=1,
        previous=None,
        filled=filled,
        term=Term(0),
        voted_for=None,
        snapshot=None,
        first_index=Index(1),
        last_index=Index(0),
        lost=None,
    )


def _content(filled: int = 1, groups: list[list[DurableRecord]] = GROUPS) -> tuple[bytes, list[int]]:
    """A file whose first groups came with its header, and where its groups begin; last, where it ends."""
    bodies = [_body(records) for records in groups]
    pieces = segment_start(SALT, _header(sum(map(framed_size, bodies[:filled]))), bodies[:filled])
    content = b"".join(pieces)
    for body in bodies[filled:]:
        content += placed(SALT, len(content), body)
    starts = [len(content) - sum(map(framed_size, bodies[place:])) for place in range(len(bodies) + 1)]
    return content, starts


def _files(content: bytes) -> CrashingFiles:
    files = CrashingFiles()
    files.inodes[NAME] = Inode(content)
    return files


def _read(content: bytes, end: int | None = None) -> list[list[DurableRecord]]:
    with Segment(_files(content), 1) as segment:
        return [records for _, _, records in segment.groups(end)]


def test_names_and_numbers() -> None:
    assert segment_name(12) == "log-00000000000000000012"
    names = [segment_name(number) for number in (10**19, 3, 20)]
    assert segment_numbers([*names, "log-3", segment_name(4) + ".tmp", "snapshot"]) == [3, 20, 10**19]


def test_a_record_of_a_file_has_these_bytes() -> None:
    record = placed(SALT, 0x1122, b"body")
    inner = SALT + bytes.fromhex("2211000000000000 19000000") + b"body" + b"\xa5"
    assert record == frame(inner)
    assert payload_at(record, 0) == inner
    assert len(record) == framed_size(b"body")


def test_groups_come_back_with_their_places() -> None:
    content, starts = _content()
    with Segment(_files(content), 1) as segment:
        found = list(segment.groups())
        assert [records for _, _, records in found] == GROUPS
        assert [(start, end) for start, end, _ in found] == list(pairwise(starts))
        assert segment.header == _header(starts[1] - starts[0])
        assert (segment.start, segment.filled_end, segment.size) == (starts[0], starts[1], len(content))
        assert segment.body_between(starts[2], starts[3]) == _body(GROUPS[2])
        with pytest.raises(IntegrityError, match=f"at offset {starts[1]}: a record reads otherwise"):
            segment.body_between(starts[1], starts[2] - 1)


def test_a_sealed_file_is_read_up_to_its_end() -> None:
    content, starts = _content()
    for place, end in enumerate(starts[1:], 1):
        assert _read(content, end) == GROUPS[:place]
        assert _read(content[:end] + b"whatever a failed write left", end) == GROUPS[:place]
        for wrong in (end - 1, end + 1):
            with pytest.raises(IntegrityError, match=f"{NAME} is damaged at offset"):
                _read(content, wrong)


def test_a_sealed_file_has_no_torn_tail() -> None:
    content, starts = _content()
    with pytest.raises(IntegrityError, match=f"{NAME} is damaged at offset {len(content) - 1}: .* there it ends"):
        _read(content[:-1], len(content))
    broken = content[:-1] + b"\0"
    with pytest.raises(
        IntegrityError, match=f"{NAME} is damaged at offset {starts[-2]}: a record that counts is broken"
    ):
        _read(broken, len(content))


def test_wherever_the_last_write_stopped_the_groups_before_it_are_whole() -> None:
    content, starts = _content()
    for place in (1, 2, 3):
        for end in range(starts[place], starts[place + 1]):
            assert _read(content[:end]) == GROUPS[:place], end


def test_holes_in_the_last_write_are_a_torn_tail() -> None:
    """Any sectors of it may be missing, also the first, and read as zeros then."""
    content, starts = _content()
    last = starts[-2]
    edges = [last, *range((last // SECTOR + 1) * SECTOR, len(content), SECTOR), len(content)]
    sectors = list(pairwise(edges))
    assert len(sectors) >= 3
    for which in range(1, 1 << len(sectors)):
        torn = bytearray(content)
        for place, (start, end) in enumerate(sectors):
            if which >> place & 1:
                torn[start:end] = bytes(end - start)
        assert _read(bytes(torn)) == GROUPS[:-1], which


def test_zeros_behind_the_last_record_are_a_torn_tail() -> None:
    content, _ = _content()
    for size in (1, 7, 8, 28, 29, 5_000):
        assert _read(content + bytes(size)) == GROUPS


def test_the_header_and_what_came_with_it_are_never_torn() -> None:
    content, starts = _content(filled=2)
    for end in range(starts[2]):
        with pytest.raises(IntegrityError, match=f"{NAME} is damaged at offset"):
            _read(content[:end])
    assert _read(content[: starts[2]]) == GROUPS[:2]
    holed = content[: starts[1]] + bytes(starts[2] - starts[1])
    with pytest.raises(IntegrityError, match=f"at offset {starts[1]}: a record that counts is broken"):
        _read(holed)


def test_every_flipped_byte_is_damage_and_named() -> None:
    """Also in the last record: it is all there, so no write was cut short."""
    content, starts = _content()
    for offset in range(len(content)):
        broken = bytearray(content)
        broken[offset] ^= 1 << offset % 8
        record = 0 if offset < starts[0] else max(start for start in starts if start <= offset)
        with pytest.raises(IntegrityError, match=f"{NAME} is damaged at offset {record}: "):
            _read(bytes(broken))


def test_a_broken_record_before_a_valid_one_is_damage_even_if_it_looks_torn() -> None:
    content, starts = _content()
    holed = content[: starts[2]] + bytes(starts[3] - starts[2]) + content[starts[3] :]
    with pytest.raises(IntegrityError, match=f"at offset {starts[2]}: a record that counts is broken"):
        _read(holed)


def test_bytes_of_a_client_do_not_pass_for_a_later_record() -> None:
    """A command may hold a whole record, but not one of this file at that place."""
    pretended = placed(b"othersal", 5_000, _body([vote(9)]))
    inside = append(1, 1)
    command = type(inside.entries[0])(Term(1), Index(1), pretended * 30)
    content, starts = _content(1, [[vote(1)], [vote(2)], [type(inside)((command,))]])
    assert _read(content[:-1]) == [[vote(1)], [vote(2)]]
    assert starts[-1] == len(content)


def test_records_of_another_place_do_not_count() -> None:
    content, starts = _content()
    stale = content[: starts[2]] + content[starts[1] : starts[2]]
    with pytest.raises(IntegrityError, match=f"at offset {starts[2]}"):
        _read(stale)
    foreign = content[: starts[2]] + placed(b"othersal", starts[2], _body([vote(9)]))
    with pytest.raises(IntegrityError, match=f"at offset {starts[2]}"):
        _read(foreign)


def test_a_length_over_the_bound_is_not_followed() -> None:
    content, starts = _content()
    assert _read(content[: starts[1]] + HEAD.pack(PAYLOAD_BYTES_MAX + 1, 0) + bytes(200)) == GROUPS[:1]


def test_a_checksum_of_0_in_the_file_is_checked() -> None:
    content, starts = _content()
    zeroed = bytearray(content)
    zeroed[starts[2] + 4 : starts[2] + 8] = bytes(4)
    with pytest.raises(IntegrityError, match=f"at offset {starts[2]}"):
        _read(bytes(zeroed))


def test_what_is_no_group_of_records_is_damage() -> None:
    content, _ = _content()
    with pytest.raises(IntegrityError, match=f"at offset {len(content)}: no group of records"):
        _read(content + placed(SALT, len(content), b"\xc0"))


def test_a_header_of_another_file_is_damage() -> None:
    content = b"".join(segment_start(SALT, _header(0, number=2), []))
    with pytest.raises(IntegrityError, match="at offset 0: the header is of file number 2"):
        _read(content)
    with pytest.raises(IntegrityError, match="at offset 0: the header is broken"):
        _read(frame(b"short"))
    with pytest.raises(IntegrityError, match="at offset 0: the header is not of this place"):
        _read(placed(SALT, 5, b"body"))
    with pytest.raises(IntegrityError, match="at offset 0: a header does not decode"):
        _read(placed(SALT, 0, b"body"))


def test_a_file_larger_than_a_window_is_read_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bobbin.store.wal.segment._WINDOW", 64)
    content, starts = _content()
    assert _read(content) == GROUPS
    assert _read(content[:-1]) == GROUPS[:-1]
    for offset in range(starts[1], len(content), 7):
        broken = bytearray(content)
        broken[offset] ^= 4
        with pytest.raises(IntegrityError, match="is damaged at offset"):
            _read(bytes(broken))
