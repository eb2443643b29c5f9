"""What is committed works anywhere: it names no machine's folders and no package registry."""

import os
import re
from pathlib import Path

from tests.architecture.source_tree import REPOSITORY, repository_files

# Written in pieces, so that this file is not its own finding.
_REGISTRIES = (
    "pypi" + ".org",
    "pypi" + ".python.org",
    "pythonhosted" + ".org",
    "npmjs" + ".org",
    "npmjs" + ".com",
    "yarnpkg" + ".com",
    "deb." + "debian.org",
    "archive." + "ubuntu.com",
    "security." + "ubuntu.com",
    "conda." + "anaconda.org",
    "repo1." + "maven.org",
)
_INDEX_OPTIONS = ("--index" + "-url ", "--extra-index" + "-url ", "--find" + "-links ", "--trusted" + "-host ")
_HOMES = r"(?<![\w./~-])(/home/\w|/root/|/Users/\w|[A-Z]:\\Users\\)"


def _machine_paths() -> re.Pattern[str]:
    patterns = [_HOMES]
    if len(REPOSITORY.parts) > 2:  # a repository right under / has a path too short to search for
        patterns.append(re.escape(str(REPOSITORY)) + r"(?![\w-])")
    return re.compile("|".join(patterns))


def _texts() -> list[tuple[str, str]]:
    texts = []
    for path in repository_files():
        content = path.read_bytes()
        if b"\0" not in content:
            texts.append((path.relative_to(REPOSITORY).as_posix(), content.decode("utf-8", errors="replace")))
    return texts


def _findings(pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{place}:{number}: {line.strip()[:100]}"
        for place, text in _texts()
        if pattern.search(text)
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]


def test_no_file_names_a_folder_of_some_machine() -> None:
    this_file = Path(__file__).relative_to(REPOSITORY).as_posix()
    assert [finding for finding in _findings(_machine_paths()) if not finding.startswith(f"{this_file}:")] == []


def test_no_file_names_a_package_registry() -> None:
    assert _findings(re.compile("|".join(map(re.escape, _REGISTRIES)))) == []


def test_locks_say_nothing_about_where_packages_come_from() -> None:
    locks = sorted((REPOSITORY / "requirements").glob("*.lock"))
    assert locks
    for lock in locks:
        text = lock.read_text(encoding="utf-8")
        assert not any(option in text for option in _INDEX_OPTIONS), lock.name
        assert "://" not in text, lock.name


def test_every_locked_package_is_pinned_with_hashes() -> None:
    for lock in (REPOSITORY / "requirements").glob("*.lock"):
        logical = lock.read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
        for line in (line for line in logical if line and not line.lstrip().startswith("#")):
            assert re.match(r"[\w.-]+==[\w.!+]+\s", line), f"{lock.name}: {line[:60]}"
            assert "--hash=sha256:" in line, f"{lock.name}: {line[:60]}"


def test_scripts_can_be_run() -> None:
    scripts = [path for path in (REPOSITORY / "scripts").iterdir() if path.is_file()]
    idle = [path.name for path in [*scripts, REPOSITORY / ".ci" / "run"] if not os.access(path, os.X_OK)]
    assert idle == []
