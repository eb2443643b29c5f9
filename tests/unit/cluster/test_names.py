from bobbin.cluster.names import MILLISECOND_NS, TERM_MAX, Index, NodeId, Term


def test_ids_and_counters_are_plain_values() -> None:
    assert (NodeId("ab"), Term(3), Index(4)) == ("ab", 3, 4)
    assert MILLISECOND_NS * 1_000 == 1_000_000_000
    assert TERM_MAX + 1 == 2**64 - 1, "a candidate of the last term but one can still be written down"
