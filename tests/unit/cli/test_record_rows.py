"""One record, one line: the same whether it was listed or came."""

import json

import pytest

from bobbin.cli.output import Output
from bobbin.cli.record_rows import blob_row, placed_row, record_row
from bobbin.records.record import build_plex
from bobbin.records.tai import parse
from bobbin.store.base import Listed, StoreRecordId

_PLEX = build_plex(group="u", app="ding", name="links/1", tai_ns=parse("1640995200:000000000"), data=b"hello")
_LISTED = Listed(
    id=StoreRecordId(1),
    hash=_PLEX.hash,
    group="u",
    app="ding",
    name="links/1",
    tai=_PLEX.tai,
    verifier=None,
    data_length=5,
)


@pytest.mark.parametrize("out", [Output(as_json=False), Output(as_json=True)])
def test_a_record_in_hand_looks_like_a_listed_one(out: Output, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    placed_row(out, _LISTED)
    listed = capsysbinary.readouterr().out
    record_row(out, _PLEX)
    assert capsysbinary.readouterr().out == listed
    assert _PLEX.hash.encode() in listed


def test_the_fields_of_a_row(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    placed_row(Output(as_json=True), _LISTED)
    assert json.loads(capsysbinary.readouterr().out) == {
        "hash": _PLEX.hash,
        "group": "u",
        "app": "ding",
        "name": "links/1",
        "tai": "1640995200:000000000",
        "utc": "2021-12-31T23:59:23Z",
        "signed_by": None,
        "data_length": 5,
    }
    placed_row(Output(as_json=False), _LISTED)
    line = f"{_PLEX.hash}  2021-12-31T23:59:23Z       5 B  //u//ding//links/1\n"
    assert capsysbinary.readouterr().out.decode() == line


def test_what_has_no_place(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    blob = _PLEX.inner()
    record_row(Output(as_json=False), blob)
    shown = capsysbinary.readouterr().out.decode()
    assert shown.endswith("     5 B  (no place)\n")
    blob_row(Output(as_json=True), blob.hash, 5)
    assert json.loads(capsysbinary.readouterr().out)["group"] is None
