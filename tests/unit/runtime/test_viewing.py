"""Views through the public interface."""

from pathlib import Path

import pytest

from bobbin import Lace
from bobbin.config.keys import KeyFileError, key_file
from bobbin.config.layout import Layout
from bobbin.datalog.limits import Limits
from bobbin.datalog.local.budget import LimitExceeded
from bobbin.reactive.graph import Graph
from bobbin.store.lake.lake import Lake
from tests.policy_worlds import DING, EVERYTHING
from tests.support.lakes import some_records, store

_MINE = "SelectHave(P) :- Have(P), Here(V), Field(P,'Signed-By',_,V).\n"


def _put(lace: Lace, name: str, *, sign: bool = False) -> str:
    return lace.put(b"", group="u", app="ding", name=name, sign=sign)


def test_a_view_follows_the_lace_and_goes_on_in_the_next_process(tmp_path: Path) -> None:
    graph = Graph()
    with Lace.create(tmp_path / "x.lace") as lace, lace.view(DING, graph=graph) as view:
        sizes: list[int] = []
        graph.effect(lambda: sizes.append(len(view)))
        first, second = _put(lace, "1"), _put(lace, "2")
        lace.remove(first, reason="test")
        assert sizes == [0, 1, 2, 1]
    with Lace.open(tmp_path / "x.lace") as lace, lace.view(DING) as view:
        assert list(view) == [second]


def test_the_rules_know_the_default_key_as_here(tmp_path: Path) -> None:
    with Lace.create(tmp_path / "x.lace") as lace:
        with lace.view(_MINE) as view:
            assert len(view) == 0
        lace.new_key()
        signed = _put(lace, "1", sign=True)
        _put(lace, "2")
        with lace.view(_MINE) as view:
            assert list(view) == [signed]
        key_file(Layout(lace.path).keys, lace.settings.default_key).write_text("damaged")
        with pytest.raises(KeyFileError):
            lace.view(_MINE)


def test_limits_time_and_following_are_the_callers(tmp_path: Path) -> None:
    due = "SelectHave(P) :- Have(P), Field(P,'TAI',_,T), TickTAI(N), Le(T,N).\n"
    moments = iter([0, 0, 10])
    with Lace.create(tmp_path / "x.lace") as lace:
        record = lace.put(b"", group="u", app="ding", name="1", tai=5)
        with lace.view(due, clock=lambda: next(moments), follow=False) as view:
            assert len(view) == 0
            assert view.refresh().added == (record,)
        with lace.view("//u//", follow=False) as view:
            _put(lace, "2")
            assert len(view) == 1
        with pytest.raises(LimitExceeded):
            lace.view(EVERYTHING, limits=Limits(derived_tuples_max=1))


def test_a_view_over_a_lake_takes_in_what_comes_and_what_is_replaced(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    first, second = some_records(4, 1), some_records(5, 2)
    store(lake, first)
    with Lace.create(tmp_path / "x.lace", lake=tmp_path / "lake") as lace, lace.view(EVERYTHING) as view:
        assert set(view) == {record.hash for record in first}
        store(lake, second)
        assert set(view.refresh().added) == {record.hash for record in second}
        store(lake, second, replace=True)
        assert set(view.refresh().removed) == {record.hash for record in first}
        assert set(view) == {record.hash for record in second}
