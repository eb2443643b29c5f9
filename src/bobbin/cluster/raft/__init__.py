"""Consensus: one log, the same on every node, kept by whoever a majority elected."""
