"""The names of tables that depend on more than the records: on a plan, a label, a choice of fields.

Such a table is called ``<kind>/<key>``. The key is made from everything that the table depends on, so that two runs
over the same plan write the same table and two different plans never do. The manifest's properties say all of it in
clear.
"""

import re
from collections.abc import Sequence
from typing import Final

import msgspec
from blake3 import blake3

KEY: Final = re.compile(r"[0-9a-f]{16}", re.ASCII)

Part = str | int | Sequence[str] | None
"""What a key may depend on: a text, a number, several texts in their order, or nothing."""


def derived_key(**parts: Part) -> str:
    """Sixteen hex digits that stand for these parts, whatever the order they are given in."""
    plain = {name: part if isinstance(part, str | int | None) else list(part) for name, part in parts.items()}
    return blake3(msgspec.json.encode(plain, order="deterministic")).hexdigest()[:16]
