"""A command that refuses an option given twice where it has one value: else the last one would win without a word.

Somebody who names two policies means something by both, and a command that used one of them would look right.
"""

from collections import Counter
from typing import TYPE_CHECKING

from typer.core import TyperCommand

if TYPE_CHECKING:
    from typer import Context


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
        return super().parse_args(ctx, args)
