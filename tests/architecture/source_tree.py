"""The source tree as the architecture tests see it: modules, their syntax, and the layers they stand in."""

import ast
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent.parent
SOURCE = REPOSITORY / "src"

# The part of the tree that only computes: every layer up to and including wire (docs/ARCHITECTURE.md).
PURE_LAYERS = (
    "errors",
    "profile",
    "records",
    "facts",
    "datalog",
    "policy",
    "reconcile",
    "interlace",
    "tangles",
    "reactive",
    "cluster",
    "wire",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """One Python file."""

    path: Path

    @property
    def place(self) -> str:
        """The path from the repository's root, for messages."""
        return self.path.relative_to(REPOSITORY).as_posix()

    @property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @property
    def tree(self) -> ast.Module:
        return _parse(self.path)

    @property
    def layer(self) -> str:
        """The name right under ``bobbin`` that this source module belongs to; empty for ``bobbin`` itself."""
        parts = self.path.relative_to(SOURCE / "bobbin").with_suffix("").parts
        return "" if parts == ("__init__",) else parts[0]

    def functions(self) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
        """Every function and method, nested ones included."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield node


@cache
def _parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


@cache
def source_modules() -> tuple[Module, ...]:
    """Every module that ships."""
    return tuple(Module(path=path) for path in sorted(SOURCE.rglob("*.py")))


def pure_modules() -> list[Module]:
    """Every module of the layers that only compute."""
    return [module for module in source_modules() if module.layer in PURE_LAYERS]


@cache
def repository_modules() -> tuple[Module, ...]:
    """Every Python file of the repository, tests and tools included."""
    return tuple(Module(path=path) for path in repository_files() if path.suffix == ".py")


@cache
def repository_files() -> tuple[Path, ...]:
    """The files that are, or are about to be, committed; outside a git checkout every file that make did not make."""
    if shutil.which("git") and (REPOSITORY / ".git").exists():
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listing = subprocess.run(command, cwd=REPOSITORY, capture_output=True, check=True).stdout.decode()
        paths = [REPOSITORY / name for name in listing.split("\0") if name]
    else:
        made = {".venv", "site", "build", "dist", "node_modules", "__pycache__", ".git"}
        paths = [path for path in REPOSITORY.rglob("*") if made.isdisjoint(path.relative_to(REPOSITORY).parts)]
    return tuple(sorted(path for path in paths if path.is_file()))


@cache
def project_settings() -> dict[str, Any]:
    """pyproject.toml."""
    return tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))


def import_contract(identifier: str) -> dict[str, Any]:
    """One contract of the import linter, by its id."""
    contracts = project_settings()["tool"]["importlinter"]["contracts"]
    (contract,) = [contract for contract in contracts if contract["id"] == identifier]
    assert isinstance(contract, dict)
    return contract


def exceptions(name: str) -> set[str]:
    """The entries of a ratchet: a list, in this folder, of what a rule still lets pass."""
    lines = (Path(__file__).resolve().parent / name).read_text(encoding="utf-8").splitlines()
    return {line.strip() for line in lines if line.strip() and not line.startswith("#")}
