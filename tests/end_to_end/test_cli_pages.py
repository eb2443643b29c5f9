"""Every example in the README and the manual is run, and says what the page says it says.

A console block holds commands after ``$ `` and their output, stdout and stderr together. ``…`` in the output stands
for anything on that line, and a line of only ``…`` for any lines. One page is one session in one folder; its Python
blocks are run there at the end.
"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.end_to_end.command import environment

REPOSITORY = Path(__file__).resolve().parents[2]
_CONSOLE = re.compile(r"^```console\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)
_PYTHON = re.compile(r"^```python\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)


def _examples(page: Path) -> list[tuple[str, list[str]]]:
    examples: list[tuple[str, list[str]]] = []
    for block in _CONSOLE.findall(page.read_text(encoding="utf-8")):
        for line in block.splitlines():
            if line.startswith("$ "):
                examples.append((line[2:], []))
            elif examples[-1][0].endswith("\\"):
                examples[-1] = (f"{examples[-1][0][:-1].rstrip()} {line.strip()}", [])
            else:
                examples[-1][1].append(line)
    return examples


def _pattern(lines: list[str]) -> re.Pattern[str]:
    parts = [r"(?:.*\n)*" if line == "…" else re.escape(line).replace("…", ".*") + r"\n" for line in lines]
    return re.compile("".join(parts))


@pytest.fixture(autouse=True)
def _end_nodes(tmp_path: Path) -> Iterator[None]:
    """End the nodes that an example has started and that no example has stopped, since one before failed."""
    yield
    for events in tmp_path.glob("*.events"):
        for process in re.findall(r'"process":(\d+)', events.read_text(encoding="utf-8")):
            with suppress(OSError):  # it is over, or ends at this moment
                if Path(f"/proc/{process}/cwd").readlink() == tmp_path.resolve():
                    os.kill(int(process), signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize("page", ["README.md", "docs/cli.md", "docs/reactive.md", "docs/tangles.md"])
def test_every_example_says_what_the_page_says(page: str, tmp_path: Path) -> None:
    examples = _examples(REPOSITORY / page)
    assert len(examples) > 5
    folder = Path(sys.executable).parent
    variables = environment() | {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", "LC_ALL": "C.UTF-8"}
    code = 0
    for command, expected in examples:
        done = subprocess.run(
            ["bash", "-c", f"(exit {code}); {command}"],
            cwd=tmp_path,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            timeout=120,
        )
        shown = done.stdout.decode()
        if shown and not shown.endswith("\n"):
            shown += "\n"
        assert _pattern(expected).fullmatch(shown), (
            f"$ {command}\n--- page:\n" + "\n".join(expected) + f"\n--- run:\n{shown}"
        )
        code = done.returncode
    for program in _PYTHON.findall((REPOSITORY / page).read_text(encoding="utf-8")):
        for _ in range(2):  # whoever tries an example tries it again
            subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True, timeout=120)
