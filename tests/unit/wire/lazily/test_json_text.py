"""What the decoder does not notice, and that nothing right is refused for it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin.reactive.messages import Delta, NodeAdd, NodeId
from bobbin.wire.lazily import canonical_json, seed_json
from bobbin.wire.lazily.faults import Fault, FrameFault
from bobbin.wire.lazily.json_text import check_fields

COLONS = ["", ":", "a:b", "::::", ':"', '":"', "\\u003a", "\\", "-", "9" * 30, "a-b", '{"a":1,"a":2}']


@pytest.mark.parametrize("tag", COLONS)
def test_texts_with_colons_digits_and_signs_are_no_reason_to_refuse(tag: str) -> None:
    message = Delta(0, 1, (NodeAdd(NodeId(1), tag, b"\x01"),))
    for encode, decode in ((canonical_json.encode, canonical_json.decode), (seed_json.encode, seed_json.decode)):
        raw = encode(message)
        assert decode(raw) == message
        # Every character of the tag by its number.
        escaped = "".join(f"\\u{ord(character):04x}" for character in tag)
        field = f'"type_tag":{json.dumps(tag)}'.encode()
        assert field in raw
        assert decode(raw.replace(field, f'"type_tag":"{escaped}"'.encode())) == message


@pytest.mark.parametrize("tag", ["", ":", "\\u003a", "\\u003A\\u003a", "a:\\u003ab"])
def test_a_field_twice_is_noticed_whatever_the_texts_are(tag: str) -> None:
    """RX-022, RX-116: also where an escaped colon would make up for the one too many."""
    good = f'{{"op":"node_add","slot_id":1,"type_tag":"{tag}","payload":"AA=="}}'
    bad = f'{{"op":"node_add","slot_id":1,"type_tag":"{tag}","payload":"AA==","payload":"AA=="}}'
    frame = '{"type":"delta","base_epoch":0,"epoch":1,"ops":[%s]}'
    assert isinstance(seed_json.decode((frame % good).encode()), Delta)
    with pytest.raises(FrameFault, match="twice"):
        seed_json.decode((frame % bad).encode())


@given(st.lists(st.sampled_from("abc"), max_size=4))
def test_objects_have_each_field_once(names: list[str]) -> None:
    inner = "{" + ",".join(f'"{name}":[]' for name in names) + "}"
    for text in (inner, f"[1,{inner}]", f'{{"x":{inner}}}'):
        if len(set(names)) == len(names):
            check_fields(text.encode())
        else:
            with pytest.raises(FrameFault) as caught:
                check_fields(text.encode())
            assert caught.value.fault is Fault.MALFORMED
