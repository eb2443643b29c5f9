import pytest

from bobbin.cluster.key_value import (
    Command,
    CompareAndSwap,
    Delete,
    Head,
    Item,
    Kind,
    Outcome,
    Put,
    SessionEntry,
    SnapshotEntry,
)
from bobbin.cluster.names import Index, Term
from bobbin.errors import PeerError
from bobbin.wire.cluster.commands import (
    MALFORMED,
    KeyValueCodec,
    decode_command,
    decode_outcome,
    encode_command,
    encode_outcome,
    key_value,
)

_COMMANDS = [
    (Put(b"c", 1, b"k", b"v"), bytes.fromhex("95 01 c401 63 01 c401 6b c401 76")),
    (Delete(b"", 0, b"k"), bytes.fromhex("94 02 c400 00 c401 6b")),
    (CompareAndSwap(b"", 0, b"k", None, b"v"), bytes.fromhex("96 03 c400 00 c401 6b c0 c401 76")),
]


@pytest.mark.parametrize(("command", "raw"), _COMMANDS)
def test_commands_have_these_bytes_and_come_back(command: Command, raw: bytes) -> None:
    assert encode_command(command) == raw
    assert decode_command(raw) == command


@pytest.mark.parametrize(("command", "raw"), _COMMANDS)
def test_no_piece_of_a_command_and_nothing_longer_is_a_command(command: Command, raw: bytes) -> None:
    for end in range(len(raw)):
        with pytest.raises(PeerError) as caught:
            decode_command(raw[:end])
        assert caught.value.code == MALFORMED
    with pytest.raises(PeerError):
        decode_command(raw + b"\x00")
    assert decode_command(raw) == command


@pytest.mark.parametrize(
    "raw",
    [
        bytes.fromhex("95 04 c400 00 c401 6b c401 76"),  # no such kind
        bytes.fromhex("95 01 c400 00 a16b c401 76"),  # a text for a key
        bytes.fromhex("95 02 c400 00 c401 6b c401 76"),  # a field too many
        bytes.fromhex("94 01 c400 00 c401 6b"),  # a field too few
        bytes.fromhex("95 01 c400 cb3ff0000000000000 c401 6b c401 76"),  # a fraction for a number
        bytes.fromhex("95 01 c400 00 c6ffffffff 6b c401 76"),  # a key of 4 GB
        b"\x91" * 100_000,
        b"\xc1",
    ],
)
def test_what_is_no_command_is_refused(raw: bytes) -> None:
    with pytest.raises(PeerError):
        decode_command(raw)
    with pytest.raises(PeerError):
        KeyValueCodec.read_entry(raw)


@pytest.mark.parametrize("kind", list(Kind))
def test_outcomes_come_back(kind: Kind) -> None:
    raw = encode_outcome(Outcome(kind, 300))
    assert raw == bytes([0x92, kind, 0xCD, 0x01, 0x2C])
    assert decode_outcome(raw) == Outcome(kind, 300)


@pytest.mark.parametrize("raw", [b"", b"\x92\x63\x00", b"\x91\x01", b"\x93\x01\x00\x00", b"\x92\x01\xa1x"])
def test_what_is_no_outcome_is_refused(raw: bytes) -> None:
    with pytest.raises(PeerError):
        decode_outcome(raw)


@pytest.mark.parametrize(
    "entry", [Head(1, 2, 3, 4), Item(b"k", b"v", 7), SessionEntry(b"c", 1, 2, ((1, b"x"), (2, b"y")))]
)
def test_entries_of_a_snapshot_come_back(entry: SnapshotEntry) -> None:
    assert KeyValueCodec.read_entry(KeyValueCodec.entry(entry)) == entry


def test_a_new_table_is_empty_and_takes_commands() -> None:
    table = key_value()
    assert len(table) == 0
    answer = table.apply(Index(1), Term(1), encode_command(Put(b"", 0, b"k", b"v")))
    assert decode_outcome(answer) == Outcome(Kind.WRITTEN, 1)
