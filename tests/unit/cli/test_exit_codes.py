"""Every error has a code, every code has a meaning, and the manual shows the same table."""

import re
from pathlib import Path

import pytest

from bobbin.cli.exit_codes import MEANING, ExitCode, of_error
from bobbin.errors import BobbinError, IntegrityError, PeerError, ProgramError, ResourceError, UsageError
from bobbin.store.base import DamagedStore, StoreError

_PAGE = Path(__file__).resolve().parents[3] / "docs" / "cli.md"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("x"), ExitCode.USAGE),
        (IntegrityError("x"), ExitCode.INTEGRITY),
        (ResourceError("x", retry=False), ExitCode.RESOURCE),
        (ResourceError("x", retry=True), ExitCode.TRY_AGAIN),
        (PeerError("code", "x"), ExitCode.PEER),
        (ProgramError("x"), ExitCode.PROGRAM),
        (OSError(28, "No space left on device"), ExitCode.RESOURCE),
    ],
)
def test_each_family_has_its_code(error: BobbinError | OSError, code: ExitCode) -> None:
    assert of_error(error) is code


def test_no_family_is_forgotten() -> None:
    families = {family.__name__ for family in BobbinError.__subclasses__()}
    assert families == {"UsageError", "IntegrityError", "ResourceError", "PeerError", "ProgramError"}


def test_every_code_has_a_meaning() -> None:
    assert set(MEANING) == set(ExitCode)


def test_the_manual_shows_the_same_table() -> None:
    rows = re.findall(r"^\| (\d+) \| (.+?) \|$", _PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert [(int(code), words) for code, words in rows] == [(int(code), words) for code, words in MEANING.items()]


def test_damage_is_the_laces_affair_and_other_trouble_of_a_store_the_machines() -> None:
    assert of_error(DamagedStore("x")) is ExitCode.INTEGRITY
    assert of_error(StoreError("x", retry=False)) is ExitCode.RESOURCE
    assert of_error(StoreError("x", retry=True)) is ExitCode.TRY_AGAIN
