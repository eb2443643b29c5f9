"""How a user says what a lake offers: options that ``advertise`` and ``reconcile`` share, and what they mean."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from bobbin.errors import UsageError

if TYPE_CHECKING:
    from bobbin.pipeline.batches.advertise import Form
    from bobbin.pipeline.offer import Offer

DEFAULT_SOURCE: Final = "source:lake"
DEFAULT_PREDICATE: Final = "MaySend"

SourceLabel = Annotated[
    str | None,
    typer.Option(
        "--source",
        metavar="ORIGIN",
        help=f"Who advertises: a verifier, or source:LABEL. Default: {DEFAULT_SOURCE}.",
        show_default=False,
    ),
]
Fields = Annotated[
    list[str] | None,
    typer.Option("--field", metavar="NAME", help="Tell only this field; may be repeated.", show_default=False),
]
NoFields = Annotated[
    bool, typer.Option("--no-fields", metavar="", help="Tell no fields, only the records.", show_default=False)
]
Selection = Annotated[
    str | None,
    typer.Option(
        "--selection",
        metavar="KEY",
        help="Only what `bobbin pipeline select` has selected under this key. Default: every record.",
        show_default=False,
    ),
]
AllowStale = Annotated[
    bool,
    typer.Option(
        "--allow-stale",
        metavar="",
        help="Take a selection though records have come since it was made. The report says so.",
        show_default=False,
    ),
]
Predicate = Annotated[
    str, typer.Option("--predicate", metavar="NAME", help="Which of the selections: MaySend, SelectHave, MayRequest.")
]


def parse_form(source: str | None, fields: list[str] | None, *, no_fields: bool) -> "Form":
    """Who advertises, and which fields: all, unless some are named."""
    from bobbin.interlace.schema import Schema
    from bobbin.pipeline.batches.advertise import Form
    from bobbin.policy.operands import parse_origin

    if fields and no_fields:
        raise UsageError("--field names a field, and --no-fields says that there is none; give one of them")
    is_all = not fields and not no_fields
    return Form(source=parse_origin(source or DEFAULT_SOURCE), schema=Schema(names=frozenset(fields or ()), all=is_all))


def parse_offer(form: "Form", selection: str | None, predicate: str) -> "Offer":
    """What is offered: a selection, or every record."""
    from bobbin.pipeline.offer import Offer

    return Offer(form=form, selection=selection, predicate=predicate)


def parse_lengths(text: str) -> tuple[int, ...]:
    """Prefix lengths, with commas between."""
    from bobbin.pipeline.offer import check_lengths

    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and len(part) < 4 for part in parts):
        raise UsageError(f"prefix lengths are numbers with commas between, as in 2,3: {text!r}")
    lengths = tuple(sorted({int(part) for part in parts}))
    check_lengths(lengths)
    return lengths
