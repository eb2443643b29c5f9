"""What a path leads to: a lace, a lake or a bundle. Anything else is refused with a sentence that says what it is."""

from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from bobbin.config.layout import Layout, lace_around
from bobbin.errors import ResourceError, UsageError
from bobbin.pipeline.source.bundle_slices import is_bundle
from bobbin.store.lake.files import LOCK, local_path


class Kind(StrEnum):
    """What can be read."""

    LACE = "lace"
    LAKE = "lake"
    BUNDLE = "bundle"


class Location(Struct, frozen=True):
    """A path that can be read, from whatever folder."""

    kind: Kind
    path: Path


def find(name: str) -> Location:
    """What a path leads to. Workers open it by the same name, so it must mean the same to them."""
    local = local_path(name)
    if local is None:
        raise UsageError(f"{name}: the source bobbin reads folders and files; `bobbin pipeline ingest` reads addresses")
    path = Path(local).absolute()
    try:
        return Location(_kind(path), path)
    except OSError as error:
        raise ResourceError(f"cannot read {path}: {error.strerror or error}", retry=False) from error


def _kind(path: Path) -> Kind:
    if not path.exists():
        raise UsageError(f"there is nothing at {path}; the source bobbin reads a lace, a lake or a bundle")
    if path.is_dir():
        if Layout(path).is_lace() or Layout(path).records.is_file():
            # Without its settings it is a damaged lace, and opening it says so.
            return Kind.LACE
        if (path / LOCK).is_file():
            return Kind.LAKE
        raise UsageError(f"{path} is a folder, but neither a lace nor a lake")
    if owner := lace_around(path):
        raise UsageError(f"{path} is inside the lace {owner}; name the lace itself")
    if not path.is_file() or not is_bundle(path):
        raise UsageError(f"{path} is no bundle: no record begins near its front")
    return Kind.BUNDLE
