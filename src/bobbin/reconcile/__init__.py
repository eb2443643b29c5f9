"""Finding what differs between two large sets at the cost of the difference: a rateless sketch, for NumPy.

Two sides hold sets of 32-byte digests that are nearly the same. Under a key that both know, each digest becomes a short
id of 64 bits. One side sends *symbols*, each the sum of a pseudo-random part of its ids; the other subtracts
its own and gets symbols of the difference alone, which it peels apart. As many symbols as about 1.4 times the
difference are enough, whatever the size of the sets, and the sender can always make more: nothing has to be guessed
well in advance. An estimate of the difference, from a sketch of a few hundred bytes, says how many to ask for. Where
the differences lie close together in time, fingerprints of stretches find them for less (``Ordered``).

>>> import numpy as np
>>> from bobbin.reconcile import Decoder, Encoder, digest_rows, short_ids
>>> key = bytes(16)
>>> ours = short_ids(key, digest_rows([bytes([n]) * 32 for n in range(200)]))
>>> theirs = short_ids(key, digest_rows([bytes([n]) * 32 for n in range(3, 203)]))
>>> decoder = Decoder(ours)
>>> decoder.add(Encoder(theirs).produce(32))
True
>>> (len(decoder.missing), len(decoder.extra))
(3, 3)

Nothing here knows of records, policies or peers; what a digest stands for is the caller's business. A set of short ids
is no proof of anything: two digests may share one, and whoever chose the key may have made them do so. Compare a root
over the whole digests when all is done.
"""

from bobbin.reconcile.decode import Decoder, InconsistentSymbols
from bobbin.reconcile.encode import Encoder
from bobbin.reconcile.estimate import Bulk, MalformedBulk, estimate, measure
from bobbin.reconcile.ranges import Fingerprint, Interval, Ordered
from bobbin.reconcile.short_ids import KEY_BYTES, Ids, SharedId, digest_rows, keyed_ids, short_ids
from bobbin.reconcile.symbols import MalformedSymbols, Symbols

__all__ = [
    "KEY_BYTES",
    "Bulk",
    "Decoder",
    "Encoder",
    "Fingerprint",
    "Ids",
    "InconsistentSymbols",
    "Interval",
    "MalformedBulk",
    "MalformedSymbols",
    "Ordered",
    "SharedId",
    "Symbols",
    "digest_rows",
    "estimate",
    "keyed_ids",
    "measure",
    "short_ids",
]
