"""Reactive (lazily): a live graph, and how whoever watches it keeps a mirror of it by snapshot and delta."""
