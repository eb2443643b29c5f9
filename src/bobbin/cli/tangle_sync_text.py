"""What came of bringing tangles up to date, told to people and to programs."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.output import Json, Output
from bobbin.cli.tangle_text import short
from bobbin.cli.text import count_text, printable, size_text

if TYPE_CHECKING:
    from bobbin.tangles.session_effects import Finished, Notice


class Counts(Protocol):
    """Frames and bytes of one kind."""

    frames_in: int
    frames_out: int
    bytes_in: int
    bytes_out: int


class Account:
    """The end of every run, and what was dropped."""

    def __init__(self, notices: "Iterable[Notice]") -> None:
        from bobbin.tangles.session_effects import Finished, Ignored

        self.finished: list[Finished] = []
        self.ignored: list[Ignored] = []
        for notice in notices:
            if isinstance(notice, Finished):
                self.finished.append(notice)
            elif isinstance(notice, Ignored):
                self.ignored.append(notice)

    @property
    def code(self) -> ExitCode:
        """Whether all came that was wanted."""
        lacking = any(run.refused or run.missing or run.agreed is False for run in self._last())
        return ExitCode.NOT_ALL if lacking or self.ignored else ExitCode.OK

    def _last(self) -> "list[Finished]":
        """Of each tangle the last run: one that did not bring all is followed by another."""
        return list({run.tangle: run for run in self.finished}.values())

    def value(self, traffic: Mapping[str, Counts]) -> dict[str, Json]:
        """For programs."""
        return {
            "runs": [
                {
                    "tangle": run.tangle,
                    "role": str(run.role),
                    "sent": run.sent,
                    "received": run.received,
                    "added": list(run.added),
                    "refused": [
                        {
                            "id": one.message,
                            "rule": None if one.rule is None else str(one.rule),
                            "detail": one.detail,
                        }
                        for one in run.refused
                    ],
                    "missing": run.missing,
                    "agreed": run.agreed,
                    "turns": run.turns,
                }
                for run in self.finished
            ],
            "ignored": [{"tangle": one.tangle, "reason": one.reason, "detail": one.detail} for one in self.ignored],
            "frames": {
                name: {
                    "frames_out": count.frames_out,
                    "bytes_out": count.bytes_out,
                    "frames_in": count.frames_in,
                    "bytes_in": count.bytes_in,
                }
                for name, count in traffic.items()
            },
            "bytes_out": sum(count.bytes_out for count in traffic.values()),
            "bytes_in": sum(count.bytes_in for count in traffic.values()),
        }

    def lines(self, out: Output, traffic: Mapping[str, Counts]) -> list[str]:
        """For people."""
        lines = [line for run in self.finished for line in _run_lines(out, run)]
        for one in self.ignored:
            where = "" if one.tangle is None else f" in {short(one.tangle)}"
            lines.append(f"{out.style('dropped', fg='yellow')}{where}: {printable(one.detail)}")
        if traffic:
            lines.append("")
        width = max(map(len, traffic), default=0)
        for name, count in sorted(traffic.items()):
            sent = f"{count.frames_out:>4} out {size_text(count.bytes_out):>9}"
            got = f"{count.frames_in:>4} in {size_text(count.bytes_in):>9}"
            lines.append(f"{out.style(f'{name:<{width}}', dim=True)}  {sent}  {got}")
        return lines


def _run_lines(out: Output, run: "Finished") -> list[str]:
    # In the nine phases what is known comes along by design; elsewhere somebody may wonder that the peer counts more.
    known = run.received - len(run.added) - len(run.refused) if run.turns else 0
    more = f" ({known:,} more {'was' if known == 1 else 'were'} here already)" if known > 0 else ""
    parts = [f"{count_text(len(run.added), 'message')} came{more}, {run.sent:,} sent"]
    if run.agreed is True:
        parts.append(out.style("both have the same", fg="green"))
    elif run.agreed is False:
        parts.append(out.style("the two sides still differ", fg="yellow"))
    if run.missing:
        parts.append(out.style(f"{count_text(run.missing, 'message')} did not come", fg="yellow"))
    lines = [f"{out.style(short(run.tangle), bold=True)}  {' · '.join(parts)}"]
    for one in run.refused:
        why = str(one.rule) if one.rule is not None and not one.detail else one.detail
        lines.append(f"  {out.style('refused', fg='yellow')} {short(one.message) or 'a text'}: {printable(why)}")
    return lines
