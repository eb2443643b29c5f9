"""What a leader knows of one follower, and how much it lets travel to it at once.

A follower is probed, one message at a time, until an answer shows where its log agrees; then messages are pipelined
with an optimistic ``next_index``, until one is refused or not answered in time. A follower that needs what the log no
longer holds is offered a snapshot instead. Always: ``match_index`` never falls. It is below ``next_index``, except for
a follower that has lost what it acknowledged.
"""

from collections import deque
from enum import Enum
from typing import Final, NamedTuple

from bobbin.cluster.names import Index

PORTION_MAX: Final = 1 << 20


class Pace(Enum):
    """How a follower is served."""

    PROBE = "probe"
    """One message at a time: where the logs agree is not known, or something was lost."""
    PIPELINE = "pipeline"
    SNAPSHOT = "snapshot"
    """Only offers of a snapshot."""


class Flight(NamedTuple):
    """A message with entries that is not answered yet."""

    round: int
    previous_index: int
    last_index: int
    sent_ns: int


class Progress:
    """One follower or learner, as its leader sees it."""

    __slots__ = (
        "acknowledged_round",
        "beat",
        "failures",
        "flights",
        "floor_round",
        "heartbeat_ns",
        "last_contact_ns",
        "last_sent_ns",
        "match_index",
        "next_index",
        "pace",
        "portion",
        "put_off_round",
        "refusals",
        "sent_round",
    )

    def __init__(self, next_index: Index, now_ns: int) -> None:
        self.match_index = Index(0)
        """Up to here the follower's durable log is the leader's."""
        self.next_index = next_index
        """The next entry to send."""
        self.pace = Pace.PROBE
        self.last_contact_ns = -1
        """When an answer in this term last came, whatever it said; -1 for never."""
        self.last_sent_ns = now_ns
        self.heartbeat_ns = now_ns
        """When the last heartbeat was due; see ``note_silence``."""
        self.beat: tuple[int, int] | None = None
        """Round and moment of the latest heartbeat that is not answered yet."""
        self.failures = 0
        """Heartbeats in a row, or messages given up, without any contact since."""
        self.refusals = 0
        """In a row."""
        self.sent_round = 0
        self.acknowledged_round = 0
        """The latest message that the follower has answered."""
        self.floor_round = 0
        """Refusals of messages before this one were sent before the last change of mind, and say nothing new."""
        self.put_off_round = 0
        """The latest message of which the follower has said that it took nothing."""
        self.portion = PORTION_MAX
        """As many entries as a message may have: about what the follower takes at once."""
        self.flights: deque[Flight] = deque()

    def has_room(self, in_flight_max: int) -> bool:
        """Whether another message with entries may be sent."""
        if self.pace is Pace.PIPELINE:
            return len(self.flights) < in_flight_max
        return self.pace is Pace.PROBE and not self.flights

    @property
    def held_index(self) -> int:
        """What the follower holds now as far as is known: below ``match_index`` while it has lost some of that."""
        return min(self.match_index, self.next_index - 1)

    def sent(self, round_: int, last_index: int, now_ns: int) -> None:
        """A message with entries has left."""
        self.flights.append(Flight(round_, self.next_index - 1, last_index, now_ns))
        self.last_sent_ns = now_ns
        self.sent_round = round_
        if self.pace is Pace.PIPELINE:
            self.next_index = Index(last_index + 1)

    def contact(self, round_: int, now_ns: int) -> int | None:
        """Any answer of this term, a refusal as well (CL-068). Returns how long a heartbeat took, if it answers one."""
        self.last_contact_ns = now_ns
        self.failures = 0
        self.acknowledged_round = max(self.acknowledged_round, round_)
        if self.beat is None or self.beat[0] != round_:
            return None
        took_ns = now_ns - self.beat[1]
        self.beat = None
        return took_ns

    def accepted(self, match_index: Index, round_: int = 0, latest_round: int = 0) -> bool:
        """The follower holds the leader's log up to ``match_index``; whether that is news (CL-059).

        Where it has taken only a part of the message of this round, the rest is sent at once, in portions of that size
        at first; where it has taken nothing, when it answers the same message once more, or when time is up.
        """
        flight = next((flight for flight in self.flights if flight.round == round_), None)
        is_news = self._matched(match_index)
        if flight is None:
            return is_news
        taken = match_index - flight.previous_index
        if match_index >= flight.last_index:
            self.portion = min(2 * self.portion, PORTION_MAX)
        elif taken > 0 or self.put_off_round == round_:
            if taken > 0:
                self.portion = taken
            self.next_index = min(self.next_index, Index(self.match_index + 1))
            self._probe(latest_round)
        else:
            self.put_off_round = round_
        return is_news

    def refused(
        self, round_: int, agrees_at_most: int, latest_round: int, *, power_max: int | None, first_index: int = 1
    ) -> bool:
        """The previous entry was not in the follower's log: go back, twice as far each time (CL-029).

        Further where the follower says that the logs cannot agree up to there. Without ``power_max``, by one each time.
        Not by guessing to before ``first_index``, where only a snapshot would serve.
        Not to before what the follower has acknowledged, unless it says twice that this is gone: its disk was damaged.
        Returns whether it counted: a refusal of a message that was sent before the last step back does not.
        """
        if round_ < self.floor_round or self.pace is Pace.SNAPSHOT:
            return False
        self.refusals += 1
        step = 1 if power_max is None else 2 ** min(self.refusals, power_max)
        backwards = min(max(self.next_index - step, first_index), agrees_at_most + 1)
        is_damaged = self.refusals > 1 and agrees_at_most < self.match_index
        self.next_index = Index(max(backwards, 1 if is_damaged else self.match_index + 1))
        self._probe(latest_round)
        return True

    def give_up(self, now_ns: int, timeout_ns: int, latest_round: int) -> bool:
        """Take what was sent for lost when the oldest was not answered in time; whether it was so."""
        if not self.flights or now_ns - self.flights[0].sent_ns < timeout_ns:
            return False
        if self.pace is Pace.PIPELINE:
            self.next_index = min(self.next_index, Index(self.match_index + 1))
        self.failures += 1
        self._probe(latest_round)
        return True

    def await_snapshot(self) -> None:
        """The follower needs what the log no longer holds."""
        self.pace = Pace.SNAPSHOT
        self.flights.clear()

    def note_silence(self, now_ns: int) -> bool:
        """A heartbeat is about to leave; whether nothing came back since the one before."""
        silent = self.last_contact_ns < self.heartbeat_ns
        self.failures += silent
        self.heartbeat_ns = now_ns
        return silent

    def check(self) -> None:
        """Assert what always holds."""
        assert self.next_index >= 1
        assert self.match_index >= 0
        assert self.pace is not Pace.PIPELINE or self.match_index < self.next_index
        assert self.pace is Pace.PIPELINE or len(self.flights) <= 1, "one probe at a time"
        assert self.pace is not Pace.SNAPSHOT or not self.flights

    def _matched(self, match_index: Index) -> bool:
        """As ``accepted``, whatever it answers."""
        flights = self.flights
        while flights and flights[0].last_index <= match_index:
            flights.popleft()
        if match_index <= self.match_index:
            return self._regained(match_index)
        self.match_index = match_index
        self.refusals = 0
        if self.pace is Pace.PIPELINE:
            self.next_index = max(self.next_index, Index(match_index + 1))
        else:
            self.pace = Pace.PIPELINE
            flights.clear()
            self.next_index = Index(match_index + 1)
        return True

    def _regained(self, match_index: Index) -> bool:
        """Something that was acknowledged before: news only from a follower that had lost it and has it again."""
        if not self.next_index <= match_index <= self.match_index:
            return False
        self.next_index = Index(match_index + 1)
        if self.pace is not Pace.SNAPSHOT:
            return False
        # A snapshot may end before what the follower once had; entries go on from there.
        self.pace = Pace.PROBE
        return True

    def _probe(self, latest_round: int) -> None:
        self.pace = Pace.PROBE
        self.flights.clear()
        self.floor_round = latest_round + 1
