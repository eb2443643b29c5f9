"""A lake as the sending side: the same exchange as from a lace with the same records, in one process and in two."""

import json
import signal
from pathlib import Path

import pytest

from bobbin.config.enrolment import NewPeer, add_peer
from bobbin.interlace.schema import Schema
from bobbin.lace import Lace
from bobbin.pipeline.batches.advertise import Form
from bobbin.policy import builder
from bobbin.policy.operands import parse_origin
from bobbin.records.ids import Verifier, secret_text
from bobbin.records.record import Record, build_plex, seal
from bobbin.records.signing import SigningKey
from bobbin.store.lake.compact import compact
from bobbin.store.lake.lake import Lake
from tests.end_to_end.command import bobbin
from tests.end_to_end.served_process import serving
from tests.support.described import KEY as KEY_OF_TABLES
from tests.support.described import advertise_all
from tests.support.lake_tables import SMALL, ingest, make_facts

KEY = SigningKey.from_secret(b"\x07" * 32)
NODE, CLIENT = b"\x08" * 32, b"\x09" * 32


def records(first: int, count: int) -> list[Record]:
    """Of the groups ``trade`` and ``inside``, and some of them signed."""
    made: list[Record] = []
    for number in range(first, first + count):
        group = "inside" if number % 3 == 0 else "trade"
        plex = build_plex(group=group, app="orders", name=f"n/{number}", tai_ns=number, data=b"%d" % number)
        made.append(seal(plex, KEY, auxiliary=b"\x01" * 32) if number % 2 else plex)
    return made


OURS, THEIRS = records(0, 150), records(1_000, 5)


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "trade.policy"
    path.write_text(builder.write(builder.select(builder.group("trade"))), encoding="utf-8")
    return path


def with_key(lace: Lace, secret: bytes) -> Lace:
    lace.new_key(secret=secret_text(secret))
    return lace


def verifier(secret: bytes) -> Verifier:
    return SigningKey.from_secret(secret).verifier


def make_lake(path: Path) -> Lake:
    """With some facts, and some records that came after them."""
    lake = Lake.create(path)
    ingest(lake, OURS[:100], shape=SMALL)
    make_facts(lake, OURS[:100], shape=SMALL)
    ingest(lake, OURS[100:], shape=SMALL)
    return lake


def names(path: Path) -> set[str]:
    with Lace.open(path, read_only=True) as lace:
        return {line.hash for line in lace.store.scan()}


def pair(folder: Path, *, over_lake: bool) -> tuple[Path, Path]:
    """Who sends, and who receives and has records of its own."""
    sender, receiver = folder / "sender.lace", folder / "receiver.lace"
    if over_lake:
        make_lake(folder / "a.lake")
    with with_key(Lace.create(sender, lake=folder / "a.lake" if over_lake else None), NODE) as lace:
        if not over_lake:
            lace.store.put_records(OURS)
    with with_key(Lace.create(receiver), CLIENT) as lace:
        lace.store.put_records(THEIRS)
    return sender, receiver


def test_in_one_process_the_lake_sends_what_a_lace_would(tmp_path: Path, policy: Path) -> None:
    told = []
    for number, over_lake in enumerate((False, True)):
        (tmp_path / str(number)).mkdir()
        sender, receiver = pair(tmp_path / str(number), over_lake=over_lake)
        done = bobbin("sync", receiver, sender, "--policy", policy, "--json")
        assert done.code == 0, done.err
        value = json.loads(done.text)
        assert value["fixed_point"]
        told.append((sorted(value["received"]), names(receiver)))
        again = json.loads(bobbin("sync", receiver, sender, "--policy", policy, "--json").text)
        assert again["received"] == []
    assert told[0] == told[1]
    assert len(told[1][0]) == 100
    assert names(tmp_path / "0" / "sender.lace") == {one.hash for one in OURS} | {
        one.hash for one in THEIRS if b"inside" not in one.raw
    }
    assert names(tmp_path / "1" / "sender.lace") == {one.hash for one in OURS}, "a lake asks for nothing"


def test_the_tables_of_advertise_change_nothing_but_the_work(tmp_path: Path, policy: Path) -> None:
    told = []
    for name in ("plain", "built"):
        (tmp_path / name).mkdir()
        sender, receiver = pair(tmp_path / name, over_lake=True)
        lake = Lake.open(tmp_path / name / "a.lake")
        make_facts(lake, OURS)
        if name == "built":
            form = Form(source=parse_origin(verifier(NODE)), schema=Schema(names=frozenset({"Group"})))
            advertise_all(lake, form)
        add_peer(receiver / "peers.toml", NewPeer(name="archive", verifier=verifier(NODE), policy=policy))
        with serving(receiver, "--listen", "tcp:127.0.0.1:0") as node:
            options = ("--policy", policy, "--verifier", verifier(CLIENT), "--strategy", "partitions", "--json")
            done = bobbin("sync", sender, node.addresses["tcp"], *options)
        assert done.code == 0, done.err
        value = json.loads(done.text)
        advertised = value["phases"]["advertise"]
        told.append((sorted(value["sent"]), advertised, value["plan"], names(receiver)))
        expected = (
            "computed: the lake has no" if name == "plain" else f"advertisements/{KEY_OF_TABLES}, manifest 1, and"
        )
        assert value["digests"].startswith(expected)
    assert told[0] == told[1]
    assert len(told[0][0]) == 100


def test_between_two_processes_while_the_lake_grows_and_is_compacted(tmp_path: Path, policy: Path) -> None:
    sender, receiver = pair(tmp_path, over_lake=True)
    add_peer(sender / "peers.toml", NewPeer(name="client", verifier=verifier(CLIENT), policy=policy))
    lake = Lake.open(tmp_path / "a.lake")
    more = records(2_000, 12)
    with serving(sender, "--listen", "tcp:127.0.0.1:0") as node:
        where = node.addresses["tcp"]

        def sync() -> list[str]:
            done = bobbin(
                "sync", receiver, where, "--policy", policy, "--verifier", verifier(NODE), "--json", "--state"
            )
            assert done.code == 0, done.err
            value = json.loads(done.text)
            assert value["fixed_point"]
            return sorted(value["received"])

        assert len(sync()) == 100
        compact(lake)
        assert sync() == []
        ingest(lake, more)
        compact(lake)
        assert sync() == sorted(one.hash for one in more if b"inside" not in one.raw)
        node.signal(signal.SIGTERM)
        code, _ = node.wait()
    assert code == 0
    assert {one.hash for one in (*OURS, *more) if b"inside" not in one.raw} <= names(receiver)
