"""Where messages stand, as rows."""

import pyarrow as pa

from bobbin.pipeline.batches.places import PLACES, places
from bobbin.records.record import build_plex
from bobbin.tangles.plex import plex_of
from tests.support.lakes import some_records
from tests.support.tangle_messages import Author


def batch(raws: list[bytes]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(raws, pa.binary())], ["raw"])


def test_each_message_stands_in_its_own_tangle_and_in_those_that_it_names() -> None:
    alice = Author("alice")
    moot = alice.moot()
    thread = alice.root({"text": "topic"}, "thread")
    reply = alice.post([moot.id, thread.id], {"text": "reply"})
    plexes = [plex for message in (moot, thread, reply) if (plex := plex_of(message)) is not None]
    rows = places(batch([plex.raw for plex in plexes])).to_pylist()
    assert {(row["tangle"], row["id"], row["depth"], tuple(row["prev"]), row["has_data"]) for row in rows} == {
        (moot.id, moot.id, 0, (), False),
        (thread.id, thread.id, 0, (), True),
        (reply.id, reply.id, 0, (), True),
        (moot.id, reply.id, 1, (moot.id,), True),
        (thread.id, reply.id, 1, (thread.id,), True),
    }


def test_other_records_stand_nowhere() -> None:
    other = build_plex(group="u", app="pzp", name="x", tai_ns=0, data=b"{}")
    found = places(batch([other.raw, *(record.raw for record in some_records(20, 1))]))
    assert (found.num_rows, found.schema) == (0, PLACES)
    assert places(batch([])).num_rows == 0
