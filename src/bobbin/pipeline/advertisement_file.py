"""Advertisements in one file, for a peer to compare with: Parquet whose metadata says who advertises which fields.

The rows are those of ``advertisements``, by payload, each record once. A file comes from elsewhere, so everything about
it is checked before anything is compared with it.
"""

from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec import Struct

from bobbin.config.durable import replacing
from bobbin.errors import IntegrityError, ResourceError, UsageError
from bobbin.pipeline.batches.advertise import Form
from bobbin.pipeline.offer import form_of
from bobbin.records import b64a
from bobbin.records.ids import DIGEST_SIZE, SUFFIX
from bobbin.store.lake import staging
from bobbin.store.lake.lake import Lake
from bobbin.store.lake.manifest import Manifest
from bobbin.store.lake.tables import ADVERTISEMENTS, difference

FORMAT: Final = "bobbin-advertisements/1"
_METADATA: Final = b"bobbin"
_BATCH_ROWS: Final = 1 << 16
_LETTER: Final = len("P.")
_RECORD: Final = rf"^[BPS]\.{b64a.PATTERN.decode()}{{{b64a.length(DIGEST_SIZE)}}}\.{SUFFIX}$"


class _Said(Struct, frozen=True, kw_only=True):
    """What the file says of itself."""

    format: str
    source: str
    fields: str


class DamagedFile(IntegrityError):
    """A file of advertisements is not what one is."""


def write(lake: Lake, manifest: Manifest, target: Path) -> int:
    """Write a table of advertisements as one file, which appears when it is whole; how many there are."""
    said = _Said(format=FORMAT, source=manifest.properties["source"], fields=manifest.properties["fields"])
    schema = ADVERTISEMENTS.schema.with_metadata({_METADATA: msgspec.json.encode(said)})
    try:
        with replacing(target) as stream, pq.ParquetWriter(stream, schema, compression="zstd") as writer:
            for file in manifest.files:
                with staging.opened(lake.files, file.path) as parquet:
                    for batch in parquet.iter_batches(_BATCH_ROWS):
                        writer.write_batch(pa.RecordBatch.from_arrays(batch.columns, schema=schema))
    except OSError as error:
        raise ResourceError(f"cannot write {target}: {error.strerror or error}", retry=False) from error
    return manifest.rows


def check(path: Path) -> Form:
    """Who advertises in a file, and which fields. Every row is looked at; refuses a file that is none."""
    try:
        with pq.ParquetFile(path) as parquet:
            form = _form(parquet.schema_arrow, path)
            last = ""
            for batch in parquet.iter_batches(_BATCH_ROWS):
                last = _check_rows(batch, last, path)
    except pa.ArrowException as error:
        raise DamagedFile(f"{path} is no Parquet file, or a damaged one ({error})") from error
    except OSError as error:
        raise ResourceError(f"cannot read {path}: {error.strerror or error}", retry=False) from error
    return form


def _form(schema: pa.Schema, path: Path) -> Form:
    raw = (schema.metadata or {}).get(_METADATA)
    if raw is None:
        raise DamagedFile(f"{path} does not say that it holds advertisements")
    if reason := difference(schema, ADVERTISEMENTS.schema):
        raise DamagedFile(f"{path} holds no advertisements: {reason}")
    try:
        said = msgspec.json.decode(raw, type=_Said)
        if said.format != FORMAT:
            raise DamagedFile(f"{path} is written as {said.format[:80]!r}; this Bobbin reads {FORMAT}")
        return form_of({"source": said.source, "fields": said.fields})
    except (msgspec.MsgspecError, UsageError) as error:
        raise DamagedFile(f"{path} does not say whose advertisements it holds ({error})") from error


def _check_rows(batch: pa.RecordBatch, last: str, path: Path) -> str:
    """Refuse rows that no table of advertisements has; returns the last payload."""
    records, digests = batch.column("record"), batch.column("digest")
    if records.null_count or digests.null_count:
        raise DamagedFile(f"{path} has rows without a record or a digest")
    if not pc.all(pc.match_substring_regex(records, _RECORD)).as_py():
        raise DamagedFile(f"{path} has rows whose record is no record hash")
    if not pc.all(pc.equal(pc.binary_length(digests), DIGEST_SIZE)).as_py():
        raise DamagedFile(f"{path} has digests of another size than {DIGEST_SIZE} bytes")
    payloads = pa.concat_arrays([pa.array([last]), pc.utf8_slice_codeunits(records, _LETTER)])
    if not pc.all(pc.less(payloads[:-1], payloads[1:])).as_py():
        raise DamagedFile(f"{path} names a record twice, or its rows are out of order")
    return str(payloads[-1].as_py())
