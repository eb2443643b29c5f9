"""What ``bobbin chain verify`` concludes. That it asks real nodes is tested with the other commands of the chain."""

from bobbin.cli.commands.chain_verify import Checked, conclusion, differing
from bobbin.cli.exit_codes import ExitCode
from bobbin.cluster.names import NodeId
from bobbin.wire.cluster.chain import ChainVerdict

_A, _B, _C = (NodeId(letter * 32) for letter in "abc")


def _good(height: int, tip: bytes = b"t") -> ChainVerdict:
    return ChainVerdict(1, height, tip, None, "")


def test_what_holds_is_said_with_what_was_checked() -> None:
    found: Checked = [(0, _A, _good(5)), (0, _B, _good(4, b"u")), (1, _C, _good(5, b"v"))]
    assert differing(found) == [], "only tips of one shard and one height are compared"
    assert conclusion(found) == (
        ExitCode.OK,
        "holds: every block on 3 nodes of 2 shards (hashes, signatures, roots), and the tips of those of one height",
    )


def test_a_node_that_does_not_answer_leaves_it_open() -> None:
    code, text = conclusion([(0, _A, _good(5)), (0, _B, "does not answer: refused")])
    assert code is ExitCode.NOT_ALL
    assert text.startswith("holds as far as it was checked: every block on 1 node of 1 shard (")
    assert text.endswith("; 1 node without an answer")
    assert conclusion([(0, _A, "does not answer"), (1, _B, "does not answer")]) == (
        ExitCode.NOT_ALL,
        "nothing was checked: none of 2 nodes answers",
    )


def test_bad_blocks_and_different_tips_do_not_hold() -> None:
    bad = ChainVerdict(1, 5, b"t", 3, "signature")
    assert conclusion([(0, _A, bad), (0, _B, _good(5)), (0, _C, "silent")]) == (
        ExitCode.INTEGRITY,
        "does not hold: 1 node with a bad block",
    )
    found: Checked = [(0, _A, _good(5)), (0, _B, _good(5, b"u")), (1, _C, bad)]
    assert differing(found) == [(0, 5, 2)]
    assert conclusion(found) == (
        ExitCode.INTEGRITY,
        "does not hold: 1 node with a bad block, 1 shard with nodes that differ",
    )
