"""``lace.toml``: what is written can be read, and whatever is wrong with it is said by name."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin.config.settings import FORMAT, DamagedSettings, Settings, read_settings, write_settings
from bobbin.errors import BobbinError, ResourceError, UsageError
from bobbin.records import tai

_GOOD = 'format = 1\ncreated = "1640995200:000000000"\ndefault_key = "main"\n'


@given(st.integers(0, tai.TAI_MAX), st.from_regex(r"[a-z0-9][a-z0-9_-]{0,63}", fullmatch=True))
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, instant: int, name: str) -> None:
    path = tmp_path_factory.mktemp("settings") / "lace.toml"
    settings = Settings(format=FORMAT, created=tai.render(instant), default_key=name)
    write_settings(path, settings)
    assert read_settings(path) == settings


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_the_place_of_a_lake_is_read_as_it_was_written(tmp_path_factory: pytest.TempPathFactory, lake: str) -> None:
    path = tmp_path_factory.mktemp("settings") / "lace.toml"
    settings = Settings(format=FORMAT, created="1640995237:000000000", lake=lake)
    write_settings(path, settings)
    assert read_settings(path) == settings


def test_a_place_that_is_no_text_is_not_written(tmp_path: Path) -> None:
    settings = Settings(format=FORMAT, created="1640995237:000000000", lake="/x/\udcff")
    with pytest.raises(UsageError, match="cannot be written"):
        write_settings(tmp_path / "lace.toml", settings)
    assert not (tmp_path / "lace.toml").exists()


def test_the_file_says_when_the_lace_was_created_in_words(tmp_path: Path) -> None:
    write_settings(tmp_path / "lace.toml", Settings(format=FORMAT, created="1640995237:000000000"))
    assert "Created 2022-01-01 00:00:00 UTC" in (tmp_path / "lace.toml").read_text()


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("format = ", "TOML"),
        ("\udcff", "TOML"),
        (_GOOD + "defualt_key = 'x'\n", "defualt_key"),
        (_GOOD.replace("format = 1\n", ""), "format"),
        (_GOOD.replace("format = 1", 'format = "1"'), "format"),
        (_GOOD.replace("format = 1", "format = 0"), "format 0"),
        (_GOOD.replace("1640995200:000000000", "yesterday"), "TAI"),
        (_GOOD.replace('"main"', '"../main"'), "key name"),
    ],
)
def test_a_mistake_is_damage_and_names_file_and_mistake(tmp_path: Path, text: str, word: str) -> None:
    path = tmp_path / "lace.toml"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(DamagedSettings) as failure:
        read_settings(path)
    assert str(path) in str(failure.value)
    assert word in str(failure.value)


def test_a_newer_format_asks_for_a_newer_bobbin_whatever_else_it_holds(tmp_path: Path) -> None:
    path = tmp_path / "lace.toml"
    path.write_text('format = 2\nsomething_new = "x"\n')
    with pytest.raises(ResourceError, match="newer") as failure:
        read_settings(path)
    assert not failure.value.retry


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("settings") / "lace.toml"
    path.write_bytes(content)
    with pytest.raises(BobbinError):
        read_settings(path)


def test_settings_that_exist_are_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "lace.toml"
    path.write_text("mine")
    with pytest.raises(FileExistsError):
        write_settings(path, Settings(format=FORMAT, created="1640995237:000000000"))
    assert path.read_text() == "mine"
    assert [entry.name for entry in tmp_path.iterdir()] == ["lace.toml"]
