"""Telling, running and checking: what every part of the tour is made of."""

import json
import os
import pty
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

COMMAND = (sys.executable, "-m", "bobbin")
WIDTH = min(shutil.get_terminal_size((100, 24)).columns, 110)
_TERMINAL = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
STYLED = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def styled(text: str, code: str) -> str:
    """Text in colour, where the terminal wants it."""
    return f"\x1b[{code}m{text}\x1b[0m" if STYLED else text


def quote(lines: Sequence[str]) -> None:
    """Lines that are not ours, with a bar beside them."""
    for line in lines:
        print(f"   {styled('│', '36')} {line}".rstrip())


class Ended(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


def _arguments(line: str) -> list[str]:
    words = [word.strip("'") for word in re.findall(r"'[^']*'|\S+", line.rpartition("| ")[2])]
    assert words.pop(0) == "bobbin"
    return words


def _drain(terminal: int, seen: bytearray) -> None:
    with suppress(OSError):  # how Linux says that nobody has the other end any more
        while data := os.read(terminal, 65_536):
            seen.extend(data)


def _plain(text: str) -> list[str]:
    """Lines as they stood on the terminal one after the other, without what moved the cursor."""
    return re.split(r"[\r\n]+", re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text))


class Tour:
    """Tells, runs and checks."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.claims: list[tuple[str, bool]] = []
        self._step = 0
        self._after_claim = False

    def step(self, title: str, text: str) -> None:
        """Begin the next part."""
        self._step += 1
        print()
        print(styled(f"{self._step}. {title}", "1;36"))
        self.say(text)

    def say(self, text: str) -> None:
        """Tell."""
        self._after_claim = False
        print()
        for line in textwrap.wrap(" ".join(text.split()), WIDTH - 3):
            print(f"   {line}")

    def run(self, line: str, *, stdin: str = "", lines_max: int = 14) -> Ended:
        """Show a command as one would type it, run it, show what it says."""
        self.show_command(line)
        ended = self.quietly(*_arguments(line), stdin=stdin)
        shown = (ended.out + ended.err).splitlines()
        if len(shown) > lines_max:
            shown[lines_max:] = [f"… {len(shown) - lines_max} more lines"]
        quote(shown)
        return ended

    def run_on_terminal(self, line: str, *, lines_max: int = 30) -> Ended:
        """The same for a command that shows on a terminal how far it is: some of that, then what it says."""
        self.show_command(line)
        ours, theirs = pty.openpty()
        with subprocess.Popen(
            [*COMMAND, *_arguments(line)], cwd=self.folder, stdout=subprocess.PIPE, stderr=theirs, env=_TERMINAL
        ) as process:
            os.close(theirs)
            seen = bytearray()
            reader = Thread(target=_drain, args=(ours, seen))
            reader.start()
            assert process.stdout is not None
            out = process.stdout.read().decode()
        reader.join()
        os.close(ours)
        frames = list(dict.fromkeys(filter(None, map(str.strip, _plain(seen.decode(errors="replace"))))))
        quote([*frames[:: max(1, len(frames) // 3)][-4:], *out.splitlines()[:lines_max]])
        return Ended(process.returncode, out, "\n".join(frames))

    def show_command(self, line: str) -> None:
        """A command as one would type it."""
        self._after_claim = False
        print()
        print("   " + styled(f"$ {line}", "1"))

    def show_output(self, lines: Sequence[str]) -> None:
        """What a command said that runs on beside the tour."""
        quote(lines)

    def quietly(self, *arguments: str, stdin: str = "") -> Ended:
        """Run a command that only checks what was claimed."""
        done = subprocess.run(
            [*COMMAND, *arguments], input=stdin.encode(), capture_output=True, cwd=self.folder, check=False
        )
        return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())

    def claim(self, sentence: str, holds: bool) -> None:  # noqa: FBT001
        """Say that something was so, and remember whether it was."""
        self.claims.append((sentence, holds))
        if not self._after_claim:
            print()
        self._after_claim = True
        print("   " + (styled(f"✓ {sentence}", "32") if holds else styled(f"✗ {sentence}", "1;31")))

    def end(self) -> int:
        """Sum up; returns the exit code."""
        failed = [sentence for sentence, holds in self.claims if not holds]
        print()
        if failed:
            print(styled(f"{len(failed)} of {len(self.claims)} claims did not hold:", "1;31"))
            for sentence in failed:
                print(f"   ✗ {sentence}")
            return 1
        print(styled(f"All {len(self.claims)} claims held.", "1;32"))
        print("Everything above was done by real commands in a temporary folder, which is gone now; the report stays.")
        print("Next: README.md, or `.venv/bin/bobbin --help`.")
        return 0


def program(tour: Tour, text: str) -> str:
    """Show a program, run it, show what it prints."""
    print()
    quote(text.splitlines())
    done = subprocess.run(
        [sys.executable, "-c", f"import bobbin\n{text}"], cwd=tour.folder, check=True, capture_output=True
    )
    shown = done.stdout.decode()
    quote([styled(line, "1") for line in shown.splitlines()])
    return shown


def place_names(tour: Tour, lace: str, place: str) -> list[str]:
    """The names below a place, sorted."""
    return sorted(row["name"] for row in tour.quietly("list", lace, place, "--json").rows)
