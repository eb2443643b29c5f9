"""Key files of accounts: one Ed25519 key each, beside the lace's own keys and with the same care.

An account of tangles is known by the keys that its tangle names, and those are Ed25519 keys; the keys that sign records
are of another kind. A file holds one line, the private key in base58 as pzp writes it, and is refused where others can
read it. No error message repeats a secret.
"""

import secrets
from pathlib import Path
from typing import Final

from bobbin.config import durable, keys
from bobbin.config.keys import KeyFileError, NoSuchKey
from bobbin.config.layout import ACCOUNT_KEY_SUFFIX
from bobbin.errors import UsageError
from bobbin.tangles.keys import SEED_BYTES, Keypair


def account_key_file(folder: Path, name: str) -> Path:
    """Where the account key of this name is kept."""
    keys.check_name(name)
    return folder / (name + ACCOUNT_KEY_SUFFIX)


def create_account_key(folder: Path, name: str, *, private: str | None = None) -> Keypair:
    """Make a new key, or keep a private key that exists. Durable when this returns; no existing key is replaced."""
    path = account_key_file(folder, name)
    keypair = Keypair(secrets.token_bytes(SEED_BYTES)) if private is None else Keypair.from_private(private)
    folder.mkdir(mode=0o700, exist_ok=True)
    keys.check_folder(folder)
    try:
        durable.write_private(path, keypair.private.encode() + b"\n")
    except FileExistsError as error:
        raise UsageError(f"there is already an account key {name!r} here; keys are never overwritten") from error
    durable.sync_folder(folder.parent)
    return keypair


def load_account_key(folder: Path, name: str) -> Keypair:
    """The account key of this name, ready to sign."""
    path = account_key_file(folder, name)
    try:
        content = keys.read_private(path)
    except FileNotFoundError as error:
        raise NoSuchKey(f"there is no account key {name!r} here; `bobbin tangle key new` makes one") from error
    try:
        return Keypair.from_private(content.decode("ascii").removesuffix("\n"))
    except (UnicodeDecodeError, UsageError):
        sentence = "is empty" if not content else "does not hold a private key (base58 of 64 bytes)"
        raise KeyFileError(f"{path} {sentence}; restore it from a backup or remove it") from None


def account_key_names(folder: Path) -> list[str]:
    """The names of all account keys in the folder, sorted. The files themselves are not opened."""
    return keys.key_names(folder, ACCOUNT_KEY_SUFFIX)


class AccountKeys:
    """The account keys of one lace."""

    def __init__(self, folder: Path) -> None:
        self._folder: Final = folder

    def create(self, name: str, *, private: str | None = None) -> Keypair:
        """Make a new key, or keep a private key that exists."""
        return create_account_key(self._folder, name, private=private)

    def load(self, name: str) -> Keypair:
        """A key by name."""
        return load_account_key(self._folder, name)

    def names(self) -> list[str]:
        """The names of all of them, sorted."""
        return account_key_names(self._folder)

    def publics(self) -> frozenset[str]:
        """The public halves of all of them. One that cannot be trusted is ``KeyFileError``."""
        return frozenset(self.load(name).public for name in self.names())

    def file(self, name: str) -> Path:
        """Where the key of this name is kept."""
        return account_key_file(self._folder, name)
