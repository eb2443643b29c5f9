"""``bobbin compact``: give unused space back."""

from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.options import AsJson, LaceFolder
from bobbin.cli.output import Output
from bobbin.cli.text import size_text


def compact(folder: LaceFolder, as_json: AsJson = False) -> ExitCode:
    """Give unused space back to the file system.

    Example: bobbin compact notes.lace
    """
    from bobbin.lace import Lace

    out = Output(as_json=as_json)
    with Lace.open(folder) as lace:
        before = lace.stat().file_bytes
        lace.compact()
        after = lace.stat().file_bytes
    out.result(
        {"lace": str(folder), "bytes_before": before, "bytes_after": after},
        f"{size_text(before)} → {size_text(after)}",
    )
    return ExitCode.OK
