"""What to send to a side of which it is known what it has: exactly what it lacks, in an order that can be stored.

Account messages come first, those that it needs and cannot have. Then each message after its predecessors. A message of
which the receiver would have no predecessor at all, because it wants only the top of a tangle, comes with the shortest
way to the root, without data: nobody can check a message that hangs in the air.
"""

from collections.abc import Callable, Collection, Iterator
from typing import Final

from bobbin.tangles.accounts import account_of
from bobbin.tangles.exchange import Library
from bobbin.tangles.message import Message, MessageId
from bobbin.tangles.tangle import Tangle, collation

PARCEL_BYTES: Final = 256 * 1024
"""A parcel is closed when it has so many bytes."""
PARCEL_MESSAGES: Final = 1000
EARLY_BYTES_MAX: Final = 16 * 1024 * 1024
"""Of account messages that a receiver keeps until something comes that speaks for their accounts."""


def with_trails(
    structure: Tangle, ids: Collection[MessageId], is_held: Callable[[MessageId], bool]
) -> list[tuple[MessageId, bool]]:
    """Some messages, each after its predecessors, with what they need to be checked; and whether to erase each.

    ``is_held`` says of a message whether the receiver has it.
    """
    erased: dict[MessageId, bool] = {}
    for id in _by_depth(structure, ids):
        hangs = id != structure.id and not any(is_held(before) or before in erased for before in structure.prev(id))
        for step in structure.shortest_path(id) if hangs else ():
            if step in erased or is_held(step):
                break
            erased[step] = True
        erased[id] = False
    return [(id, erased[id]) for id in _by_depth(structure, erased)]


def _by_depth(structure: Tangle, ids: Collection[MessageId]) -> list[MessageId]:
    ranked = [(depth, collation(id), id) for id in ids if (depth := structure.depth(id)) is not None]
    return [id for _, _, id in sorted(ranked)]


def parcels_of(
    library: Library, accounts: Collection[MessageId], pieces: Collection[tuple[MessageId, bool]]
) -> Iterator[tuple[bytes, ...]]:
    """The texts of account messages, then of messages of a tangle, in parcels of a bounded size."""
    texts: list[bytes] = []
    size = 0
    ids = [*((id, False) for id in accounts), *pieces]
    for start in range(0, len(ids), PARCEL_MESSAGES):
        some = ids[start : start + PARCEL_MESSAGES]
        for (_, erase), message in zip(some, library.messages([id for id, _ in some]), strict=True):
            if message is None:
                continue
            text = (message.erased() if erase else message).raw
            if texts and size + len(text) > PARCEL_BYTES:
                yield tuple(texts)
                texts, size = [], 0
            texts.append(text)
            size += len(text)
    if texts:
        yield tuple(texts)


def sort_accounts(
    messages: Collection[Message], is_needed: Callable[[MessageId], bool]
) -> tuple[list[Message], list[Message]]:
    """Account messages whose accounts are needed, and the others, as far as there is room to keep them."""
    needed: list[Message] = []
    later: list[Message] = []
    room = EARLY_BYTES_MAX
    for message in messages:
        if is_needed(account_of(message) or message.id):
            needed.append(message)
        elif (room := room - len(message.raw)) >= 0:
            later.append(message)
    return needed, later
