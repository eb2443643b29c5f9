"""``bobbin tangle append``: write a message after everything in a tangle."""

from typing import Annotated

import typer

from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.options import AsJson, LaceFolder
from bobbin.cli.output import Output
from bobbin.cli.tangle_options import (
    KEY_DEFAULT,
    AccountOption,
    DataFile,
    DataOption,
    DomainOption,
    KeyOption,
    TangleId,
    advising,
    load_key,
    read_data,
    resolve,
)
from bobbin.cli.tangle_unwanted import threads_without_goal


def tangle_append(
    folder: LaceFolder,
    tangle: TangleId,
    file: DataFile = None,
    data: DataOption = None,
    also: Annotated[
        list[str] | None,
        typer.Option("--also", metavar="TANGLE", help="Let it stand in this tangle as well.", show_default=False),
    ] = None,
    domain: DomainOption = None,
    account: AccountOption = None,
    key: KeyOption = KEY_DEFAULT,
    as_json: AsJson = False,
) -> ExitCode:
    """Write a message after everything that is known of a tangle, and print its id.

    It is signed, and on disk when the command ends. A reply to a thread that shall also be in a feed names one as
    TANGLE and the other with --also.

    Example: bobbin tangle append notes.lace 6nkF… --data '{"text":"hello"}'
    """
    from bobbin.lace import Lace

    out = Output(as_json=as_json)
    with Lace.open(folder) as lace:
        content = read_data(data, file)
        tangles = [resolve(lace, tangle), *(resolve(lace, text, option="--also") for text in also or ())]
        speaker = account if account in (None, "any") else resolve(lace, str(account), option="--account")
        with advising(lace):
            message = lace.tangles.post(load_key(lace, key), content, tangles=tangles, account=speaker, domain=domain)
        unwanted = threads_without_goal(lace, message.places)
    depths = {root: place.depth for root, place in message.places.items()}
    out.result({"id": message.id, "tangles": depths, "account": message.account, "domain": message.domain}, message.id)
    for root in unwanted:
        out.note(f"to get replies: bobbin tangle goal {folder} {root} all")
    return ExitCode.OK
