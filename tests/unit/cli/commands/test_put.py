"""``bobbin put``."""

import re
from pathlib import Path
from typing import Never

import pytest

from bobbin import Lace, profile
from bobbin.errors import ResourceError
from bobbin.records.record import Record, validate
from bobbin.runtime.cluster_client import OutcomeUnknown
from bobbin.runtime.replicated_proposing import NotTaken
from bobbin.store.base import StoreError
from bobbin.store.sqlite.store import SqliteStore
from tests.unit.cli.command_line import AT, PLACE, PLEX_1, VERIFIER, Cli


def test_plex_1_of_the_protocol_page(folder: Path, cli: Cli) -> None:
    answer = cli("put", folder, "-", *PLACE, "--tai", AT, stdin=b"hello")
    assert (answer.code, answer.text, answer.err) == (0, PLEX_1 + "\n", "")
    assert cli("get", folder, PLEX_1).out == b"hello"


def test_plex_2_of_the_protocol_page_whatever_the_order_of_its_headers(folder: Path, cli: Cli) -> None:
    link = "+Link: source B.svyLzSM7ffc91i~XDbkMnuOsdjsw_6GrXpTSckqHlpO.H3"
    answer = cli(
        "put", folder, "-", *PLACE, "--tai", AT, "--header", "X-Custom: header value", "-H", link, stdin=b"hello"
    )
    assert answer.text == "P.xKg5NakC1rz5iHE12kzRq0YrJoCM3XlMecvIZvYqKuW.H3\n"


def test_putting_again_changes_nothing_and_says_so(filled: Path, cli: Cli) -> None:
    answer = cli("put", filled, "-", *PLACE, "--tai", AT, stdin=b"hello")
    assert (answer.code, answer.text) == (0, PLEX_1 + "\n")
    assert "already" in answer.err
    assert cli("stat", filled, "--json").json["records"] == 1


def test_json(folder: Path, cli: Cli) -> None:
    first = cli("put", folder, "-", *PLACE, "--tai", AT, "--json", stdin=b"hello")
    assert first.json == {
        "hash": PLEX_1,
        "outcome": "stored",
        "coordinate": "//u//ding//links/1",
        "tai": AT,
        "utc": "2021-12-31T23:59:23Z",
        "data_length": 5,
        "signed_by": None,
    }
    again = cli("put", folder, "-", *PLACE, "--tai", AT, "--json", stdin=b"hello")
    assert again.json["outcome"] == "duplicate"
    assert again.err == ""


def test_a_signed_record_is_a_valid_seal_by_the_named_key(folder: Path, cli: Cli) -> None:
    signed = cli("put", folder, "-", *PLACE, "--sign", "--json", stdin=b"hello").json
    assert signed["signed_by"] == VERIFIER
    assert signed["hash"].startswith("S.")
    validate(cli("get", folder, signed["hash"], "--record").out, requested=signed["hash"])
    other = cli("key", "new", folder, "lab").text.strip()
    assert cli("put", folder, "-", *PLACE, "--key", "lab", "--json", stdin=b"x").json["signed_by"] == other


def test_a_file_and_now(folder: Path, cli: Cli, tmp_path: Path) -> None:
    data = bytes(range(256))
    (tmp_path / "data").write_bytes(data)
    answer = cli("put", folder, tmp_path / "data", *PLACE, "--json")
    assert cli("get", folder, answer.json["hash"]).out == data
    assert answer.json["tai"] > AT


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("--tai", "yesterday"), "TAI"),
        (("--header", "nonsense"), "header"),
        (("--header", "Group: x"), "Group"),
        (("--header", "K: a\nb"), "line feed"),
        (("--name", "../x"), "name"),
        (("--key", "nobody"), "nobody"),
        (("--key", "../x"), "key name"),
    ],
)
def test_bad_fields_are_usage_errors_and_store_nothing(
    folder: Path, cli: Cli, arguments: tuple[str, str], word: str
) -> None:
    answer = cli("put", folder, "-", *PLACE, *arguments, stdin=b"hello")
    assert (answer.code, answer.out) == (2, b"")
    assert word in answer.err
    assert cli("stat", folder, "--json").json["records"] == 0


def test_bytes_that_are_no_text_in_a_field_are_refused(folder: Path, cli: Cli) -> None:
    answer = cli("put", folder, "-", "--group", "\udcff", "--app", "a", "--name", "n", "--json", stdin=b"hello")
    assert answer.code == 2
    assert answer.error["exit_code"] == 2


def test_data_beyond_the_limit_is_refused(
    folder: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(profile, "DATA_BYTES_MAX", 10)
    (tmp_path / "data").write_bytes(b"x" * 11)
    answer = cli("put", folder, tmp_path / "data", *PLACE)
    assert answer.code == 2
    assert "at most 10 bytes" in answer.err
    assert cli("put", folder, "-", *PLACE, stdin=b"x" * 10).code == 0


def test_a_missing_file_is_the_machines_affair(folder: Path, cli: Cli, tmp_path: Path) -> None:
    answer = cli("put", folder, tmp_path / "nothing", *PLACE)
    assert answer.code == 4
    assert "nothing" in answer.err


def test_a_removed_record_is_not_put_again_until_lifted(filled: Path, cli: Cli) -> None:
    cli("remove", filled, PLEX_1, "--reason", "wrong")
    answer = cli("put", filled, "-", *PLACE, "--tai", AT, stdin=b"hello")
    assert (answer.code, answer.out) == (1, b"")
    assert "wrong" in answer.err
    error = cli("put", filled, "-", *PLACE, "--tai", AT, "--json", stdin=b"hello").error
    assert (error["error"], error["exit_code"]) == ("refused", 1)
    cli("lift", filled, PLEX_1)
    assert cli("put", filled, "-", *PLACE, "--tai", AT, stdin=b"hello").text == PLEX_1 + "\n"


def test_the_outcome_is_what_the_store_says(folder: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    # As if another process had stored it between a question and the write.
    monkeypatch.setattr(Lace, "have", lambda _self, _hash: False)
    cli("put", folder, "-", *PLACE, "--tai", AT, stdin=b"hello")
    again = cli("put", folder, "-", *PLACE, "--tai", AT, "--json", stdin=b"hello")
    assert again.json["outcome"] == "duplicate"


def test_a_time_may_be_given_in_utc(folder: Path, cli: Cli) -> None:
    assert cli("put", folder, "-", *PLACE, "--tai", "2021-12-31T23:59:23Z", stdin=b"hello").text == PLEX_1 + "\n"
    answer = cli("put", folder, "-", *PLACE, "--tai", "2021-12-31", stdin=b"hello")
    assert answer.code == 2
    assert "2021-12-31T00:00:00Z" in answer.err


@pytest.mark.parametrize("value", [PLEX_1, f"words {PLEX_1[:-4]}.H3", "words", "words P.x.H3"])
def test_a_header_that_looks_like_a_link_and_is_none_is_pointed_out(folder: Path, cli: Cli, value: str) -> None:
    answer = cli("put", folder, "-", *PLACE, "-H", f"+Link: {value}", stdin=b"x")
    assert answer.code == 0
    assert "makes no link" in answer.err
    assert cli("facts", folder, "RecordLink").lines == []
    machine = cli("put", folder, "-", *PLACE, "-H", f"Part+Link: {value}", "--json", stdin=b"x")
    assert "makes no link" in machine.error["warning"]


def test_a_well_formed_link_is_no_news(folder: Path, cli: Cli) -> None:
    answer = cli("put", folder, "-", *PLACE, "-H", f"+Link: some words {PLEX_1}", stdin=b"x")
    assert (answer.code, answer.err) == (0, "")
    assert len(cli("facts", folder, "RecordLink").lines) == 1


def test_a_record_that_may_be_stored_is_named_so_that_trying_again_stores_it_once(
    folder: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        _answer_nothing(patch)
        failed = cli("put", folder, "-", *PLACE, stdin=b"hello")
    assert (failed.code, failed.out) == (5, b"")
    told = re.search(r"the record is (\S+); try again with --tai (\S+),", failed.err)
    assert told is not None, failed.err
    name, instant = told.groups()
    again = cli("put", folder, "-", *PLACE, "--tai", instant, stdin=b"hello")
    assert (again.code, again.text) == (0, f"{name}\n")
    assert "already" in again.err


@pytest.mark.parametrize("timed", [(), ("--tai", AT)])
def test_a_signed_one_is_named_so_that_it_can_be_looked_for(
    folder: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch, timed: tuple[str, ...]
) -> None:
    """A signature is drawn anew each time, and so is the name of what is signed."""
    with monkeypatch.context() as patch:
        _answer_nothing(patch)
        failed = cli("put", folder, "-", *PLACE, "--sign", *timed, stdin=b"hello")
    assert (failed.code, failed.out) == (5, b"")
    told = re.search(r"the record is (\S+); look for it before", failed.err)
    assert told is not None, failed.err
    assert cli("get", folder, told[1]).out == b"hello"


def test_an_interrupted_one_is_named_too(folder: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    _answer_nothing(monkeypatch, KeyboardInterrupt())
    failed = cli("put", folder, "-", *PLACE, stdin=b"hello")
    assert failed.code != 0
    assert "try again with --tai" in failed.err


@pytest.mark.parametrize(
    ("error", "arguments", "code"),
    [
        (StoreError("the disk failed", retry=False), (), 4),
        (StoreError("another process holds it", retry=True), (), 5),
        (NotTaken("nobody leads"), (), 5),
        (OutcomeUnknown("time is up"), ("--tai", AT), 5),
    ],
    ids=["lasting", "held", "not taken", "timed"],
)
def test_a_record_is_not_named_where_it_is_not_stored_or_trying_again_stores_the_same_one_anyway(
    folder: Path,
    cli: Cli,
    monkeypatch: pytest.MonkeyPatch,
    error: ResourceError,
    arguments: tuple[str, ...],
    code: int,
) -> None:
    _answer_nothing(monkeypatch, error)
    failed = cli("put", folder, "-", *PLACE, *arguments, stdin=b"hello")
    assert failed.code == code
    assert "the record is" not in failed.err


def _answer_nothing(patch: pytest.MonkeyPatch, error: BaseException | None = None) -> None:
    """A store that stores, and then cannot say so."""
    put_records = SqliteStore.put_records
    failure = OutcomeUnknown("time is up") if error is None else error

    def put_and_fail(self: SqliteStore, records: list[Record]) -> Never:
        put_records(self, records)
        raise failure

    patch.setattr(SqliteStore, "put_records", put_and_fail)
