"""The index by depth: equal below a depth where the messages are, and cheap to keep."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from bobbin.tangles.exchange import Credential
from bobbin.tangles.message import MessageId, moot_id
from bobbin.tangles.modern_index import DepthIndex, StandingIndexes, digest_of
from bobbin.tangles.ranges import Range
from bobbin.tangles.tangle import Tangle
from tests.support.tangle_messages import Author
from tests.tangle_pairs import store_of

_IDS = [moot_id(f"author {number}", "post") for number in range(40)]
_NOBODY = Credential("any", None)


def _index(depths: dict[MessageId, int], erased: frozenset[MessageId] = frozenset()) -> DepthIndex:
    index = DepthIndex()
    for id, depth in depths.items():
        index.put(id, depth, has_data=id not in erased, credential=_NOBODY)
    return index


def test_an_empty_index() -> None:
    index = DepthIndex()
    assert (len(index), index.top, index.marks(), index.items(0, 99), index.count(0, 99)) == (0, -1, (), [], 0)
    assert index.have.is_empty
    assert index.below(7) == index.root == bytes(16)
    assert index.agreed_floor(()) == 0


@given(
    st.dictionaries(st.sampled_from(_IDS), st.integers(0, 12)),
    st.dictionaries(st.sampled_from(_IDS), st.integers(0, 12)),
    st.sets(st.sampled_from(_IDS)),
)
def test_hashes_agree_exactly_where_the_messages_do(
    ours: dict[MessageId, int], theirs: dict[MessageId, int], erased: set[MessageId]
) -> None:
    first, second = _index(ours), _index(theirs, frozenset(erased))
    for depth in range(15):
        below = {(id, at, True) for id, at in ours.items() if at < depth}
        same = below == {(id, at, id not in erased) for id, at in theirs.items() if at < depth}
        assert (first.below(depth) == second.below(depth)) == same
    assert (first.root == second.root) == (first.below(99) == second.below(99))


@given(st.integers(0, 2**32))
@settings(max_examples=30)
def test_changes_in_any_order_end_alike(seed: int) -> None:
    random = Random(seed)
    index, model = DepthIndex(), dict[MessageId, tuple[int, bool]]()
    for _ in range(60):
        id = random.choice(_IDS)
        if random.random() < 0.3:
            assert index.discard(id) == (model.pop(id, None) is not None)
        else:
            model[id] = depth, has_data = model.get(id, (random.randrange(9), True))[0], random.random() < 0.7
            index.put(id, depth, has_data=has_data, credential=Credential(random.choice("ab"), (f"{depth}",)))
        if random.random() < 0.4:
            index.below(random.randrange(12))
    index.check()
    low, high = sorted((random.randrange(10), random.randrange(10)))
    expected = {digest_of(id, has_data=data) for id, (depth, data) in model.items() if low <= depth <= high}
    assert {item.digest for item in index.items(low, high)} == expected
    assert index.count(low, high) == len(expected)
    assert len(index) == len(model)
    assert index.top == max((depth for depth, _ in model.values()), default=-1)


def test_marks_stand_ever_further_below_the_top() -> None:
    index = _index({id: depth for depth, id in enumerate(_IDS)})
    marks = index.marks()
    assert [mark.depth for mark in marks] == [40, 39, 36, 24]
    assert [mark.above for mark in marks] == [0, 1, 4, 16]
    assert index.agreed_floor(marks) == 40


def test_the_floor_is_the_greatest_depth_below_which_both_agree() -> None:
    ours = _index({id: depth for depth, id in enumerate(_IDS)})
    behind = _index({id: depth for depth, id in enumerate(_IDS[:37])})
    assert behind.agreed_floor(ours.marks()) == 36
    assert ours.agreed_floor(behind.marks()) == 37
    other = _index({id: depth for depth, id in enumerate(reversed(_IDS))})
    assert other.agreed_floor(ours.marks()) == 0


def test_with_and_without_data_are_two_things() -> None:
    assert digest_of(_IDS[0], has_data=True) != digest_of(_IDS[0], has_data=False)
    assert len({digest_of(id, has_data=data) for id in _IDS for data in (True, False)}) == 80
    # What is in the root can be had, or two sides could differ and neither would ask.
    assert _index({_IDS[0]: 0, _IDS[1]: 3}, frozenset(_IDS[1:])).have == Range(0, 3)


def test_credentials_below_a_depth() -> None:
    index = DepthIndex()
    for depth, account in enumerate("aab"):
        index.put(_IDS[depth], depth, has_data=True, credential=Credential(account, None))
    assert {credential.account for credential in index.credentials_below(1)} == {"a"}
    assert {credential.account for credential in index.credentials_below(3)} == {"a", "b"}
    index.discard(_IDS[2])
    assert {credential.account for credential in index.credentials_below(3)} == {"a"}
    assert _IDS[0] in index


def test_standing_indexes_take_only_what_is_new() -> None:
    author = Author()
    messages = author.line(6)
    store = store_of([*author.account_messages, *messages], {})
    structure = Tangle(messages[0].id, messages[:4])
    standing = StandingIndexes()
    asked: list[MessageId] = []

    def credentials(ids: list[MessageId]) -> list[Credential]:
        asked.extend(ids)
        return store.credentials(ids)

    first = standing.of(structure, credentials)  # type: ignore[arg-type]
    assert len(first) == len(asked) == 4
    structure.add(messages[4])
    structure.discard(messages[1].id)
    assert standing.of(structure, credentials) is first  # type: ignore[arg-type]
    assert asked[4:] == [messages[4].id]
    assert {item.id for item in first.items(0, 9)} == set(structure)
    standing.of(structure, credentials)  # type: ignore[arg-type]
    assert len(asked) == 5
    anew = Tangle(messages[0].id, messages)
    assert len(standing.of(anew, store.credentials)) == 7


@given(st.integers(0, 2**32))
@settings(max_examples=20)
def test_a_standing_index_is_the_one_that_would_be_made_anew(seed: int) -> None:
    """However much has changed since it was asked for, and whether or not that can still be told."""
    random = Random(seed)
    author = Author()
    messages = author.line(12)
    store = store_of([*author.account_messages, *messages], {})
    structure = Tangle(messages[0].id, messages)
    standing = StandingIndexes()
    for _ in range(6):
        for _ in range(random.choice((1, 3, 300))):
            message = random.choice(messages[1:])
            random.choice((structure.discard, structure.erase, lambda _: structure.add(message)))(message.id)  # noqa: B023
        index = standing.of(structure, store.credentials)
        index.check()
        assert {id: index.has_data(id) for id in index} == {id: structure.has_data(id) for id in structure}
        assert index.root == StandingIndexes().of(structure, store.credentials).root
        assert index.has_data("not here") is None
