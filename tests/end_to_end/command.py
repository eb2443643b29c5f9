"""Running the real command in a real process."""

import os
import subprocess
import sys
from pathlib import Path

from msgspec import Struct

COMMAND = (sys.executable, "-m", "bobbin")

PLEX_1 = "P.tyYEj0zIBrq7IDVBPzaErPIq5p03OhpTTm14ePsSz80.H3"
PLACE = ("--group", "u", "--app", "ding", "--name", "links/1")
AT = ("--tai", "1640995200:000000000")


class Ended(Struct, frozen=True):
    """How a process ended."""

    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode()

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()


def environment() -> dict[str, str]:
    """Ours, without what would change the looks of the output."""
    return {name: value for name, value in os.environ.items() if name not in {"NO_COLOR", "FORCE_COLOR", "COLUMNS"}}


def bobbin(*arguments: str | Path, stdin: bytes = b"") -> Ended:
    """Run a command to its end."""
    done = subprocess.run(
        [*COMMAND, *map(str, arguments)], input=stdin, capture_output=True, env=environment(), check=False, timeout=120
    )
    return Ended(done.returncode, done.stdout, done.stderr.decode())
