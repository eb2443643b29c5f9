"""Every constant that the published protocols leave open, in one place.

Two copies of Bobbin agree on all of them. Should a published text settle one of these values, this module is the only
one that changes. Values that the protocols do fix live beside the code that obeys them.
"""

from types import MappingProxyType
from typing import Final

# ---- signatures (Lace-009) ----------------------------------------------------------------------------------------

DERIVE_SIGNING_KEY: Final = "lace-🖧/adhoc-key"
DERIVE_AUXILIARY: Final = "lace-🖧/aux"
DERIVE_NONCE: Final = "lace-🖧/nonce"
DERIVE_CHALLENGE: Final = "lace-🖧/challenge"

# ---- records (Lace-010) -------------------------------------------------------------------------------------------

HEADER_LINE_BYTES_MAX: Final = 1024
"""Length of one header line, its LF not counted."""

EXTRA_HEADERS_MAX: Final = 512
DATA_BYTES_MAX: Final = 32 * 1024 * 1024
RECORD_BYTES_MAX: Final = 34 * 1024 * 1024

EXTRA_HEADERS_SORTED: Final = True
"""Readers refuse extra headers whose names do not ascend bytewise. The published order is not known, so this is the
switch that turns the refusal off."""

RESERVED_HEADERS: Final = frozenset({"Group", "App", "Name", "TAI", "Data-Length", "Signed-By", "Signature", "Type"})
RESERVED_HEADER_PREFIXES: Final = ("🖧", "⋯")

SEGMENT_BYTES_MAX: Final = 255
GROUP_BYTES_MAX: Final = 255
APP_BYTES_MAX: Final = 255
SEGMENT_FORBIDDEN: Final = "/{}|#"

# ---- record facts (Lace-020) --------------------------------------------------------------------------------------

FACT_VALUE_BYTES_MAX: Final = 4096

# ---- how values and predicates are written (Lace-030), in rules and in fact blocks ----------------------------------

CONSTANT_ESCAPES: Final = MappingProxyType({"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\t": "\\t"})
"""Characters that a constant writes with a backslash, and how. No other escape exists."""

NAME_CHARACTERS_MAX: Final = 64
"""Length of the name of a predicate or a variable."""

FACT_ARGUMENTS_MAX: Final = 16
FACT_BLOCK_LINES_MAX: Final = 1_000_000
"""Facts in one block. A line of a listing names two hashes, so a block of 64 MiB never holds as many."""

# ---- datalog and lacegrams (Lace-030) -----------------------------------------------------------------------------

LACEGRAM_DOMAIN: Final = b"lace-lacegram/v1"

# ---- exchange policy (Lace-040) -----------------------------------------------------------------------------------

PLAN_DOMAIN: Final = b"lace-exchange-plan/v1"
PLAN_VERSION: Final = "lace-exchange-plan/v1"
PLAN_OPERATION: Final = "intersection"

ORIGIN_LOCAL: Final = "local"
"""Reserved for what never left this machine; never valid in anything a peer sends."""
ORIGIN_LABEL_PREFIX: Final = "source:"

PARTITION_PREFIX_LENGTH: Final = "partition_prefix_length"
PARTITION_PREFIX_LENGTH_MAX: Final = 43
"""A digest has 43 symbols; a partition prefix has at least one of them."""

QUERY_POLICY_DEFAULT: Final = "Queryable(P,O) :- OwnSelected(P), Viewer(O).\n"
"""What a peer's rules may look at when the application says nothing: what this side already offers."""

SELECTOR_DENY_ALL: Final = "SelectHave(P) :- Have(P), not Have(P).\n"
"""The selector of a side that has no policy: valid, and true of no record."""

# ---- tangles ------------------------------------------------------------------------------------------------------

TANGLE_APP: Final = "pzp"
"""The app of every record that is a message of a tangle."""

TANGLE_WAITING_KNOWN_MAX: Final = 2_000
"""Records that wait to become messages and that a running node keeps in mind: the newest. Anybody whose records it
takes can leave any number of them. Those beyond wait durably like the rest, for the next command that writes."""

TANGLE_WAITING_KNOWN_BYTES_MAX: Final = 16 * 1024 * 1024
"""All of these together."""

# ---- reactive -----------------------------------------------------------------------------------------------------

STAMP_AHEAD_US_MAX: Final = 60_000_000
"""How far ahead of the local clock a replicated write may claim to be. One from far ahead would win for as long."""
