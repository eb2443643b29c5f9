"""Partitions: prefixes, counts and roots, against a plain recomputation."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin.errors import UsageError
from bobbin.interlace import merkle
from bobbin.interlace.messages import Partition
from bobbin.interlace.partitions import Partitions, payload
from bobbin.records import b64a


def _record(start: str, letter: str = "P", suffix: str = "H3") -> str:
    return f"{letter}.{start.ljust(43, '0')}.{suffix}"


def _digest(number: int) -> bytes:
    return number.to_bytes(32, "big")


def _expected(held: dict[str, bytes], length: int) -> tuple[Partition, ...]:
    """Every partition with prefixes of a length, by the definition."""
    parts: dict[str, list[bytes]] = {}
    for record, digest in held.items():
        parts.setdefault(record.split(".")[1][:length], []).append(digest)
    return tuple(
        Partition(prefix=prefix, count=len(digests), root=merkle.root(digests))
        for prefix, digests in sorted(parts.items())
    )


def _filled(*records: str, length: int = 2) -> Partitions:
    partitions = Partitions(length)
    for number, record in enumerate(records):
        partitions.add(record, _digest(number))
    return partitions


def test_il_183_a_payload_has_neither_letter_nor_suffix() -> None:
    """IL-183."""
    assert payload("P.tyYEj0zIBrq7IDVBPzaErPIq5p03OhpTTm14ePsSz80.H3") == "tyYEj0zIBrq7IDVBPzaErPIq5p03OhpTTm14ePsSz80"
    assert payload("B.ab.H3") == "ab"
    assert payload("S.0~.SHA256") == "0~"
    assert [part.prefix for part in _filled(_record("tyYE")).summaries()] == ["ty"]


def test_il_184_kinds_share_a_partition() -> None:
    """IL-184."""
    partitions = _filled(*(_record("ty", letter) for letter in "BPS"))
    assert partitions.summaries() == (Partition(prefix="ty", count=3, root=merkle.root(map(_digest, range(3)))),)
    assert partitions.members("ty") == [_record("ty", letter) for letter in "BPS"]


def test_kinds_share_the_finer_partitions_too() -> None:
    """IL-184, IL-187: the order of the letters is not the order of the payloads."""
    records = [_record(f"ty{place}", letter) for place, letter in zip("0A~", "SPB", strict=True)]
    partitions = _filled(*records)
    assert [(child.prefix, child.count) for child in partitions.children("ty")] == [("ty0", 1), ("tyA", 1), ("ty~", 1)]
    assert [partitions.members(f"ty{place}") for place in "0A~"] == [[record] for record in records]


def test_il_187_a_child_has_one_character_more() -> None:
    """IL-187: of the whole alphabet, in its order."""
    partitions = _filled(*(_record("ab" + character) for character in reversed(b64a.ALPHABET)), _record("ac"))
    children = partitions.children("ab")
    assert [child.prefix for child in children] == ["ab" + character for character in b64a.ALPHABET]
    assert {child.count for child in children} == {1}
    assert children[0].root == merkle.leaf(_digest(63))
    assert [child.prefix for child in partitions.children("ab0")] == ["ab00"]


def test_ilc_110_only_partitions_that_hold_something_are_summarised() -> None:
    """ILC-110: an absent one has count 0 and the empty root."""
    partitions = _filled(_record("ab"), _record("cd"))
    partitions.discard(_record("ab"))
    assert [part.prefix for part in partitions.summaries()] == ["cd"]
    for prefix in ("ab", "ab0", "zz", "cd~"):
        assert partitions.summary(prefix) == Partition(prefix=prefix, count=0, root=merkle.EMPTY)
        assert partitions.children(prefix) == ()
        assert partitions.members(prefix) == []


def test_il_188_insertion_order_does_not_matter() -> None:
    """IL-188."""
    one, another = Partitions(2), Partitions(2)
    for number in range(20):
        one.add(_record(f"ab{number:02d}"), _digest(number))
        another.add(_record(f"ab{19 - number:02d}"), _digest(19 - number))
    assert one.summaries() == another.summaries()


def test_an_empty_set() -> None:
    partitions = Partitions(2)
    partitions.check()
    assert (len(partitions), partitions.summaries(), list(partitions.records())) == (0, (), [])
    assert _record("ab") not in partitions
    assert partitions.digest(_record("ab")) is None


def test_records_are_found_and_replaced() -> None:
    partitions = _filled(_record("ab"))
    partitions.add(_record("ab"), _digest(9))
    assert (len(partitions), partitions.digest(_record("ab"))) == (1, _digest(9))
    assert _record("ab") in partitions
    assert partitions.summary("ab").root == merkle.leaf(_digest(9))
    partitions.discard(_record("ab", "B"))
    assert list(partitions.records()) == [_record("ab")]


def test_members_go_by_the_text_of_the_record() -> None:
    records = [_record("ab1", "S"), _record("ab2", "B"), _record("ab0", "P")]
    assert _filled(*records, _record("aa")).members("ab") == sorted(records)


def test_a_root_is_computed_again_only_where_something_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    partitions = _filled(*(_record(f"{number:02d}") for number in range(50)))
    partitions.summaries()
    computed: list[int] = []
    whole = merkle.root

    def counted(digests: list[bytes]) -> bytes:
        computed.append(len(digests))
        return whole(digests)

    monkeypatch.setattr(merkle, "root", counted)
    assert partitions.summaries() is partitions.summaries()
    partitions.add(_record("07x"), _digest(99))
    assert partitions.summaries()[7].count == 2
    assert partitions.summary("08") == partitions.summaries()[8]
    assert computed == [2]


def test_a_payload_shorter_than_the_prefix_is_its_own_partition() -> None:
    partitions = _filled("B.a.X", "B.ab.X", _record("ab1"))
    assert [(part.prefix, part.count) for part in partitions.summaries()] == [("a", 1), ("ab", 2)]
    assert [child.prefix for child in partitions.children("ab")] == ["ab1"]
    assert partitions.summary("a").count == 1
    assert partitions.members("ab") == ["B.ab.X", _record("ab1")]
    partitions.check()


def test_a_prefix_below_the_starting_length_is_refused() -> None:
    partitions = _filled(_record("ab"))
    for ask in (partitions.summary, partitions.children, partitions.members):
        with pytest.raises(UsageError):
            ask("a")
    with pytest.raises(UsageError):
        Partitions(0)


_RECORDS = st.builds(
    _record, st.text("0A~", min_size=3, max_size=3), st.sampled_from("BPS"), st.sampled_from(["H3", "X"])
) | st.sampled_from(["B.0.X", "P.A~.X"])
_STEPS = st.lists(
    st.tuples(st.just("add"), _RECORDS, st.integers(0, 3))
    | st.tuples(st.just("discard"), _RECORDS, st.just(0))
    | st.tuples(st.sampled_from(["share", "summaries", "children"]), _RECORDS, st.just(0)),
    max_size=60,
)


@given(st.integers(1, 4), _STEPS)
def test_it_is_what_a_plain_recomputation_says(length: int, steps: list[tuple[str, str, int]]) -> None:
    partitions = Partitions(length)
    held: dict[str, bytes] = {}
    for step, record, number in steps:
        prefix = payload(record)[:length]
        match step:
            case "add":
                partitions.add(record, _digest(number))
                held[record] = _digest(number)
            case "discard":
                partitions.discard(record)
                held.pop(record, None)
            case "share":
                partitions.share()
            case "summaries":
                assert partitions.summaries() == _expected(held, length)
            case _ if len(prefix) == length:
                longer = {r: d for r, d in held.items() if len(payload(r)) > length and payload(r).startswith(prefix)}
                assert partitions.children(prefix) == _expected(longer, length + 1)
        partitions.check()
    assert (len(partitions), set(partitions.records())) == (len(held), set(held))
    assert all(partitions.digest(record) == digest for record, digest in held.items())
    assert partitions.summaries() == _expected(held, length)
    for record in held:
        for size in range(length, len(payload(record)) + 1, 7):
            prefix = payload(record)[:size]
            members = sorted(other for other in held if payload(other).startswith(prefix))
            assert partitions.members(prefix) == members
            root = merkle.root(held[other] for other in members)
            assert partitions.summary(prefix) == Partition(prefix=prefix, count=len(members), root=root)
