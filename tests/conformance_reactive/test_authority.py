"""Effects that happen at most once: the rows of the conformance list about leases and receipts."""

import json

from bobbin.reactive.authority import (
    Appointed,
    Authority,
    Conflict,
    Entry,
    FireOnce,
    InDoubt,
    Lease,
    Outcome,
    Receipt,
    Receipts,
    Record,
    Recorded,
    Taken,
    Wanted,
)
from tests.shared_fixtures import shared_fixture


def test_an_effect_fires_at_most_once_and_only_at_its_authority() -> None:
    """RX-104: replicas converge on the same state; one fires, after it was written down, and never again."""
    replicas = [Authority() for _ in range(3)]
    leader = replicas[1]
    assert [replica.step(Wanted("mail")) for replica in replicas] == [(), (), ()]
    assert leader.step(Appointed(1, ())) == (Record("mail", 1),)
    assert leader.step(Wanted("mail")) == ()
    assert leader.step(Recorded("mail", 1)) == (FireOnce("mail", 1),)
    assert leader.step(Recorded("mail", 1)) == ()
    assert [replica.step(Wanted("mail")) for replica in replicas] == [(), (), ()]
    assert replicas[0].step(Appointed(2, (Entry("mail"),))) == (InDoubt("mail"),)
    assert replicas[0].step(Wanted("mail")) == ()


def test_the_fixture_of_leases() -> None:
    """RX-157: a new grant raises the token by one, a renewal does not."""
    content = json.loads(shared_fixture("lazily", "coordination", "lease.json").read_text("utf-8"))
    lease = Lease()
    for step in content["steps"]:
        op, before = step["op"], lease.holder
        match op["type"]:
            case "acquire":
                returned: object = lease.acquire(op["peer"], now=op["now"], lasts=op["ttl"])
            case "renew":
                returned = lease.renew(op["peer"], now=op["now"], lasts=op["ttl"])
            case kind:
                assert kind == "tick"
                returned = lease.tick(now=op["now"])
        expected = step["expected"]
        assert returned == step["returns"]
        assert (lease.holder, lease.holder is not None) == (expected["holder"], expected["held"])
        assert lease.fence == expected["fence"]
        assert (lease.holder != before) is expected["invalidates"]["holder"]


def test_the_fixture_of_receipts() -> None:
    """RX-157: what is final, what is not, and what is of another generation."""
    content = json.loads(shared_fixture("lazily", "receipts", "causal_receipts.json").read_text("utf-8"))
    facts, told = content["assertions"], content["wire"]["CausalReceipts"]["receipts"]
    receipts = Receipts(facts["current_generation"])
    cause, stale = facts["causation_id"], []
    assert len(told) == facts["receipt_count"]
    for one in told:
        outcome = Outcome(one["outcome"])
        taken = receipts.add(
            Receipt(
                id=one["receipt_id"],
                cause=one["causation_id"],
                observer=one["observer"],
                generation=one["generation"],
                outcome=outcome,
                reason=one["reason"],
                payload_hash=one["payload_hash"],
            )
        )
        if taken is Taken.STALE:
            stale.append(one["receipt_id"])
        else:
            assert outcome.is_final is (outcome.value not in facts["nonterminal_outcomes"])
            assert receipts.is_over(cause) is outcome.is_final
    assert stale == facts["stale_receipt_ids"]
    assert receipts.outcome(cause) == facts["terminal_outcome"]


def test_two_final_outcomes_are_a_conflict_and_stay_one() -> None:
    """RX-157: neither the first nor the last one wins."""

    def receipt(id: str, outcome: Outcome) -> Receipt:
        return Receipt(id=id, cause="c", observer="o", generation=1, outcome=outcome)

    receipts = Receipts(1)
    assert receipts.add(receipt("1", Outcome.APPLIED)) is Taken.NEW
    assert receipts.add(receipt("2", Outcome.REJECTED)) is Taken.CONFLICT
    assert receipts.add(receipt("3", Outcome.APPLIED)) is Taken.KNOWN
    assert isinstance(receipts.outcome("c"), Conflict)
    assert not receipts.is_over("c")
