"""Blocks of committed transactions, each resting on the one before.

``LocalChain`` is the whole of it in one process: begin, commit, roll back, read, look at the history, verify. A shard
has the same ledger behind a replicated log.
"""

from bobbin.cluster.chain.local_chain import Committed, LocalChain, Refused

__all__ = ["Committed", "LocalChain", "Refused"]
