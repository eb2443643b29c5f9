from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from bobbin.cluster.shard.rivals import shared_key
from bobbin.cluster.shard.sharing import Sharing
from bobbin.cluster.transactions.names import TxId, tx_id


class Someone(Struct, frozen=True, eq=False):
    """A transaction, as far as it is looked at."""

    tx: TxId
    kinds: dict[bytes, int]


KINDS = st.dictionaries(st.sampled_from((b"a", b"b", b"c")), st.sampled_from((0, 12, 13)), min_size=1)


@st.composite
def crowds(draw: st.DrawFn) -> list[Someone]:
    """At least one, each of them with keys."""
    kinds = draw(st.lists(KINDS, min_size=1, max_size=8))
    return [Someone(tx_id(0, number.to_bytes(8, "big")), one) for number, one in enumerate(kinds)]


@given(crowds(), st.data())
def test_those_in_the_way_are_those_that_a_look_at_each_finds(crowd: list[Someone], data: st.DataObject) -> None:
    one, *others = crowd
    sharing: Sharing[Someone] = Sharing()
    together = data.draw(st.integers(0, len(others)))
    sharing.add_all({other.tx: other for other in others[:together]})
    for other in others[together:]:
        sharing.add(other)
    gone = data.draw(st.sets(st.sampled_from(others))) if others else set()
    for other in gone:
        sharing.remove(other)
    found = sharing.in_the_way_of(one)
    expected = {other.tx for other in others if other not in gone and shared_key(one.kinds, other.kinds) is not None}
    assert {other.tx for other in found} == expected
    assert len(found) == len(expected), "each once"


def test_what_has_gone_leaves_nothing_behind() -> None:
    sharing: Sharing[Someone] = Sharing()
    someone = Someone(tx_id(0, bytes(8)), {b"a": 0, b"b": 12})
    sharing.add(someone)
    sharing.remove(someone)
    assert not sharing._others
    assert not sharing._adding
