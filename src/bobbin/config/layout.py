"""What is where in the folder of a lace.

::

    DIR/
    ├── lace.toml          what this lace is: format, birth, default key; its presence makes the folder a lace
    ├── records.db         the store (SQLite; beside it -wal and -shm while it is open)
    ├── peers.toml         0600, who is known: keys, addresses, policies; only where there are known peers
    ├── node.sock          0600, where a running node answers its operator
    ├── graph.sock         0600, where `bobbin graph serve` shows its graph to the owner
    ├── cluster/           only of a replicated lace: its node of the cluster (``config.cluster``)
    ├── tls/               0700, the certificate that a node made for itself
    │   ├── certificate.pem
    │   └── key.pem        0600
    └── keys/              0700
        ├── <name>.key     0600, one line: the signing secret &.….H3
        └── <name>.ed25519 0600, one line: the private key of an account of tangles

``lace.toml`` is written last, so a folder that has one is complete. A creation that was cut off may leave files with
temporary names; the next one takes them away.
"""

import os
import re
from pathlib import Path
from typing import Final

from msgspec import Struct

SETTINGS_FILE: Final = "lace.toml"
RECORDS_FILE: Final = "records.db"
KEYS_FOLDER: Final = "keys"
KEY_SUFFIX: Final = ".key"
ACCOUNT_KEY_SUFFIX: Final = ".ed25519"
PEERS_FILE: Final = "peers.toml"
NODE_SOCKET: Final = "node.sock"
GRAPH_SOCKET: Final = "graph.sock"
TLS_FOLDER: Final = "tls"
CLUSTER_FOLDER: Final = "cluster"

_STORE_COMPANIONS: Final = ("-wal", "-shm", "-journal")
_LEFTOVER: Final = re.compile(
    rf"\.(?:{re.escape(SETTINGS_FILE)}|{re.escape(RECORDS_FILE)})\.[0-9a-f]{{12}}\.tmp(?:{'|'.join(_STORE_COMPANIONS)})?"
)
"""The temporary names under which settings and store are written before they get their own."""


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

    @property
    def peers(self) -> Path:
        return self.folder / PEERS_FILE

    @property
    def node_socket(self) -> Path:
        return self.folder / NODE_SOCKET

    @property
    def graph_socket(self) -> Path:
        return self.folder / GRAPH_SOCKET

    @property
    def cluster(self) -> Path:
        return self.folder / CLUSTER_FOLDER

    @property
    def tls(self) -> Path:
        return self.folder / TLS_FOLDER

    @property
    def certificate(self) -> Path:
        return self.tls / "certificate.pem"

    @property
    def certificate_key(self) -> Path:
        return self.tls / "key.pem"

    def is_lace(self) -> bool:
        """Whether the folder holds a complete lace."""
        return self.settings.is_file()

    def strangers(self) -> list[str]:
        """Names in the folder that no lace has: what forbids to create one here."""
        own = {KEYS_FOLDER, PEERS_FILE, NODE_SOCKET, GRAPH_SOCKET, TLS_FOLDER, CLUSTER_FOLDER}
        own |= {RECORDS_FILE, *(RECORDS_FILE + suffix for suffix in _STORE_COMPANIONS)}
        names = (entry.name for entry in self.folder.iterdir())
        return sorted(name for name in names if name not in own and not _LEFTOVER.fullmatch(name))

    def leftovers(self) -> list[Path]:
        """What creations that were cut off have left behind under temporary names."""
        return sorted(entry for entry in self.folder.iterdir() if _LEFTOVER.fullmatch(entry.name))

    def clear_leftovers(self) -> None:
        """Take them away. For whoever has completed the lace: nobody else can complete one here any more."""
        for path in self.leftovers():
            path.unlink(missing_ok=True)

    def holds(self, path: Path) -> bool:
        """Whether a path leads into this folder, or to a file of it by another name (a link of either kind)."""
        if _real(path).is_relative_to(_real(self.folder)):
            return True
        try:
            wanted = path.stat()
        except OSError:
            return False
        return any(
            _is_same(entry, wanted) for folder in (self.folder, self.keys, self.tls) for entry in _entries(folder)
        )


def lace_around(path: Path) -> Path | None:
    """The folder of the lace that a path leads into, whichever that is; None if it leads into none."""
    return next((folder for folder in _real(path).parents if Layout(folder).is_lace()), None)


def _real(path: Path) -> Path:
    # Path.resolve() breaks on links that lead in a circle; whoever opens the file will hear of those.
    return Path(os.path.realpath(path))


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _is_same(entry: Path, wanted: os.stat_result) -> bool:
    try:
        return os.path.samestat(entry.stat(), wanted)
    except OSError:
        return False
