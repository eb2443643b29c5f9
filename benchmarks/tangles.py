"""A tangle that one side has and the other one nearly: against the reference, and what it costs when it is long."""

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from benchmarks import peer_packages, peer_pzp
from benchmarks.network_processes import (
    WORK_SECONDS_MAX,
    Answer,
    PeerFailedError,
    answer_of,
    ended_on_signal,
    next_answer,
    running,
)
from benchmarks.rounds import Rates, ratio_row, setting, take_turns
from benchmarks.tangles_material import Feed, Lacking, fill, make_feed
from benchmarks.tangles_side import COLD, MODERN, PHASES
from bobbin.tangles.message import Message
from measurement.result import Ratio, Result, Row

QUESTION: Final = (
    "Two peers have the same feed, and one of them lacks the newest posts. How long does it take until it has them, "
    "over the wire of the reference and in its nine phases, against two peers of the reference? How much is said "
    "besides the messages in the modern mode, and how often? And what does it cost where the feed is ten times as long?"
)
SHORT_BAR: Final = 1 / 3
LONG_BAR: Final = 1 / 10
METADATA_BAR: Final = 1_000
ROUND_TRIPS_BAR: Final = 2
GROWTH_BAR: Final = 1.5
REFERENCE: Final = "reference"


class Pair:
    """A feed, and folders with both sides of it, of ours and of the reference. Sessions run on copies."""

    def __init__(self, folder: Path, posts: int, missing: int) -> None:
        self.posts: Final = posts
        self.missing: Final = missing
        self.answers: Final[dict[str, list[Answer]]] = {}
        """What the sessions of each kind came to."""
        self._folder: Final = folder
        self._feed: Final[Feed] = make_feed(posts)
        folder.mkdir()
        whole = self._feed.messages()
        fill(folder / "writer.db", self._feed.id, whole)
        peer_pzp.fill(folder / "writer", whole)
        peer_pzp.fill(folder / Lacking.NEWEST, self._messages(Lacking.NEWEST))
        fill(folder / f"{Lacking.NEWEST}.db", self._feed.id, self._messages(Lacking.NEWEST))

    def _messages(self, lacking: Lacking) -> list[Message]:
        return self._feed.messages(self._feed.without(self.missing, lacking))

    def take_turns(self, rounds: int) -> Rates:
        """Seconds of each kind of session, round by round."""
        return take_turns(
            {
                REFERENCE: self._timed(REFERENCE, self._reference),
                PHASES: self._timed(PHASES, lambda: self._ours(PHASES)),
                COLD: self._timed(COLD, lambda: self._ours(PHASES, COLD)),
                MODERN: self._timed(MODERN, lambda: self._ours(MODERN)),
            },
            rounds=rounds,
        )

    def scatter(self, rounds: int) -> None:
        """Sessions in the modern mode for as many posts that are lacking all over the feed."""
        fill(self._folder / f"{Lacking.SCATTERED}.db", self._feed.id, self._messages(Lacking.SCATTERED))
        self.answers[Lacking.SCATTERED] = [self._ours(MODERN, lacking=Lacking.SCATTERED) for _ in range(rounds)]

    def chances(self, sessions: int) -> list[tuple[int, int]]:
        """For many of these, bytes and answers until the messages go out."""
        sides = [str(self._folder / f"{name}.db") for name in ("writer", Lacking.SCATTERED)]
        command = [sys.executable, "-m", "benchmarks.tangles_chance", *sides, self._feed.id, str(sessions)]
        found: list[tuple[int, int]] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        return found

    def brought(self, kind: str) -> set[float]:
        """How many messages the sessions of a kind have brought."""
        return {float(answer["messages"]) for answer in self.answers[kind]}

    def _timed(self, kind: str, session: Callable[[], Answer]) -> Callable[[], float]:
        def seconds() -> float:
            answer = session()
            self.answers.setdefault(kind, []).append(answer)
            return float(answer["seconds"])

        return seconds

    def _reference(self) -> Answer:
        return peer_pzp.synchronise(self._folder / "writer", self._folder / Lacking.NEWEST, self._feed.id)

    def _ours(self, mode: str, *more: str, lacking: Lacking = Lacking.NEWEST) -> Answer:
        command = [sys.executable, "-m", "benchmarks.tangles_side"]
        with tempfile.TemporaryDirectory(prefix="bobbin-bench-") as folder:
            writer, reader = (str(shutil.copy(self._folder / f"{name}.db", folder)) for name in ("writer", lacking))
            with running([*command, "serve", writer, self._feed.id, mode, *more]) as server:
                where = str(next_answer(server, seconds_max=WORK_SECONDS_MAX)["address"])
                answer = answer_of([*command, "fetch", reader, self._feed.id, mode, where, *more])
        if mode == MODERN and answer["messages"] != self.missing:
            raise PeerFailedError(f"a session brought {answer['messages']} of {self.missing} messages")
        return answer


def run() -> Result:
    """Measure. A reference that is not there is an error, not a gap."""
    posts, many = setting("TANGLES_POSTS", 1_000), setting("TANGLES_MANY_POSTS", 10_000)
    missing = setting("TANGLES_MISSING", 10)
    peer_packages.install("pzp")
    with ended_on_signal(), tempfile.TemporaryDirectory(prefix="bobbin-bench-") as folder:
        short, long = Pair(Path(folder) / "short", posts, missing), Pair(Path(folder) / "long", many, missing)
        rounds = setting("TANGLES_ROUNDS", 5)
        seconds = short.take_turns(rounds), long.take_turns(setting("TANGLES_LONG_ROUNDS", 1))
        short.scatter(rounds)
        for pair in (short, long):
            _same(pair.brought(REFERENCE), pair.brought(PHASES) | pair.brought(COLD))
        growth = _growth(missing, posts, many)
        rows = [
            *(row for pair, spent in zip((short, long), seconds, strict=True) for row in _session_rows(pair, spent)),
            _chance_row(short, setting("TANGLES_CHANCES", 200)),
            *_growth_rows(growth),
        ]
        ratios = [
            _against(short, seconds[0], SHORT_BAR),
            _against(long, seconds[1], LONG_BAR),
            *_modern_ratios(short),
            ratio_row(
                f"modern, index standing: processor time, {many:,} posts / {posts:,} posts",
                growth,
                str(many),
                str(posts),
                bar=GROWTH_BAR,
                comparison="<=",
            ),
        ]
    return Result(question=QUESTION, rows=rows, ratios=ratios, notes=_notes())


# ---- measuring ------------------------------------------------------------------------------------------------------


def _same(reference: set[float], ours: set[float]) -> None:
    """The nine phases bring as much as they bring at the reference, neither more nor less: the filters are the same."""
    if len(reference | ours) != 1:
        raise PeerFailedError(f"the reference brought {reference} messages, ours {ours}")


def _growth(missing: int, *lengths: int) -> Rates:
    """Processor seconds of both sides together, session by session, for each length."""
    rounds = str(setting("TANGLES_GROWTH_ROUNDS", 25))
    command = [sys.executable, "-m", "benchmarks.tangles_growth", str(missing), rounds, *map(str, lengths)]
    answer: Rates = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return answer


# ---- showing --------------------------------------------------------------------------------------------------------


def _against(pair: Pair, seconds: Rates, bar: float) -> Ratio:
    name = f"{pair.posts:,} posts, {pair.missing} missing: seconds / reference"
    return ratio_row(name, seconds, PHASES, REFERENCE, bar=bar, comparison="<=")


def _session_rows(pair: Pair, seconds: Rates) -> list[Row]:
    names = {
        REFERENCE: "reference, two processes of Node.js",
        PHASES: "nine phases, two processes",
        COLD: "nine phases, neither side has read the tangle before",
        MODERN: "modern mode, two processes",
    }
    return [
        Row(
            name=f"{pair.posts:,} posts, {pair.missing} missing: {name}",
            value=round(statistics.median(seconds[kind]), 4),
            unit="s",
            note=f"brought {max(pair.brought(kind)):g} of {pair.missing}",
        )
        for kind, name in names.items()
    ] + [_said_row(f"{pair.posts:,} posts: {kind}", pair.answers[kind][0]) for kind in (PHASES, MODERN)]


def _said_row(name: str, answer: Answer) -> Row:
    note = f"{answer['frames_bytes']:,} with the messages; {answer['turns']} frames in turns"
    return Row(name=f"{name}, said besides the messages", value=answer["metadata"], unit="bytes", note=note)


def _chance_row(pair: Pair, sessions: int) -> Row:
    found = pair.chances(sessions)
    more = [said for said, answers in found if answers > ROUND_TRIPS_BAR]
    note = f"of {sessions} sessions; {statistics.median(said for said, _ in found):,.0f} bytes until then, mostly"
    if more:
        note += f", and up to {max(more):,} in those"
    return Row(
        name=f"modern, {pair.posts:,} posts, {pair.missing} scattered missing: a sketch that had to be continued",
        value=len(more),
        note=note,
    )


def _modern_ratios(pair: Pair) -> list[Ratio]:
    ratios: list[Ratio] = []
    for lacking, kind in ((Lacking.NEWEST, MODERN), (Lacking.SCATTERED, Lacking.SCATTERED)):
        for what, field, bar in (
            ("bytes of metadata", "metadata", METADATA_BAR),
            ("round trips", "answers", ROUND_TRIPS_BAR),
        ):
            values = sorted(float(answer[field]) for answer in pair.answers[kind])
            turns = statistics.median(float(answer["turns"]) for answer in pair.answers[kind])
            note = f"{len(values)} rounds, {values[0]:g} to {values[-1]:g}"
            ratios.append(
                Ratio(
                    name=f"modern, {pair.posts:,} posts, {pair.missing} {lacking} missing: {what}",
                    value=statistics.median(values),
                    bar=bar,
                    comparison="<=",
                    note=f"{note}; {turns:g} frames in turns, the closing one included" if field == "answers" else note,
                )
            )
    return ratios


def _growth_rows(growth: Rates) -> list[Row]:
    return [
        Row(
            name=f"modern, {int(length):,} posts, index standing: processor time of both sides",
            value=round(1000 * statistics.median(seconds), 2),
            unit="ms",
        )
        for length, seconds in growth.items()
    ]


def _notes() -> list[str]:
    sides = (
        f"Reference: pzp-sync {peer_pzp.VERSION} and pzp-db {peer_packages.version_of('pzp', 'pzp-db')} under "
        f"secret-stack {peer_packages.version_of('pzp', 'secret-stack')}, two processes of Node.js with a database on "
        "disk each. Ours: two processes with a store on disk each, the same handshake, cipher and framing over TCP on "
        "loopback. One account writes one feed, each post after the one before; the side that dials lacks the newest. "
        "Both have the goal `all`. The clock runs from the moment before the dialling until what the session brought "
        "is in the database of that side; ours is durable then, and the link is closed. Both sides have loaded their "
        "data before: the reference its whole log, ours the tangle. Where neither side has read the tangle, only the "
        "stores are open."
    )
    chance = (
        "The filters of the nine phases are sized by depth and capped, so in a long feed posts stay missing by chance, "
        "as many at the reference as here. The modern mode brings all. Its sketches are salted for each session; one "
        "that does not decode is continued, which takes one more round trip."
    )
    said = (
        "Metadata is everything in the frames of the session, both ways, less the bytes of the messages that were "
        "lacking. The frame heads of the link are not in it, nor is the question for the peer's manifest, one round "
        "trip on the new link, by which the modern mode is agreed on. A round trip is something that the dialling side "
        "says and then waits for the answer. After the last answer it may speak once more, and wait for nothing: so "
        "the other side learns that both have the same. *Scattered*: as many posts lack all over the feed."
    )
    growth = (
        "Growth: two sides have the tangle and its index in memory. One gets as many posts more as were missing "
        "before, and a session brings them to the other one, durable. What is measured is the processor time of both "
        "sides for that session, with the indexing of the new posts, and without a link between them. A cost that goes "
        "with the logarithm of the length would be 4 / 3 where the feed is 10,000 posts and not 1,000; one that goes "
        "with the length, 10. There is no such bar for the nine phases, whose filters hold every post."
    )
    return [sides, chance, said, growth]
