"""Cursors that wait: the first at once, then rarely, the last at the end, and never an older one after a newer."""

from bobbin.interlace.cursor import Cursor
from bobbin.interlace.effects import Persist, Remember, SaveCursor
from bobbin.interlace.events import Settled
from bobbin.interlace.limits import SECOND_NS
from bobbin.interlace.schema import Schema
from bobbin.runtime.later_cursors import PAUSE_SECONDS, LaterCursors


class _Performer:
    def __init__(self) -> None:
        self.saved: list[str] = []
        self.persisted = 0

    def persist(self, effect: Persist) -> tuple[Settled, ...]:
        del effect
        self.persisted += 1
        return ()

    def save(self, effect: SaveCursor) -> None:
        self.saved.append(effect.cursor.plan)

    def remember(self, effect: Remember) -> None:
        raise AssertionError(f"nothing is remembered here: {effect}")


def _cursor(plan: str) -> SaveCursor:
    return SaveCursor(Cursor(key="k", plan=plan, source="s", schema=Schema(), advertisements=()))


def test_the_first_is_written_at_once_and_the_newest_of_the_others_when_it_is_time() -> None:
    now, performer = [0], _Performer()
    later = LaterCursors(performer, clock=lambda: now[0])
    for plan in ("1", "2", "3"):
        later.save(_cursor(plan))
    assert performer.saved == ["1"]
    later.write_due()
    assert performer.saved == ["1"]
    now[0] = PAUSE_SECONDS * SECOND_NS
    assert later.is_due
    later.write_due()
    later.write_due()
    assert performer.saved == ["1", "3"]


def test_what_waits_is_written_at_the_end_once() -> None:
    now, performer = [0], _Performer()
    later = LaterCursors(performer, clock=lambda: now[0])
    later.write()
    later.save(_cursor("1"))
    later.save(_cursor("2"))
    later.write()
    later.write()
    assert performer.saved == ["1", "2"]


def test_records_never_wait() -> None:
    performer = _Performer()
    LaterCursors(performer).persist(Persist(()))
    assert performer.persisted == 1
