"""A replicated lace on one node, without a cluster: a log that is a counter."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from bobbin.cluster.names import Index, Term
from bobbin.errors import UsageError
from bobbin.runtime.coming import Coming
from bobbin.runtime.replicated_commands import Answer, Answered, NotDone, decode_answer, encode
from bobbin.runtime.replicated_keeper import LaceKeeper
from bobbin.runtime.replicated_store import ReplicatedStore
from bobbin.store.base import Store
from bobbin.store.sqlite import open_store

_places: Final[dict[Path, int]] = {}
"""How far the log of each store is: several may be open at once."""


class LocalLog:
    """Commits whatever is proposed, at once."""

    def __init__(self, path: Path, keeper: LaceKeeper) -> None:
        self._path: Final = path
        self._keeper: Final = keeper
        self.commands: Final[list[bytes]] = []
        self.term = Term(1)
        """Of what is committed from now on."""
        _places[path] = max(_places.get(path, 0), keeper.state.applied)

    def begin(self, commands: Sequence[Answered]) -> Coming[list[Answer]]:
        coming = [(command.token, self._keeper.expect(command.token)) for command in commands]
        for command in commands:
            self.commit(encode(command))

        def wait() -> list[Answer]:
            answers: list[Answer] = []
            for token, future in coming:
                answer = decode_answer(future.result())
                self._keeper.forget(token)
                if isinstance(answer, NotDone):
                    raise UsageError(answer.why)
                answers.append(answer)
            return answers

        return Coming(wait)

    def commit(self, raw: bytes) -> Index:
        """Put something into the log; returns its place."""
        _places[self._path] += 1
        place = Index(_places[self._path])
        self.commands.append(raw)
        self._keeper.do([(place, self.term, raw)])
        return place

    def settle(self) -> None:
        self._keeper.after(lambda: None).result()


def open_replicated_store(
    path: Path, *, create: bool = False, now: Callable[[], int], read_only: bool = False
) -> Store:
    """As ``open_store`` does, with a log in front."""
    if read_only:
        return open_store(path, now=now, read_only=True)
    with open_store(path, create=create, now=now) as plain:
        is_own = plain.replica.state() is None and plain.high_water() > 0
    if is_own:
        return open_store(path, now=now)  # a backup, which follows no log
    keeper = LaceKeeper(path, now=now)
    local = open_store(path, now=now)
    return ReplicatedStore(local, LocalLog(path, keeper), now=now, subscribe=keeper.subscribe, closed=keeper.close)
