"""The vector files: bytes fixed for ever."""

import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


def load(name: str) -> Any:  # noqa: ANN401 -- whatever the file holds
    """A vector file in JSON."""
    return json.loads((HERE / name).read_text(encoding="utf-8"))


def load_record(name: str) -> bytes:
    """The bytes of a record, by the name of its file."""
    return (HERE / name).read_bytes()
