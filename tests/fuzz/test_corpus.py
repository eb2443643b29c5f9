"""Every committed fuzz input, replayed without the fuzzer: what was found once stays fixed."""

import importlib

import pytest

from tests.fuzz.__main__ import committed_inputs, corpus_of, target_names


@pytest.mark.parametrize("name", target_names())
def test_committed_inputs_are_accepted_or_refused_properly(name: str) -> None:
    inputs = committed_inputs(name)
    assert inputs, f"tests/fuzz/corpus/{name}/ is empty"
    target = importlib.import_module(f"tests.fuzz.target_{name}")
    for path in inputs:
        try:
            target.one_input(path.read_bytes())
        except Exception as problem:
            problem.add_note(f"input: tests/fuzz/corpus/{name}/{path.name}")
            raise


def test_every_corpus_has_a_target() -> None:
    corpora = {path.name for path in corpus_of("").glob("*") if path.is_dir()}
    assert corpora <= set(target_names())
