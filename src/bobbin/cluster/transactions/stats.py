"""What a coordinator counts of its own doings, for status and metrics. Nothing is decided by a count."""

from collections import Counter

from bobbin.cluster.timing import Timing
from bobbin.cluster.transactions.effects import Mistake


class TxStats:
    """Counters since this leader began; none of them falls.

    ``started`` is at any time the sum of ``committed``, ``aborted`` and the undecided transactions of the coordinator.
    """

    __slots__ = (
        "abort_failures",
        "abort_retries",
        "aborted",
        "commit_retries",
        "commits_overdue",
        "committed",
        "conflicts",
        "mistakes",
        "non_orthogonal_shards",
        "orthogonal_merges",
        "prepare_retries",
        "prepare_times",
        "recovered",
        "refused",
        "started",
        "sweeps",
        "timed_out",
        "to_end_times",
        "victims",
        "writes_lost",
    )

    def __init__(self) -> None:
        self.started = 0
        """Begun here, or taken over."""
        self.recovered = 0
        """Taken over from an earlier leader."""
        self.refused = 0
        """Not even begun."""
        self.committed = 0
        """Decided so, durably."""
        self.aborted = 0
        """Decided so; each once, however often it has to be said."""
        self.timed_out = 0
        """Aborted because not all votes came in time."""
        self.conflicts = 0
        """Aborted because a participant found a conflict."""
        self.victims = 0
        """Aborted because they waited in a circle, or stood in an older one's way."""
        self.orthogonal_merges = 0
        """Committed, with changes on several shards of which no two are alike."""
        self.non_orthogonal_shards = 0
        """Transactions that change several shards alike. A warning, for a transfer does just that."""
        self.prepare_retries = 0
        self.commit_retries = 0
        """Messages sent again, like the next one."""
        self.abort_retries = 0
        self.abort_failures = 0
        """Aborts that were given up with acknowledgements missing. Who missed them learns it by asking."""
        self.commits_overdue = 0
        """Commits whose acknowledgements did not all come within ``commit_timeout_ms``. They are still delivered."""
        self.writes_lost = 0
        self.sweeps = 0
        self.mistakes = Counter(dict.fromkeys(Mistake, 0))
        self.prepare_times = Timing()
        """From the beginning to the durable decision to commit."""
        self.to_end_times = Timing()
        """From a durable decision to commit to the last acknowledgement."""
