"""What a raft machine counts of its own doings, for status and metrics. Nothing is decided by a count."""

from bobbin.cluster.timing import Timing


class RaftTimes:
    """How long things took."""

    __slots__ = ("election_times", "heartbeat_times")

    def __init__(self) -> None:
        self.election_times = Timing()
        """From the first asking for votes to the office, of the elections that were won."""
        self.heartbeat_times = Timing()
        """From a heartbeat to its answer."""


class RaftStats(RaftTimes):
    """Counters since the machine began, named by ``__slots__``; none of them falls."""

    __slots__ = (
        "appends_sent",
        "backoffs",
        "commands_accepted",
        "elections_started",
        "elections_won",
        "entries_refused",
        "entries_sent",
        "heartbeats_answered",
        "heartbeats_failed",
        "heartbeats_sent",
        "malformed",
        "persist_failures",
        "pre_votes_started",
        "proposals_refused",
        "quorum_checks",
        "quorum_losses",
        "reads_confirmed",
        "retries",
        "snapshots_expired",
        "snapshots_installed",
        "snapshots_refused",
        "snapshots_taken",
        "stale_answers",
        "step_downs",
        "strangers",
        "transfers_done",
        "transfers_expired",
    )

    def __init__(self) -> None:
        super().__init__()
        self.elections_started = 0
        self.elections_won = 0
        self.pre_votes_started = 0
        self.step_downs = 0
        """From leader to follower."""
        self.quorum_checks = 0
        self.quorum_losses = 0
        self.heartbeats_sent = 0
        self.heartbeats_answered = 0
        """Messages of a leader, with entries or without, that were answered in its term."""
        self.heartbeats_failed = 0
        """Left, while nothing had come back since the one before."""
        self.appends_sent = 0
        """Messages with entries."""
        self.entries_sent = 0
        self.entries_refused = 0
        """Of a leader, that this node has judged and not taken."""
        self.backoffs = 0
        """Refusals that made a leader go back in its log."""
        self.retries = 0
        """Messages with entries that were not answered in time."""
        self.commands_accepted = 0
        self.proposals_refused = 0
        self.reads_confirmed = 0
        self.stale_answers = 0
        """Of an older term, or to a node that does not lead."""
        self.malformed = 0
        """Messages whose entries do not follow one another, and the like; nothing of them was kept."""
        self.strangers = 0
        """Messages that only a member, or only another node, could have sent."""
        self.persist_failures = 0
        self.snapshots_taken = 0
        self.snapshots_installed = 0
        self.snapshots_refused = 0
        self.snapshots_expired = 0
        """Transfers to this node that took too long."""
        self.transfers_done = 0
        self.transfers_expired = 0
