"""The C library from programs in C: its contract, what happens when memory runs out, and that nothing leaks."""

from pathlib import Path

import pytest

from tests.fuzz.__main__ import committed_inputs
from tests.native.programs import VALGRIND, build_against_the_library, build_with_the_sources, run


def test_a_program_that_is_linked_against_the_library(tmp_path: Path) -> None:
    """RX-076, RX-077, RX-078, RX-079, RX-080, RX-081, RX-083, RX-163."""
    assert run([str(build_against_the_library("contract", tmp_path))]) == "the contract holds\n"


def test_memory_that_runs_out_is_a_status(tmp_path: Path) -> None:
    """RX-082: in C, what would be a panic is an allocation that fails; each one is tried."""
    program = build_with_the_sources("allocation", tmp_path, wrapped=True)
    assert run([str(program)]) == "memory that runs out is survived\n"


@pytest.mark.slow
def test_a_full_channel(tmp_path: Path) -> None:
    assert run([str(build_against_the_library("full_channel", tmp_path))]) == "a full channel refuses\n"


@pytest.mark.slow
def test_the_contract_under_valgrind(tmp_path: Path) -> None:
    """RX-079, RX-080: no access to what was freed, nothing that nobody frees."""
    program = build_against_the_library("contract", tmp_path)
    assert run([*VALGRIND, str(program)]) == "the contract holds\n"


@pytest.mark.slow
def test_memory_that_runs_out_under_valgrind(tmp_path: Path) -> None:
    program = build_with_the_sources("allocation", tmp_path, wrapped=True)
    assert run([*VALGRIND, str(program)]) == "memory that runs out is survived\n"


@pytest.mark.slow
def test_the_fuzz_corpus_under_valgrind(tmp_path: Path) -> None:
    inputs = committed_inputs("native_frames")
    program = build_with_the_sources("replay", tmp_path)
    statuses = run([*VALGRIND, str(program), *map(str, inputs)]).split()
    assert len(statuses) == len(inputs)
    assert set(statuses) == {"0", "3"}
