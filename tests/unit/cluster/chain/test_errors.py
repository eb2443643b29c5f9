from bobbin.cluster.chain.errors import AlreadyCoSigned, ChainError, CommitFailed, SnapshotTooOld, WrongState
from bobbin.errors import UsageError


def test_all_of_them_are_the_callers_and_change_nothing() -> None:
    for kind in (AlreadyCoSigned, CommitFailed, SnapshotTooOld, WrongState):
        assert issubclass(kind, ChainError)
    assert issubclass(ChainError, UsageError)
