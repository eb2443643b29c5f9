"""The tables of a store, version by version.

======================  ==============================================================================================
``record``              the bytes, under their ``StoreRecordId`` and their key (``coding``)
``fact``                one wide row per record: what the fields say that every record of its kind has
``header``, ``link``    the extra headers, and those of them that are record links
``place``, ``text``     each (group, app), and each other text that repeats, stored once under a number
``refusal``             names of records that were removed and must not come back
``quarantine``          bytes that were rejected
``tally``               one row: counts and sizes, and the generation of the numbers in ``place`` and ``text``
``change``              every removal, refusal and lifted refusal, in order (since version 2)
``kept``                values that only save work, by kind and key (since version 2)
``message``             messages of tangles by arrival, each with the record that it also is, if any (since version 3)
``tangle``, ``member``  each tangle with its goal and its ghosts, and who is in it at which depth (since version 3)
``lacking``             what keeps a message from being proven: ids of messages, or of their data (since version 3)
``waiting``             records that are messages in form and cannot be accepted yet (since version 3)
``tangle_tally``        one row: counts of messages, and what tells that they have changed (since version 3)
``replica``             one row where the store is a copy of a replicated lace: how much of the log it holds, a sum
                        over it, and the newest right to fire effects; none in any other (since version 4)
``answer``, ``piece``   of a replicated lace: answers to the newest commands, pieces of long records (since version 4)
``effect``              effects that one node of a replicated lace fires, at most once each (since version 4)
======================  ==============================================================================================

``AUTOINCREMENT`` is what keeps a ``StoreRecordId`` from being used twice: SQLite remembers the highest one, also when
its record is gone. Rows of ``fact``, ``header`` and ``link`` carry the number of their record and live and die with
it. A name is stored as text beside its place, so that a listing is one walk along ``fact_by_place``. Of a Plex,
``inner`` is the digest of its Blob; of a Seal, that of its Plex.

A published version never changes. What a later version needs is a step in ``migrations``.
"""

from typing import Final

APPLICATION_ID: Final = int.from_bytes(b"Bobb")
"""Stands in the header of the file, and tells a store from any other SQLite database."""

PAGE_BYTES: Final = 16_384
"""With 1 kB records, 8 kB pages made writing 1.2 times as slow and 4 kB pages 1.5 times."""

VERSION_1: Final = """
CREATE TABLE record(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  key INTEGER NOT NULL,
  raw BLOB NOT NULL
) STRICT;
CREATE INDEX record_by_key ON record(key);

CREATE TABLE fact(
  id INTEGER PRIMARY KEY,
  kind INTEGER NOT NULL,
  digest BLOB NOT NULL,
  place INTEGER,
  name TEXT,
  tai INTEGER,
  data_length INTEGER NOT NULL,
  signer INTEGER,
  inner_key INTEGER,
  inner BLOB
) STRICT;
CREATE INDEX fact_by_place ON fact(place, name, tai DESC) WHERE place IS NOT NULL;
CREATE INDEX fact_by_tai ON fact(tai) WHERE tai IS NOT NULL;
CREATE INDEX fact_by_signer ON fact(signer) WHERE signer IS NOT NULL;
CREATE INDEX fact_by_inner ON fact(inner_key) WHERE inner_key IS NOT NULL;

CREATE TABLE header(
  record INTEGER NOT NULL,
  name INTEGER NOT NULL,
  position INTEGER NOT NULL,
  value INTEGER NOT NULL,
  PRIMARY KEY (record, name, position)
) STRICT, WITHOUT ROWID;
CREATE INDEX header_by_value ON header(name, value);

CREATE TABLE link(
  record INTEGER NOT NULL,
  name INTEGER NOT NULL,
  position INTEGER NOT NULL,
  data INTEGER NOT NULL,
  target INTEGER NOT NULL,
  PRIMARY KEY (record, name, position)
) STRICT, WITHOUT ROWID;
CREATE INDEX link_by_target ON link(target);

CREATE TABLE place(
  id INTEGER PRIMARY KEY,
  group_path TEXT NOT NULL,
  app TEXT NOT NULL,
  UNIQUE (group_path, app)
) STRICT;
CREATE INDEX place_by_app ON place(app);

CREATE TABLE text(
  id INTEGER PRIMARY KEY,
  value TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE refusal(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  key INTEGER NOT NULL,
  hash TEXT NOT NULL UNIQUE,
  reason TEXT NOT NULL,
  tai INTEGER NOT NULL
) STRICT;
CREATE INDEX refusal_by_key ON refusal(key);

CREATE TABLE quarantine(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  key INTEGER NOT NULL,
  raw BLOB,
  size INTEGER NOT NULL,
  reason TEXT NOT NULL,
  detail TEXT NOT NULL,
  source TEXT NOT NULL,
  start INTEGER,
  tai INTEGER NOT NULL
) STRICT;
CREATE INDEX quarantine_by_place ON quarantine(key, start, source);

CREATE TABLE tally(
  id INTEGER PRIMARY KEY CHECK (id = 1),
  blobs INTEGER NOT NULL DEFAULT 0,
  plexes INTEGER NOT NULL DEFAULT 0,
  seals INTEGER NOT NULL DEFAULT 0,
  record_bytes INTEGER NOT NULL DEFAULT 0,
  quarantined INTEGER NOT NULL DEFAULT 0,
  quarantine_bytes INTEGER NOT NULL DEFAULT 0,
  quarantine_overflow INTEGER NOT NULL DEFAULT 0,
  refused INTEGER NOT NULL DEFAULT 0,
  generation INTEGER NOT NULL DEFAULT 1
) STRICT;
INSERT INTO tally(id) VALUES (1);
"""

VERSION_2: Final = """
CREATE TABLE change(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  what INTEGER NOT NULL,
  kind INTEGER NOT NULL,
  digest BLOB NOT NULL
) STRICT;

CREATE TABLE kept(
  id INTEGER PRIMARY KEY,
  kind TEXT NOT NULL,
  key TEXT NOT NULL,
  value BLOB NOT NULL,
  UNIQUE (kind, key)
) STRICT;
"""

VERSION_3: Final = """
CREATE TABLE message(
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  raw BLOB NOT NULL,
  erased INTEGER NOT NULL,
  level INTEGER NOT NULL,
  record INTEGER,
  provisional INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX message_by_record ON message(record) WHERE record IS NOT NULL;
CREATE INDEX message_by_level ON message(level) WHERE level = 1;

CREATE TABLE tangle(
  number INTEGER PRIMARY KEY,
  root TEXT NOT NULL UNIQUE,
  goal TEXT,
  ghosts TEXT NOT NULL DEFAULT '[]'
) STRICT;

CREATE TABLE member(
  tangle INTEGER NOT NULL,
  depth INTEGER NOT NULL,
  message INTEGER NOT NULL,
  level INTEGER NOT NULL,
  PRIMARY KEY (tangle, depth, message)
) STRICT, WITHOUT ROWID;
CREATE INDEX member_by_message ON member(message);
CREATE INDEX member_by_level ON member(level) WHERE level = 1;

CREATE TABLE lacking(
  id TEXT NOT NULL,
  message INTEGER NOT NULL,
  PRIMARY KEY (id, message)
) STRICT, WITHOUT ROWID;
CREATE INDEX lacking_by_message ON lacking(message);

CREATE TABLE waiting(
  record INTEGER PRIMARY KEY,
  reason TEXT NOT NULL
) STRICT;

CREATE TABLE tangle_tally(
  id INTEGER PRIMARY KEY CHECK (id = 1),
  version INTEGER NOT NULL DEFAULT 0,
  rewrites INTEGER NOT NULL DEFAULT 0,
  messages INTEGER NOT NULL DEFAULT 0,
  erased INTEGER NOT NULL DEFAULT 0,
  interop INTEGER NOT NULL DEFAULT 0,
  message_bytes INTEGER NOT NULL DEFAULT 0,
  waiting INTEGER NOT NULL DEFAULT 0,
  seen INTEGER NOT NULL DEFAULT 0
) STRICT;
INSERT INTO tangle_tally(id) VALUES (1);
"""

VERSION_4: Final = """
CREATE TABLE replica(
  id INTEGER PRIMARY KEY CHECK (id = 1),
  applied INTEGER NOT NULL,
  sum BLOB NOT NULL,
  fence INTEGER NOT NULL
) STRICT;

CREATE TABLE answer(
  id INTEGER PRIMARY KEY,
  token BLOB NOT NULL UNIQUE,
  answer BLOB NOT NULL
) STRICT;

CREATE TABLE piece(
  token BLOB NOT NULL,
  number INTEGER NOT NULL,
  since INTEGER NOT NULL,
  raw BLOB NOT NULL,
  PRIMARY KEY (token, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE effect(
  id TEXT PRIMARY KEY,
  fence INTEGER NOT NULL,
  outcome TEXT
) STRICT, WITHOUT ROWID;
"""
