"""A live view is what its policy selects, computed anew, after every step; and what it tells adds up to it."""

from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from unittest.mock import patch

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from bobbin.datalog.limits import DEFAULT
from bobbin.facts import relations
from bobbin.facts.extract import Fact
from bobbin.facts.relations import FactSource
from bobbin.policy import running, standing_selection
from bobbin.policy.modules import Selector, compile_selector
from bobbin.policy.runtime_facts import RuntimeFacts
from bobbin.policy.standing_selection import FrozenSelection, StandingSelection
from bobbin.policy.trial import derive
from bobbin.reactive.collection import Moved
from bobbin.reactive.graph import Graph
from bobbin.records import tai
from bobbin.records.ids import HashText
from bobbin.records.record import Plex, build_plex
from bobbin.runtime import views
from bobbin.runtime.views import View
from bobbin.store.sqlite import open_store
from tests.policy_worlds import ALICE, plex, random_record, random_selector, stored
from tests.properties.effort import scaled

_HASHES = [plex(number) for number in range(10)]
_TIMES = [f"16409952{second:02d}:000000000" for second in range(0, 60, 7)]
_TIMED = (
    "SelectHave(P) :- Have(P), Field(P,'TAI',_,T), TickTAI(N), Le(T,N).\n",
    "SelectHave(P) :- Field(P,'TAI',_,T), TickTAI(N), TaiSub(N,'10000000000',L), Gt(T,L), not Field(P,'App',_,'a').\n",
    "SelectHave(P) :- RecordLink(_,_,_,_,P), not Here('nobody').\n",
    "SelectHave(P) :- Have(P), not TransportEncrypted(), not Linked(P,P).\n",
)
_seeds = st.integers(min_value=0, max_value=2**32).map(Random)


def _anew(selector: Selector, facts: FactSource, runtime: RuntimeFacts) -> set[str]:
    """The stored records that a selector selects, by one evaluation of everything."""
    chosen = derive(selector, facts, runtime=runtime).get("SelectHave", frozenset())
    return {record for (record,) in chosen} & {record for (record,) in facts.enumerate(relations.HAVE)}


# ---- the selection, over facts that are made up ---------------------------------------------------------------------


class _Facts:
    """Records that come and go, and a selection that is told of it."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.records = {hash: self._facts(hash) for hash in random.sample(_HASHES, random.randint(0, 7))}
        self.runtime = RuntimeFacts(here=ALICE)
        timed = random.sample(_TIMED, random.choice((0, 1, 2)))
        self.selector = compile_selector("".join((random_selector(random, _HASHES), *timed)))
        self.standing = StandingSelection(self.selector)
        self.standing.load(stored(*self.records.values()), self.runtime)

    def step(self) -> None:
        random = self.random
        before = set(self.standing.records())
        removed = set(random.sample(sorted(self.records), min(len(self.records), random.choice((0, 0, 1, 2)))))
        for gone in removed:
            del self.records[gone]
        came: list[Fact] = []
        for hash in random.sample(_HASHES, random.choice((0, 0, 1, 3))):
            if hash not in self.records:
                self.records[hash] = self._facts(hash)
                came += self.records[hash]
        if random.random() < 0.4:
            self.runtime = RuntimeFacts(
                here=random.choice((None, ALICE)),
                tick_tai=random.choice((None, *_TIMES)),
                transport_encrypted=random.random() < 0.5,
            )
        selected = self.standing.advance(runtime=self.runtime, stored=came, removed=removed)
        assert not selected.added & before
        assert selected.removed <= before
        assert (before | selected.added) - selected.removed == set(self.standing.records())

    def rest(self) -> None:
        raw = msgspec.msgpack.encode(self.standing.freeze())
        frozen = msgspec.msgpack.decode(raw, type=FrozenSelection)
        self.standing = StandingSelection.restore(self.selector, frozen)

    def check(self) -> None:
        shown = self.standing.records()
        assert len(shown) == len(set(shown))
        assert set(shown) == _anew(self.selector, stored(*self.records.values()), self.runtime)

    def _facts(self, hash: str) -> list[Fact]:
        time = (relations.FIELD, (hash, "TAI", "0", self.random.choice(_TIMES)))
        return [*random_record(self.random, hash, _HASHES), time]


@given(_seeds)
@scaled(0.5)
def test_a_standing_selection_is_the_selection(random: Random) -> None:
    with (
        patch.object(running, "_AGAIN_MIN", random.choice((1, 20_000))),
        patch.object(standing_selection, "_IDLE_TEXTS_MAX", random.choice((5, 200_000))),
    ):
        world = _Facts(random)
        world.check()
        for _ in range(5):
            if random.random() < 0.2:
                world.rest()
                world.check()
            world.step()
            world.check()


# ---- the view, over a store -----------------------------------------------------------------------------------------

_RULES = (
    "SelectHave(P) :- Have(P), Field(P,'Group',_,'a'), not Muted(P).\nMuted(P) :- RecordLink(_,_,_,'mute',P).\n",
    "SelectHave(P) :- Have(P), Field(P,'TAI',_,T), TickTAI(N), Le(T,N), not Field(P,'Group',_,'b').\n",
    """
Reached(P) :- Have(P), Field(P,'Name',_,'0').
Reached(Q) :- Reached(P), RecordLink(P,_,_,_,Q).
SelectHave(P) :- Reached(P), not Late(P).
Late(P) :- Field(P,'TAI',_,T), TickTAI(N), TaiSub(N,'3000000000',L), Le(T,L).
""",
    "SelectHave(P) :- RecordLink(_,_,_,_,P).\nSelectHave(P) :- Have(P), not RecordLink(P,_,_,_,_), Here(_).\n",
)


class _Stored:
    """A store, and a view that follows it, with whoever listens."""

    def __init__(self, random: Random, folder: Path) -> None:
        self.random = random
        self.path = folder / "records.db"
        self.store = open_store(self.path, create=True, now=lambda: 0)
        self.selector = compile_selector(random.choice(_RULES))
        self.now = self.start = tai.NANOSECONDS * 100
        self.removed: list[HashText] = []
        self.heard: set[str] = set()
        for _ in range(random.choice((0, 5))):
            self._put()
        self.view = self._open()

    def _open(self) -> View:
        self.start = self.now
        graph = Graph()
        view = View(
            self.store,
            self.selector,
            graph=graph,
            clock=lambda: self.now,
            follow=self.random.random() < 0.5,
            limits=DEFAULT,
        )
        self.heard = set(view)
        self.sizes = graph.signal(lambda: len(view))
        view.subscribe(self._hear)
        return view

    def _hear(self, moved: Moved) -> None:
        assert not self.heard & set(moved.added)
        assert self.heard >= set(moved.removed)
        self.heard = (self.heard - set(moved.removed)) | set(moved.added)

    def step(self) -> None:
        """Some changes, by this process or another one, or a new process."""
        match self.random.choice(("put", "put", "many", "remove", "lift", "time", "restart", "elsewhere")):
            case "put":
                self._put()
            case "many":
                for _ in range(4):
                    self._put()
            case "remove":
                self._remove()
            case "lift":
                if self.removed:
                    self.store.lift(self.removed.pop())
                self._put()
            case "time":
                self.now += self.random.choice((0, 1, 2)) * tai.NANOSECONDS
            case "restart":
                self.view.close()
                self.store.close()
                self.store = open_store(self.path, create=False, now=lambda: 0)
                self.view = self._open()
            case "elsewhere":
                ours, self.store = self.store, open_store(self.path, create=False, now=lambda: 0)
                self._put()
                self._remove()
                self.store.close()
                self.store = ours
        self.view.refresh()

    def check(self) -> None:
        runtime = RuntimeFacts(start_tai=tai.render(self.start), tick_tai=tai.render(self.now))
        with self.store.snapshot() as moment:
            expected = _anew(self.selector, moment.facts, runtime)
        assert list(self.view) == sorted(expected)
        assert self.heard == expected
        assert self.sizes.get() == len(self.view) == len(expected)

    def _records(self) -> list[HashText]:
        return [stored.hash for stored in self.store.scan()]

    def _put(self) -> None:
        self.store.put_records([self._record()])

    def _remove(self) -> None:
        if records := self._records():
            gone = self.random.choice(records)
            self.store.remove(gone, reason="test")
            self.removed.append(gone)

    def _record(self) -> Plex:
        random = self.random
        known = [*self._records(), *self.removed]
        targets = random.sample(known, min(len(known), random.choice((0, 1, 1))))
        return build_plex(
            group=random.choice("abc"),
            app="test",
            name=random.choice("012"),
            tai_ns=tai.NANOSECONDS * random.randint(95, 110),
            data=b"%d" % random.randrange(4),
            extras=[("+Link", f"{random.choice(('mute', 'to'))} {target}") for target in targets],
        )


@given(_seeds)
@scaled(0.1)
def test_a_view_is_a_fresh_evaluation_after_every_step(random: Random) -> None:
    with (
        TemporaryDirectory() as folder,
        patch.object(views, "_RELOAD_MIN", random.choice((0, 20_000))),
        patch.object(views, "_WRITE_MIN", random.choice((1, 256))),
    ):
        world = _Stored(random, Path(folder))
        world.check()
        for _ in range(8):
            world.step()
            world.check()
        world.view.close()
        world.store.close()
