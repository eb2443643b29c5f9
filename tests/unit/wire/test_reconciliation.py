"""The facts of sketches: each part has lines that read back as it, and whatever else comes is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin.errors import PeerError
from bobbin.facts import block
from bobbin.interlace.choice import Strategy
from bobbin.interlace.messages import Advertise
from bobbin.interlace.reasons import Reason
from bobbin.interlace.reconciliation import (
    Changed,
    Compared,
    Cut,
    Fallback,
    Lacking,
    More,
    Part,
    Plain,
    Probe,
    Ranged,
    Sketched,
    Standing,
    Supplied,
)
from bobbin.interlace.schema import Schema
from bobbin.policy.operands import Origin
from bobbin.records import b64a
from bobbin.wire.interlace import encode
from bobbin.wire.loop import read_advertise, read_request
from bobbin.wire.predicates import RECONCILE
from bobbin.wire.reconciliation import CUTS_MAX, PartReader, part_facts

SOURCE = Origin("source:0")
_NAMES = st.lists(st.text(b64a.ALPHABET, min_size=11, max_size=11), max_size=5, unique=True).map(sorted).map(tuple)
_NUMBER = st.integers(0, 2**64 - 1)
_PARTS: st.SearchStrategy[Part] = st.one_of(
    st.builds(
        Standing,
        count=_NUMBER,
        root=st.binary(min_size=32, max_size=32),
        held=st.binary(min_size=16, max_size=16),
        wish=st.sampled_from([one for one in Strategy if one.is_negotiated]),
    ),
    st.builds(
        Probe,
        bulk=st.binary(min_size=1, max_size=600),
        cuts=st.dictionaries(_NUMBER, _NUMBER, max_size=CUTS_MAX).map(
            lambda cuts: tuple(Cut(moment=moment, sum=cuts[moment]) for moment in sorted(cuts))
        ),
    ),
    st.builds(Sketched, first=st.integers(0, 2**40), raw=st.integers(1, 900).map(lambda count: bytes(10) * count)),
    st.builds(Ranged, moment=_NUMBER, ids=st.integers(0, 900).map(lambda count: b"12345678" * count)),
    st.builds(Lacking, ids=st.integers(0, 900).map(lambda count: b"12345678" * count)),
    st.builds(More, symbols=st.integers(1, 2**64 - 1)),
    st.builds(Changed, added=_NAMES, removed=_NAMES),
    st.builds(Compared, removed=_NAMES),
    st.builds(Fallback, why=st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=60)),
    st.sampled_from([Supplied(), Plain(), Plain(root=bytes(range(32)))]),
)


def read(raw: bytes) -> Advertise:
    return read_advertise(raw, source=SOURCE, schema=Schema(), bytes_max=1_000_000, records_max=10, partitions_max=10)


@given(_PARTS)
def test_a_part_reads_back(part: Part) -> None:
    raw = b"".join(encode(Advertise(part=part, tick="1"), source=SOURCE))
    assert raw.endswith(b"\n\n")
    assert read(raw[:-1]) == Advertise(part=part, tick="1")


def test_long_parts_take_several_lines() -> None:
    assert len(list(part_facts(Sketched(first=5, raw=bytes(10) * 1_000)))) == 4
    assert len(list(part_facts(Lacking(ids=bytes(8) * 1_000)))) == 3
    names = tuple(f"{number:011d}" for number in range(1_000))
    part = Changed(added=names)
    assert len(list(part_facts(part))) == 4
    assert read(block.render(part_facts(part))).part == part


def test_a_standing_is_about_a_hundred_bytes() -> None:
    part = Standing(count=1_000_000, root=bytes(32), held=bytes(16))
    assert len(block.render(part_facts(part))) == 100


_ROOT = b64a.encode(bytes(32))
_HELD = b64a.encode(bytes(16))
_SYMBOL = b64a.encode(bytes(10))
_ID = b64a.encode(bytes(8))


@pytest.mark.parametrize(
    "text",
    [
        f"ReconcileStanding('-1','{_ROOT}','{_HELD}')",
        f"ReconcileStanding('1','{_HELD}','{_HELD}')",
        f"ReconcileStanding('1','{_ROOT}','{_ROOT}')",
        f"ReconcileStanding('1','{_ROOT}','{_HELD}','auto')",
        f"ReconcileStanding('1','{_ROOT}','{_HELD}','listing')",
        f"ReconcileProbe('{_ID}','{_ID}')",
        f"ReconcileProbe('{_ID}','{b64a.encode(bytes(32))}')",
        f"ReconcileProbe('{_ID}','{b64a.encode(bytes(16 * 65))}')",
        "ReconcileProbe('')",
        "ReconcileProbe('!')",
        f"ReconcileSymbols('0','{_ID}')",
        f"ReconcileSymbols('0','{_SYMBOL}')\nReconcileSymbols('2','{_SYMBOL}')",
        f"ReconcileSymbols('0','{_SYMBOL}')\nReconcilePlain()",
        f"ReconcileStretch('7','{_ID}')\nReconcileStretch('8','{_ID}')",
        f"ReconcileStretch('7')\nReconcileStretch('7','{_ID}')",
        "ReconcileLacking('00')",
        f"ReconcileLacking('{_ID}')\nReconcileLacking()",
        "ReconcileMore('0')",
        "ReconcileMore('18446744073709551616')",
        "ReconcileChanged()\nReconcileAdded('0000000000')",
        "ReconcileChanged()\nReconcileAdded('0000000000000000000000')",
        "ReconcileChanged()\nReconcileChanged()",
        "ReconcilePlain()\nReconcilePlain()",
        f"ReconcileFallback('{'x' * 401}')",
        "ReconcileFallback('\\t')",
    ],
)
def test_what_no_part_says_is_refused(text: str) -> None:
    with pytest.raises(PeerError) as refused:
        read(f"{text}\n".encode())
    assert refused.value.code == Reason.MALFORMED_SKETCH


@pytest.mark.parametrize(
    "text",
    [
        "ReconcileStanding('1')",
        "ReconcileSymbols('1')",
        "ReconcilePlain('1','2')",
        "ReconcileAdded('00000000000')",
        "ReconcileCompared()\nReconcileAdded('00000000000')",
        "ReconcileChanged()\nReconcileAdded()",
        "ReconcileWhatever()",
    ],
)
def test_lines_of_another_shape_are_malformed(text: str) -> None:
    with pytest.raises(PeerError) as refused:
        read(f"{text}\n".encode())
    assert refused.value.code == Reason.MALFORMED_BLOCK


@pytest.mark.parametrize("predicate", sorted(RECONCILE))
def test_they_stand_in_no_other_phase(predicate: str) -> None:

    with pytest.raises(PeerError) as refused:
        read_request(f"{predicate}()\n".encode(), bytes_max=100)
    assert refused.value.code == Reason.OUT_OF_PHASE


def test_no_lines_are_no_part() -> None:
    assert PartReader().part() is None
