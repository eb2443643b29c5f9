"""A command that refuses an option given twice where it has one value: else the last one would win without a word.

Somebody who names two policies means something by both, and a command that used one of them would look right.
"""

from collections import Counter
from typing import TYPE_CHECKING, Final

from typer.core import TyperCommand

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from typer import Context

_ORDER: Final = "bobbin.order"
"""The names of the options that were given, one after the other."""


class SingleValued(TyperCommand):
    """Parses like any other command, and looks at what was repeated first."""

    def parse_args(self, ctx: "Context", args: list[str]) -> list[str]:  # type: ignore[override] # the public class
        """Refuse repeated options that take one value. Flags, and options that may be repeated, are as they were."""
        _, _, order = self.make_parser(ctx).parse_args(args=list(args))
        given = Counter(id(param) for param in order if param.param_type_name == "option")
        for param in self.get_params(ctx):
            takes_one = not getattr(param, "is_flag", False) and not getattr(param, "multiple", False)
            if takes_one and given[id(param)] > 1:
                ctx.fail(f"{max(param.opts, key=len)} is given {given[id(param)]} times, and takes one value")
        ctx.meta[_ORDER] = [param.name for param in order]
        return super().parse_args(ctx, args)


def in_order(ctx: "Context", given: "Mapping[str, Sequence[str]]") -> "Iterator[tuple[str, str]]":
    """The values of options that may be repeated, each with the name of its option, in the order they were typed in.

    Values come option by option, as if all of one kind had stood together.
    """
    values = {name: iter(some) for name, some in given.items()}
    for name in ctx.meta[_ORDER]:
        if name in values:
            yield name, next(values[name])
