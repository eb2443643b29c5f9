"""Messages: their names, their texts, and what is refused before any tangle is asked."""

import json
from typing import Any

import pytest

from bobbin.tangles import canonical, message
from bobbin.tangles.canonical import Json
from bobbin.tangles.errors import InvalidMessage, Rule
from bobbin.tangles.message import Place, decode, from_json, is_message_id, moot_id, safe_integer
from tests.support.tangle_messages import Author
from tests.vectors.load import load

WRITERS = ["alice", "bob", "carol"]
ALICE = Author("alice")
MOOT, FIRST = ALICE.feed(1)


def javascript(value: object) -> bytes:
    """A value of a vector file as JavaScript would send it."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


@pytest.mark.parametrize("writer", WRITERS)
def test_messages_of_a_real_peer(writer: str) -> None:
    entries = load(f"pzp/msgs/msgs-{writer}.json")["msgs"]
    assert len(entries) == 20
    for entry in entries:
        raw = javascript(entry["msg"])
        made = decode(raw)
        assert made.id == entry["id"], entry["kind"]
        assert made.raw == raw
        assert canonical.canonical(made.metadata).decode() == entry["metadata_canonical"]
        assert made.data == entry["msg"]["data"]
        assert made.has_data == (entry["msg"]["data"] is not None)
        assert made.is_moot == (entry["kind"] == "moot")
        assert made.is_root == (entry["msg"]["metadata"]["tangles"] == {})
        assert made.is_account == entry["kind"].startswith("account")
        if made.has_data:
            assert message.data_hash_and_size(made.data) == (made.data_hash, made.data_size)


def test_ids_of_feeds_follow_from_account_and_domain() -> None:
    for case in load("pzp/msgs/moot-ids.json")["cases"]:
        assert moot_id(case["account"], case["domain"]) == case["mootID"]
    bob = Author("bob")
    moot = ALICE.moot("about")
    other = bob._signed(None, message.moot_metadata(ALICE.account.id, "about"))
    assert moot.id == other.id == moot_id(ALICE.account.id, "about")
    assert moot.sig != other.sig


def test_an_erased_copy_keeps_its_id_and_the_order_of_its_keys() -> None:
    erased = FIRST.erased()
    assert (erased.id, erased.has_data, erased.data) == (FIRST.id, False, None)
    assert erased.raw == FIRST.raw.replace(b'{"text":"post 0"}', b"null")
    assert erased.erased() is erased
    assert decode(erased.raw) == erased
    assert erased.filled(FIRST.data) == FIRST


def test_two_signatures_of_one_metadata_share_an_id() -> None:
    value = json.loads(FIRST.raw)
    value["sig"] = ALICE.key.sign(b"something else")
    assert from_json(value).id == FIRST.id


def test_places_and_depths() -> None:
    moot, first, second = ALICE.feed(2, "places")
    assert second.places == {moot.id: Place(2, (first.id,))}
    assert (moot.depth_in(moot.id), first.depth_in(moot.id), second.depth_in(moot.id)) == (0, 1, 2)
    assert second.depth_in(first.id) is None
    assert second.depth_in(second.id) == 0


def test_a_message_in_two_tangles_has_a_depth_in_each() -> None:
    moot, *_ = ALICE.feed(3, "two")
    thread = ALICE.root({"text": "thread"})
    both = ALICE.post([moot.id, thread.id], {"text": "both"}, "two")
    assert (both.depth_in(moot.id), both.depth_in(thread.id)) == (4, 1)


def changed(path: str, value: Json) -> dict[str, Any]:
    """A valid message as JSON with one part replaced."""
    whole: dict[str, Any] = json.loads(FIRST.raw)
    part = whole
    *folders, last = path.split(".")
    for folder in folders:
        part = part[folder]
    part[last] = value
    return whole


def without(path: str) -> dict[str, Any]:
    """The same with one part removed."""
    whole = changed(path, None)
    part = whole
    *folders, last = path.split(".")
    for folder in folders:
        part = part[folder]
    del part[last]
    return whole


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        (None, Rule.SHAPE),
        ([], Rule.SHAPE),
        ("text", Rule.SHAPE),
        (without("data"), Rule.SHAPE),
        (without("metadata"), Rule.SHAPE),
        (changed("metadata", []), Rule.SHAPE),
        *[
            (without(f"metadata.{key}"), Rule.SHAPE)
            for key in ("dataHash", "dataSize", "account", "accountTips", "tangles", "domain")
        ],
        (without("metadata.v"), Rule.VERSION),
        (changed("metadata.v", 3), Rule.VERSION),
        (changed("metadata.v", "4"), Rule.VERSION),
        (without("sig"), Rule.SHAPE),
        (changed("sig", 7), Rule.SHAPE),
        (without("sigkey"), Rule.SIGKEY_FORMAT),
        (changed("sigkey", "0OIl"), Rule.SIGKEY_FORMAT),
        (changed("sigkey", ALICE.key.public[:-1]), Rule.SIGKEY_FORMAT),
        (changed("data", []), Rule.DATA_TYPE),
        (changed("data", 7), Rule.DATA_TYPE),
        (changed("data", 1.5), Rule.DATA_TYPE),
    ],
)
def test_what_has_no_shape_is_refused(value: Json, rule: Rule) -> None:
    with pytest.raises(InvalidMessage) as caught:
        from_json(value)
    assert caught.value.rule is rule


def test_the_first_of_two_faults_is_named() -> None:
    for value, rule in [
        (changed("metadata.v", 3) | {"sig": 7}, Rule.VERSION),
        (changed("sig", 7) | {"sigkey": "0"}, Rule.SHAPE),
        (changed("sigkey", "0") | {"data": 7}, Rule.SIGKEY_FORMAT),
    ]:
        with pytest.raises(InvalidMessage) as caught:
            from_json(value)
        assert caught.value.rule is rule


def test_a_version_is_a_number_however_it_is_written() -> None:
    assert decode(FIRST.raw.replace(b'"v":4', b'"v":4.0')) == FIRST


def test_what_is_no_text_or_too_long_is_refused() -> None:
    for raw, rule in [
        (b"\xff", Rule.TEXT),
        (b"{", Rule.TEXT),
        (b'{"a":"\\ud800"}', Rule.TEXT),
        (b" " * (message.MESSAGE_BYTES_MAX + 1), Rule.TOO_LARGE),
    ]:
        with pytest.raises(InvalidMessage) as caught:
            decode(raw)
        assert caught.value.rule is rule
    deep: Json = {}
    for _ in range(canonical.NESTING_MAX):
        deep = {"a": deep}
    with pytest.raises(InvalidMessage) as caught:
        from_json(changed("data", deep))
    assert caught.value.rule is Rule.TEXT


def test_fields_of_a_wrong_type_are_read_as_absent() -> None:
    tangles: dict[str, Json] = {
        "a": None,
        "b": {"depth": 1, "prev": "x"},
        "c": {"depth": 0, "prev": []},
        "d": {"depth": 1.5, "prev": []},
        "e": {"depth": 1, "prev": [7]},
        "f": {"depth": 2.0, "prev": []},
    }
    metadata: dict[str, Json] = {"dataHash": 1, "dataSize": "x", "account": 7, "accountTips": "tips", "domain": None}
    made = from_json(changed("metadata", {**metadata, "tangles": tangles, "v": 4}))
    assert (made.account, made.account_tips, made.domain, made.data_hash, made.data_size) == ("", None, "", None, 0)
    assert made.places == {"f": Place(2, ())}
    assert not made.is_root
    assert from_json(changed("metadata.tangles", 7)).is_root is False


def test_extra_keys_are_kept_where_the_id_names_them_and_nowhere_else() -> None:
    whole = changed("metadata.extra", 1)
    assert from_json(whole).id != FIRST.id
    assert b'"extra":1' in from_json(whole).raw
    assert from_json({"note": "x" * 70_000, **whole}) == from_json(whole)
    assert from_json({**whole, "note": "dropped"}).raw == from_json(whole).raw


def test_the_size_of_a_message_is_the_same_for_every_copy() -> None:
    whole = changed("metadata.extra", 1)
    size = from_json(whole).whole_size
    for text in ("", "1" * 64, "x" * 70_000, '"' * 100):
        assert from_json(whole | {"sig": text}).whole_size == size
    assert from_json(whole | {"data": None}).whole_size == size
    assert FIRST.whole_size - len(FIRST.raw) in range(4), "a key or a signature may be a little shorter"


def test_what_is_no_signature_of_a_moot_is_not_kept() -> None:
    moot = Author("alice").moot()
    value = canonical.parse(moot.raw)
    assert isinstance(value, dict)
    padded = from_json(value | {"sig": "x" * 70_000})
    assert (padded.id, padded.is_moot, padded.sig) == (moot.id, True, "1" * 64)
    assert from_json(value).sig == moot.sig


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0, 0), (2.0, 2), (-1, -1), (2**53 - 1, 2**53 - 1), (2**53, None), (1.5, None), (True, None), ("1", None)],
)
def test_safe_integers(value: Json, expected: int | None) -> None:
    assert safe_integer(value) == expected


def test_the_form_of_an_id() -> None:
    assert is_message_id(ALICE.account.id)
    assert not is_message_id(ALICE.account.id[:-2])
    assert not is_message_id("pzp:message/" + ALICE.account.id)
