import errno
import os

import pytest

from bobbin.errors import ResourceError, UsageError
from bobbin.store.base import DamagedStore, StoreError
from bobbin.store.lake.errors import Conflict, DamagedLake, LakeError, NoLake, OtherVersion, ReadOnlyLake, translated


def test_the_families_say_whose_fault_it_is() -> None:
    assert issubclass(NoLake, UsageError)
    assert issubclass(ReadOnlyLake, UsageError)
    assert issubclass(DamagedLake, DamagedStore)
    assert issubclass(OtherVersion, LakeError)
    assert issubclass(LakeError, StoreError)
    assert Conflict("moved").retry
    assert not LakeError("broken").retry
    assert not OtherVersion("later").retry


@pytest.mark.parametrize(("number", "retry"), [(errno.ENOSPC, True), (errno.EACCES, False)])
def test_a_failing_file_system_is_said_in_words(number: int, *, retry: bool) -> None:
    with (
        pytest.raises(ResourceError, match=r"^writing the lake failed: .*") as caught,
        translated("writing the lake failed"),
    ):
        raise OSError(number, os.strerror(number))
    assert caught.value.retry is retry
    assert isinstance(caught.value, LakeError)


def test_our_own_errors_pass_unchanged() -> None:
    with pytest.raises(NoLake, match=r"^nothing here$"), translated("anything"):
        raise NoLake("nothing here")
