"""What records are told of, taken from relations that a program holds: the same as the store says, without asking it.

Most records say the same of themselves, so equal fields, and equal tuples of them, are one object.
"""

from collections.abc import Mapping

import numpy as np

from bobbin.datalog.local.columns import Block, Column, pack
from bobbin.datalog.local.values import Texts
from bobbin.policy.claims import ClaimedField


def told_fields(records: Column, relations: Mapping[str, Block], texts: Texts) -> list[tuple[ClaimedField, ...]]:
    """For each record its fields, by name and then by index as a number.

    ``relations``: for each name a relation of record, index and value.
    """
    names = sorted(relations)
    places = np.full(len(texts), -1, dtype=np.int64)
    places[records] = np.arange(len(records))
    owners, ranks, pairs = [], [], []
    for rank, name in enumerate(names):
        subjects, indexes, found = relations[name].columns
        owner = places[subjects]
        meant = owner >= 0
        owners.append(owner[meant])
        ranks.append(np.full(len(owners[-1]), rank, dtype=np.int64))
        pairs.append(pack((indexes, found))[meant])
    owned, ranked, paired = (np.concatenate([np.empty(0, dtype=np.int64), *parts]) for parts in (owners, ranks, pairs))
    distinct, numbers = np.unique(paired, return_inverse=True)
    spelled = [(texts[pair >> 32], texts[pair & 0xFFFFFFFF]) for pair in distinct.tolist()]
    by_number = np.array([int(index) for index, _ in spelled], dtype=np.int64)[numbers] if spelled else numbers
    order = np.lexsort((by_number, ranked, owned))
    codes = (numbers * max(len(names), 1) + ranked)[order].tolist()
    ends = np.cumsum(np.bincount(owned, minlength=len(records))).tolist()
    fields: dict[int, ClaimedField] = {}
    for code in set(codes):
        pair, rank = divmod(code, len(names))
        fields[code] = ClaimedField(names[rank], *spelled[pair])
    tuples: dict[tuple[int, ...], tuple[ClaimedField, ...]] = {}
    told: list[tuple[ClaimedField, ...]] = []
    begin = 0
    for end in ends:
        key = tuple(codes[begin:end])
        begin = end
        one = tuples.get(key)
        if one is None:
            one = tuples[key] = tuple([fields[code] for code in key])
        told.append(one)
    # A record that stands in the list twice is told of where it stands last.
    return [told[place] for place in places[records].tolist()]
