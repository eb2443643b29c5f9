"""The handshake: what two sides agree on, and the field that each failure names."""

from itertools import permutations
from typing import Any

import pytest

from bobbin.errors import PeerError
from bobbin.reactive.handshake import FRAME_BYTES_MAX, Agreed, Capabilities, Codec, Feature, HandshakeRefused, agree
from bobbin.reactive.messages import PeerId


def side(peer: int, **fields: Any) -> Capabilities:  # noqa: ANN401
    return Capabilities(**{"peer": PeerId(peer), "session": "graph", **fields})


def refused(local: Capabilities, remote: Capabilities, required: frozenset[str] = frozenset()) -> str:
    with pytest.raises(HandshakeRefused) as caught:
        agree(local, remote, required)
    assert isinstance(caught.value, PeerError)
    assert caught.value.code == "handshake"
    assert caught.value.field in str(caught.value)
    return caught.value.field


def test_two_sides_that_say_nothing_special_agree_on_the_defaults() -> None:
    """RX-070: JSON by default, no fragments, strict epochs."""
    assert agree(side(1), side(2)) == Agreed(
        local=PeerId(1),
        remote=PeerId(2),
        session="graph",
        codec=Codec.JSON,
        frame_bytes_max=FRAME_BYTES_MAX,
        fragmentation=False,
        ordered_reliable=True,
        features=frozenset(),
    )


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"protocol_id": "lazily"}, "protocol_id"),
        ({"protocol_id": "lazily-ipc2"}, "protocol_id"),
        ({"major_version": 2}, "protocol_major_version"),
        ({"major_version": 0}, "protocol_major_version"),
        ({"codec": "msgpack"}, "codec"),
        ({"codec": "bincode"}, "codec"),
        ({"frame_bytes_max": 0}, "max_frame_size"),
        ({"ordered_reliable": False}, "ordered_reliable"),
        ({"session": "other"}, "session_id"),
        ({"session": ""}, "session_id"),
    ],
)
def test_a_field_that_differs_is_named_on_both_sides(fields: dict[str, Any], name: str) -> None:
    """RX-068, RX-069, RX-070, RX-071, RX-140, RX-141, RX-142."""
    for local, remote in permutations((side(1), side(2, **fields))):
        assert refused(local, remote) == name


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"protocol_id": "other"}, "protocol_id"),
        ({"major_version": 2}, "protocol_major_version"),
        ({"codec": "bincode"}, "codec"),
        ({"frame_bytes_max": 0}, "max_frame_size"),
        ({"session": ""}, "session_id"),
    ],
)
def test_two_sides_that_are_wrong_alike_do_not_fit_either(fields: dict[str, Any], name: str) -> None:
    """RX-140, RX-141, RX-142."""
    assert refused(side(1, **fields), side(2, **fields)) == name


def test_what_both_say_differently_from_the_default_holds() -> None:
    agreed = agree(side(1, codec="msgpack", ordered_reliable=False), side(2, codec="msgpack", ordered_reliable=False))
    assert agreed.codec is Codec.MESSAGE_PACK
    assert not agreed.ordered_reliable


@pytest.mark.parametrize(("local", "remote", "smaller"), [(10, 20, 10), (20, 10, 10), (1, 2**64 - 1, 1)])
def test_the_smaller_limit_holds_on_both_sides(local: int, remote: int, smaller: int) -> None:
    """RX-140."""
    assert agree(side(1, frame_bytes_max=local), side(2, frame_bytes_max=remote)).frame_bytes_max == smaller


@pytest.mark.parametrize(("local", "remote"), [(False, False), (False, True), (True, False), (True, True)])
def test_fragments_need_both(*, local: bool, remote: bool) -> None:
    """RX-075, RX-141."""
    agreed = agree(side(1, fragmentation=local), side(2, fragmentation=remote))
    assert agreed.fragmentation is (local and remote)


def test_a_required_feature_that_the_peer_lacks_fails() -> None:
    """RX-072."""
    local = side(1, features=("shared-blob",))
    assert refused(local, side(2), frozenset({"shared-blob"})) == "features"
    assert agree(local, side(2)).features == frozenset()
    assert agree(local, side(2, features=("shared-blob",)), frozenset({"shared-blob"})).shared_blob


def test_a_required_feature_is_to_be_offered_too() -> None:
    assert refused(side(1), side(2, features=("shared-blob",)), frozenset({"shared-blob"})) == "features"


def test_a_feature_that_only_the_peer_has_is_no_obstacle() -> None:
    """RX-072."""
    agreed = agree(side(1, features=("json-base64",)), side(2, features=("json-base64", "from-the-future")))
    assert agreed.features == frozenset({"json-base64"})


@pytest.mark.parametrize(
    ("feature", "name"),
    [
        (Feature.MULTI_EPOCH, "multi_epoch"),
        (Feature.JSON_BASE64, "base64"),
        (Feature.SHARED_BLOB, "shared_blob"),
    ],
)
def test_a_mode_is_on_only_where_both_have_its_feature(feature: Feature, name: str) -> None:
    """RX-139."""
    with_it, without = (feature.value,), ()
    assert getattr(agree(side(1, features=with_it), side(2, features=with_it)), name)
    assert not getattr(agree(side(1, features=with_it), side(2, features=without)), name)
    assert not getattr(agree(side(1, features=without), side(2, features=with_it)), name)


def test_the_features_have_their_published_names() -> None:
    """RX-139."""
    assert set(Feature) >= {
        "shared-blob",
        "signaling-relay",
        "command-plane-v1",
        "json-base64",
        "protobuf-graph-boundary-v1",
    }
