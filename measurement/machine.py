"""What a figure must be read with: the machine, the interpreter, the packages and the day."""

import os
import platform
import re
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

import apsw
import msgspec


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """Where and when a run was made. It says nothing that names the computer or its owner."""

    cpu: str
    cores: int
    memory_gib: float
    system: str
    python: str
    sqlite: str
    date: str
    packages: dict[str, str]


def describe() -> Machine:
    """Describe this machine, now."""
    return Machine(
        cpu=_cpu_model(),
        cores=_usable_cores(),
        memory_gib=round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        system=f"{platform.system()} {platform.machine()}",
        python=f"{platform.python_implementation()} {platform.python_version()}",
        sqlite=apsw.sqlite_lib_version(),
        date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        packages=_runtime_packages(),
    )


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or "unknown"


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _runtime_packages() -> dict[str, str]:
    """Bobbin's own version and those of the packages it declares for running."""
    names = ["bobbin"]
    for requirement in metadata.requires("bobbin") or []:
        name = re.match(r"[A-Za-z0-9._-]+", requirement)
        if name is not None and "extra ==" not in requirement:
            names.append(name.group())
    return {name: metadata.version(name) for name in sorted(names)}
