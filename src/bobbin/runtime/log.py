"""The log of a node: one JSON object a line, or one line of text for people.

What a peer has said may stand in a log entry (a detail of an error, the name of a record), and is not to be trusted
there either. So every text is bounded and its control characters are spelled out before it is written: an entry is one
line, whatever is in it, and no terminal obeys it. Signing secrets do not get through, in whatever text they stand.

Entries that anybody on the network can cause are counted: of each kind some are written each minute, and then how many
were not.
"""

import logging
import re
import sys
from collections.abc import Callable, Mapping, MutableMapping
from datetime import UTC, datetime
from time import monotonic_ns
from typing import Final, TextIO, cast

import orjson
import structlog
from structlog.typing import EventDict, FilteringBoundLogger, WrappedLogger

from bobbin.runtime.admission import MINUTE_NS
from bobbin.runtime.node_settings import LogForm, Logging, LogLevel

TEXT_CHARACTERS_MAX: Final = 600
ITEMS_MAX: Final = 32
"""Of a list or a table in one entry."""
DEPTH_MAX: Final = 4
REPEATS_PER_MINUTE: Final = 20
KINDS_MAX: Final = 256
_TRACE_LINES_MAX: Final = 24
_TRACE_LINE_MAX: Final = 300

_SECRET: Final = re.compile(r"&\.[0-9A-Z_a-z~]+")
"""What begins like a signing secret."""
_UNSAFE: Final = re.compile(
    "[\\x00-\\x1f\\x7f-\\x9f\\u061c\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u2069\\ud800-\\udfff\\ufeff\\ufff9-\\ufffb]"
)
"""Control characters, line separators, marks that change the direction of writing, and halves of characters."""


_LEVELS: Final[Mapping[LogLevel, int]] = {
    LogLevel.DEBUG: logging.DEBUG,
    LogLevel.INFO: logging.INFO,
    LogLevel.WARNING: logging.WARNING,
    LogLevel.ERROR: logging.ERROR,
}


def make_log(
    settings: Logging = Logging(),  # noqa: B008 (a frozen value)
    *,
    output: TextIO | None = None,
) -> FilteringBoundLogger:
    """A log of its own; nothing else in the process is configured by this. It writes to standard error unless told."""
    log = structlog.wrap_logger(
        _Output(sys.stderr if output is None else output),
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[settings.level]),
        processors=[
            structlog.processors.add_log_level,
            _stamp,
            structlog.processors.format_exc_info,
            _clean,
            _as_json if settings.format is LogForm.JSON else _as_text,
        ],
        cache_logger_on_first_use=True,
    )
    return cast(FilteringBoundLogger, log)


def clean(value: object, depth: int = 0) -> object:
    """A value as it may stand in an entry: bounded, without secrets, on one line."""
    match value:
        case None | bool() | float():
            return value
        case int():
            return value if abs(value) < 2**63 else clean_text(hex(value))
        case str():
            return clean_text(value)
        case bytes() | bytearray() | memoryview():
            return clean_text(bytes(value[: TEXT_CHARACTERS_MAX // 2]).hex())
        case Mapping() if depth < DEPTH_MAX:
            items = list(value.items())[:ITEMS_MAX]
            return {clean_text(str(name)): clean(item, depth + 1) for name, item in items}
        case list() | tuple() | set() | frozenset() if depth < DEPTH_MAX:
            return [clean(item, depth + 1) for item in list(value)[:ITEMS_MAX]]
        case _:
            return clean_text(str(value))


def clean_text(text: str, characters_max: int = TEXT_CHARACTERS_MAX) -> str:
    """A text on one line, bounded, with everything unsafe spelled out and secrets taken out."""
    # Cut first: what is thrown away need not be looked at. A secret at the cut is still recognised by its beginning.
    cut = text[:characters_max]
    safe = _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", _SECRET.sub("&.(secret)", cut))
    return safe if len(text) <= characters_max else f"{safe}… ({len(text)} characters)"


class Repeats:
    """Bounds how often each kind of entry is written."""

    def __init__(
        self,
        log: FilteringBoundLogger,
        *,
        per_minute: int = REPEATS_PER_MINUTE,
        clock: Callable[[], int] = monotonic_ns,
    ) -> None:
        self._log = log
        self._per_minute = per_minute
        self._clock = clock
        self._began_ns = clock()
        self._seen: dict[str, int] = {}

    def info(self, event: str, kind: str, **values: object) -> None:
        """Write an entry, unless this minute has enough of its kind. ``kind`` stands in the entry as ``reason``."""
        self._write(self._log.info, event, kind, values)

    def warning(self, event: str, kind: str, **values: object) -> None:
        """The same for what somebody should look at."""
        self._write(self._log.warning, event, kind, values)

    def _write(self, write: Callable[..., object], event: str, kind: str, values: dict[str, object]) -> None:
        now = self._clock()
        if now - self._began_ns >= MINUTE_NS:
            self.flush()
            self._began_ns = now
        if kind not in self._seen and len(self._seen) >= KINDS_MAX:
            kind = "others"
        self._seen[kind] = self._seen.get(kind, 0) + 1
        if self._seen[kind] <= self._per_minute:
            write(event, reason=kind, **values)

    def flush(self) -> None:
        """Say how many were not written, and begin to count anew."""
        left_out = {kind: count - self._per_minute for kind, count in self._seen.items() if count > self._per_minute}
        self._seen.clear()
        if left_out:
            self._log.info("entries-left-out", counts=left_out)


class _Output:
    """Writes lines. A log that cannot be written is no reason for anything else to fail."""

    def __init__(self, output: TextIO) -> None:
        self._output = output

    def write(self, line: str) -> None:
        try:
            self._output.write(line + "\n")
            self._output.flush()
        except (OSError, ValueError):  # a full disk, a reader that has gone, a closed file
            pass

    debug = info = warning = error = critical = exception = msg = write


def _stamp(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    del logger, method
    event["time"] = datetime.now(UTC).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"
    return event


def _clean(logger: WrappedLogger, method: str, event: EventDict) -> MutableMapping[str, object]:
    del logger, method
    return {clean_text(name): _trace(value) if name == "exception" else clean(value) for name, value in event.items()}


def _trace(value: object) -> object:
    """A traceback: the end of it says where, so it is cut at the front."""
    return [clean_text(line, _TRACE_LINE_MAX) for line in str(value).splitlines()[-_TRACE_LINES_MAX:]]


def _as_json(logger: WrappedLogger, method: str, event: EventDict) -> str:
    del logger, method
    ordered = {name: event[name] for name in ("time", "level", "event") if name in event}
    return orjson.dumps({**ordered, **event}).decode()


def _as_text(logger: WrappedLogger, method: str, event: EventDict) -> str:
    del logger, method
    rest = [name for name in event if name not in ("time", "level", "event")]
    words = [f"{name}={orjson.dumps(event[name]).decode()}" for name in rest]
    return " ".join([str(event.get("time", "")), str(event.get("level", "")).upper(), str(event["event"]), *words])
