"""Key files: one signing secret each, readable by its owner only.

A key that others can read is no longer a key, so a file with wider permissions is refused with the command that
mends it, before its content is looked at. Secrets leave this module only through ``read_secret``; no error message
repeats one.
"""

import os
import re
import secrets
import stat
from pathlib import Path
from typing import Final

from bobbin.config import durable
from bobbin.config.layout import KEY_SUFFIX
from bobbin.errors import IntegrityError, UsageError
from bobbin.records import ids, signing
from bobbin.records.ids import IdentifierError
from bobbin.records.signing import SigningKey

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}", re.ASCII)
_FILE_BYTES_MAX: Final = 256
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH


class KeyFileError(IntegrityError):
    """A key file cannot be trusted or read. Nothing was signed."""


class NoSuchKey(UsageError):
    """There is no key of this name here."""


def check_name(name: str) -> None:
    """Refuse what is not a key name. Names are also file names, so they are plain on every file system."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"not a key name: {name!r}. A name is 1 to 64 of a-z, 0-9, '-' and '_', beginning with a letter or a digit"
        )


def key_file(folder: Path, name: str) -> Path:
    """Where the key of this name is kept."""
    check_name(name)
    return folder / (name + KEY_SUFFIX)


def create_key(folder: Path, name: str, *, secret: str | None = None) -> SigningKey:
    """Make a new key, or keep a secret that exists. Durable when this returns; an existing key is never replaced."""
    path = key_file(folder, name)
    text = ids.secret_text(secrets.token_bytes(signing.SECRET_SIZE)) if secret is None else secret
    key = SigningKey.from_text(text)
    folder.mkdir(mode=0o700, exist_ok=True)
    check_folder(folder)
    try:
        durable.write_private(path, text.encode() + b"\n")
    except FileExistsError as error:
        raise UsageError(f"there is already a key {name!r} here; keys are never overwritten") from error
    durable.sync_folder(folder.parent)
    return key


def load_key(folder: Path, name: str) -> SigningKey:
    """The key of this name, ready to sign."""
    return SigningKey.from_text(read_secret(folder, name))


def read_secret(folder: Path, name: str) -> str:
    """The signing secret itself. Whoever calls this must have been asked for the secret."""
    path = key_file(folder, name)
    try:
        content = read_private(path)
    except FileNotFoundError as error:
        raise NoSuchKey(f"there is no key {name!r} here; `bobbin key new` makes one") from error
    try:
        text = content.decode("ascii").removesuffix("\n")
        ids.parse_secret(text)
    except (UnicodeDecodeError, IdentifierError) as error:
        sentence = "is empty" if not content else "does not hold a signing secret (&.<43 symbols>.H3)"
        raise KeyFileError(f"{path} {sentence}; restore it from a backup or remove it") from error
    return text


def key_names(folder: Path, suffix: str = KEY_SUFFIX) -> list[str]:
    """The names of all keys in the folder, sorted. The files themselves are not opened."""
    try:
        entries = [entry.name for entry in folder.iterdir()]
    except FileNotFoundError:
        return []
    stems = (name.removesuffix(suffix) for name in entries if name.endswith(suffix))
    return sorted(stem for stem in stems if _NAME.fullmatch(stem))


def read_private(path: Path) -> bytes:
    """The content of a key file, if nobody else can read or replace it. Raises ``FileNotFoundError``."""
    check_folder(path.parent)
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as stream:
        check_private(path, os.fstat(stream.fileno()))
        return stream.read(_FILE_BYTES_MAX + 1)


def check_folder(folder: Path) -> None:
    """A folder that others can write to lets them swap the keys in it."""
    if folder.stat().st_mode & _OTHERS_WRITE:
        raise KeyFileError(f"{folder} can be written by others; mend it with: chmod 700 {folder}")


def check_private(path: Path, status: os.stat_result) -> None:
    """Refuse a file that others can read, or that is somebody else's."""
    if not stat.S_ISREG(status.st_mode):
        raise KeyFileError(f"{path} is not a regular file")
    if status.st_mode & _OTHERS:
        raise KeyFileError(
            f"{path} can be read by others (mode {stat.S_IMODE(status.st_mode):04o}), so it is not used. "
            f"If nobody has read it, mend it with: chmod 600 {path}"
        )
    if os.geteuid() not in (0, status.st_uid):
        raise KeyFileError(f"{path} belongs to another user, who can read and replace it")
