"""``bobbin refusals``: what was removed and must not come back."""

from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.options import AsJson, LaceFolder
from bobbin.cli.output import Output
from bobbin.cli.text import utc_text
from bobbin.records import tai


def refusals(folder: LaceFolder, as_json: AsJson = False) -> ExitCode:
    """List what was removed and is refused.

    Example: bobbin refusals notes.lace
    """
    from bobbin.lace import Lace

    out = Output(as_json=as_json)
    count = 0
    with Lace.open(folder, read_only=True) as lace:
        for refusal in lace.refusals():
            count += 1
            out.row(
                {
                    "hash": refusal.hash,
                    "reason": refusal.reason,
                    "tai": tai.render(refusal.tai),
                    "utc": utc_text(refusal.tai),
                },
                f"{refusal.hash}  {out.style(utc_text(refusal.tai), dim=True)}  {out.style(refusal.reason)}",
            )
    if count == 0:
        out.note("nothing is refused")
    return ExitCode.OK
