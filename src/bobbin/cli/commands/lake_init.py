"""``bobbin lake init``: make a new lake."""

from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.lake_folder import LakeArgument, LakeMaster, reached
from bobbin.cli.options import AsJson
from bobbin.cli.output import Output
from bobbin.cli.pipeline_run import LOCAL


def lake_init(location: LakeArgument, master: LakeMaster = LOCAL, as_json: AsJson = False) -> ExitCode:
    """Make a new, empty lake.

    The folder must not exist yet, or be empty. A job that writes into a lake makes one by itself, too.

    Example: bobbin lake init archive.lake
    """
    out = Output(as_json=as_json)
    with reached(location, master=master) as files:
        from bobbin.store.lake.lake import VERSION, Lake

        Lake.create(location, files=files)
    out.result({"lake": location, "version": VERSION}, f"created {out.style(location, bold=True)}")
    out.note(f"Next: bobbin pipeline ingest {location} FILE …")
    return ExitCode.OK
