"""What a read of a client finds in the state of a node."""

from typing import Final

from bobbin.runtime.cluster_members import KEY_END, RESERVED
from bobbin.runtime.cluster_state import State
from bobbin.wire.cluster import client
from bobbin.wire.cluster.client import Row, Rows, Value

ANSWER_BYTES_MAX: Final = 4 * 1024 * 1024
"""Of one page of a scan, and of the answers in one frame; the last value may go beyond it."""


def look(state: State, request: client.Get | client.Scan) -> Value | Rows:
    """The answer to a read, from what is applied now."""
    if isinstance(request, client.Scan):
        return _scan(state, request)
    item = state.table.get(request.key)
    if item is None:
        return Value(request.number, None, 0, state.index)
    return Value(request.number, item.value, item.version, state.index)


def _scan(state: State, request: client.Scan) -> Rows:
    """A page; the keys of the cluster itself are not in it."""
    end = _after_prefix(request.prefix)
    first = max(request.prefix, request.after + b"\x00") if request.after else request.prefix
    rows: list[Row] = []
    size = 0
    while len(rows) < request.limit and size < ANSWER_BYTES_MAX:
        if RESERVED <= first < KEY_END:
            first = KEY_END
        stop = RESERVED if first < RESERVED and (end is None or end > RESERVED) else end
        items = state.table.scan(first, end=stop, limit=request.limit - len(rows))
        for item in items:
            rows.append(Row(item.key, item.value, item.version))
            size += len(item.key) + len(item.value)
            if size >= ANSWER_BYTES_MAX:
                return Rows(request.number, tuple(rows), is_whole=False, index=state.index)
        if items:
            first = items[-1].key + b"\x00"
        elif stop == RESERVED and first < RESERVED:
            first = KEY_END
        else:
            return Rows(request.number, tuple(rows), is_whole=True, index=state.index)
    return Rows(request.number, tuple(rows), is_whole=False, index=state.index)


def _after_prefix(prefix: bytes) -> bytes | None:
    """The first key after all that begin so; None where there is no such key."""
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else None
