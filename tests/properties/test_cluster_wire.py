"""The decoders of a cluster over drawn bytes and edited corpora; and a link that loses, repeats and mixes."""

import importlib
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bobbin.wire.cluster.codec import Message
from bobbin.wire.cluster.faults import Refusal
from bobbin.wire.cluster.frame import Deframer, frame
from tests.fuzz.__main__ import committed_inputs, target_names
from tests.support.cluster_wire import ALICE, BOB, NOW_MS, gateway, messages, refusal_of, sealer
from tests.support.pzp_wire import cut

TARGETS = [
    "cluster_client",
    "cluster_codec",
    "cluster_commands",
    "cluster_durable",
    "cluster_envelope",
    "cluster_frame",
    "cluster_shard_commands",
    "cluster_shard_messages",
    "cluster_snapshot_stream",
]
# Pieces of MessagePack at the edges of their types, numbers that overflow, values that are none.
TOKENS = [
    b"\xc0",
    b"\xc3",
    b"\xcb\x7f\xf8" + bytes(6),
    b"\xcb\xff\xf0" + bytes(6),
    b"\xcf" + b"\xff" * 8,
    b"\xd3\x80" + bytes(7),
    b"\xdd\xff\xff\xff\xff",
    b"\xc6\xff\xff\xff\xff",
    b"\x90",
    b"\x92",
    b"\x81",
    b"\xa2\xff\xfe",
    b"\xc7\x00\x05",
    b"\xd6\xff" + bytes(4),
    b"\0",
]


def one_input_of(name: str) -> Callable[[bytes], None]:
    one_input: Callable[[bytes], None] = importlib.import_module(f"tests.fuzz.target_{name}").one_input
    return one_input


def test_every_decoder_of_a_cluster_has_a_target() -> None:
    assert [name for name in target_names() if name.startswith("cluster_")] == TARGETS
    assert all(10 <= len(committed_inputs(name)) <= 40 for name in TARGETS)


@pytest.mark.parametrize("name", TARGETS)
def test_drawn_bytes_are_accepted_or_refused_properly(name: str) -> None:
    one_input = one_input_of(name)

    @settings(max_examples=50)
    @given(st.binary(max_size=300))
    def check(data: bytes) -> None:
        one_input(data)

    check()


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_edited_corpus_inputs_are_accepted_or_refused_properly(name: str) -> None:
    """CL-272."""
    one_input = one_input_of(name)
    corpus = [raw for path in committed_inputs(name) if len(raw := path.read_bytes()) < 2_000]

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


@settings(max_examples=40)
@given(st.lists(st.sampled_from(messages()), max_size=12), st.data())
def test_over_a_link_that_loses_repeats_and_mixes_each_message_gets_in_once(
    said: list[Message], data: st.DataObject
) -> None:
    """CL-257: what was lost is missed, and nothing else."""
    own, door = sealer(), gateway()
    sealed = [own.seal(BOB.node, message, now_ms=NOW_MS) for message in said]
    carried = data.draw(st.lists(st.integers(0, len(said) - 1), max_size=25)) if said else []
    taken: list[int] = []
    for number in carried:
        refusal = refusal_of(lambda raw: door.admit(raw, now_ms=NOW_MS), sealed[number])
        assert refusal is (Refusal.REPLAYED if number in taken else None)
        if refusal is None:
            taken.append(number)
    assert (door.admitted, door.refused[Refusal.REPLAYED]) == (len(set(carried)), len(carried) - len(set(carried)))


@settings(max_examples=40)
@given(st.lists(st.sampled_from(messages()), max_size=6), st.lists(st.integers(0, 400), max_size=12))
def test_from_message_to_message_over_a_stream(said: list[Message], sizes: list[int]) -> None:
    own, door, deframer = sealer(), gateway(), Deframer()
    stream = b"".join(frame(own.seal(BOB.node, message, now_ms=NOW_MS)) for message in said)
    heard = []
    for part in cut(stream, sizes):
        deframer.feed(part)
        heard += [door.admit(raw, now_ms=NOW_MS, link=ALICE.node).message for raw in deframer.drain()]
    deframer.finish()
    assert heard == said
