"""The fuzz targets of the rule language over their corpora with edits: what `make fuzz` does for long, in short."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.__main__ import committed_inputs
from tests.properties.effort import scaled
from tests.properties.test_fuzz_targets import one_input_of

TOKENS = [
    *(b"(", b")", b",", b", ", b".", b".\n", b":-", b" :- ", b"'", b"''", b"_", b" ", b"\n", b"\t", b"\r", b"#", b"%"),
    *(b"not ", b"not", b"\\", b"\\'", b"\\\\", b"\\n", b"\\t", b"\\x", b"X", b"Y", b"P", b"Have(P)", b"Node(X)"),
    *(
        b"Field(P,'a',_,V)",
        b"Edge(X,Y)",
        b"Next(X,Y)",
        b"not Edge(X,_)",
        b"Lt(X,Y)",
        b"TaiAdd(X,'1',R)",
        b"A()",
        b"Long",
    ),
    *(
        b"SelectHave(P)",
        b"HelloTAI('x')\n",
        b"\xc3\xa9",
        b"e\xcc\x81",
        b"\xff",
        b"\xed\xa0\x80",
        b"\x00",
        b"\x7f",
        b"A" * 65,
    ),
]


@pytest.mark.parametrize("name", ["fact_block", "lacegram", "evaluate"])
def test_edited_corpus_inputs_are_accepted_or_refused_properly(name: str) -> None:
    one_input = one_input_of(name)
    corpus = [path.read_bytes() for path in committed_inputs(name)]

    @scaled(2)
    @given(st.data())
    def check(data: st.DataObject) -> None:
        raw = data.draw(st.sampled_from(corpus))
        for _ in range(data.draw(st.integers(1, 4))):
            at = data.draw(st.integers(0, len(raw)))
            removed = data.draw(st.sampled_from([0, 0, 1, 1, 2, 30]))
            raw = raw[:at] + data.draw(st.sampled_from(TOKENS)) + raw[at + removed :]
        one_input(raw)

    check()


@pytest.mark.parametrize("name", ["fact_block", "lacegram", "evaluate"])
def test_drawn_texts_are_accepted_or_refused_properly(name: str) -> None:
    one_input = one_input_of(name)

    @given(st.lists(st.sampled_from(TOKENS), max_size=30).map(b"".join) | st.binary(max_size=200))
    def check(raw: bytes) -> None:
        one_input(raw)

    check()
