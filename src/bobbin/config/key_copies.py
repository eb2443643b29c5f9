"""All keys of a lace at once, for a backup that is asked to hold them."""

from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from bobbin.config import keys
from bobbin.config.layout import ACCOUNT_KEY_SUFFIX


class KeyCopy(Struct, frozen=True):
    """One key on its way into another folder."""

    write: Callable[[Path], Path]
    """Makes the same key in a folder, durably, and gives its file. An existing key is never replaced."""


def read_keys(folder: Path) -> list[KeyCopy]:
    """Every key in a folder, of records and of accounts. One that cannot be trusted is ``KeyFileError``."""
    copies = [_copy_of(name, keys.read_secret(folder, name)) for name in keys.key_names(folder)]
    if names := keys.key_names(folder, ACCOUNT_KEY_SUFFIX):
        from bobbin.config.account_keys import load_account_key  # noqa: PLC0415 -- few laces have accounts

        copies += [_account_copy_of(name, load_account_key(folder, name).private) for name in names]
    return copies


def _copy_of(name: str, secret: str) -> KeyCopy:
    def write(folder: Path) -> Path:
        keys.create_key(folder, name, secret=secret)
        return keys.key_file(folder, name)

    return KeyCopy(write)


def _account_copy_of(name: str, private: str) -> KeyCopy:
    from bobbin.config import account_keys  # noqa: PLC0415 -- as above

    def write(folder: Path) -> Path:
        account_keys.create_account_key(folder, name, private=private)
        return account_keys.account_key_file(folder, name)

    return KeyCopy(write)
