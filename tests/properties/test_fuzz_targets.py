"""Every fuzz target over drawn bytes and over its corpus with edits: what `make fuzz` does for long, in short."""

import importlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.__main__ import committed_inputs, target_names
from tests.properties.strategies import TOKENS

RECORD_TARGETS = ["b64a", "bundle", "coordinate", "ids", "jsonl", "link", "record", "tai"]


def one_input_of(name: str) -> Callable[[bytes], None]:
    one_input: Callable[[bytes], None] = importlib.import_module(f"tests.fuzz.target_{name}").one_input
    return one_input


def test_every_decoder_of_records_has_a_target() -> None:
    assert set(RECORD_TARGETS) <= set(target_names())
    assert all(10 <= len(committed_inputs(name)) <= 40 for name in RECORD_TARGETS)


@pytest.mark.parametrize("name", RECORD_TARGETS)
def test_drawn_bytes_are_accepted_or_refused_properly(name: str) -> None:
    one_input = one_input_of(name)

    @given(st.binary(max_size=300) | st.text(max_size=100).map(str.encode))
    def check(data: bytes) -> None:
        one_input(data)

    check()


@pytest.mark.parametrize("name", RECORD_TARGETS)
def test_edited_corpus_inputs_are_accepted_or_refused_properly(name: str) -> None:
    one_input = one_input_of(name)
    corpus = [path.read_bytes() for path in committed_inputs(name)]

    @given(st.data())
    def check(data: st.DataObject) -> None:
        raw = data.draw(st.sampled_from(corpus))
        for _ in range(data.draw(st.integers(1, 4))):
            at = data.draw(st.integers(0, len(raw)))
            removed = data.draw(st.sampled_from([0, 1, 1, 2, 30]))
            new = data.draw(st.sampled_from(TOKENS) | st.binary(max_size=2))
            raw = raw[:at] + new + raw[at + removed :]
        one_input(raw)

    check()
