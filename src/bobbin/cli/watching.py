"""Showing how far an exchange has come, to whoever watches: a bar when records move, a sentence when nothing does."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from bobbin.cli.progress import progress, silence
from bobbin.cli.text import size_text

if TYPE_CHECKING:
    from bobbin.cli.elsewhere import Elsewhere
    from bobbin.runtime.pair import Observer
    from bobbin.runtime.progressing import Progressing


@contextmanager
def watching(title: str, there: "Elsewhere | None" = None) -> "Iterator[list[Observer]]":
    """The observers that one exchange is to be run with; ``there`` is who it is with, if that is elsewhere.

    Nothing is shown in the first second, nor where stderr is no terminal.
    """
    from bobbin.runtime.progressing import Progressing

    with progress(title, "records") as meter:
        progressing = Progressing(meter)
        meter.words = lambda: f"{progressing.phase or 'greeting'} · {size_text(progressing.bytes_moved)}"
        with silence(meter, lambda: _waiting(there, progressing)) as breaking:
            yield [progressing.observe, breaking.observe]


def _waiting(there: "Elsewhere | None", progressing: "Progressing") -> str:
    """What is going on where nothing moves."""
    if there is None:
        return "evaluating policy …"
    if there.introduction is None:
        return f"connecting to {there.address} …"
    return f"{progressing.phase or 'setup'}: evaluating policy, or waiting for the peer …"
