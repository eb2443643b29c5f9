"""Fuzz the decoders with atheris: `python -m tests.fuzz [--seconds N] [--grow] [TARGET…]`.

A target is a module ``target_<name>.py`` with ``one_input(data: bytes) -> None``. It hands the bytes to a decoder,
swallows the errors the decoder documents, and lets everything else out: that is a finding. Each target runs in a
process of its own, because libFuzzer ends the process it runs in.

``corpus/<name>/`` is committed and starts every run. Inputs discovered on the way are dropped unless ``--grow`` asks
to merge those that reach new code into the corpus. Findings land in ``findings/<name>/``; when one is fixed, its
input goes into the corpus, where ``test_corpus.py`` replays it for ever.
"""

import argparse
import importlib
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

_HERE = Path(__file__).resolve().parent
_REPOSITORY = _HERE.parent.parent

# The bounds of one input. A decoder that needs more for a few kilobytes is itself the finding.
_INPUT_BYTES_MAX = 65_536
_INPUT_SECONDS_MAX = 10
_MEMORY_MB_MAX = 1_024


def target_names() -> list[str]:
    """Every target in this folder."""
    return sorted(path.stem.removeprefix("target_") for path in _HERE.glob("target_*.py"))


def corpus_of(name: str) -> Path:
    """The folder of a target's committed inputs."""
    return _HERE / "corpus" / name


def committed_inputs(name: str) -> list[Path]:
    """The committed inputs of a target."""
    return sorted(path for path in corpus_of(name).glob("*") if path.is_file())


def main(arguments: Sequence[str] | None = None) -> int:
    """Fuzz what the command line names; 1 when anything was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Fuzz the decoders.")
    parser.add_argument("targets", nargs="*", help="targets to fuzz; all of them when none is named")
    parser.add_argument("--seconds", type=int, default=60, help="time for each target (default: 60)")
    parser.add_argument("--grow", action="store_true", help="merge inputs that reach new code into the corpus")
    parser.add_argument("--child", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.child:
        _fuzz_here(options.child[0], options.child[1:])

    known = target_names()
    wanted = options.targets or known
    unknown = sorted(set(wanted) - set(known))
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}. Known: {', '.join(known) or 'none yet'}.")
    if options.seconds < 1:
        parser.error("--seconds must be at least 1")  # libFuzzer takes 0 as "for ever"

    found = [name for name in wanted if not _fuzz(name, seconds=options.seconds, grow=options.grow)]
    for name in found:
        print(f"FOUND {name}: see tests/fuzz/findings/{name}/", file=sys.stderr)
    print(f"{len(wanted) - len(found)} of {len(wanted)} targets held for {options.seconds} s each")
    return 1 if found else 0


def _fuzz(name: str, *, seconds: int, grow: bool) -> bool:
    """Fuzz one target in a child process. Whether it held."""
    findings = _HERE / "findings" / name
    findings.mkdir(parents=True, exist_ok=True)
    corpus = corpus_of(name)
    corpus.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"fuzz-{name}-") as discovered:
        print(f"fuzzing {name} for {seconds} s …", file=sys.stderr, flush=True)
        # libFuzzer writes what it discovers to the first folder and only reads the others.
        flags = [
            f"-max_total_time={seconds}",
            f"-max_len={_INPUT_BYTES_MAX}",
            f"-timeout={_INPUT_SECONDS_MAX}",
            f"-rss_limit_mb={_MEMORY_MB_MAX}",
            f"-artifact_prefix={findings}/",
            "-print_final_stats=1",
            "-verbosity=0",
        ]
        held = _run_child(name, *flags, discovered, str(corpus))
        if held and grow:
            held = _run_child(name, "-merge=1", "-verbosity=0", str(corpus), discovered)
    return held


def _run_child(name: str, *flags: str) -> bool:
    command = [sys.executable, "-m", "tests.fuzz", "--child", name, *flags]
    return subprocess.run(command, cwd=_REPOSITORY, stdin=subprocess.DEVNULL, check=False).returncode == 0


def _fuzz_here(name: str, flags: Sequence[str]) -> None:
    """Turn this process into the fuzzer. It does not return."""
    import atheris  # noqa: PLC0415 -- only the child needs it, and only `make fuzz` installs it

    with atheris.instrument_imports(include=["bobbin", "tests.fuzz"]):
        target = importlib.import_module(f"tests.fuzz.target_{name}")
    # To merge, libFuzzer starts itself again through a shell, with the first argument as its own name.
    itself = shlex.join([sys.executable, "-m", "tests.fuzz", "--child", name])
    atheris.Setup([itself, *flags], target.one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(main())
