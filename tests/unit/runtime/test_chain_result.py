from bobbin.cluster.transactions.phases import Ended
from bobbin.runtime.chain_result import NoMajority, Result, TransactionFailed, total_of


def test_a_total_adds_only_what_can_be_added() -> None:
    one = {"term": 2.0, "commit_rate": 0.9, "conflict_rate": 0.1, "healthy": 1.0, "lag_entries": 3.0, "syncs": 5.0}
    other = {"term": 7.0, "commit_rate": 0.5, "conflict_rate": 0.4, "healthy": 0.0, "lag_entries": 1.0, "syncs": 6.0}
    assert total_of((one, other | {"chain_height": 4.0})) == {
        "commit_rate": 0.5,
        "conflict_rate": 0.4,
        "healthy": 0.0,
        "lag_entries": 3.0,
        "syncs": 11.0,
    }
    assert total_of((one, {})) == {name: value for name, value in one.items() if name != "term"}


def test_what_was_refused_is_not_worth_another_try() -> None:
    for ended, retry in ((Ended.REFUSED, False), (Ended.CONFLICT, True), (Ended.ABORTED, True)):
        failed = TransactionFailed(Result(ended=ended, tx=b"", reason="so it is"))  # type: ignore[arg-type]
        assert failed.retry is retry
        assert str(failed) == f"not committed ({ended.value}): so it is"
    assert NoMajority("too few").retry
