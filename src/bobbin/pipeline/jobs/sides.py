"""What is compared: the advertisements of one side, wherever they come from, as a frame of records and digests.

Digests mean something only under one label and field schema, so both sides of a comparison have the same form. A peer's
advertisements come with theirs; a lake or a lace takes the one it is asked for.
"""

from pathlib import Path
from typing import Final, TypeAlias, assert_never

import msgspec
import pyarrow as pa
from msgspec import Struct
from pyspark.sql import DataFrame, SparkSession

from bobbin.config.layout import Layout
from bobbin.errors import UsageError
from bobbin.interlace.advertise import digested
from bobbin.interlace.cursor import Cursor
from bobbin.lace import Lace
from bobbin.pipeline import advertisement_file, frames
from bobbin.pipeline.batches.advertise import Form
from bobbin.pipeline.hadoop_files import files_of
from bobbin.pipeline.jobs.advertise import by_digest, choose
from bobbin.pipeline.jobs.facts import describe_records, find_pending
from bobbin.pipeline.offer import Offer, is_of, lengths_of, properties_of, selection_of, stale_notes
from bobbin.pipeline.reading.sources import MissingSource, check_parquet_name
from bobbin.pipeline.source import datasource
from bobbin.policy.operands import parse_origin
from bobbin.runtime.decisions import CURSOR, Decisions
from bobbin.store.base import Store
from bobbin.store.lake.files import LOCK, local_path
from bobbin.store.lake.lake import Lake
from bobbin.store.lake.tables import ADVERTISEMENTS, FACTS, RECORDS

_LISTED_MAX: Final = 10


class Side(Struct, frozen=True, kw_only=True):
    """One side of a comparison."""

    name: str
    advertisements: DataFrame
    """Rows of ``advertisements``, each record once."""
    partitions: DataFrame | None = None
    """Rows of ``partitions`` over the same, where they were made."""
    lengths: tuple[int, ...] = ()
    """Of the prefixes there."""
    notes: tuple[str, ...] = ()
    """What the report has to say of it."""


class AtLake(Struct, frozen=True):
    """Another lake."""

    location: str


class AtLace(Struct, frozen=True):
    """A lace, with every record that it has."""

    folder: Path


class AtFile(Struct, frozen=True):
    """Advertisements in a file, which was checked."""

    path: Path
    form: Form


class Claimed(Struct, frozen=True):
    """A peer's advertisements, as a lace has them from its last exchange with that peer."""

    name: str
    form: Form
    advertisements: pa.Table


Other: TypeAlias = AtLake | AtLace | AtFile | Claimed


def find_other(location: str, *, link: str | None = None) -> Other:
    """What is at a location: a lake, a lace, or a file of advertisements; with a link, what a lace remembers of it."""
    local = local_path(location)
    if local is None:
        if link is not None:
            raise UsageError(f"{location} is an address, and --link is about a lace on this machine")
        return AtLake(location)
    path = Path(local)
    if link is not None:
        return read_claims(path, link)
    if (path / LOCK).is_file():
        return AtLake(location)
    if Layout(path).is_lace():
        return AtLace(path)
    if path.is_dir():
        raise UsageError(f"{location} is a folder, and neither a lake nor a lace")
    if not path.exists():
        raise MissingSource(f"there is no lake, lace or file {location}")
    form = advertisement_file.check(path)
    check_parquet_name(str(path))
    return AtFile(path, form)


def form_of_other(other: Other) -> Form | None:
    """The form that the other side's digests have already; None where they take the one that is asked for."""
    return other.form if isinstance(other, AtFile | Claimed) else None


def side_of(session: SparkSession, other: Other, offer: Offer, *, allow_stale: bool = False) -> Side:
    """The other side, as it compares with an offer."""
    match other:
        case AtLake():
            lake = Lake.open(other.location, files=files_of(session, other.location))
            return side_of_lake(session, lake, offer, allow_stale=allow_stale)
        case AtLace():
            return side_of_lace(session, other.folder, offer.form)
        case AtFile():
            return side_of_file(session, other.path)
        case Claimed():
            return side_of_claims(session, other)
        case _:
            assert_never(other)


def side_of_lake(session: SparkSession, lake: Lake, offer: Offer, *, allow_stale: bool = False) -> Side:
    """What a lake advertises: from its tables if they are up to date, else computed on the way.

    Raises ``StaleSelection`` for a selection that is behind the records, unless that is allowed.
    """
    records, described, chosen = lake.manifest(RECORDS.name), lake.manifest(FACTS.name), selection_of(lake, offer)
    notes = stale_notes(lake, chosen, allowed=allow_stale)
    if find_pending(lake, records, described) is None:
        properties = properties_of(offer, facts=described, selection=chosen)
        made, summarised = lake.manifest(offer.advertisements), lake.manifest(offer.partitions)
        if is_of(lake, made, properties):
            has_roots = is_of(lake, summarised, properties)
            return Side(
                name=lake.location,
                advertisements=frames.read(session, lake, made),
                partitions=frames.read(session, lake, summarised) if has_roots else None,
                lengths=lengths_of(summarised) if has_roots else (),
                notes=notes,
            )
        facts = frames.read(session, lake, described)
    else:
        facts = describe_records(frames.read(session, lake, records))
    if chosen is not None:
        facts = choose(facts, frames.read(session, lake, chosen), offer.predicate)
    return Side(name=lake.location, advertisements=by_digest(facts, offer.form), notes=notes)


def side_of_lace(session: SparkSession, folder: Path, form: Form) -> Side:
    """What a lace would advertise if it offered every record."""
    datasource.register(session)
    records = session.read.format(datasource.FORMAT).option("columns", "record,raw").load(str(folder.absolute()))
    return Side(name=str(folder), advertisements=by_digest(describe_records(records), form))


def side_of_claims(session: SparkSession, claimed: Claimed) -> Side:
    """What a peer advertised."""
    rows = session.createDataFrame(claimed.advertisements, frames.schema_of(ADVERTISEMENTS))
    return Side(name=claimed.name, advertisements=rows)


def side_of_file(session: SparkSession, path: Path) -> Side:
    """What a file of advertisements holds. It was checked before."""
    rows = session.read.schema(frames.schema_of(ADVERTISEMENTS)).parquet(frames.spark_path(f"file://{path.absolute()}"))
    return Side(name=str(path), advertisements=rows)


def read_claims(folder: Path, link: str) -> Claimed:
    """What the peer of a link advertised to a lace when their last exchange ended."""
    with Lace.open(folder, read_only=True) as lace:
        raw = Decisions(lace.store).cursors.find(link)
        if raw is None:
            raise UsageError(f"the lace {folder} remembers nothing of the link {link!r}; {_known(lace.store)}")
    try:
        cursor = msgspec.msgpack.decode(raw, type=Cursor)
    except msgspec.MsgspecError as error:
        raise UsageError(f"what the lace {folder} remembers of the link {link!r} is of another version") from error
    form = Form(source=parse_origin(cursor.source), schema=cursor.schema)
    claims = [digested(one, form.source) for one in cursor.advertisements]
    columns = [
        pa.array([one.record for one in claims], pa.string()),
        pa.array([one.digest for one in claims], pa.binary()),
    ]
    table = pa.Table.from_arrays(columns, schema=ADVERTISEMENTS.schema)
    return Claimed(f"the link {link} of {folder}", form, table)


def _known(store: Store) -> str:
    links = [name.partition("/")[2] for name, _ in store.kept_rows(CURSOR)]
    if not links:
        return "no exchange of it has left anything to remember"
    more = f" and {len(links) - _LISTED_MAX} more" if len(links) > _LISTED_MAX else ""
    return f"there are: {', '.join(links[:_LISTED_MAX])}{more}"
