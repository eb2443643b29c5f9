"""The image of a log: chains say whether everything before agrees."""

import pytest

from bobbin.cluster.names import Index, NodeId, Term
from bobbin.cluster.raft.entries import Configuration, Entry, Payload, SnapshotMetadata
from bobbin.simulator.raft_image import CHAIN_BEGIN, LogImage, link

FIRST = Configuration((NodeId("a"),))
SECOND = Configuration((NodeId("a"), NodeId("b")))


def image(*payloads: Payload, term: int = 1) -> LogImage:
    made = LogImage(FIRST)
    for payload in payloads:
        entry = Entry(Term(term), Index(made.last_index + 1), payload)
        before = made.last_chain
        assert before is not None
        made.append(entry, link(before, entry))
    return made


def metadata(index: int, configuration: Configuration = FIRST) -> SnapshotMetadata:
    return SnapshotMetadata(
        last_index=Index(index),
        last_term=Term(1),
        sha256=b"",
        size=0,
        configuration=configuration,
        created_s=0,
        epoch=1,
    )


def test_a_chain_tells_logs_apart_that_differ_anywhere_before() -> None:
    one, other = image(b"a", b"b", b"c"), image(b"a", b"x", b"c")
    assert one.chain_at(1) == other.chain_at(1)
    assert one.chain_at(3) != other.chain_at(3)
    assert image(b"a", term=1).chain_at(1) != image(b"a", term=2).chain_at(1)
    assert image().last_chain == CHAIN_BEGIN


def test_a_log_is_cut_at_its_end_and_at_its_beginning() -> None:
    log = image(b"a", SECOND, b"c", b"d")
    assert (log.last_index, log.last_term, log.configuration) == (4, 1, SECOND)
    log.truncate(2)
    assert (log.last_index, log.configuration) == (1, FIRST)
    log = image(b"a", SECOND, b"c", b"d")
    whole = log.copy()
    log.cut(3, metadata(3, SECOND))
    assert (log.base, log.last_index, log.configuration, log.snapshot_index) == (2, 4, SECOND, 3)
    assert log.chain_at(2) == whole.chain_at(2)
    assert log.chain_at(1) is None
    assert log.term_at(1) is None
    assert log.chain_at(4) == whole.chain_at(4)
    assert log.chain_at(5) is None


def test_a_snapshot_takes_the_place_of_everything() -> None:
    log = image(b"a", b"b")
    log.reset(metadata(7, SECOND), 99)
    assert (log.last_index, log.last_term, log.last_chain, log.configuration) == (7, 1, 99, SECOND)


def test_what_makes_no_log_is_an_error_of_the_checker() -> None:
    log = image(b"a")
    with pytest.raises(AssertionError, match="after"):
        log.append(Entry(Term(1), Index(3), None), 0)
    log.reset(metadata(7), 0)
    with pytest.raises(AssertionError, match="only the snapshot"):
        log.truncate(7)
