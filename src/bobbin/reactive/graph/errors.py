"""What a graph refuses, and what it reports. Errors of a computation reach its reader as they are."""

from bobbin.errors import ResourceError, UsageError


class DisposedNode(UsageError):
    """A node was read or written after it had been taken out of the graph."""


class MutationInComputation(UsageError):
    """A computation tried to write, create or dispose. It may only read; effects may do all of these."""


class ReadingSourceSlot(UsageError):
    """A source slot, which is a root of the graph, read another node."""


class IncomparableValue(UsageError):
    """A value cannot be compared with the one before it, so nobody can say whether it is a change."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the values of {name} cannot be compared by ==")


class CycleFound(UsageError):
    """A computation needs its own result. ``path`` names who reads whom, and ends where it began."""

    def __init__(self, path: tuple[str, ...]) -> None:
        super().__init__(f"a computation needs its own result: {' reads '.join(path)}")
        self.path = path


class StillPending(ResourceError):
    """The value is being computed and will come. Whoever reads it in a computation is computed again then."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name} is still being computed", retry=True)


class EffectsFailed(ResourceError):
    """Effects, or eager computations, raised. All values are right and all other effects have run.

    ``errors`` has them in the order in which they came; ``__cause__`` is the group of them.
    """

    def __init__(self, errors: tuple[tuple[str, Exception], ...]) -> None:
        super().__init__(f"failed: {', '.join(f'{name} ({error!r})' for name, error in errors)}", retry=False)
        self.errors = errors
        self.__cause__ = ExceptionGroup("of effects", [error for _, error in errors])


class DrainExhausted(ResourceError):
    """Effects kept each other running until the bound. Those in ``effects`` were due once more and did not run."""

    def __init__(self, effects: tuple[str, ...], rounds: int) -> None:
        super().__init__(f"effects still due after {rounds} rounds of one flush: {', '.join(effects)}", retry=False)
        self.effects = effects
