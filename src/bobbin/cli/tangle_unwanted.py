"""Threads that somebody writes in and has no goal for: of those nothing ever comes, and that is worth a word."""

from itertools import islice
from typing import TYPE_CHECKING, Final

from bobbin.errors import BobbinError

if TYPE_CHECKING:
    from collections.abc import Collection

    from bobbin.cli.output import Output
    from bobbin.lace import Lace

_LOOKED_AT_MAX: Final = 10_000
"""Messages of one's own that are looked at."""
_SHOWN_MAX: Final = 3


def threads_without_goal(lace: "Lace", tangles: "Collection[str] | None" = None) -> list[str]:
    """Those of some tangles that are threads and have no goal here; without tangles, of those that one writes in."""
    from bobbin.tangles.tangle import Kind

    goals = lace.tangles.goals()
    among = _written_in(lace) if tangles is None else tangles
    return sorted(root for root in among if root not in goals and lace.tangles.tangle(root).kind is Kind.WEAVE)


def _written_in(lace: "Lace") -> "Collection[str]":
    """The tangles in which a key of this lace has written. A key that cannot be read has written nothing."""
    from bobbin.facts.relations import FIELD
    from bobbin.tangles.plex import ID, KEY

    written: set[str] = set()
    for name in lace.account_keys.names():
        try:
            public = lace.account_keys.load(name).public
        except BobbinError:
            continue
        own = islice(lace.facts.match(FIELD, (None, KEY, None, public)), _LOOKED_AT_MAX)
        ids = [id for record, *_ in own for *_, id in lace.facts.match(FIELD, (record, ID, None, None))]
        for message in lace.tangles.shelf.messages(ids):
            # Anybody can write a record that names this key.
            if message is not None and message.sigkey == public:
                written.update(message.places or (message.id,))
    return written


def note_unwanted(out: "Output", lace: "Lace", found: list[str]) -> None:
    """Say that nothing is asked for of these threads, and how that is changed."""
    for root in found[:_SHOWN_MAX]:
        out.note(f"you write in {root}, and nothing of it is asked for: {without_goal(lace, root)}")
    if len(found) > _SHOWN_MAX:
        out.note(f"and {len(found) - _SHOWN_MAX:,} more threads that you write in have no goal in {lace.path}")


def without_goal(lace: "Lace", root: str) -> str:
    """That a tangle has no goal, and the command that gives it one."""
    return f"it has no goal in {lace.path}; bobbin tangle goal {lace.path} {root} all"
