"""Where the fixtures are that Bobbin shares with other projects.

They lie in ``shared/fixtures``, in the folder that also holds the repository, and are not part of it. A test that
needs them is skipped where that folder is absent, and only there: a fixture missing from a folder that is present is
a failure.
"""

from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
SHARED_FIXTURES = REPOSITORY.parent / "shared" / "fixtures"


def shared_fixture(*parts: str) -> Path:
    """The path of one shared fixture. Skips the calling test, or module, when there are no shared fixtures at all."""
    if not SHARED_FIXTURES.is_dir():
        pytest.skip("the folder shared/fixtures is not beside this repository", allow_module_level=True)
    path = SHARED_FIXTURES.joinpath(*parts)
    assert path.exists(), f"shared/fixtures is there, but {'/'.join(parts)} is not in it"
    return path
