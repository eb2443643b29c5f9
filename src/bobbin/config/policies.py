"""Policy texts that a configuration names: found beside the file that names them, and compiled before anything runs."""

from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from bobbin.config.findings import Findings
from bobbin.config.sources import Sources, UnusableFile
from bobbin.datalog.diagnostics import InvalidProgram
from bobbin.policy.modules import Query, Selector, compile_query, compile_selector
from bobbin.policy.vocabulary import QUERYABLE

M = TypeVar("M", Selector, Query)


class Policies:
    """The policies of one reading. Each file is compiled once, however many peers share it."""

    def __init__(self, sources: Sources, findings: Findings) -> None:
        self._sources: Final = sources
        self._findings: Final = findings
        self._selectors: Final[dict[Path, Selector | None]] = {}
        self._queries: Final[dict[Path, Query | None]] = {}

    def selector(self, written: str, *, file: Path, key: str) -> Selector | None:
        """The selector in the file that ``key`` of ``file`` names, or None after saying what is wrong."""
        return self._load(written, file, key, self._selectors, compile_selector)

    def query(self, written: str, *, file: Path, key: str) -> Query | None:
        """The query policy in the file that ``key`` of ``file`` names, or None after saying what is wrong."""
        query = self._load(written, file, key, self._queries, compile_query)
        if query is not None and (heads := query.program.heads()) and QUERYABLE not in heads:
            # Valid, but it would show nothing at all; most likely another file was meant.
            message = (
                f"{written} is no query policy: nothing in it defines {QUERYABLE}(P,O), which says what the peer's "
                "rules may see of our records. A query policy that shows nothing at all is an empty file"
            )
            self._findings.add(file, key, message)
            return None
        return query

    def _load(
        self, written: str, file: Path, key: str, known: dict[Path, M | None], compiled: Callable[[bytes], M]
    ) -> M | None:
        path = file.parent / written
        if path in known:
            return known[path]
        known[path] = None
        try:
            text = self._sources.read(path)
        except UnusableFile as error:
            self._findings.add(file, key, str(error))
            del known[path]  # another key that names it is to hear of it, too
            return None
        try:
            known[path] = compiled(text)
        except InvalidProgram as error:
            self._findings.add_mistakes(path, error.diagnostics)
        return known[path]
