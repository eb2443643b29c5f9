"""The nodes of a world of exchanges: what each holds, and its clocks.

A node keeps its records in memory, or in the real store on a disk that fails. Whatever changes there is told to every
machine of the node. A crash takes the machines and leaves what is durable.
"""

from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from typing import Final, Protocol

from bobbin.errors import ResourceError
from bobbin.interlace.cursor import Cursor
from bobbin.interlace.effects import Persist, Remember, SaveCursor
from bobbin.interlace.events import Fate, Settled
from bobbin.interlace.messages import Delivered
from bobbin.interlace.ports import Holdings
from bobbin.policy.modules import Query, Selector, compile_query, compile_selector
from bobbin.records.ids import HashText
from bobbin.records.reasons import InvalidRecord
from bobbin.records.record import Record, validate
from bobbin.records.signing import SigningKey
from bobbin.simulator.claim_model import Table
from bobbin.simulator.clock import NodeClock
from bobbin.simulator.decided import Decided
from bobbin.simulator.holdings import MemoryHoldings
from bobbin.simulator.policies import Choice


class LinkHoldings(Holdings, Protocol):
    """What one machine reads of its node, and how its effects are performed there."""

    def persist(self, effect: Persist) -> tuple[Settled, ...]: ...

    def save(self, effect: SaveCursor) -> bool: ...

    def remember(self, effect: Remember) -> None: ...

    def release(self) -> None:
        """The exchange is over."""
        ...


class Vault(Protocol):
    """Where a node keeps its records. What it says it holds is the truth, for a witness to compare with."""

    @property
    def records(self) -> Mapping[str, Record]: ...

    @property
    def refused(self) -> AbstractSet[str]: ...

    @property
    def is_down(self) -> bool:
        """Whether the power is cut, and nothing can be read or written before ``crash``."""
        ...

    def cursor(self, key: str) -> Cursor | None: ...

    def link(self, query: Query | None) -> LinkHoldings:
        """What a new machine reads."""
        ...

    def put(self, record: Record) -> bool: ...

    def remove(self, record: str) -> None: ...

    def lift(self, record: str) -> None: ...

    def crash(self) -> None:
        """Lose everything that is not durable, and start again."""
        ...

    def close(self) -> None: ...


class MemoryVault:
    """Records in memory, shared by all machines of a node. Whatever is stored is durable at once."""

    def __init__(self, decided: Decided | None = None) -> None:
        """``decided``: the decisions of the world that this is in."""
        self._shared: Final = MemoryHoldings(decided=decided)

    @property
    def records(self) -> Mapping[str, Record]:
        return self._shared.records

    @property
    def refused(self) -> AbstractSet[str]:
        return self._shared.refused

    @property
    def is_down(self) -> bool:
        return False

    def cursor(self, key: str) -> Cursor | None:
        return self._shared.cursor(key)

    def link(self, query: Query | None) -> LinkHoldings:
        return self._shared.beside(query)

    def put(self, record: Record) -> bool:
        if record.hash in self._shared.refused:
            return False
        self._shared.put(record)
        return True

    def remove(self, record: str) -> None:
        self._shared.remove(record)

    def lift(self, record: str) -> None:
        self._shared.refused.discard(record)

    def crash(self) -> None:
        """Nothing is lost."""

    def close(self) -> None:
        """Nothing is open."""


class Node:
    """One party of a world."""

    kept: dict[tuple[str, str], Table]
    """For a witness: what an exchange left on a link, for the next one to go on from."""

    def __init__(
        self,
        name: str,
        *,
        clock: NodeClock,
        vault: Callable[[Query | None], Vault],
        choice: Choice,
        key: SigningKey | None,
        honest: bool = True,
    ) -> None:
        """Without ``key`` the node proves nothing about itself."""
        self.name: Final = name
        self.clock: Final = clock
        self.key: Final = key
        self.honest: Final = honest
        self.query_text: Final = choice.query
        self.query: Final = None if choice.query is None else compile_query(choice.query)
        self.vault: Final = vault(self.query)
        self.version = 0
        self.modules: Final[dict[str, bytes]] = {}
        self.kept = {}
        self.expected: Final[set[str]] = set()
        """What must be here: what was acknowledged and not removed."""
        self._doubtful: set[str] | None = None
        self._listeners: list[Callable[[], None]] = []
        self.choice = choice
        self.selector: Selector = compile_selector(choice.selector)

    def change(self, choice: Choice) -> None:
        """Take another policy; what may be looked at stays."""
        self.choice = choice
        self.selector = compile_selector(choice.selector)

    # ---- what a witness sees --------------------------------------------------------------------------------------

    @property
    def records(self) -> Mapping[str, Record]:
        return self.vault.records

    @property
    def refused(self) -> AbstractSet[str]:
        return self.vault.refused

    def cursor(self, key: str) -> Cursor | None:
        return self.vault.cursor(key)

    # ---- what happens to it ---------------------------------------------------------------------------------------

    def listen(self, listener: Callable[[], None]) -> None:
        """Be told of every change."""
        self._listeners.append(listener)

    def unlisten(self, listener: Callable[[], None]) -> None:
        self._listeners.remove(listener)

    def changed(self) -> None:
        """Something came or went."""
        self.version += 1
        for listener in list(self._listeners):
            listener()

    def put(self, record: Record) -> None:
        """A record comes in locally."""
        with self._doubt(self.expected | {record.hash}):
            if self.vault.put(record):
                self.expected.add(record.hash)
                self.changed()

    def remove(self, record: str) -> None:
        """A record is taken out on purpose, and refused from now on."""
        with self._doubt(self.expected - {record}):
            self.vault.remove(record)
            self.expected.discard(record)
            self.changed()

    def persist(self, holdings: LinkHoldings, effect: Persist) -> tuple[Settled, ...]:
        """Records come in over a link."""
        valid = {arrival.record for arrival in effect.arrivals if _is_valid(arrival)}
        with self._doubt(self.expected | (valid - self.refused)):
            settled = holdings.persist(effect)
            self.expected.update(one.record for one in settled if one.fate in (Fate.STORED, Fate.DUPLICATE))
            self.changed()
        return settled

    def recover(self) -> str | None:
        """After a crash: see what is left; returns what is wrong with it, if anything is."""
        self.vault.crash()
        found, possible = set(self.records), [self.expected]
        if self._doubtful is not None:
            possible.append(self._doubtful)
        self._doubtful = None
        wrong = None if found in possible else f"{self.name} has lost or found records in a crash"
        self.expected.clear()
        self.expected.update(found)
        self.changed()
        return wrong

    @contextmanager
    def _doubt(self, after: set[str]) -> Iterator[None]:
        """Something is written. If that fails, it has happened or it has not, and ``recover`` sees which."""
        try:
            yield
        except ResourceError:
            self._doubtful = after
            raise

    def lift(self, record: str) -> None:
        """A record is refused no longer."""
        self.vault.lift(record)
        self.changed()


def _is_valid(arrival: Delivered) -> bool:
    try:
        validate(arrival.raw, requested=HashText(arrival.record))
    except InvalidRecord:
        return False
    return True
