"""What it costs two sides to find out what differs between their advertisements, against negentropy and plain ways."""

import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Final

import msgspec

from benchmarks import peer_negentropy, reconcile_plot
from benchmarks.peer_negentropy import Reconciled
from benchmarks.reconcile_once import Answer
from benchmarks.reconcile_sides import Kind, Talk, Told
from benchmarks.rounds import setting
from bobbin.interlace.choice import Strategy
from measurement.result import Ratio, Result, Row

ONLY_BY_NAME: Final = True

QUESTION: Final = (
    "Two sides advertise a million records each, and nearly the same ones. How many bytes, round trips and seconds of "
    "processor time does it take until each knows exactly what the other advertises?"
)
NOTE_BYTES: Final = (
    f"Bytes are those of the advertise phase in both directions, as they leave the codec. *Identifying* is everything "
    f"but the advertisement records that are listed. Both sides speak at once, so two blocks of each take one round "
    f"trip. Every exchange ends with a count and a root over all claims that agree on both sides. Peer: negentropy of "
    f"nostr-tools {peer_negentropy.VERSION}, without limit on frames. Its figure counts until one side has found every "
    f"difference; the other would have to be told."
)
NOTE_PROCESSOR: Final = (
    "Processor time of a side is what it spends on the peer's blocks of the advertise phase: decoding, the short ids "
    "under the key of the link, symbols, peeling, listing, the comparison of roots. The index stands before. Rules are "
    "not evaluated in that time. Negentropy's is without the building of its storage."
)
NOTE_INDEX: Final = (
    "The index is built from names and fields: rendering, hashing, sorting, and the root. BLAKE3 and sort are over the "
    "rendered rows alone. A claim is added together with its digest and the new root. The bar can be read in two ways, "
    "and both are given."
)
NOTE_FIELDS: Final = (
    "Group and application are advertised of every record, and are the same of all of them; so most of a rendering is "
    "made once, and a listing compresses well. *With times* a rule reads the TAI as well, which is something else of "
    "each record. Recent differences are measured like that, because stretches of time are compared only where "
    "advertisements tell times anyway; where they do not, a recent difference costs what a scattered one does."
)
PLOT: Final = Path(__file__).resolve().parent.parent / "docs" / "images" / "reconcile.svg"
PLOT_DIFFERENCES: Final = (2, 20, 200, 2_000, 20_000)
PLOT_KINDS: Final = (Kind.SCATTERED, Kind.RECENT)
MEGABYTE: Final = 1_000_000


def run() -> Result:
    """Measure."""
    count = setting("RECONCILE_RECORDS", 1_000_000)
    rounds = setting("RECONCILE_ROUNDS", 3)
    many = min(1_000, count // 10)
    scattered, peers = _take_turns(count, many, rounds)
    first = scattered[0].talks[Strategy.AUTO]
    plainly = _once(count, many, Kind.SCATTERED, Strategy.PARTITIONS).talks[Strategy.PARTITIONS]
    timed = _once(count, many, Kind.SCATTERED, Strategy.AUTO, told=Told.TIME).talks[Strategy.AUTO]
    recent = _once(count, many, Kind.RECENT, Strategy.AUTO, told=Told.TIME).talks[Strategy.AUTO]
    recent_peer = peer_negentropy.reconcile(count, many, Kind.RECENT)
    few = _once(count, 10, Kind.SCATTERED, Strategy.AUTO).talks[Strategy.AUTO]
    few_peer = peer_negentropy.reconcile(count, 10, Kind.SCATTERED)
    unchanged = _once(count, 0, Kind.UNCHANGED, Strategy.AUTO).talks[Strategy.AUTO]
    empty = _once(count, 0, Kind.EMPTY, Strategy.AUTO)
    standing, varied = (_measure_index(count, rounds, told) for told in (Told.SAME, Told.TIME))
    rows = [
        *_talk_rows(f"{many:,} scattered", first),
        *_peer_rows(f"{many:,} scattered", peers[0]),
        Row(name=f"{many:,} scattered, by partitions", value=plainly.bytes, unit="bytes", note=_turns(plainly)),
        Row(
            name=f"{many:,} scattered, everything listed in plain text", value=scattered[0].listing_bytes, unit="bytes"
        ),
        *_talk_rows(f"{many:,} scattered, with times", timed),
        *_talk_rows(f"{many:,} recent, with times", recent),
        *_peer_rows(f"{many:,} recent", recent_peer),
        *_talk_rows("10 scattered", few),
        *_peer_rows("10 scattered", few_peer),
        *_talk_rows("unchanged since the cursor", unchanged),
        *_talk_rows("against a side with nothing", empty.talks[Strategy.AUTO]),
        Row(name="peak memory of that, both sides", value=round(empty.peak_bytes / MEGABYTE), unit="MB"),
        *_index_rows(varied),
    ]
    ratios = [
        _bar(f"{many:,} scattered: bytes to identify", first.identify_bytes, 40_000),
        _bar(f"{many:,} scattered: bytes to list one difference", round(first.list_bytes / many, 1), 150),
        _bar(f"{many:,} scattered: round trips to identify", first.identify_turns / 2, 2),
        *_processor_ratios(scattered, peers),
        _bar(f"{many:,} scattered, with times: bytes to identify", timed.identify_bytes, 40_000),
        _bar(f"{many:,} scattered, with times: bytes to list one difference", round(timed.list_bytes / many, 1), 150),
        _bar(f"{many:,} recent: bytes to identify", recent.identify_bytes, 20_000),
        _bar(f"{many:,} recent: round trips to identify", recent.identify_turns / 2, 3),
        _bar("10 scattered: bytes to identify", few.identify_bytes, 1_500, note="the bar read as for 1,000"),
        _bar("10 scattered: all bytes", few.bytes, 1_500, note="the bar read with the listing of what differs"),
        _bar(
            "against a side with nothing: bytes / plain text listing",
            round(empty.talks[Strategy.AUTO].bytes / empty.listing_bytes, 3),
            0.35,
        ),
        _bar("unchanged since the cursor: bytes", unchanged.bytes, 300),
        *_index_ratios(standing),
    ]
    _plot()
    return Result(
        question=QUESTION,
        rows=rows,
        ratios=ratios,
        notes=[NOTE_BYTES, NOTE_FIELDS, NOTE_PROCESSOR, NOTE_INDEX, _plot_note()],
    )


# ---- measuring ------------------------------------------------------------------------------------------------------


def _take_turns(count: int, differences: int, rounds: int) -> tuple[list[Answer], list[Reconciled]]:
    ours: list[Answer] = []
    theirs: list[Reconciled] = []
    for _ in range(rounds):
        ours.append(_once(count, differences, Kind.SCATTERED, Strategy.AUTO))
        theirs.append(peer_negentropy.reconcile(count, differences, Kind.SCATTERED))
    return ours, theirs


def _once(
    count: int, differences: int, kind: Kind, *strategies: Strategy, told: Told = Told.SAME, capable: bool = False
) -> Answer:
    manner = [str(count), str(differences), kind, told, "capable" if capable else "plain"]
    command = [sys.executable, "-m", "benchmarks.reconcile_once", *manner, *strategies]
    return msgspec.json.decode(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout, type=Answer)


def _measure_index(count: int, rounds: int, told: Told) -> dict[str, list[float]]:
    """Seconds of each round, by what was done."""
    command = [sys.executable, "-m", "benchmarks.reconcile_index", str(count), str(rounds), told]
    seconds: dict[str, list[float]] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return seconds


def index_ratios(seconds: dict[str, list[float]]) -> tuple[float, float, float]:
    """(build - sort) / BLAKE3, build / (BLAKE3 + sort), adding one / build: the medians of the rounds."""
    turns = list(zip(seconds["build"], seconds["blake3"], seconds["sort"], seconds["add"], strict=True))
    return (
        round(statistics.median((build - ordering) / hashing for build, hashing, ordering, _ in turns), 2),
        round(statistics.median(build / (hashing + ordering) for build, hashing, ordering, _ in turns), 2),
        round(statistics.median(add / build for build, _, _, add in turns), 7),
    )


def _index_ratios(seconds: dict[str, list[float]]) -> list[Ratio]:
    beyond, whole, added = index_ratios(seconds)
    note = ", ".join(f"{name} {statistics.median(some):.3g} s" for name, some in seconds.items())
    return [
        _bar("index: (build - sort) / BLAKE3", beyond, 3, note=note),
        _bar("index: build / (BLAKE3 + sort)", whole, 3),
        _bar("index: add one / build", added, 1e-4),
    ]


def _index_rows(seconds: dict[str, list[float]]) -> list[Row]:
    beyond, whole, _ = index_ratios(seconds)
    note = f"{beyond} × BLAKE3 and the sort, or {whole} × both; with the same fields of all see below"
    built = round(statistics.median(seconds["build"]), 2)
    return [Row(name="index with times: build", value=built, unit="s", note=note)]


def side_ratios(ours: list[list[float]], theirs: list[list[float]], at: int) -> list[float]:
    """What a side has spent, by what the same side of the peer has, round by round, ascending."""
    return sorted(mine[at] / peer[at] for mine, peer in zip(ours, theirs, strict=True))


def _processor_ratios(ours: list[Answer], theirs: list[Reconciled]) -> list[Ratio]:
    """Of each side for itself; the median of the rounds."""
    spent = [answer.talks[Strategy.AUTO].cpu_seconds for answer in ours]
    peers = [list(one.seconds) for one in theirs]
    bars = []
    for at, side in enumerate(("initiator", "responder")):
        ratios = side_ratios(spent, peers, at)
        mine, peer = (round(statistics.median(one[at] for one in some), 2) for some in (spent, peers))
        note = f"{len(ratios)} rounds, {ratios[0]:.3g} to {ratios[-1]:.3g}; {mine} s against {peer} s"
        name = f"processor time of the {side} / negentropy's"
        bars.append(_bar(name, round(statistics.median(ratios), 3), 0.2, note=note))
    return bars


# ---- showing --------------------------------------------------------------------------------------------------------


def _bar(name: str, value: float, bar: float, *, note: str = "") -> Ratio:
    return Ratio(name=name, value=value, bar=bar, comparison="<=", note=note)


def _talk_rows(name: str, talk: Talk) -> list[Row]:
    listed = f"{talk.records_listed:,} records listed in {talk.list_bytes:,} of them" if talk.records_listed else ""
    note = "; ".join(filter(None, [talk.way, _turns(talk), listed]))
    return [Row(name=name, value=talk.bytes, unit="bytes", note=note)]


def _peer_rows(name: str, peer: Reconciled) -> list[Row]:
    note = f"{peer.messages / 2:g} round trips"
    return [Row(name=f"{name}, negentropy", value=peer.bytes, unit="bytes", note=note)]


def _turns(talk: Talk) -> str:
    return f"{talk.turns / 2:g} round trips"


def _plot() -> None:
    count = setting("RECONCILE_PLOT_RECORDS", 50_000)
    panels: dict[str, dict[str, list[tuple[int, int]]]] = {}
    for kind in PLOT_KINDS:
        lines = panels[f"{kind} differences, 2 × {count:,} records"] = {}
        for differences in PLOT_DIFFERENCES:
            told = Told.TIME if kind is Kind.RECENT else Told.SAME
            for name, talk in _once(count, differences, kind, *Strategy, told=told, capable=True).talks.items():
                shown = "the choice" if name == Strategy.AUTO else name
                lines.setdefault(shown, []).append((differences, talk.bytes))
            found = peer_negentropy.reconcile(count, differences, kind).bytes
            lines.setdefault("negentropy", []).append((differences, found))
    PLOT.parent.mkdir(parents=True, exist_ok=True)
    PLOT.write_text(reconcile_plot.draw(panels, emphasised="the choice"), encoding="utf-8")


def _plot_note() -> str:
    return (
        f"![Bytes of the advertise phase against differences, by strategy, with the line of the choice]"
        f"(images/{PLOT.name})\n\nBytes with the listing of what differs, but for negentropy, which lists nothing. "
        f"Both sides have the capability on every line, so partitions and listing are compressed like the rest. The "
        f"choice costs a probe of some 300 bytes more than a way that was agreed on before."
    )
