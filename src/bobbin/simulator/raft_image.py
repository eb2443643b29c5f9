"""What a log holds, in numbers: the image by which a checker knows a node's log, in memory and on its disk.

An image keeps no payloads. Each entry is its term and a chain: a number made of the chain before it, the term and the
payload, so that two logs with one chain at one place agree in everything before it. Chains are of one process only;
they never reach a trace.
"""

from typing import Final

from bobbin.cluster.names import Index, Term
from bobbin.cluster.raft.entries import Configuration, Entry, SnapshotMetadata

CHAIN_BEGIN: Final = 0


def link(chain: int, entry: Entry) -> int:
    """The chain at an entry, from the chain before it."""
    return hash((chain, entry.term, entry.payload))


class LogImage:
    """A log: from where on entries are held, and term and chain of each."""

    __slots__ = ("base", "base_chain", "base_term", "chains", "configurations", "snapshot", "terms")

    def __init__(self, bootstrap: Configuration | None) -> None:
        self.base: int = 0
        """The place before the first entry that is held."""
        self.base_chain: int | None = CHAIN_BEGIN
        """None where nobody has seen the entries before."""
        self.base_term: int = 0
        self.terms: list[int] = []
        self.chains: list[int] = []
        self.configurations: list[tuple[int, Configuration | None]] = [(0, bootstrap)]
        """With their places, ascending. The first stands at or before the base, the last is in force."""
        self.snapshot: SnapshotMetadata | None = None

    def copy(self) -> "LogImage":
        """One that may change by itself."""
        other = LogImage(None)
        for name in ("base", "base_chain", "base_term", "snapshot"):
            setattr(other, name, getattr(self, name))
        other.terms, other.chains = self.terms[:], self.chains[:]
        other.configurations = self.configurations[:]
        return other

    @property
    def last_index(self) -> Index:
        return Index(self.base + len(self.terms))

    @property
    def last_term(self) -> Term:
        return Term(self.terms[-1] if self.terms else self.base_term)

    @property
    def last_chain(self) -> int | None:
        return self.chains[-1] if self.chains else self.base_chain

    @property
    def configuration(self) -> Configuration | None:
        return self.configurations[-1][1]

    @property
    def snapshot_index(self) -> int:
        return 0 if self.snapshot is None else self.snapshot.last_index

    def chain_at(self, index: int) -> int | None:
        """None where no entry is held, or nobody knows."""
        if self.base < index <= self.base + len(self.chains):
            return self.chains[index - self.base - 1]
        return self.base_chain if index == self.base else None

    def term_at(self, index: int) -> int | None:
        """None where no entry is held."""
        if self.base < index <= self.base + len(self.terms):
            return self.terms[index - self.base - 1]
        return self.base_term if index == self.base else None

    def append(self, entry: Entry, chain: int) -> None:
        """An entry that follows the last."""
        assert entry.index == self.last_index + 1, f"entry {entry.index} after {self.last_index}"
        self.terms.append(entry.term)
        self.chains.append(chain)
        if isinstance(entry.payload, Configuration):
            self.configurations.append((entry.index, entry.payload))

    def truncate(self, from_index: int) -> None:
        """Nothing is held from there on."""
        assert from_index > self.base, f"cut at {from_index}, of which only the snapshot knows"
        del self.terms[from_index - self.base - 1 :]
        del self.chains[from_index - self.base - 1 :]
        while len(self.configurations) > 1 and self.configurations[-1][0] >= from_index:
            self.configurations.pop()

    def cut(self, first_index: int, metadata: SnapshotMetadata) -> None:
        """A snapshot stands in for what is before a place."""
        self.snapshot = metadata
        dropped = first_index - 1 - self.base
        if dropped <= 0:
            return
        assert dropped <= len(self.terms), f"a cut at {first_index} of a log that ends at {self.last_index}"
        self.base_term, self.base_chain = self.terms[dropped - 1], self.chains[dropped - 1]
        del self.terms[:dropped]
        del self.chains[:dropped]
        self.base += dropped
        while len(self.configurations) > 1 and self.configurations[1][0] <= self.base:
            self.configurations.pop(0)

    def reset(self, metadata: SnapshotMetadata, chain: int | None) -> None:
        """A snapshot in place of everything."""
        self.snapshot = metadata
        self.base, self.base_term, self.base_chain = metadata.last_index, metadata.last_term, chain
        self.terms.clear()
        self.chains.clear()
        self.configurations = [(metadata.last_index, metadata.configuration)]
