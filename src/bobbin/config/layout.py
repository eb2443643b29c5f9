"""What is where in the folder of a lace.

::

    DIR/
    ├── lace.toml          what this lace is: format, birth, default key; its presence makes the folder a lace
    ├── records.db         the store (SQLite; beside it -wal and -shm while it is open)
    └── keys/              0700
        └── <name>.key     0600, one line: the signing secret &.….H3

``lace.toml`` is written last, so a folder that has one is complete.
"""

from pathlib import Path
from typing import Final

from msgspec import Struct

SETTINGS_FILE: Final = "lace.toml"
RECORDS_FILE: Final = "records.db"
KEYS_FOLDER: Final = "keys"
KEY_SUFFIX: Final = ".key"

_STORE_COMPANIONS: Final = ("-wal", "-shm", "-journal")


class Layout(Struct, frozen=True):
    """The paths inside one lace folder."""

    folder: Path

    @property
    def settings(self) -> Path:
        return self.folder / SETTINGS_FILE

    @property
    def records(self) -> Path:
        return self.folder / RECORDS_FILE

    @property
    def keys(self) -> Path:
        return self.folder / KEYS_FOLDER

    def is_lace(self) -> bool:
        """Whether the folder holds a complete lace."""
        return self.settings.is_file()

    def strangers(self) -> list[str]:
        """Names in the folder that no lace has: what forbids to create one here."""
        own = {KEYS_FOLDER, RECORDS_FILE, *(RECORDS_FILE + suffix for suffix in _STORE_COMPANIONS)}
        return sorted(entry.name for entry in self.folder.iterdir() if entry.name not in own and not _is_ours(entry))


def _is_ours(entry: Path) -> bool:
    """Whether this is what a creation that was cut off left behind of ``lace.toml``."""
    return entry.name.startswith(f".{SETTINGS_FILE}.") and entry.name.endswith(".tmp")
