"""Tangles (pzp): histories that form a graph without cycles, and how two peers converge on one of them."""
