"""``bobbin tangle key``: make, show and list the keys of accounts."""

from typing import Annotated

import typer

from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.options import AsJson, LaceFolder
from bobbin.cli.output import Json, Output
from bobbin.cli.sources import read_whole
from bobbin.cli.tangle_options import KEY_DEFAULT
from bobbin.errors import BobbinError, UsageError

_PRIVATE_BYTES_MAX = 256

KeyName = Annotated[str, typer.Argument(metavar="NAME", help="Name of the key.")]


def tangle_key_new(
    folder: LaceFolder,
    name: KeyName = KEY_DEFAULT,
    private_from: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="FILE", help="Keep the private key in this file (- for stdin) instead of a new one."
        ),
    ] = None,
    as_json: AsJson = False,
) -> ExitCode:
    """Make a key for accounts of tangles and print its public half.

    It is an Ed25519 key, as PZP has them, and no key that signs records. The private half goes to
    DIR/keys/NAME.ed25519, readable by you only. An existing key is never overwritten.

    Example: bobbin tangle key new notes.lace
    """
    from bobbin.lace import Lace

    out = Output(as_json=as_json)
    private = None
    if private_from is not None:
        raw = read_whole(private_from, bytes_max=_PRIVATE_BYTES_MAX, what="a private key")
        try:
            private = raw.decode("ascii").strip()
        except UnicodeDecodeError as error:
            raise UsageError("what --from names does not hold a private key (base58 of 64 bytes)") from error
    with Lace.open(folder) as lace:
        key = lace.account_keys.create(name, private=private)
        path = lace.account_keys.file(name)
    out.result({"name": name, "public": key.public, "file": str(path)}, key.public)
    out.note(f"The private key is in {path}. Keep a copy in a safe place: nobody can restore it.")
    return ExitCode.OK


def tangle_key_list(folder: LaceFolder, as_json: AsJson = False) -> ExitCode:
    """List the account keys of a lace with their public halves.

    Example: bobbin tangle key list notes.lace
    """
    from bobbin.lace import Lace

    out = Output(as_json=as_json)
    code = ExitCode.OK
    with Lace.open(folder, read_only=True) as lace:
        names = lace.account_keys.names()
        width = max(map(len, names), default=0)
        for name in names:
            value: dict[str, Json] = {"name": name, "public": None}
            try:
                value["public"] = public = lace.account_keys.load(name).public
                out.row(value, f"{name:<{width}}  {public}")
            except BobbinError as error:
                code = ExitCode.INTEGRITY
                out.row(value | {"problem": str(error)}, f"{name:<{width}}  {out.style(str(error), fg='red')}")
    if not names:
        out.note(f"no account keys yet; make one with: bobbin tangle key new {folder}")
    return code
