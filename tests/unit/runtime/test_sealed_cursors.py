"""The root in a stored cursor counts for the very claims that it was made of."""

import pytest
from msgspec import structs

from bobbin.interlace.cursor import Cursor
from bobbin.interlace.messages import Advertisement
from bobbin.interlace.schema import Schema
from bobbin.policy.claims import ClaimedField
from bobbin.runtime import sealed_cursors
from bobbin.runtime.sealed_cursors import sealed, unsealed
from tests.policy_worlds import BOB, plex

_FIELD = ClaimedField("App", "0", "ding")
_CURSOR = Cursor(
    key="link",
    plan="E.one",
    source=BOB,
    schema=Schema(names=frozenset({"App"})),
    advertisements=(Advertisement(record=plex(1), fields=(_FIELD,)),),
    root=bytes(range(32)),
)


def test_what_was_sealed_comes_back() -> None:
    assert unsealed(sealed(_CURSOR)) == _CURSOR
    bare = structs.replace(_CURSOR, root=b"")
    assert unsealed(sealed(bare)) == sealed(bare) == bare


@pytest.mark.parametrize(
    "change",
    [
        {"advertisements": ()},
        {"advertisements": (Advertisement(record=plex(1), fields=(structs.replace(_FIELD, value="dong"),)),)},
        {"plan": "E.two"},
        {"source": "source:1"},
        {"root": bytes(64)},
        {"root": bytes(range(32))},
        {"root": b"short"},
    ],
)
def test_of_anything_else_there_is_no_root(change: dict[str, object]) -> None:
    changed = structs.replace(sealed(_CURSOR), **change)
    assert unsealed(changed) == structs.replace(changed, root=b"")


def test_another_version_may_have_hashed_other_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = sealed(_CURSOR)
    monkeypatch.setattr(sealed_cursors, "version", lambda: "another")
    assert unsealed(kept).root == b""
