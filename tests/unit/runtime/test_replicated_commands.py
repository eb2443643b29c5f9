"""The bytes of a replicated lace."""

import pytest

from bobbin.errors import PeerError
from bobbin.records.ids import HashText
from bobbin.runtime import replicated_commands as wire
from bobbin.runtime.replicated_commands import (
    CLIENT_TAGS,
    TAGS,
    AnswerEntry,
    ChangeEntry,
    CompareRoot,
    EffectEntry,
    Head,
    Keep,
    KeptEntry,
    Lift,
    NotDone,
    PieceEntry,
    PutPiece,
    PutRecords,
    RaiseFence,
    RecordEntry,
    RefusalEntry,
    Remove,
    SetEffect,
    Stored,
    Truth,
    decode_answer,
    decode_command,
    decode_entry,
    encode,
    is_news,
)
from bobbin.store.base import Outcome, Put, StoreRecordId

TOKEN = b"0123456789abcdef"
COMMANDS: list[wire.Command] = [
    PutRecords(TOKEN, [b"a", b"b"]),
    PutPiece(TOKEN, TOKEN, 0, b"raw", 1),
    Remove(TOKEN, "P.x.H3", "why", 5),
    Lift(TOKEN, "P.x.H3"),
    Keep(TOKEN, "cursor", "key", None),
    RaiseFence(TOKEN, 7),
    SetEffect(TOKEN, "mail", 7, "applied"),
    CompareRoot(1_024, bytes(32)),
]
ENTRIES: list[wire.SnapshotEntry] = [
    Head(1, 2, 3, 4, bytes(32)),
    RecordEntry(1, b"raw"),
    RefusalEntry("P.x.H3", "why", 5),
    ChangeEntry(1, 2, 3, bytes(32)),
    KeptEntry("cursor", "key", b"value"),
    AnswerEntry(1, TOKEN, b"answer"),
    EffectEntry("mail", 7, None),
    PieceEntry(TOKEN, 0, 1, b"raw"),
]


def test_every_kind_has_its_number_in_the_second_byte() -> None:
    tags = [encode(one)[1] for one in [*COMMANDS, *ENTRIES]]
    assert tags == list(TAGS)


def test_a_client_gives_every_command_but_that_which_nodes_give_each_other() -> None:
    assert [one for one in COMMANDS if encode(one)[1] not in CLIENT_TAGS] == [CompareRoot(1_024, bytes(32))]


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_come_back(command: wire.Command) -> None:
    assert decode_command(encode(command)) == command


@pytest.mark.parametrize("entry", ENTRIES)
def test_entries_come_back(entry: wire.SnapshotEntry) -> None:
    assert decode_entry(encode(entry)) == entry


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\x00",
        b"\x93\x30\x01",
        encode(COMMANDS[0])[:-1],
        encode(PutRecords(b"short", [b"a"])),
        b"\x92\x30" + b"\x91" * 2_000,
    ],
)
def test_what_cannot_be_read_is_a_peer_error(raw: bytes) -> None:
    with pytest.raises(PeerError):
        decode_command(raw)
    with pytest.raises(PeerError):
        decode_answer(raw)
    with pytest.raises(PeerError):
        decode_entry(raw)


def test_answers_for_records_are_short_where_all_are_new() -> None:
    names = [HashText("a"), HashText("b")]
    puts = [Put(Outcome.STORED, names[0], StoreRecordId(5)), Put(Outcome.STORED, names[1], StoreRecordId(6))]
    answer = wire.stored(puts)
    assert answer == Stored(5, 2)
    assert wire.puts_of(answer, names) == puts
    mixed = [Put(Outcome.DUPLICATE, names[0], StoreRecordId(2)), Put(Outcome.REFUSED, names[1], None, "why")]
    answer = wire.stored(mixed)
    assert decode_answer(encode(answer)) == answer
    assert wire.puts_of(answer, names) == mixed


def test_what_is_news() -> None:
    put, remove, lift = COMMANDS[0], COMMANDS[2], COMMANDS[3]
    assert isinstance(put, PutRecords)
    assert isinstance(remove, Remove)
    assert isinstance(lift, Lift)
    assert is_news(put, Stored(1, 2))
    assert not is_news(put, Stored(0, 1, [(Outcome.DUPLICATE, 1, None)]))
    assert is_news(remove, Truth(value=False)), "the refusal is new"
    assert is_news(lift, Truth(value=True))
    assert not is_news(lift, Truth(value=False))
    assert not is_news(put, NotDone("why"))
