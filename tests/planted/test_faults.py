"""The planted faults fit the source as it is, and the statements that were drawn. `make evidence` plants them."""

import ast

import pytest

from evidence.planted import (
    DRAWN,
    REPOSITORY,
    Fault,
    Outcome,
    PlantingError,
    drawn_ids,
    named_tests,
    read_faults,
    report,
)

FAULTS = read_faults()


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.id}: {fault.plants}")
def test_a_fault_can_be_planted(fault: Fault) -> None:
    sound = (REPOSITORY / fault.file).read_text(encoding="utf-8")
    planted = fault.applied(sound)
    assert planted != sound
    ast.parse(planted)


def test_the_faults_are_of_the_statements_that_were_drawn() -> None:
    assert list(dict.fromkeys(fault.id for fault in FAULTS)) == drawn_ids()
    assert len(drawn_ids()) == DRAWN
    assert all(named_tests()[id] for id in drawn_ids())


def test_no_fault_is_there_twice() -> None:
    assert len({(fault.file, fault.new) for fault in FAULTS}) == len(FAULTS)


@pytest.mark.parametrize("text", ["", "a", "old old"])
def test_a_text_that_is_not_there_once_is_an_error(text: str) -> None:
    fault = Fault(id="IL-001", plants="something", file="x.py", old="old", new="new")
    with pytest.raises(PlantingError, match="IL-001, something"):
        fault.applied(text)
    assert fault.applied("an old text") == "an new text"


def test_a_statement_counts_when_every_fault_of_it_was_seen() -> None:
    one, other = FAULTS[0], FAULTS[-1]
    seen = [Outcome(fault=one, seen_by="tests/a.py::test_b"), Outcome(fault=other, seen_by="tests/a.py::test_b")]
    assert [(ratio.value, ratio.missed) for ratio in report(seen).ratios] == [(2, False)]
    half = [*seen, Outcome(fault=one, seen_by=None)]
    assert [(ratio.value, ratio.missed) for ratio in report(half).ratios] == [(1, True)]
