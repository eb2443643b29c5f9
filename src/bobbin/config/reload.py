"""A configuration that can change while it is in force.

``load`` reads everything, checks everything and gives one value, or an error. ``Reloader`` keeps the value that is in
force and looks whether the files behind it have changed: the configuration, the known peers, every policy that they
name, also those that were missing. A change that is not right leaves the old value in force, and says what is wrong
with it once.

A file that is being written is not read: a change counts when two looks in a row find the same files.
"""

import os
from pathlib import Path
from typing import Final

from msgspec import Struct

from bobbin.config.findings import Findings
from bobbin.config.layout import Layout
from bobbin.config.node import NodeConfig, Overrides, parse_node
from bobbin.config.peers import Defaults, make_roster, parse_peers
from bobbin.config.policies import Policies
from bobbin.config.sources import Seen, Sources, Stamp, current_digest, stamp
from bobbin.errors import BobbinError
from bobbin.policy.modules import deny_all_selector
from bobbin.runtime.roster import Roster


class Loaded(Struct, frozen=True, kw_only=True):
    """A whole configuration: how to serve, and whom."""

    config: NodeConfig
    roster: Roster


class Origin(Struct, frozen=True, kw_only=True):
    """Where a configuration is read from."""

    layout: Layout
    file: Path | None = None
    """None for a node without a file."""
    overrides: Overrides = Overrides()


def load(origin: Origin, sources: Sources | None = None) -> Loaded:
    """Read and check everything, or raise an error with everything that is wrong."""
    reading, findings = sources or Sources(), Findings()
    policies = Policies(reading, findings)
    config = parse_node(origin.file, origin.overrides, policies, reading, findings)
    if config is None:
        # Which peers it would name is not known; those that hold without it are looked at all the same.
        config = NodeConfig(peers=origin.overrides.peers, defaults=Defaults(selector=deny_all_selector()))
    peers = parse_peers(config.peers or origin.layout.peers, reading, findings, required=config.peers is not None)
    roster = make_roster(peers, config.defaults, policies, findings)
    findings.raise_if_any()
    return Loaded(config=config, roster=roster)


class Reloader:
    """The configuration in force. Used by one thread at a time; every method reads files and may take a moment."""

    def __init__(self, origin: Origin) -> None:
        """Load it for the first time; what is wrong is raised."""
        sources = Sources()
        self._origin: Final = origin
        self._loaded = load(origin, sources)
        self._seen: dict[Path, Seen] = dict(sources.seen)
        self._settling: dict[Path, Stamp | None] | None = None
        self._failure: BobbinError | None = None

    @property
    def loaded(self) -> Loaded:
        """What is in force."""
        return self._loaded

    @property
    def peers_file(self) -> str:
        """Where the known peers of what is in force are read from, for whoever is elsewhere in the file system."""
        return os.path.realpath(self._loaded.config.peers or self._origin.layout.peers)

    @property
    def failure(self) -> BobbinError | None:
        """Why the files as they are now are not in force; None if they are."""
        return self._failure

    @property
    def files(self) -> frozenset[Path]:
        """Every file that is looked at."""
        return frozenset(self._seen)

    def poll(self) -> Loaded | BobbinError | None:
        """A new configuration if the files have changed, the error if they are wrong now, else None."""
        found = {path: stamp(path) for path in self._seen}
        changed = [path for path, seen in self._seen.items() if seen.stamp != found[path]]
        if not changed:
            self._settling = None
            return None
        if found != self._settling:
            self._settling = found
            return None
        self._settling = None
        if all(self._is_same(path) for path in changed):
            self._seen = {path: Seen(stamp=found[path], digest=seen.digest) for path, seen in self._seen.items()}
            return None
        return self.reload()

    def reload(self) -> Loaded | BobbinError:
        """Read everything now, whether or not anything seems to have changed."""
        sources = Sources()
        try:
            loaded = load(self._origin, sources)
        except BobbinError as error:
            self._failure = error
            # What could not be reached this time is still looked at: it may be named again when the mistake is mended.
            others = {path: _look(path) for path in self._seen if path not in sources.seen}
            self._seen = {**others, **sources.seen}
            return error
        self._loaded = loaded
        self._failure = None
        self._seen = dict(sources.seen)
        return loaded

    def _is_same(self, path: Path) -> bool:
        """Whether a file that looks changed has its old content."""
        known = self._seen[path].digest
        return known is not None and current_digest(path) == known


def _look(path: Path) -> Seen:
    return Seen(stamp=stamp(path), digest=current_digest(path))
