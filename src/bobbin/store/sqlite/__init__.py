"""The store in one SQLite file."""

from bobbin.store.sqlite.config import Config
from bobbin.store.sqlite.opening import open_store
from bobbin.store.sqlite.store import SqliteStore

__all__ = ["Config", "SqliteStore", "open_store"]
