"""A node and its links in words: what ``bobbin links`` and ``bobbin top`` show."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from bobbin.cli.output import Output
from bobbin.cli.text import count_text, size_text
from bobbin.errors import BobbinError
from bobbin.records import tai

if TYPE_CHECKING:
    from bobbin.runtime.status import Ended, LinkStatus, NodeStatus, PastLink

PAST_SHOWN: Final = 5
"""Links that are over and are listed for people; programs get all."""

_WHOLE_BELOW: Final = 100_000
_TENTHS_BELOW: Final = 99.95
"""What would be written with more than three digits is written without tenths."""
_UNITS: Final = ((10**9, "G"), (10**6, "M"), (10**3, "k"))
_MINUTE: Final = 60
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
ARROWS: Final[Mapping[str, str]] = {"in": "←", "out": "→"}
_COLOURS: Final[Mapping[str, str]] = {"idle": "green", "exchanging": "cyan", "waiting": "yellow", "ending": "yellow"}
_CONDITIONS: Final[Mapping[str, str]] = {"ok": "green", "degraded": "yellow"}
_GOOD_ENDS: Final = frozenset({"fixed-point", "node-stopped", "replaced-by-newer-link"})


def duration_text(seconds: float) -> str:
    """A length of time, short: ``5 s``, ``3 min 5 s``, ``2 h 5 min``, ``4 d 2 h``."""
    whole = int(seconds)
    if whole < _MINUTE:
        return f"{whole} s"
    units = ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min"), (1, "s"))
    first = next(at for at, (length, _) in enumerate(units) if whole >= length)
    (length, name), (below, below_name) = units[first], units[first + 1]
    rest = whole % length // below
    return f"{whole // length} {name}" + (f" {rest} {below_name}" if rest else "")


def brief_text(seconds: float) -> str:
    """A length of time in its largest unit alone, for where there is little room: ``5 s``, ``3 min``."""
    number, unit = duration_text(seconds).split(" ")[:2]
    return f"{number} {unit}"


def brief_count(count: int) -> str:
    """A number in at most six characters: whole below a hundred thousand, then ``123 k``, ``12.3 M``."""
    if count < _WHOLE_BELOW:
        return f"{count:,}"
    unit, name = next(one for one in _UNITS if count >= one[0])
    value = count / unit
    return f"{value:.1f} {name}" if value < _TENTHS_BELOW else f"{value:.0f} {name}"


def seconds_between(earlier: str, later: str) -> float | None:
    """How long from one TAI text to another; None where one of them is none."""
    try:
        return max(tai.parse(later) - tai.parse(earlier), 0) / tai.NANOSECONDS
    except BobbinError:
        return None


def ago_text(earlier: str, now: str) -> str:
    """How long ago something was."""
    seconds = seconds_between(earlier, now)
    return "at an unknown time" if seconds is None else f"{duration_text(seconds)} ago"


def node_lines(out: Output, status: "NodeStatus") -> Iterator[str]:
    """The node itself."""
    is_well = status.health == "ok"
    what = status.health if status.condition in (status.health, "ok") else f"{status.condition}: {status.health}"
    health = out.style(what, fg=_CONDITIONS.get(status.condition, "red"), bold=not is_well)
    known = count_text(status.peers, "known peer")
    up = f"up {duration_text(status.age_seconds)}"
    yield f"{'node':<11} {health} · {up} · {count_text(status.records, 'record')} · {known}"
    yield out.style(f"{'our key':<11} {status.verifier or 'none'}")
    yield out.style(f"{'listening':<11} {', '.join(status.listening) or 'nowhere'}")
    if status.reload_failure is not None:
        what = status.reload_failure.replace("\n", "; ")
        yield out.style(f"{'files':<11} files on disk not in force: {what}", fg="red")
    if status.refused:
        yield out.style(f"{'turned away':<11} {counts_text(status.refused)}")


def counts_text(counts: Mapping[str, int]) -> str:
    """How often what happened, the most frequent first."""
    return ", ".join(f"{name} {count:,}" for name, count in sorted(counts.items(), key=lambda one: (-one[1], one[0])))


def link_lines(out: Output, link: "LinkStatus", now: str) -> Iterator[str]:
    """One link, or one peer that is dialled."""
    who = out.style(link.peer or "(nobody yet)", bold=True)
    state = out.style(link.state, fg=_COLOURS.get(link.state))
    secret = " · encrypted" if link.encrypted else ""
    where = link.remote if link.direction == "in" and link.remote else link.address
    yield f"{ARROWS[link.direction]} {who}  {state}{_how_long(link, now)} · {out.style(where)}{secret}"
    if link.verifier is not None:
        yield out.style(f"    key          {link.verifier}", dim=True)
    if link.phase is not None:
        yield f"    fixed point  {rest_text(link, now)}"
        yield f"    records      {link.records_in:,} in, {link.records_out:,} out{_offers(link)}"
        yield f"    bytes        {size_text(link.bytes_in)} in, {size_text(link.bytes_out)} out{_by_phase(link)}"
    if link.missing:
        yield out.style(f"    missing      {missing_text(link)}", fg="red")
    if link.waits:
        yield out.style(f"    waits        {link.waits}")
    if link.slowed:
        yield f"    slowed       {count_text(link.slowed, 'time')}: it began too much in a short time"
    if link.last_end is not None:
        attempts = f", {count_text(link.attempts, 'attempt')} since the last good link" if link.phase is None else ""
        yield out.style(f"    last end     {end_text(link.last_end, now)}{attempts}")


def _how_long(link: "LinkStatus", now: str) -> str:
    """How long a link has been as it is: still, where it is idle; else how long there has been a stream or none."""
    age = duration_text(link.age_seconds)
    if link.phase is None:
        return f" for {age}"
    still = None if link.still_since is None else seconds_between(link.still_since, now)
    idle = "" if still is None or link.state != "idle" else f" for {duration_text(still)}"
    return f"{idle} · up {age}"


def rest_text(link: "LinkStatus", now: str) -> str:
    """When the link was last at rest."""
    if link.fixed_point is None:
        return "none yet"
    return f"{ago_text(link.fixed_point, now)} ({count_text(link.rounds, 'round')})"


def missing_text(link: "LinkStatus") -> str:
    """What was asked for and is not here, and why."""
    rest = link.missing - sum(link.missing_why.values())
    whys = [counts_text(link.missing_why)] * bool(link.missing_why) + [f"on the way {rest:,}"] * (rest > 0)
    return f"{count_text(link.missing, 'record')}: {', '.join(whys)}"


def end_text(end: "Ended", now: str) -> str:
    """How a link ended."""
    detail = f": {end.detail}" if end.detail else ""
    limit = f" (limit {end.limit})" if end.limit else ""
    return f"{ago_text(end.at, now)}, {end.reason}{detail}{limit}"


def past_line(out: Output, past: "PastLink", now: str) -> str:
    """A link that is over."""
    reason = out.style(end_text(past.end, now), fg=None if past.end.reason in _GOOD_ENDS else "red")
    moved = f"{past.records_in:,} in, {past.records_out:,} out"
    return f"{ARROWS[past.direction]} {out.style(past.peer or 'unproven')}  {reason} · {moved}"


def _offers(link: "LinkStatus") -> str:
    return f" · offered {link.offered:,}, the peer offers {link.claimed:,}"


def _by_phase(link: "LinkStatus") -> str:
    parts = [f"{phase} {size_text(size)}" for phase, size in link.bytes_by_phase.items() if size]
    return f" · {' · '.join(parts)}" if parts else ""
