"""Small forms of ``bobbin chain``."""

from pathlib import Path

import pytest

from bobbin.cli.chain_asking import ask, head, pair, shown, transaction_id
from bobbin.cli.output import Output, flush
from bobbin.errors import UsageError
from bobbin.runtime.tensor_chain import TensorChain


def test_pairs_are_cut_at_the_first_equals_sign() -> None:
    assert pair("a=b=c", "--put") == (b"a", b"b=c")
    assert pair("a=", "--put") == (b"a", b"")
    for wrong in ("a", "=b", ""):
        with pytest.raises(UsageError, match="--put takes KEY=VALUE"):
            pair(wrong, "--put")


def test_ids_have_32_digits() -> None:
    assert transaction_id("0F" * 16) == b"\x0f" * 16
    for wrong in ("", "0f" * 15, "zz" * 16):
        with pytest.raises(UsageError, match="32 hexadecimal digits"):
            transaction_id(wrong)


def test_bytes_are_shown_as_text_where_they_are() -> None:
    assert shown("grün".encode()) == "grün"
    assert shown(b"\xff\x00") == "0xff00"
    assert shown(b"a\x1b[2J") == "0x611b5b324a", "nothing that a terminal would obey"


def test_columns_are_named_for_people_alone(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    for as_json in (False, True):
        head(Output(as_json=as_json), "shard  height  ")
    flush()
    assert capfdbinary.readouterr().out == b"shard  height\n"


def test_a_folder_without_shards_is_named(tmp_path: Path) -> None:
    async def nothing(chain: TensorChain, _: object) -> None:
        raise AssertionError(chain)

    with pytest.raises(UsageError, match="no set of shards"):
        ask(tmp_path, nothing)
