"""The public interface: what it promises, from the outside."""

import io
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import bobbin
from bobbin import Address, Blob, Coordinate, Lace, Plex, Prefix, Problem, Seal
from bobbin.config.keys import KeyFileError, NoSuchKey
from bobbin.config.settings import DamagedSettings
from bobbin.errors import BobbinError, IntegrityError, ResourceError, UsageError
from bobbin.lace import NoLace, RefusedRecord
from bobbin.records import ids
from bobbin.records.record import Record, build_blob, build_plex, validate
from bobbin.records.signing import SigningKey
from bobbin.wire.address import parse as parse_address

AT = "1640995200:000000000"
PLEX_1 = "P.tyYEj0zIBrq7IDVBPzaErPIq5p03OhpTTm14ePsSz80.H3"
SECRET = "&.00420lG51WS82GdB30pE3m0H4XCK5HON61_Q6mlT7Xx.H3"
VERIFIER = "V.OEL2sxn4GhPnCm_bU7hnAPU0Q0gVS8KxFlNg3zfHT2O.H3"


@pytest.fixture
def lace(tmp_path: Path) -> "Lace":
    return Lace.create(tmp_path / "x.lace")


def put(lace: Lace, data: bytes = b"hello", name: str = "links/1", tai: str | int | None = AT) -> str:
    return lace.put(data, group="u", app="ding", name=name, tai=tai)


# ---- opening ------------------------------------------------------------------------------------------------------


def test_what_was_put_is_there_after_opening_again(tmp_path: Path) -> None:
    with Lace.create(tmp_path / "x.lace") as lace:
        assert put(lace) == PLEX_1
        created = lace.settings.created
    with Lace.open(str(tmp_path / "x.lace")) as lace:
        assert lace.settings.created == created
        record = lace.get(PLEX_1)
        assert isinstance(record, Plex)
        assert record.data == b"hello"


def test_a_folder_without_a_lace_is_a_usage_error_and_stays_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(NoLace, match="bobbin init"):
        Lace.open(tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()
    with pytest.raises(NoLace):
        Lace.open(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_lace_is_told_apart_and_the_hint_works(tmp_path: Path) -> None:
    (tmp_path / "letters.txt").touch()
    with pytest.raises(NoLace, match=r"other things \(letters.txt\).*`bobbin init .*notes\.lace`"):
        Lace.open(tmp_path)
    Lace.create(tmp_path / "notes.lace").close()
    with pytest.raises(NoLace, match=r"did you mean .*notes\.lace\?"):
        Lace.open(tmp_path)
    with pytest.raises(NoLace, match="is a file"):
        Lace.open(tmp_path / "letters.txt")


def test_a_lace_that_lost_its_settings_is_damaged_and_can_still_be_looked_at(tmp_path: Path) -> None:
    with Lace.create(tmp_path / "x.lace") as lace:
        put(lace)
        settings = lace.settings
    (tmp_path / "x.lace" / "lace.toml").unlink()
    with pytest.raises(DamagedSettings, match=r"no lace\.toml"):
        Lace.open(tmp_path / "x.lace")
    with Lace.open(tmp_path / "x.lace", read_only=True, settings=settings) as lace:
        assert lace.have(PLEX_1)
    # What the message advises works.
    (tmp_path / "x.lace" / "lace.toml").write_text('format = 1\ncreated = "1640995200:000000000"\n', encoding="utf-8")
    with Lace.open(tmp_path / "x.lace") as lace:
        assert lace.have(PLEX_1)


def test_everything_is_listed_group_by_group_and_blobs_apart(tmp_path: Path) -> None:
    with Lace.create(tmp_path / "x.lace") as lace:
        assert (list(lace.list()), list(lace.blobs())) == ([], [])
        for group, name, tai in (("v", "b", 1), ("u", "a", 2), ("v", "a", 3), ("v", "a", 4)):
            lace.put(b"", group=group, app="x", name=name, tai=tai)
        blob = lace.put_record(build_blob(b"data"))
        order = [("v", "a", 4), ("v", "a", 3), ("v", "b", 1), ("u", "a", 2)]
        assert [(listed.group, listed.name, listed.tai) for listed in lace.list()] == order
        assert [(listed.group, listed.name, listed.tai) for listed in lace.list(tips=True)] == [order[0], *order[2:]]
        for limit in range(6):
            assert [(listed.group, listed.name, listed.tai) for listed in lace.list(limit=limit)] == order[:limit]
        assert list(lace.blobs()) == [blob]


def test_a_lace_is_created_once_and_only_in_a_folder_of_its_own(tmp_path: Path) -> None:
    Lace.create(tmp_path / "a" / "b" / "x.lace").close()
    with pytest.raises(UsageError, match="already"):
        Lace.create(tmp_path / "a" / "b" / "x.lace")
    with pytest.raises(UsageError, match="not empty"):
        Lace.create(tmp_path / "a")
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b"]
    (tmp_path / "file").touch()
    for refused in (
        lambda: Lace.create(tmp_path / "file"),
        lambda: Lace.create(tmp_path / "y").backup(tmp_path / "file"),
    ):
        with pytest.raises(UsageError, match="not a folder"):
            refused()
    with pytest.raises(UsageError, match="key name"):
        Lace.create(tmp_path / "c", default_key="../x")
    assert not (tmp_path / "c").exists()


def test_a_creation_that_was_cut_off_can_be_repeated(tmp_path: Path) -> None:
    path = tmp_path / "x.lace"
    Lace.create(path).close()
    (path / "lace.toml").unlink()
    with Lace.create(path) as lace:
        put(lace)
    (path / "lace.toml").unlink()
    with pytest.raises(UsageError, match="holds records already"):
        Lace.create(path)


def test_a_store_without_its_settings_or_settings_without_their_store(tmp_path: Path) -> None:
    path = tmp_path / "x.lace"
    Lace.create(path).close()
    for file in path.glob("records.db*"):
        file.unlink()
    with pytest.raises(BobbinError, match="no store"):
        Lace.open(path)


def test_read_only_reads_and_does_not_write(tmp_path: Path) -> None:
    with Lace.create(tmp_path / "x.lace") as lace:
        put(lace)
    with Lace.open(tmp_path / "x.lace", read_only=True) as lace:
        assert lace.have(PLEX_1)
        with pytest.raises(BobbinError):
            put(lace, b"more")
    with Lace.open(tmp_path / "x.lace") as lace:
        assert sum(lace.stat().records.values()) == 1


def test_its_repr_names_the_folder(lace: Lace) -> None:
    assert repr(lace) == f"Lace({str(lace.path)!r})"


# ---- writing ------------------------------------------------------------------------------------------------------


def test_put_is_idempotent_and_takes_time_as_text_or_number(lace: Lace) -> None:
    assert put(lace) == put(lace) == put(lace, tai=1640995200 * 10**9) == PLEX_1
    assert sum(lace.stat().records.values()) == 1


def test_put_without_a_time_means_now(lace: Lace) -> None:
    first = lace.get(put(lace, tai=None))
    second = lace.get(put(lace, tai=None))
    assert isinstance(first, Plex)
    assert isinstance(second, Plex)
    assert 1_700_000_000 * 10**9 < first.tai <= second.tai


@given(
    data=st.binary(max_size=300),
    name=st.from_regex(r"[a-z0-9äöü]{1,8}(/[a-z0-9]{1,8}){0,2}", fullmatch=True),
    headers=st.lists(
        st.tuples(st.from_regex(r"X-[A-Za-z]{1,6}", fullmatch=True), st.from_regex(r"[!-~]{1,20}", fullmatch=True)),
        max_size=4,
    ),
)
def test_what_comes_out_is_what_went_in(
    shared_lace: Lace, data: bytes, name: str, headers: list[tuple[str, str]]
) -> None:
    record = shared_lace.get(shared_lace.put(data, group="g/h", app="a", name=name, tai=7, headers=headers))
    assert isinstance(record, Plex)
    assert (record.data, record.group, record.app, record.name, record.tai) == (data, "g/h", "a", name, 7)
    assert list(record.extras) == sorted(headers, key=lambda header: header[0])
    assert shared_lace.get(f"//g/h//a//{name}") is not None


@pytest.fixture(scope="module")
def shared_lace(tmp_path_factory: pytest.TempPathFactory) -> Lace:
    return Lace.create(tmp_path_factory.mktemp("lace") / "x.lace")


@pytest.mark.parametrize(
    "fields",
    [
        {"group": ""},
        {"app": "a|b"},
        {"name": "/x"},
        {"tai": "now"},
        {"tai": -1},
        {"headers": [("Group", "x")]},
        {"headers": [("X", "a\nb")]},
        {"headers": [("X:", "a")]},
        {"group": "\udcff"},
        {"sign": "nobody"},
    ],
)
def test_fields_that_make_no_record_are_usage_errors_and_change_nothing(lace: Lace, fields: dict[str, object]) -> None:
    good: dict[str, object] = {"group": "u", "app": "ding", "name": "n"}
    with pytest.raises(UsageError):
        lace.put(b"x", **{**good, **fields})  # type: ignore[arg-type]
    assert lace.stat().high_water == 0


def test_a_signed_record_is_a_seal_by_that_key(lace: Lace) -> None:
    with pytest.raises(NoSuchKey):
        lace.put(b"x", group="u", app="a", name="n", sign=True)
    lace.new_key(secret=SECRET)
    other = lace.new_key("lab")
    for sign, verifier in ((True, VERIFIER), ("main", VERIFIER), ("lab", other.verifier)):
        record = lace.get(lace.put(b"x", group="u", app="a", name="n", sign=sign))
        assert isinstance(record, Seal)
        assert record.verifier == verifier
        assert validate(record.raw) == record
    assert lace.key_names() == ("lab", "main")
    assert lace.key().verifier == VERIFIER


def test_two_signatures_of_one_plex_differ(lace: Lace) -> None:
    lace.new_key()
    plex = put(lace)
    assert lace.sign(plex) != lace.sign(plex)


def test_only_a_stored_plex_can_be_signed(lace: Lace) -> None:
    lace.new_key(secret=SECRET)
    seal = lace.get(lace.sign(put(lace)))
    assert isinstance(seal, Seal)
    assert (seal.plex_hash, seal.verifier) == (PLEX_1, VERIFIER)
    for hash_text in (seal.hash, lace.put_record(build_blob(b"x"))):
        with pytest.raises(UsageError, match="only a Plex"):
            lace.sign(hash_text)
    with pytest.raises(UsageError, match="not stored"):
        lace.sign(seal.blob_hash)


def test_a_readable_key_file_stops_signing_before_anything_is_written(lace: Lace) -> None:
    lace.new_key()
    (lace.path / "keys" / "main.key").chmod(0o644)
    with pytest.raises(KeyFileError):
        lace.put(b"x", group="u", app="a", name="n", sign=True)
    assert lace.stat().high_water == 0


def test_build_makes_what_put_stores_without_storing_it(lace: Lace) -> None:
    record = lace.build(b"hello", group="u", app="ding", name="links/1", tai=AT)
    assert record.hash == PLEX_1
    assert not lace.have(PLEX_1)
    assert lace.put_record(record) == PLEX_1
    assert lace.have(PLEX_1)


def test_a_removed_record_stays_out_until_lifted(lace: Lace) -> None:
    put(lace)
    assert lace.remove(PLEX_1, reason="by mistake")
    assert lace.get(PLEX_1) is None
    assert list(lace.facts.enumerate("Have")) == []
    with pytest.raises(RefusedRecord, match="by mistake"):
        put(lace)
    assert [(refusal.hash, refusal.reason) for refusal in lace.refusals()] == [(PLEX_1, "by mistake")]
    assert lace.lift(f"////{PLEX_1}")
    assert not lace.lift(PLEX_1)
    assert put(lace) == PLEX_1
    assert lace.stat().high_water == 2, "an id is never used again"


# ---- reading ------------------------------------------------------------------------------------------------------


def test_the_ways_to_name_a_record(lace: Lace) -> None:
    put(lace)
    hash_text = ids.HashText(PLEX_1)
    place = Coordinate(group="u", app="ding", name="links/1")
    for what in (PLEX_1, f"////{PLEX_1}", Address(hash=hash_text), "//u//ding//links/1", place):
        record = lace.get(what)
        assert record is not None
        assert record.hash == PLEX_1
    for absent in (PLEX_1.replace("P.", "S."), "//u//ding//links/2"):
        assert lace.get(absent) is None
    for nonsense in ("", "links/1", "//u//ding//", "P.x.H3"):
        with pytest.raises(UsageError):
            lace.get(nonsense)


def test_the_tip_is_the_highest_tai_and_then_the_highest_hash(lace: Lace) -> None:
    place = Coordinate(group="u", app="ding", name="links/1")
    assert lace.tip(place) is None
    put(lace, b"old", tai="1640995200:000000000")
    rivals = [put(lace, data, tai="1640995300:000000000") for data in (b"a", b"b", b"c")]
    put(lace, b"older", tai="1640995100:000000000")
    tip = lace.tip(place)
    assert tip is not None
    assert tip.hash == max(rivals)
    assert [listed.hash for listed in lace.list(place)][:3] == sorted(rivals, reverse=True)


def test_listing_places(lace: Lace) -> None:
    for name in ("links/1", "links/2", "other"):
        put(lace, name=name)
        put(lace, b"newer", name=name, tai="1640995201:000000000")
    assert [listed.name for listed in lace.list("//u//ding//links/")] == ["links/1", "links/1", "links/2", "links/2"]
    assert [listed.name for listed in lace.list(Prefix(group="u"), tips=True)] == ["links/1", "links/2", "other"]
    assert len(list(lace.list("//u//", limit=4))) == 4
    with pytest.raises(UsageError, match="one record"):
        lace.list(f"////{PLEX_1}")


def test_bytes_that_changed_on_disk_are_never_returned(tmp_path: Path) -> None:
    path = tmp_path / "x.lace"
    with Lace.create(path) as lace:
        put(lace, b"untouched content")
        lace.compact()
    database = path / "records.db"
    content = bytearray(database.read_bytes())
    content[content.index(b"untouched")] ^= 1
    database.write_bytes(content)
    with Lace.open(path) as lace:
        with pytest.raises(IntegrityError, match="fsck"):
            lace.get("//u//ding//links/1")
        assert list(lace.check()) != []


def test_facts_and_snapshots(lace: Lace) -> None:
    put(lace)
    with lace.snapshot() as moment:
        put(lace, b"later")
        assert len(list(lace.facts.enumerate("Have"))) == 2
        assert list(moment.facts.enumerate("Have")) == [(PLEX_1,)]
    assert list(lace.facts.match("Field", (PLEX_1, "Name", None, None))) == [(PLEX_1, "Name", "0", "links/1")]


# ---- in and out ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["bundle", "jsonl"])
def test_what_is_exported_can_be_imported_elsewhere(lace: Lace, tmp_path: Path, form: "bobbin.Form") -> None:
    lace.new_key()
    names = [lace.put(b"%d" % i, group="u", app="a", name=f"n/{i}", tai=i, sign=i % 2 == 0) for i in range(20)]
    names.append(lace.put_record(build_blob(b"\x00\xff")))
    stream = io.BytesIO()
    exported = lace.export(stream, form=form)
    assert (exported.records, exported.bytes) == (21, len(stream.getvalue()))
    with Lace.create(tmp_path / "y.lace") as other:
        done = other.import_(io.BytesIO(stream.getvalue()), source="test")
        assert (done.read, done.stored, done.rejected) == (21, 21, 0)
        assert [stored.hash for stored in other.store.scan()] == names
        assert list(other.check()) == []


def test_an_export_can_be_of_a_place(lace: Lace) -> None:
    put(lace)
    put(lace, name="other")
    stream = io.BytesIO()
    assert lace.export(stream, at="//u//ding//links/").records == 1
    record = lace.get(PLEX_1)
    assert record is not None
    assert stream.getvalue() == record.raw


def test_an_import_reports_what_it_did_not_take(lace: Lace) -> None:
    good = build_plex(group="u", app="a", name="n", tai_ns=1, data=b"x")
    problems: list[Problem] = []
    lace.remove(good.hash, reason="unwanted")
    lace.import_(io.BytesIO(build_blob(b"y").raw + good.raw + b"rest"), source="here", report=problems.append)
    assert [(problem.outcome, problem.offset, problem.hash) for problem in problems] == [
        ("rejected", len(build_blob(b"y").raw) + len(good.raw), None),
        ("refused", None, good.hash),
    ]
    assert [row.source for row in lace.quarantined()] == ["here"]
    (row,) = lace.quarantined()
    assert lace.release(row.id)
    assert list(lace.quarantined()) == []


def test_a_backup_is_a_lace_of_one_moment(lace: Lace, tmp_path: Path) -> None:
    key = lace.new_key()
    put(lace)
    lace.backup(tmp_path / "plain")
    lace.backup(tmp_path / "full", with_keys=True)
    put(lace, b"later")
    with Lace.open(tmp_path / "plain") as copy:
        assert copy.key_names() == ()
        assert [stored.hash for stored in copy.store.scan()] == [PLEX_1]
        assert copy.settings == lace.settings
    with Lace.open(tmp_path / "full") as copy:
        assert copy.key().verifier == key.verifier
        assert copy.put(b"x", group="u", app="a", name="n", sign=True).startswith("S.")
    with pytest.raises(UsageError, match="not empty"):
        lace.backup(tmp_path / "full")


def test_a_backup_with_an_unreadable_key_leaves_nothing_behind(lace: Lace, tmp_path: Path) -> None:
    lace.new_key()
    (lace.path / "keys" / "main.key").chmod(0o644)
    with pytest.raises(KeyFileError):
        lace.backup(tmp_path / "full", with_keys=True)
    assert not (tmp_path / "full").exists()


# ---- the package --------------------------------------------------------------------------------------------------


def test_every_public_name_can_be_had_from_the_package() -> None:
    for name in bobbin.__all__:
        assert getattr(bobbin, name) is not None
        assert name in dir(bobbin)
    assert bobbin.Blob is Blob
    with pytest.raises(AttributeError, match="nonsense"):
        bobbin.nonsense  # noqa: B018


def test_importing_the_package_loads_nothing_heavy() -> None:
    program = "import sys, bobbin; print(sorted({'apsw', 'coincurve', 'blake3', 'typer', 'rich'} & set(sys.modules)))"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout == "[]\n"


def test_a_newer_lace_asks_for_a_newer_bobbin(tmp_path: Path) -> None:
    Lace.create(tmp_path / "x.lace").close()
    settings = tmp_path / "x.lace" / "lace.toml"
    settings.write_text(settings.read_text().replace("format = 1", "format = 99"))
    with pytest.raises(ResourceError, match="newer"):
        Lace.open(tmp_path / "x.lace")


def test_of_two_creations_at_once_one_completes_the_lace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.lace"
    with monkeypatch.context() as patched:
        # The other one completes just before this one looks at the time, as a last step before its settings.
        def other_first() -> int:
            patched.undo()
            with Lace.create(path, default_key="first") as other:
                put(other)
            return 1640995200 * 10**9

        patched.setattr("bobbin.lace.tai_now", other_first)
        with pytest.raises(UsageError, match="already"):
            Lace.create(path, default_key="second")
    with Lace.open(path) as lace:
        assert lace.settings.default_key == "first"
        assert lace.have(PLEX_1)


# ---- exchange -------------------------------------------------------------------------------------------------------


EVERYTHING = "SelectHave(P) :- Have(P).\nSelectAdvertised(P,S) :- Advertised(P,S).\n"


def test_a_lace_takes_part_in_an_exchange_with_its_default_key(lace: Lace) -> None:
    without = lace.participant(EVERYTHING)
    assert (without.key, without.name) == (None, f"lace {lace.settings.created}")
    lace.new_key("other")
    assert lace.participant(EVERYTHING).key is None, "another key is not the default one"
    key = lace.new_key()
    again = lace.participant(EVERYTHING)
    assert again.key is not None
    assert again.key.verifier == key.verifier
    assert again.decisions is without.decisions, "what was decided is kept for the next exchange"


def test_decisions_are_kept_by_query_policy_and_not_for_ever(lace: Lace) -> None:
    queries = [f"Queryable(P,O) :- Have(P), Viewer(O), Field(P,'App',_,'{number}').\n" for number in range(5)]
    kept = [lace.participant(EVERYTHING, query).decisions for query in queries]
    assert len(set(map(id, kept))) == 5
    assert lace.participant(EVERYTHING, queries[4]).decisions is kept[4]
    assert lace.participant(EVERYTHING, queries[0]).decisions is not kept[0]


def test_a_copy_is_of_one_moment_and_goes_away(lace: Lace) -> None:
    put(lace)
    lace.new_key()
    with lace.copied() as copy:
        assert copy.have(PLEX_1)
        assert copy.key_names() == ()
        copy.remove(PLEX_1, reason="in the copy")
        folder = copy.path
    assert lace.have(PLEX_1)
    assert not folder.exists()


# ---- peers elsewhere ------------------------------------------------------------------------------------------------


def test_a_peer_elsewhere_is_an_address_or_a_known_name(lace: Lace) -> None:
    assert lace.connect("tcp:127.0.0.1:4790", EVERYTHING) is not None
    assert lace.connect(parse_address("stdio"), EVERYTHING) is not None
    with pytest.raises(UsageError, match="nobody here is called 'lab'"):
        lace.connect("lab", EVERYTHING)
    with pytest.raises(UsageError, match="not an address"):
        lace.connect("ftp:lab", EVERYTHING)
    with pytest.raises(UsageError, match="a peer is an open lace, an address"):
        lace.connect(object(), EVERYTHING)  # type: ignore[arg-type]


def test_what_is_noted_of_a_peer_holds_where_the_caller_says_nothing(lace: Lace) -> None:
    (lace.path / "lab.policy").write_text(EVERYTHING)
    verifier = lace.new_key().verifier
    (lace.path / "peers.toml").write_text(
        f'[[peer]]\nname = "lab"\nverifier = "{verifier}"\naddress = "unix:/nowhere"\npolicy = "lab.policy"\n'
        f'[[peer]]\nname = "shy"\nverifier = "{SigningKey.from_secret(bytes(31) + b"1").verifier}"\n'
    )
    (lace.path / "peers.toml").chmod(0o600)
    with pytest.raises(UsageError, match="there is no address for 'shy'"):
        lace.connect("shy", EVERYTHING)
    other = SigningKey.from_secret(bytes(31) + b"2").verifier
    for peer in ("lab", "unix:/nowhere"):
        with pytest.raises(UsageError, match=f"lab is known by another key, {verifier}"):
            lace.connect(peer, verifier=other)
    with pytest.raises(UsageError, match="no verifier"):
        lace.connect("tcp:127.0.0.1", verifier="V.x")
    # With the policy that is noted it gets as far as dialling; without one it does not.
    for peer in ("lab", "unix:/nowhere"):
        with pytest.raises(ResourceError):
            lace.sync(peer)
    with pytest.raises(UsageError, match="given none"):
        lace.sync("unix:/elsewhere")


@pytest.mark.parametrize("spelled", ["tls:lab.example:4791", "tls:LAB.example"])
def test_what_is_noted_of_a_peer_holds_for_its_address_however_it_is_spelled(lace: Lace, spelled: str) -> None:
    noted, other = (SigningKey.from_secret(bytes(31) + last).verifier for last in (b"1", b"2"))
    peers = lace.path / "peers.toml"
    peers.write_text(f'[[peer]]\nname = "lab"\nverifier = "{noted}"\naddress = "tls:lab.example"\n')
    peers.chmod(0o600)
    with pytest.raises(UsageError, match="lab is known by another key"):
        lace.connect(spelled, EVERYTHING, verifier=other)
    assert lace.connect(spelled, EVERYTHING, verifier=noted) is not None


# ---- tangles --------------------------------------------------------------------------------------------------------


def test_of_many_records_in_the_place_of_a_message_only_some_are_read(
    lace: Lace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bobbin.runtime.tangle_records.PLACE_RECORDS_MAX", 4)
    name = f"post/{'8' * 43}"
    for number in range(6):
        lace.put(b"%d" % number, group="account", app="pzp", name=name, tai=AT)
    load, read = lace._load, list[str]()

    def counted(hash: ids.HashText) -> Record | None:
        read.append(hash)
        return load(hash)

    monkeypatch.setattr(lace, "_load", counted)
    assert lace.tip(Coordinate(group="account", app="pzp", name=name)) is None
    assert len(read) == 4


def test_tangles_are_kept_beside_the_records(tmp_path: Path) -> None:
    with Lace.create(tmp_path / "x.lace") as lace:
        key = lace.account_keys.create("alice")
        account = lace.tangles.new_account(key)
        assert lace.tangles is lace.tangles
        feed = lace.tangles.feed(key, "post")
        post = lace.tangles.post(key, {"text": "hello"}, tangles=[feed])
        record = lace.get(f"//{account.id}//pzp//post/{post.id}")
        assert record is not None
        assert record.data.startswith(b'{"data":{"text":"hello"}')
        lace.backup(tmp_path / "y.lace", with_keys=True)
    with Lace.open(tmp_path / "y.lace") as copy:
        assert copy.account_keys.load("alice").public == key.public
        assert copy.tangles.proven(feed).topological() == [feed, post.id]


def test_a_message_that_was_exchanged_as_a_record_becomes_a_message(tmp_path: Path) -> None:
    policy = (
        "SelectHave(P) :- Have(P), Field(P,'App',_,'pzp'), Field(P,'Pzp-Domain',_,D).\n"
        "SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'App',_,'pzp').\n"
    )
    with Lace.create(tmp_path / "x.lace") as lace, Lace.create(tmp_path / "y.lace") as other:
        key = lace.account_keys.create("alice")
        lace.tangles.new_account(key)
        feed = lace.tangles.feed(key, "post")
        posts = [lace.tangles.post(key, {"text": f"{number}"}, tangles=[feed]).id for number in range(3)]
        lace.sync(other, policy)
        assert set(other.tangles.refresh()) >= {feed, *posts}
        assert other.tangles.proven(feed).topological() == [feed, *posts]
        assert list(other.check()) == []
