import pytest

from bobbin.cluster.chain.errors import SnapshotTooOld
from bobbin.cluster.chain.holdings import Held, Holds
from bobbin.cluster.chain.versions import Version, Versions, held_by, written
from bobbin.errors import IntegrityError


def _bytes(value: bytes) -> Held:
    return Held(Holds.BYTES, value)


def _put(versions: Versions, height: int, **values: bytes | None) -> None:
    changes = {}
    for name, value in values.items():
        key = name.encode()
        held = None if value is None else _bytes(value)
        changes[key] = written(versions.newest(key), height, held, 0)
    versions.put(height, changes)


def _at(versions: Versions, key: bytes, height: int) -> bytes | None:
    held = held_by(versions.at(key, height))
    return None if held is None else held.value


def test_every_height_reads_as_it_was() -> None:
    versions = Versions()
    _put(versions, 1, a=b"1")
    _put(versions, 2, b=b"2")
    _put(versions, 4, a=b"4")
    _put(versions, 5, a=None)
    _put(versions, 7, a=b"7")
    assert [_at(versions, b"a", height) for height in range(9)] == [
        None,
        b"1",
        b"1",
        b"1",
        b"4",
        None,
        None,
        b"7",
        b"7",
    ]
    assert [_at(versions, b"b", height) for height in range(3)] == [None, None, b"2"]
    assert _at(versions, b"never", 8) is None


def test_what_the_floor_has_reached_is_forgotten() -> None:
    versions = Versions(keep_heights=3)
    _put(versions, 1, a=b"1", gone=b"1")
    _put(versions, 2, a=b"2", gone=None)
    _put(versions, 4, a=b"4")
    assert versions.floor == 1
    assert _at(versions, b"a", 1) == b"1"
    _put(versions, 5, b=b"5")
    assert versions.floor == 2
    with pytest.raises(SnapshotTooOld):
        versions.at(b"a", 1)
    assert _at(versions, b"a", 2) == b"2"
    assert versions.newest(b"gone") is None
    assert dict(versions.entries())[b"a"] == (Version(2, Holds.BYTES, b"2", 0, 2), Version(4, Holds.BYTES, b"4", 0, 4))
    _put(versions, 7, b=b"7")
    assert len(dict(versions.entries())[b"a"]) == 1
    assert len(versions) == 2


def test_a_key_that_comes_back_is_not_forgotten_with_its_end() -> None:
    versions = Versions(keep_heights=3)
    _put(versions, 1, a=b"1")
    _put(versions, 2, a=None)
    _put(versions, 3, a=b"3")
    for height in range(4, 9):
        _put(versions, height, other=b"x")
    assert _at(versions, b"a", 8) == b"3"
    assert [height for height, _, _ in versions._expiring] == [6, 7, 8]


def test_superseded_bytes_raise_the_floor() -> None:
    """Whole heights go, so that what is left is the same in whichever order keys were written."""
    versions = Versions(keep_bytes=3_000)
    for height in range(1, 11):
        _put(versions, height, a=bytes(400), b=bytes(400))
    kept = sum(len(entry) - 1 for _, entry in versions.entries())
    assert (versions.floor, kept) == (8, 4)
    assert _at(versions, b"a", 8) == bytes(400)


def test_runs_of_one_commutative_kind_are_known_by_where_they_began() -> None:
    first = written(None, 3, _bytes(b"1"), 12)
    assert (first.by, first.base) == (12, 0)
    second = written(first, 5, _bytes(b"2"), 12)
    assert (second.by, second.base) == (12, 0)
    other = written(second, 7, _bytes(b"3"), 0)
    assert (other.by, other.base) == (0, 7)
    assert written(other, 7, _bytes(b"4"), 12).base == 7
    again = written(other, 8, _bytes(b"4"), 12)
    assert (again.by, again.base) == (12, 7)
    another_kind = written(again, 9, _bytes(b"5"), 13)
    assert (another_kind.by, another_kind.base) == (13, 8)
    gone = written(another_kind, 11, None, 0)
    assert gone == Version(11, Holds.NOTHING, b"", 0, 11)
    assert written(gone, 12, _bytes(b"6"), 12).base == 11


def test_what_a_run_rests_on_is_forgotten_with_the_rest() -> None:
    """One node has worked the version out before the end of the key was forgotten, another one after."""
    early, late = Versions(keep_heights=2), Versions(keep_heights=2)
    for versions in (early, late):
        _put(versions, 1, k=b"1")
        _put(versions, 2, k=None)
    drafted = written(early.newest(b"k"), 6, _bytes(b"m"), 13)
    for versions in (early, late):
        for height in range(3, 6):
            _put(versions, height, other=b"")
    early.put(6, {b"k": drafted})
    late.put(6, {b"k": written(late.newest(b"k"), 6, _bytes(b"m"), 13)})
    assert drafted.base == 2
    assert sorted(early.entries()) == sorted(late.entries())
    assert early.newest(b"k") == Version(6, Holds.BYTES, b"m", 13, 0)


def test_restored_versions_are_and_forget_the_same() -> None:
    versions = Versions(keep_heights=4, keep_bytes=5_000)
    for height in range(1, 30):
        value = None if height % 5 == 0 else bytes(height * 20)
        _put(versions, height, **{f"k{height % 3}": value, "hot": b"%d" % height})
        entries = sorted(versions.entries())
        copy = Versions.restored(entries, height=height, floor=versions.floor, keep_heights=4, keep_bytes=5_000)
        assert sorted(copy.entries()) == entries
        assert sorted(copy._expiring) == sorted(versions._expiring)
        assert copy._expiring_bytes == versions._expiring_bytes
        versions = copy


_GOOD = Version(2, Holds.BYTES, b"", 0, 2)


@pytest.mark.parametrize(
    "entries",
    [
        [(b"", (_GOOD,))],
        [(b"k", ())],
        [(b"k", (_GOOD, _GOOD))],
        [(b"k", (_GOOD,)), (b"k", (_GOOD,))],
        [(b"k", (Version(10, Holds.BYTES, b"", 0, 1),))],
        [(b"k", (Version(0, Holds.BYTES, b"", 0, 0),))],
        [(b"k", (Version(5, Holds.BYTES, b"", 0, 6),))],
        [(b"k", (Version(2, Holds.NOTHING, b"", 0, 2),))],
        [(b"k", (Version(1, Holds.BYTES, b"", 0, 1), _GOOD))],
    ],
)
def test_what_no_store_can_have_been_is_refused(entries: list[tuple[bytes, tuple[Version, ...]]]) -> None:
    with pytest.raises(IntegrityError):
        Versions.restored(entries, height=9, floor=2)
