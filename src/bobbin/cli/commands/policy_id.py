"""``bobbin policy id``: the name of a policy."""

from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.options import AsJson
from bobbin.cli.output import Output
from bobbin.cli.policy_files import AsRole, PolicyFile, RoleChoice, chosen_role, load_module, shown_name


def policy_id(file: PolicyFile, role: AsRole = RoleChoice.AUTO, as_json: AsJson = False) -> ExitCode:
    """Print the identifier of a policy.

    It names what the rules say: comments, layout and the order of the rules make no difference.

    Example: bobbin policy id ward.policy
    """
    out = Output(as_json=as_json)
    identifier = load_module(file, chosen_role(role)).identifier
    out.result({"file": shown_name(file), "identifier": identifier}, identifier)
    return ExitCode.OK
