"""``bobbin policy check``: the mistakes in policy texts, all at once."""

from typing import TYPE_CHECKING, Annotated

import typer

from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.options import AsJson
from bobbin.cli.output import Json, Output
from bobbin.cli.policy_files import AsRole, RoleChoice, at_place, chosen_role, read_policy, shown_name
from bobbin.cli.sources import check_files

if TYPE_CHECKING:
    from bobbin.policy.check import Checked


def policy_check(
    files: Annotated[list[str], typer.Argument(metavar="FILE", help="Policy texts; - for stdin.", show_default=False)],
    role: AsRole = RoleChoice.AUTO,
    as_json: AsJson = False,
) -> ExitCode:
    """Check policy texts.

    Every mistake is listed with file, line and column, and with the way to mend it where that can be said. A remark
    is about something valid that may surprise: a policy that lets nothing move, a rule that nothing needs.

    Example: bobbin policy check ward.policy
    """
    from bobbin.policy.check import check

    out = Output(as_json=as_json)
    check_files(files)
    code = ExitCode.OK
    for file in files:
        checked = check(read_policy(file), chosen_role(role))
        if checked.diagnostics:
            code = ExitCode.PROGRAM
        out.row(_value(file, checked), *_lines(out, file, checked))
    return code


def _lines(out: Output, file: str, checked: "Checked") -> list[str]:
    lines = [out.style(at_place(file, found), fg="red") for found in checked.diagnostics]
    if checked.identifier is not None:
        lines.append(f"{out.style(shown_name(file), bold=True)}  {checked.role}  {checked.identifier}")
    lines += [
        out.style(f"{shown_name(file)}:{remark.place}: remark: {remark.message}", fg="yellow")
        for remark in checked.remarks
    ]
    return lines


def _value(file: str, checked: "Checked") -> dict[str, Json]:
    return {
        "file": shown_name(file),
        "role": checked.role.value,
        "identifier": checked.identifier,
        "diagnostics": [
            {
                "fault": found.fault.value,
                "message": found.message,
                "line": found.place.line,
                "column": found.place.column,
                "fix": found.fix,
            }
            for found in checked.diagnostics
        ],
        "remarks": [
            {"message": remark.message, "line": remark.place.line, "column": remark.place.column}
            for remark in checked.remarks
        ],
    }
