"""``bobbin init``: make a new lace."""

from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.options import AsJson, LaceFolder
from bobbin.cli.output import Output


def init(folder: LaceFolder, as_json: AsJson = False) -> ExitCode:
    """Make a new, empty lace in DIR.

    DIR must not exist yet, or be empty. No key is made: that is `bobbin key new DIR`.

    Example: bobbin init notes.lace
    """
    from bobbin.lace import Lace

    out = Output(as_json=as_json)
    with Lace.create(folder) as lace:
        settings = lace.settings
    out.result(
        {
            "lace": str(folder),
            "format": settings.format,
            "created": settings.created,
            "default_key": settings.default_key,
        },
        f"created {out.style(str(folder), bold=True)}",
    )
    out.note(f"Next: bobbin key new {folder}")
    return ExitCode.OK
