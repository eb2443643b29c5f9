"""Whether a state is an ordinary one, and whether one may follow another, by what the codebooks know."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from msgspec import Struct

from bobbin.cluster.codebook.global_book import GlobalCodebook
from bobbin.cluster.codebook.local_book import LocalCodebook
from bobbin.cluster.geometry import Embedding, distance, total
from bobbin.errors import UsageError

SIMILARITY_MIN: Final = 0.8
STEP_MAX: Final = 1.0


class TransitionFault(Struct, frozen=True):
    """Why a state may not follow another."""

    step: int
    """Of a path, from 0."""
    reason: str


class PathReport(Struct, frozen=True):
    """What was found of a path of states."""

    faults: tuple[TransitionFault, ...]
    drift: float
    """The sum of all steps."""
    deviation: float
    """The largest distance of a state from what the codebooks know: 1 minus its best similarity."""

    @property
    def is_valid(self) -> bool:
        return not self.faults


class CodebookValidator:
    """Looks at states with a global book, and a local one where there is one. Neither is changed."""

    def __init__(
        self,
        book: GlobalCodebook,
        local: LocalCodebook | None = None,
        *,
        similarity_min: float = SIMILARITY_MIN,
        step_max: float = STEP_MAX,
        strict: bool = True,
    ) -> None:
        """``strict``: both states of a transition must be valid; otherwise only the step is looked at."""
        if not 0.0 < similarity_min <= 1.0 or not step_max > 0.0:
            raise UsageError(f"similarity_min ({similarity_min}) lies in (0, 1], and step_max ({step_max}) above 0")
        self._book = book
        self._local = local
        self._similarity_min = similarity_min
        self._step_max = step_max
        self._strict = strict

    def similarity(self, state: Embedding) -> float:
        """The better of what both books say."""
        found = self._book.quantize(state)
        of_global = 0.0 if found is None else found.similarity
        return of_global if self._local is None else max(of_global, self._local.similarity(state))

    def is_valid(self, state: Embedding) -> bool:
        return self.similarity(state) >= self._similarity_min

    def are_valid(self, states: Sequence[Embedding]) -> list[bool]:
        return [self.is_valid(state) for state in states]

    def fault(self, before: Embedding, after: Embedding) -> str | None:
        """Why the one may not become the other; None where it may."""
        if self._strict:
            for name, state in (("before", before), ("after", after)):
                similarity = self.similarity(state)
                if similarity < self._similarity_min:
                    return f"the state {name} has a similarity of {similarity:.3f}, below {self._similarity_min}"
        step = distance(before, after)
        if not step <= self._step_max:
            return f"the step is {step:.3f} long, above {self._step_max}"
        return None

    def path(self, states: Sequence[Embedding]) -> PathReport:
        """Every step of a path."""
        found = ((step, self.fault(before, after)) for step, (before, after) in enumerate(pairwise(states)))
        return PathReport(
            tuple(TransitionFault(step, reason) for step, reason in found if reason is not None),
            total(distance(before, after) for before, after in pairwise(states)),
            max((1.0 - self.similarity(state) for state in states), default=0.0),
        )
