"""What the commands of tangles share."""

from pathlib import Path

import pytest

from bobbin.cli.tangle_options import is_folder, opened, read_data
from bobbin.errors import UsageError
from bobbin.lace import Lace, NoLace
from tests.support.tangle_messages import Author
from tests.unit.runtime.tangle_stores import plex


def test_data_is_a_json_object(tmp_path: Path) -> None:
    assert read_data('{"a":[1,{"b":null}]}', None) == {"a": [1, {"b": None}]}
    file = tmp_path / "data.json"
    file.write_text('{"a":1}')
    assert read_data(None, str(file)) == {"a": 1}
    for text in ("", "{", "[]", "null", '"text"'):
        with pytest.raises(UsageError, match="JSON object"):
            read_data(text, None)
    with pytest.raises(UsageError, match="say what the message says"):
        read_data(None, None)
    with pytest.raises(UsageError, match="say what the message says"):
        read_data("{}", str(file))
    file.write_bytes(bytes(range(100, 200)))
    with pytest.raises(UsageError, match="no text in UTF-8"):
        read_data(None, str(file))
    file.write_bytes(b" " * 70_000)
    with pytest.raises(UsageError, match="at most"):
        read_data(None, str(file))


def test_a_lace_is_opened_with_its_tangles_up_to_date(tmp_path: Path) -> None:
    alice = Author("alice")
    with Lace.create(tmp_path / "x.lace") as lace:
        lace.put_record(plex(alice.account))
    with opened(tmp_path / "x.lace") as lace:
        assert lace.tangles.message(alice.account.id) is not None
    with pytest.raises(NoLace), opened(tmp_path / "y.lace"):
        pass


def test_folders_and_addresses(tmp_path: Path) -> None:
    assert is_folder(str(tmp_path))
    assert not is_folder(str(tmp_path / "nothing"))
    assert not is_folder("net:host:8008~shse:key")
