import msgspec
import pytest

from bobbin.reactive import signaling_frames
from bobbin.reactive.messages import PeerId
from bobbin.reactive.signaling_frames import Code, Join, Offer


def test_the_codes_are_a_closed_set() -> None:
    """RX-148."""
    assert {code.value for code in Code} == {
        "bad_message",
        "not_joined",
        "already_joined",
        "duplicate_peer",
        "unknown_target",
        "permission_denied",
    }


def test_no_frame_has_room_for_both_ends() -> None:
    """RX-094: what a client says cannot hold a sender, and what the room says holds no target."""
    structs = [one for one in vars(signaling_frames).values() if isinstance(one, type) and one is not msgspec.Struct]
    fields = {one.__name__: set(getattr(one, "__struct_fields__", ())) for one in structs}
    assert all(not {"to", "sender"} <= names for names in fields.values())
    assert {name for name, names in fields.items() if "to" in names} == {"Offer", "Answer", "Ice", "Relay"}


def test_frames_do_not_change() -> None:
    offer = Offer(to=PeerId(2), sdp="v=0\r\n")
    with pytest.raises(AttributeError):
        offer.sdp = "other"  # type: ignore[misc]
    assert Join(peer=PeerId(1)).capabilities is None
