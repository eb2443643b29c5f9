"""Cursors that wait: the first at once, then rarely, the last at the end, and never an older one after a newer."""

import asyncio

from bobbin.interlace.cursor import Cursor
from bobbin.interlace.effects import Persist, Remember, SaveCursor
from bobbin.interlace.events import Settled
from bobbin.interlace.limits import SECOND_NS
from bobbin.interlace.machine import InterlaceMachine
from bobbin.interlace.result import Result
from bobbin.interlace.schema import Schema
from bobbin.interlace.setup import Party
from bobbin.runtime.exchange import Exchange
from bobbin.runtime.later_cursors import PAUSE_SECONDS, LaterCursors
from bobbin.runtime.memory_link import memory_link
from tests.policy_worlds import ALICE, BOB
from tests.support.exchanges import SetClock, Watched, config, records


class _Performer:
    def __init__(self) -> None:
        self.saved: list[str] = []
        self.persisted = 0
        self.fails = False

    def persist(self, effect: Persist) -> tuple[Settled, ...]:
        del effect
        self.persisted += 1
        return ()

    def save(self, effect: SaveCursor) -> bool:
        self.saved.append(effect.cursor.plan)
        return not self.fails

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


def test_whether_one_could_be_written_is_said_when_it_was_tried() -> None:
    now, performer = [0], _Performer()
    later = LaterCursors(performer, clock=lambda: now[0])
    performer.fails = True
    assert not later.save(_cursor("1"))
    assert later.save(_cursor("2")), "it waits, and nobody knows yet"
    now[0] = PAUSE_SECONDS * SECOND_NS
    assert not later.write_due()
    performer.fails = False
    assert later.write()
    assert later.save(_cursor("3"))
    assert performer.saved == ["1", "2"]


def test_a_driver_does_not_claim_a_cursor_that_could_not_be_kept() -> None:
    class Full(Watched):
        def save(self, effect: SaveCursor) -> bool:
            self.doings.append("save")
            del effect
            return False

    full, there = Full(records(2)), Watched(records(2, first=2))
    alice, bob = Party(verifier=ALICE), Party(verifier=BOB)

    async def run() -> tuple[Result, Result]:
        clock, (one, other) = SetClock(), memory_link()
        left = InterlaceMachine(config(own=alice, peer=bob), full)
        right = InterlaceMachine(config(own=bob, peer=alice, initiator=False), there)
        return await asyncio.gather(
            Exchange(left, LaterCursors(full), one, clock=clock).run(), Exchange(right, there, other, clock=clock).run()
        )

    results = asyncio.run(run())
    assert "save" in full.doings
    assert [result.fixed_point for result in results] == [True, True]
    assert [result.cursor_updated for result in results] == [False, True]
