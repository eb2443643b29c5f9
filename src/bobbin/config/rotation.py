"""Another key for the node of a folder, or for its operator: what happens on the disk, in steps that bear a crash.

The new key is made beside the old one, as ``node.key.next`` or ``operator.key.next``, and is durable before anybody
hears of it. When the cluster has taken it, it gets the name of the old one by renaming. So at every moment the folder
holds a key that counts: the old one until the cluster has the new one, the new one from then on, and both in between.

The log knows a node by the id of its first key. That id is written into ``cluster.toml`` as ``seat`` before the key
changes, where it says what is so already, so that no moment is left in which the new key would be another node.
"""

import fcntl
import os
import re
import stat
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from bobbin.cluster.names import NodeId
from bobbin.config import durable
from bobbin.config.cluster import ClusterLayout, create_key, read_key
from bobbin.errors import ResourceError, UsageError
from bobbin.runtime.cluster_certificate import Credentials

_NEXT: Final = ".next"
_ADDRESS: Final = re.compile(r"address\s*=")


@contextmanager
def changing_keys(folder: Path) -> Iterator[None]:
    """The keys of a folder, for one command at a time among all processes. Raises ``ResourceError`` for another one."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UsageError(f"there is no folder {folder}, and so no key in it") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ResourceError(f"another command is changing a key in {folder}", retry=True) from error
        yield
    finally:
        os.close(descriptor)


def next_file(file: Path) -> Path:
    """Where the key is kept that is to take the place of another; beside the file itself, where that is a link."""
    real = file.resolve()
    return real.with_name(real.name + _NEXT)


def prepared_key(file: Path) -> Credentials | None:
    """The key that is to take the place of the one in ``file``, if one was made."""
    prepared = next_file(file)
    return read_key(prepared) if prepared.exists() else None


def prepare_key(file: Path) -> Credentials:
    """Make that key, durably, or take the one that was made."""
    return create_key(next_file(file))


def switch_key(file: Path) -> None:
    """Let the prepared key take the place of the one in ``file``, durably; nothing if there is none.

    It gets the owner of that one, too: where root changes the key of a node, the node still has to read it.
    """
    real, prepared = file.resolve(), next_file(file)
    try:
        descriptor = os.open(prepared, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        _keep_owner(descriptor, real.stat())
    finally:
        os.close(descriptor)
    prepared.replace(real)
    durable.sync_folder(real.parent)


def keep_seat(layout: ClusterLayout, seat: NodeId) -> None:
    """Write down which node this is, unless it is written: every other byte of the settings stays as it is."""
    file = layout.settings.resolve()
    text = file.read_bytes().decode()
    before = tomllib.loads(text)
    if "seat" in before:
        return
    changed = _with_line(text, f'seat = "{seat}"', {**before, "seat": seat})
    status = file.stat()
    with durable.replacing(file) as stream:
        _keep_owner(stream.fileno(), status)
        os.fchmod(stream.fileno(), stat.S_IMODE(status.st_mode))
        stream.write(changed.encode())


def _keep_owner(descriptor: int, status: os.stat_result) -> None:
    """Give a file to whom another one belongs, where that is allowed; whoever is not root mostly owns both."""
    with suppress(PermissionError):
        os.fchown(descriptor, status.st_uid, status.st_gid)


def _with_line(text: str, line: str, wanted: dict[str, object]) -> str:
    """The settings with one line more: after the address, or first of all where it does not stand on a line of its own.

    The first line of a file is outside of every table, so there it always means what is wanted.
    """
    lines = text.splitlines(keepends=True)
    ends = [at for at, one in enumerate(lines, start=1) if _ADDRESS.match(one) and one.endswith("\n")]
    ending = "\r\n" if lines and lines[0].endswith("\r\n") else "\n"
    for at in (*ends[:1], 0):
        changed = "".join((*lines[:at], line, ending, *lines[at:]))
        with suppress(tomllib.TOMLDecodeError):
            if tomllib.loads(changed) == wanted:
                return changed
    raise AssertionError("one more key before everything else adds that key and nothing else")
