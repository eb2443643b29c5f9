"""Ids and counters that every part of a cluster speaks of."""

from typing import Final, NewType

NodeId = NewType("NodeId", str)
"""32 hexadecimal characters, derived from the node's public key."""

Term = NewType("Term", int)
"""Rises with every election; 0 before the first."""

TERM_MAX: Final = Term(2**64 - 2)
"""The last in which anybody stands for election. No cluster counts up to it; only a lie leads there."""

Index = NewType("Index", int)
"""The place of an entry in the log, from 1; 0 stands for the place before the first."""

MILLISECOND_NS = 1_000_000
