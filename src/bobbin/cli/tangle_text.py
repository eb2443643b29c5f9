"""How messages and tangles are shown: for people on a line, for programs as JSON."""

from typing import TYPE_CHECKING, Final

from bobbin.cli.output import Json, Output
from bobbin.cli.text import count_text, printable

if TYPE_CHECKING:
    from bobbin.runtime.tangle_writing import Tangles
    from bobbin.tangles.message import Message, MessageId
    from bobbin.tangles.tangle import Tangle

ID_SHOWN: Final = 8
"""How much of an id is shown where it only has to be told from its neighbours."""
_PREVIEW_CHARACTERS: Final = 60


def short(id: str) -> str:
    """An id for a line."""
    return f"{printable(id[:ID_SHOWN])}…" if len(id) > ID_SHOWN else printable(id)


def preview(message: "Message") -> str:
    """What a message says, on one line."""
    import orjson

    if message.is_moot:
        return "moot"
    if not message.has_data:
        return "erased"
    text = orjson.dumps(message.data).decode()
    return printable(text if len(text) <= _PREVIEW_CHARACTERS else text[: _PREVIEW_CHARACTERS - 1] + "…")


def standing(tangles: "Tangles", tangle: "MessageId", id: "MessageId") -> tuple[str, str | None]:
    """How a message counts in a tangle, in one word, and what is wrong or missing."""
    judgement = tangles.judgement(tangle, id)
    if judgement is None:
        return "unknown", None
    if judgement.rule is not None:
        return str(judgement.mark), str(judgement.rule)
    if judgement.missing:
        return str(judgement.mark), f"waits for {count_text(len(judgement.missing), 'message')}"
    return str(judgement.mark), None


def message_value(tangles: "Tangles", tangle: "MessageId", message: "Message") -> dict[str, Json]:
    """A message of a tangle, for programs."""
    mark, why = standing(tangles, tangle, message.id)
    place = message.places.get(tangle)
    return {
        "id": message.id,
        "depth": message.depth_in(tangle),
        "prev": [] if place is None else list(place.prev),
        "account": message.account,
        "domain": message.domain,
        "sigkey": message.sigkey,
        "moot": message.is_moot,
        "erased": not message.has_data and not message.is_moot,
        "standing": mark,
        "why": why,
        "data": message.data,
    }


def message_line(out: Output, tangles: "Tangles", tangle: "MessageId", message: "Message") -> str:
    """A message of a tangle, for people."""
    mark, why = standing(tangles, tangle, message.id)
    remark = "" if mark == "full" else f"  {out.style(mark if why is None else f'{mark}: {why}', fg='yellow')}"
    words = out.style(preview(message), dim=not message.has_data)
    return (
        f"{out.style(short(message.id), bold=True)}  {out.style(f'{author(message):<{ID_SHOWN + 1}}')}  {words}{remark}"
    )


def author(message: "Message") -> str:
    """Who says it, for a line: the account; of a message of an account itself, the key that has signed."""
    return short(message.sigkey if message.is_account else message.account)


def kind_word(structure: "Tangle") -> str | None:
    """What a tangle is, in the word by which `bobbin tangle new` begins one; None where its root is not here."""
    from bobbin.tangles.tangle import Kind

    return "thread" if structure.kind is Kind.WEAVE else None if structure.kind is None else str(structure.kind)


def tangle_value(tangles: "Tangles", structure: "Tangle") -> dict[str, Json]:
    """A tangle as a whole, for programs."""
    goal = tangles.shelf.goal(structure.id)
    root = structure.root
    proven = tangles.proven(structure.id)
    return {
        "tangle": structure.id,
        "kind": kind_word(structure),
        "stands_in": [] if root is None else sorted(root.places),
        "account": None if root is None else root.account,
        "domain": None if root is None else root.domain,
        "goal": None if goal is None else goal.text,
        "messages": len(structure),
        "with_data": sum(structure.has_data(id) for id in structure),
        "proven": len(proven),
        "depth": structure.max_depth,
        "have": None if root is None else [0, structure.max_depth_with_data()],
        "tips": sorted(structure.tips()),
        "missing": sorted(structure.missing_predecessors()),
        "ghosts": len(tangles.shelf.ghosts(structure.id)),
    }
