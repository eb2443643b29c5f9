"""Every way in which a rule can ask about a record, over wide rows and over the facts that the records make."""

from random import Random
from typing import TYPE_CHECKING

import pyarrow as pa

from bobbin import profile
from bobbin.datalog.compile import compile as compile_program
from bobbin.datalog.local.database import Database
from bobbin.datalog.local.evaluate import Executable
from bobbin.datalog.vocabulary import RECORD_FACTS
from bobbin.facts import relations
from bobbin.pipeline import frames
from bobbin.pipeline.batches.describe import FIXED_FIELDS
from bobbin.pipeline.rules.body import Known
from bobbin.pipeline.rules.evaluate import evaluate
from bobbin.pipeline.rules.wide import WideTable
from bobbin.policy.views import RecordFacts
from bobbin.records.record import Record, build_blob, build_plex, seal
from bobbin.store.lake.describing import describe as rows_of
from bobbin.store.lake.tables import FACTS
from tests.backends.executors import fetch
from tests.support.lakes import KEY, LINKED, some_records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RULES = f"""
Every(P,N,I,V) :- Field(P,N,I,V).
Link(P,N,I,D,T) :- RecordLink(P,N,I,D,T).
Inner(P,H) :- BlobHash(P,H).
Inner(P,H) :- PlexHash(P,H).
Kind(P,T) :- Have(P), Field(P,'Type','0',T).
Second(P,V) :- Field(P,'A','1',V).
Twice(P) :- Field(P,'A',I,V), Field(P,'A',J,V), Ne(I,J).
Same(P,V) :- Field(P,'A',_,V), Field(P,'B',_,V).
Large(P) :- Field(P,'Data-Length',_,L), NumLt('3',L).
Named(N) :- Field(_,N,_,'x').
Unlinked(P) :- Have(P), not RecordLink(P,_,_,_,_).
Bare(P) :- Field(P,'Group',_,'u'), not Field(P,'A',_,_), not BlobHash(P,_).
Other(P,Q) :- Field(P,'Name',_,N), Field(Q,'Name',_,N), Ne(P,Q).
Absent(T) :- RecordLink(_,_,_,_,T), not Have(T).
Pointed(P) :- RecordLink(P,'+Link',_,'to',{LINKED.hash!r}), not Field(P,'Type',_,'S').
Wrong(P) :- Field(P,'Type','1',_).
Different(P) :- Field(P,'Group',_,G), not Field(P,'App',_,G), not Field(P,G,_,_).
Inside(P) :- PlexHash(P,Q), not Have(Q).
"""


def test_wide_rows_answer_as_the_facts_do(spark: "SparkSession") -> None:
    records = list({record.hash: record for record in [*some_records(30, 5), LINKED, *_odd_records()]}.values())
    lacegram = compile_program(RULES, RECORD_FACTS)
    heads = lacegram.program.heads()
    database = Database(dict.fromkeys(relations.ARITY, RecordFacts.of_records(records)), relations.ARITY)
    state = Executable(lacegram.plan).evaluate(database)
    Random(1).shuffle(records)
    frame = spark.createDataFrame(pa.Table.from_batches([rows_of(records)]), frames.schema_of(FACTS))
    table = WideTable(frame=frame, rows=len(records))
    answer = evaluate(
        lacegram.plan, Known(session=spark, tables=dict.fromkeys(table.predicates, table)), wanted=sorted(heads)
    )
    found = fetch(answer)
    assert found == {name: set(state.tuples(name)) for name in heads}
    assert {name for name in heads if not found[name]} == {"Wrong"}


def _odd_records() -> list[Record]:
    """Headers that repeat a value, links to what is not stored, and two records of one name."""
    lost = build_blob(b"lost")
    plexes = [
        build_plex(group="u", app="u", name="one", tai_ns=number, data=bytes(number), extras=extras)
        for number, extras in enumerate(
            (
                [("A", "x"), ("A", "x"), ("A", "y"), ("B", "y")],
                [("+Link", f"to {lost.hash}"), ("+Link", f"to {LINKED.hash}"), ("u", "x")],
                [("Level", "z"), ("A", "'\\n")],
            )
        )
    ]
    return [*plexes, seal(plexes[0], KEY, auxiliary=b"\x01" * 32)]


def test_no_extra_header_has_the_name_of_a_fixed_field() -> None:
    assert FIXED_FIELDS.keys() == profile.RESERVED_HEADERS
