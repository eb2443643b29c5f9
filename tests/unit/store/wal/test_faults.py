import errno

import pytest

from bobbin.errors import ResourceError
from bobbin.store.wal.faults import free_for, resource_error, translated


@pytest.mark.parametrize(
    ("code", "retry"),
    [
        (errno.EIO, True),
        (errno.ENOSPC, True),
        (errno.EDQUOT, True),
        (errno.EROFS, False),
        (errno.EACCES, False),
        (errno.ENOENT, False),
    ],
)
def test_an_error_says_whether_to_try_again(code: int, *, retry: bool) -> None:
    with pytest.raises(ResourceError, match="writing failed: ") as caught, translated("writing"):
        raise OSError(code, "words of the system")
    assert caught.value.retry is retry
    assert isinstance(caught.value.__cause__, OSError)


def test_an_error_without_words_of_the_system_still_says_something() -> None:
    assert str(resource_error("reading", OSError("odd"))) == "reading failed: odd"


def test_other_errors_pass() -> None:
    with pytest.raises(KeyError), translated("writing"):
        raise KeyError


def test_what_must_stay_free_is_not_written_on() -> None:
    free_for(150, 50, 100)
    with pytest.raises(
        ResourceError, match="51 bytes are to be written, 150 are free, and 100 must stay free"
    ) as caught:
        free_for(150, 51, 100)
    assert caught.value.retry
