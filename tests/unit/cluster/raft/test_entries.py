import msgspec
import pytest

from bobbin.cluster.names import Index
from bobbin.cluster.raft.entries import Configuration, SnapshotMetadata
from tests.support.raft_cluster import entry, metadata_of, names


def test_everybody_who_gets_entries_is_a_member_once_and_in_order() -> None:
    joint = Configuration(names("cde"), names("x"), names("abc"))
    assert joint.members == names("abcdex")
    assert joint.is_joint
    assert not Configuration(names("abc")).is_joint


@pytest.mark.parametrize("payload", [b"command", None, Configuration(names("ab"), names("c"), names("d"))])
def test_an_entry_is_a_value(payload: bytes | Configuration | None) -> None:
    assert entry(2, 5, payload) == entry(2, 5, payload)
    with pytest.raises(AttributeError):
        entry(2, 5, payload).index = Index(6)  # type: ignore[misc]


def test_what_a_snapshot_is_survives_a_round_trip() -> None:
    metadata = msgspec.structs.replace(
        metadata_of(b"state", index=7, term=3, configuration=Configuration(names("abc"), names("d")), epoch=4),
        codebook=b"codes",
        created_s=1_700_000_000,
    )
    again = msgspec.msgpack.decode(msgspec.msgpack.encode(metadata), type=SnapshotMetadata)
    assert again == metadata
    assert set(SnapshotMetadata.__struct_fields__) == {
        "last_index",
        "last_term",
        "sha256",
        "size",
        "configuration",
        "created_s",
        "epoch",
        "codebook",
    }
