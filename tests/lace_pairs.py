"""Two laces in folders, for tests of whole operations."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bobbin.lace import Lace


@contextmanager
def two_laces(folder: Path, *, keys: bool = True) -> Iterator[tuple[Lace, Lace]]:
    """An app and a server, empty, with their keys if these are wanted."""
    with ExitStack() as stack:
        laces = [stack.enter_context(Lace.create(folder / f"{name}.lace")) for name in ("app", "server")]
        for lace in laces if keys else ():
            lace.new_key()
        yield laces[0], laces[1]


def names(lace: Lace) -> set[str]:
    """Every record of a lace."""
    return {stored.hash for stored in lace.store.scan()}
