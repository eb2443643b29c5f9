"""Arguments and options that the commands of tangles share."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from bobbin.cli.sources import read_whole
from bobbin.errors import ResourceError, UsageError

if TYPE_CHECKING:
    from bobbin.lace import Lace
    from bobbin.tangles.canonical import Json
    from bobbin.tangles.keys import Keypair

DATA_BYTES_MAX: Final = 65_535
KEY_DEFAULT: Final = "account"
"""The name of an account key where none is given."""

TangleId = Annotated[
    str, typer.Argument(metavar="TANGLE", help="Id of the tangle's root, or its beginning.", show_default=False)
]
KeyOption = Annotated[str, typer.Option("--key", metavar="NAME", help="The account key to sign with.")]
AccountOption = Annotated[
    str | None,
    typer.Option(
        "--account", metavar="ID", help="Account to speak for, or any. Default: the one of the key.", show_default=False
    ),
]
DomainOption = Annotated[
    str | None, typer.Option("--domain", metavar="TEXT", help="Domain of the message.", show_default=False)
]
DataOption = Annotated[
    str | None, typer.Option("--data", "-d", metavar="JSON", help="What it says, as a JSON object.", show_default=False)
]
DataFile = Annotated[
    str | None,
    typer.Argument(metavar="FILE", help="What it says: a file with a JSON object, - for stdin.", show_default=False),
]


def load_key(lace: "Lace", name: str) -> "Keypair":
    """The key to sign with."""
    return lace.account_keys.load(name)


def read_data(text: str | None, file: str | None) -> "dict[str, Json]":
    """The JSON object that a message says: given on the command line, or in a file."""
    from bobbin.tangles.canonical import parse
    from bobbin.tangles.errors import MalformedText

    if (text is None) == (file is None):
        raise UsageError("say what the message says: --data JSON, or a file, or - for stdin")
    raw = text if file is None else read_whole(file, bytes_max=DATA_BYTES_MAX, what="the data of a message")
    assert raw is not None, "one of the two is given"
    try:
        value = parse(raw)
    except MalformedText as error:
        why = "these bytes are no text in UTF-8" if isinstance(raw, bytes) and not _is_text(raw) else str(error)
        raise UsageError(f"the data of a message is a JSON object: {why}") from error
    if not isinstance(value, dict):
        raise UsageError('the data of a message is a JSON object, as in {"text":"hello"}')
    _check_names(raw)
    return value


def _is_text(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def _check_names(raw: str | bytes) -> None:
    """Refuse an object with a name twice: readers keep the last value, and the first would be lost without a word."""
    import json
    from collections import Counter

    def check(pairs: list[tuple[str, object]]) -> None:
        for name, count in Counter(name for name, _ in pairs).items():
            if count > 1:
                raise UsageError(
                    f"the data of a message names {name[:80]!r} twice in one object; only one could be kept"
                )

    try:
        # Numbers of any length are fine here: they have been read already.
        json.loads(raw, object_pairs_hook=check, parse_int=str)
    except RecursionError as error:
        raise UsageError("the data of a message is nested too deeply") from error


def resolve(lace: "Lace", text: str, *, option: str | None = None) -> str:
    """The id that a text names in a lace. ``option`` is where the text stood, if not in the place of a tangle."""
    try:
        return lace.tangles.resolve(text)
    except UsageError as error:
        if option is None:
            raise
        raise UsageError(f"{option}: {error}") from error


@contextmanager
def advising(lace: "Lace") -> "Iterator[None]":
    """Where it is not clear whom a message speaks for, say what to type."""
    from bobbin.runtime.tangle_writing import NoAccount, SeveralAccounts

    try:
        yield
    except NoAccount as error:
        raise UsageError(f"{error}; begin one with: bobbin tangle new {lace.path} account") from error
    except SeveralAccounts as error:
        raise UsageError(f"{error}; say which one is meant with --account") from error


@contextmanager
def opened(folder: Path) -> "Iterator[Lace]":
    """A lace whose tangles are up to date with its records, if it can be written; else as they are."""
    from bobbin.lace import Lace

    try:
        lace = Lace.open(folder)
    except ResourceError as error:
        if error.retry:
            raise
        lace = Lace.open(folder, read_only=True)
    with lace:
        lace.tangles.refresh()
        yield lace


def is_folder(text: str) -> bool:
    """Whether a peer is another lace's folder, not an address."""
    return not text.startswith("net:") and Path(text).is_dir()
