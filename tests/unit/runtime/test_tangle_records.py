"""Records in the place of messages: which is the one, and which anybody could have written."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bobbin.records.ids import HashText
from bobbin.records.record import Plex, Record, build_blob, build_plex, read_trusted, seal
from bobbin.records.signing import SigningKey
from bobbin.runtime.tangle_records import PLACE_RECORDS_MAX, is_accepted, is_meant, is_of_messages, meant, says_its_name
from bobbin.runtime.tangle_store import TangleStore
from bobbin.store.sqlite import SqliteStore, open_store
from bobbin.tangles.canonical import canonical
from bobbin.tangles.message import Message, from_json
from tests.support.tangle_messages import Author, signed_again
from tests.unit.runtime.tangle_stores import plex


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with open_store(tmp_path / "records.db", create=True, now=lambda: 0) as opened:
        yield opened


@pytest.fixture
def message() -> Message:
    return Author("alice").root({"text": "topic"}, "thread")


def _in_place_of(record: Plex, data: bytes) -> Plex:
    extras = record.extras
    return build_plex(
        group=record.group, app=record.app, name=record.name, tai_ns=record.tai + 1, data=data, extras=extras
    )


def test_in_other_places_every_record_is_meant(message: Message) -> None:
    plain = build_plex(group="u", app="ding", name="links/1", tai_ns=0, data=b"hello")
    assert not is_of_messages(plain.coordinate)
    assert is_meant(plain.coordinate, plain)
    genuine = plex(message)
    assert is_of_messages(genuine.coordinate)
    assert is_meant(genuine.coordinate, genuine)
    assert not is_meant(genuine.coordinate, _in_place_of(genuine, b"forged"))


def test_only_the_plex_of_a_message_says_what_its_place_names(message: Message) -> None:
    genuine = plex(message)
    assert says_its_name(genuine)
    assert says_its_name(seal(genuine, SigningKey.from_secret(b"\1" * 32), auxiliary=b"\2" * 32))
    assert says_its_name(plex(signed_again(Author("stranger").key, message))), "it says the same, whoever has signed"
    assert not says_its_name(_in_place_of(genuine, genuine.data)), "of another time"
    assert not says_its_name(_in_place_of(genuine, b"forged"))
    other = from_json(
        {"data": {"text": "x"}, "metadata": message.metadata, "sigkey": message.sigkey, "sig": message.sig}
    )
    assert not says_its_name(plex(other)), "data that the metadata does not name"
    assert not says_its_name(build_blob(canonical({"text": "topic"})))


def test_so_many_records_are_read_to_find_that_of_a_message_and_no_more(store: SqliteStore, message: Message) -> None:
    genuine = plex(message)
    read: list[HashText] = []

    def load(hash: HashText) -> Record | None:
        read.append(hash)
        raw = store.get(hash)
        return None if raw is None else read_trusted(raw)

    newer = [_in_place_of(genuine, b"%d" % number).raw for number in range(PLACE_RECORDS_MAX)]
    list(store.put_many([genuine.raw, *newer[1:]]))
    found = meant(store, genuine.coordinate, load)
    assert found is not None
    assert (found.hash, len(read)) == (genuine.hash, PLACE_RECORDS_MAX)
    list(store.put_many(newer[:1]))
    read.clear()
    assert meant(store, genuine.coordinate, load) is None
    assert len(read) == PLACE_RECORDS_MAX
    TangleStore(store.tangles).commit([Author("alice").account, message])
    read.clear()
    found = meant(store, genuine.coordinate, load)
    assert found is not None, "nothing hides what is proven"
    assert read == [genuine.hash]


def test_the_record_of_a_message_that_is_proven_here(store: SqliteStore, message: Message) -> None:
    genuine, copy = plex(message), plex(signed_again(Author("stranger").key, message))
    assert not is_accepted(store, genuine)
    TangleStore(store.tangles).commit([Author("alice").account, message])
    assert is_accepted(store, genuine)
    assert not is_accepted(store, copy)
    assert not is_accepted(store, _in_place_of(genuine, b"forged"))


def test_a_message_that_is_held_and_not_proven_vouches_for_nothing(store: SqliteStore) -> None:
    alice = Author("alice")
    moot, first, second, third = alice.feed(3)
    TangleStore(store.tangles).commit([alice.account, moot, first, third], tangle=moot.id)
    assert not is_accepted(store, plex(third))
    TangleStore(store.tangles).commit([second], tangle=moot.id)
    assert is_accepted(store, plex(third))


def test_where_there_are_no_tangles_nothing_is_known(message: Message) -> None:
    assert not is_accepted(object(), plex(message))  # type: ignore[arg-type]
