"""The end of an operation: effects run until none is due, what is kept computed is computed, and listeners are told.

Effects go in rounds. Those that a round makes due, by writing, run in the next; the number of rounds is bounded, so
effects that keep each other running are stopped and named. Eager slots are computed after the last effect, once,
however often they were reached, unless an effect has read them before. Then come slots that a listener wants computed.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final, TypeAlias

from bobbin.errors import UsageError
from bobbin.reactive.graph.errors import DrainExhausted, EffectsFailed, StillPending
from bobbin.reactive.graph.flush import Flush
from bobbin.reactive.graph.journal import Journal
from bobbin.reactive.graph.marks import CHECK, CLEAN, DIRTY, FAILED, WAITING
from bobbin.reactive.graph.node import Node
from bobbin.reactive.graph.nodes import Effect, Readable, Slot
from bobbin.reactive.graph.propagation import Propagation

DRAIN_MAX: Final = 1000
"""Rounds of effects in one flush."""

Listener: TypeAlias = Callable[[Flush], None]
Wanted: TypeAlias = Callable[[Readable[object]], bool]

_Errors: TypeAlias = list[tuple[str, Exception]]


class Drain(Propagation):
    """An engine that runs effects and tells listeners."""

    __slots__ = ("_drain_max", "_is_telling", "_journal", "_listeners", "_reports")

    def __init__(self, *, drain_max: int) -> None:
        super().__init__()
        if drain_max < 1:
            raise UsageError("effects need at least one round")
        self._drain_max: Final = drain_max
        self._journal: Journal | None = None
        self._listeners: dict[object, tuple[Listener, Wanted | None]] = {}
        self._reports: Final[list[Flush]] = []
        self._is_telling = False

    def flush(self) -> None:
        errors: _Errors = []
        overdue: tuple[str, ...] = ()
        if self.due or self.written or (self._journal is not None and self._journal.may_differ):
            self.is_ending = True
            try:
                overdue = self._run_due(errors)
            finally:
                self.is_ending = False
                self.depth = 0
                if self.failed:
                    self.forget_failures()
            if self._journal is not None:
                self._report(self._journal, errors)
        else:
            self.depth = 0
            if self.failed:
                self.forget_failures()
        if overdue:
            raise DrainExhausted(overdue, self._drain_max) from (EffectsFailed(tuple(errors)) if errors else None)
        if errors:
            raise EffectsFailed(tuple(errors))

    def listen(self, listener: Listener, wanted: Wanted | None) -> Callable[[], None]:
        """Tell a listener from now on; returns the undo. Heirs have made the journal."""
        number = object()
        # Another dict, because one may come or go while they are being told.
        self._listeners = {**self._listeners, number: (listener, wanted)}

        def undo() -> None:
            self._listeners = {key: value for key, value in self._listeners.items() if key is not number}
            if not self._listeners:
                self._journal = self.touched = None

        return undo

    def _run_due(self, errors: _Errors) -> tuple[str, ...]:
        """Run all that is due; names what still is when the rounds are used up."""
        eager: dict[Node, None] = {}
        rounds = 0
        while True:
            if self.written:
                self.tell_written()
            if not self.due:
                if eager:
                    self._refresh_all(eager, errors)
                    eager = {}
                elif not self.touched or not self._refresh_wanted():
                    return ()
                continue
            if rounds == self._drain_max:
                return self._give_up([*self.due, *eager])
            rounds += 1
            due, self.due = self.due, []
            waiting = iter(due)
            for node in waiting:
                try:
                    if not isinstance(node, Effect):
                        eager[node] = None
                    elif node.mark == CHECK or node.mark == DIRTY:
                        self._run_effect(node, errors)
                except BaseException:
                    self.due += [node, *waiting, *eager]
                    raise

    def _run_effect(self, effect: Effect, errors: _Errors) -> None:
        if effect.mark == CHECK and not self.is_concerned(effect):
            return
        self.active = effect
        try:
            if effect.cleanup is not None:
                try:
                    effect.clean_up()
                except Exception as error:  # noqa: BLE001 -- the user's code, reported after the flush
                    errors.append((effect.name, error))
            effect.run()
        except StillPending:
            # It runs when the value has come, since it has read it.
            pass
        except Exception as error:  # noqa: BLE001 -- as above
            errors.append((effect.name, error))
        finally:
            self.active = None
            if effect.is_due_again and effect.mark == CLEAN:
                effect.mark = DIRTY
                self.due.append(effect)

    def _refresh_all(self, nodes: Iterable[Node], errors: _Errors) -> None:
        for node in nodes:
            if _is_stale(node.mark):
                try:
                    self.refresh(node)
                except StillPending:
                    pass
                except Exception as error:  # noqa: BLE001 -- as above
                    errors.append((node.name, error))

    def _refresh_wanted(self) -> bool:
        """Compute the stale slots that a listener wants; whether that made anything due."""
        wishes = [wanted for _, wanted in self._listeners.values() if wanted is not None]
        if wishes and self.touched is not None:
            for node in list(self.touched):
                if isinstance(node, Slot) and _is_stale(node.mark) and any(wanted(node) for wanted in wishes):
                    self.compute_quietly(node)
        return bool(self.due)

    def compute_quietly(self, node: Slot[object]) -> None:
        """Bring a slot up to date if that is possible. Else it stays stale, which is all that its listeners see."""
        with suppress(Exception):
            self.refresh(node)

    def _give_up(self, overdue: list[Node]) -> tuple[str, ...]:
        """Let what is due wait for the next change of what it reads."""
        self.due = []
        names: dict[str, None] = {}
        for node in overdue:
            if node.mark == CHECK:
                node.doubt()
            elif node.mark == DIRTY:
                node.mark = FAILED
            else:
                continue
            names[node.name] = None
        return tuple(names)

    def _report(self, journal: Journal, errors: _Errors) -> None:
        """Tell the listeners. What they do themselves comes after, in flushes of its own, told in that order."""
        report = journal.take()
        if report is not None:
            self._reports.append(report)
        if self._is_telling:
            return
        self._is_telling = True
        try:
            while self._reports:
                report = self._reports.pop(0)
                for listener, _ in self._listeners.values():
                    try:
                        listener(report)
                    except Exception as error:  # noqa: BLE001 -- as above
                        errors.append(("a listener", error))
        finally:
            self._is_telling = False


def _is_stale(mark: int) -> bool:
    return WAITING <= mark <= DIRTY
