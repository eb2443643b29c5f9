"""``Interlace-Result``: the nine members of the protocol page, and an empty one that claims nothing."""

from bobbin.interlace.result import Result
from tests.policy_worlds import plex


def test_il_238_every_member_has_its_field() -> None:
    """IL-238."""
    members = {
        "link-id": "link",
        "exchange-plan-id": "plan",
        "peer-verifier": "peer",
        "received-hashes": "received",
        "rejected-hashes": "rejected",
        "not-available-hashes": "not_available",
        "bytes-received": "bytes_received",
        "bytes-sent": "bytes_sent",
        "cursor-updated": "cursor_updated",
    }
    assert len(members) == 9
    assert set(members.values()) <= set(Result.__struct_fields__)


def test_a_result_claims_nothing_by_itself() -> None:
    """Above all no fixed point."""
    result = Result(link=None, plan=None, peer=None)
    assert not result.fixed_point
    assert not result.cursor_updated
    assert (result.bytes_received, result.bytes_sent, result.iterations) == (0, 0, 0)
    for hashes in (result.received, result.rejected, result.not_available, result.deferred, result.sent):
        assert not hashes
    assert (result.reason, result.limit) == (None, None)


def test_two_results_share_nothing() -> None:
    one, another = (Result(link=None, plan=None, peer=None) for _ in range(2))
    one.rejected[plex(1)] = "hash-mismatch"
    assert another.rejected == {}


def test_a_cursor_that_could_not_be_kept_was_not_updated() -> None:
    result = Result(link=None, plan=None, peer=None, cursor_updated=True, iterations=3)
    assert result.with_cursor(kept=True) is result
    assert not result.with_cursor(kept=False).cursor_updated
    assert result.with_cursor(kept=False).iterations == 3
    without = Result(link=None, plan=None, peer=None)
    assert without.with_cursor(kept=True) is without
