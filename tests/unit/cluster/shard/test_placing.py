from collections import Counter

import pytest

from bobbin.cluster.operations import Embed, Put, TableInsert
from bobbin.cluster.shard.placing import place, shard_of
from bobbin.errors import UsageError
from tests.unit.cluster.shard.participating import NOWHERE


def test_keys_spread_over_all_shards_and_stay_where_they_are() -> None:
    found = Counter(shard_of(b"key-%d" % number, 4) for number in range(4_000))
    assert set(found) == {0, 1, 2, 3}
    assert min(found.values()) > 800
    assert [shard_of(key, 7) for key in (b"a", b"b", b"c", b"")] == [0, 3, 3, 2], "these are fixed for ever"


def test_one_shard_has_everything() -> None:
    assert shard_of(b"anything", 1) == 0


def test_all_operations_on_one_affected_key_are_on_one_shard() -> None:
    assert place(Put(b"k", b""), 8) == place(Embed(b"k", NOWHERE), 8) == place(TableInsert(b"k", ()), 8)


@pytest.mark.parametrize("shards", [0, -1, 65_537])
def test_there_are_no_such_numbers_of_shards(shards: int) -> None:
    with pytest.raises(UsageError):
        shard_of(b"k", shards)
