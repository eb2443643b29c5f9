"""``bobbin key``: make, show and list signing keys."""

from pathlib import Path
from typing import Annotated

import typer

from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.options import AsJson, LaceFolder
from bobbin.cli.output import Json, Output
from bobbin.cli.sources import read_whole
from bobbin.errors import BobbinError, UsageError

_SECRET_BYTES_MAX = 256

KeyName = Annotated[
    str | None, typer.Argument(metavar="NAME", help="Name of the key. Default: the lace's default key.")
]


def key_new(
    folder: LaceFolder,
    name: KeyName = None,
    secret_from: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="FILE", help="Keep the secret in this file (- for stdin) instead of drawing a new one."
        ),
    ] = None,
    as_json: AsJson = False,
) -> ExitCode:
    """Make a new signing key and print its verifier.

    The verifier is the public name of the signer. The secret goes to DIR/keys/NAME.key, readable by you only. An
    existing key is never overwritten. At a node that joined a replicated lace, keep the lace's key with --from.

    Example: bobbin key new notes.lace
    """
    from bobbin.lace import Lace

    out = Output(as_json=as_json)
    secret = None if secret_from is None else _read_secret(secret_from)
    with Lace.open(folder) as lace:
        name = name or lace.settings.default_key
        if secret is None and name == lace.settings.default_key and name not in lace.key_names():
            _refuse_of_node(folder)
        key = lace.new_key(name, secret=secret)
    path = folder / "keys" / f"{name}.key"
    out.result({"name": name, "verifier": key.verifier, "file": str(path)}, key.verifier)
    out.note(f"The secret is in {path}. Keep a copy in a safe place: nobody can restore it.")
    return ExitCode.OK


def key_show(
    folder: LaceFolder,
    name: KeyName = None,
    secret: Annotated[
        bool,
        typer.Option("--secret", metavar="", help="Print the signing secret instead. Whoever has it can sign as you."),
    ] = False,
    as_json: AsJson = False,
) -> ExitCode:
    """Print the verifier of a key.

    Or, with --secret, the signing secret itself.

    Example: bobbin key show notes.lace
    """
    from bobbin.config.keys import read_secret
    from bobbin.lace import Lace

    out = Output(as_json=as_json)
    with Lace.open(folder, read_only=True) as lace:
        name = name or lace.settings.default_key
        verifier = lace.key(name).verifier
    answer: dict[str, Json] = {"name": name, "verifier": verifier}
    line: str = verifier
    if secret:
        line = read_secret(folder / "keys", name)
        answer["secret"] = line
    out.result(answer, line)
    return ExitCode.OK


def key_list(folder: LaceFolder, as_json: AsJson = False) -> ExitCode:
    """List the keys of a lace with their verifiers.

    Example: bobbin key list notes.lace
    """
    from bobbin.lace import Lace

    out = Output(as_json=as_json)
    code = ExitCode.OK
    with Lace.open(folder, read_only=True) as lace:
        names = lace.key_names()
        width = max(map(len, names), default=0)
        for name in names:
            is_default = name == lace.settings.default_key
            try:
                verifier = lace.key(name).verifier
            except BobbinError as error:
                code = ExitCode.INTEGRITY
                problem = str(error)
                out.row(
                    {"name": name, "verifier": None, "default": is_default, "problem": problem},
                    f"{name:<{width}}  {out.style(problem, fg='red')}",
                )
                continue
            mark = "  (default)" if is_default else ""
            out.row({"name": name, "verifier": verifier, "default": is_default}, f"{name:<{width}}  {verifier}{mark}")
    if not names:
        more = " --from FILE" if _is_of_node(folder) else ""
        out.note(
            f"no keys yet; {'keep the one of the lace' if more else 'make one'} with: bobbin key new {folder}{more}"
        )
    return code


def _is_of_node(folder: Path) -> bool:
    from bobbin.config.layout import Layout
    from bobbin.config.replicated import is_replicated

    return is_replicated(Layout(folder))


def _refuse_of_node(folder: Path) -> None:
    """A replicated lace is known by one key. With another one a node would sign as somebody else, and prove it."""
    if _is_of_node(folder):
        raise UsageError(
            f"{folder} is a node of a replicated lace, which has one key at every node: bobbin key new {folder} --from "
            "FILE, the secret that `bobbin key show --secret` prints at another node"
        )


def _read_secret(file: str) -> str:
    from bobbin.records.ids import IdentifierError, parse_secret

    try:
        text = read_whole(file, bytes_max=_SECRET_BYTES_MAX, what="a signing secret").decode("ascii").strip()
        parse_secret(text)
    except (UnicodeDecodeError, IdentifierError) as error:
        raise UsageError("what --from names does not hold a signing secret (&.<43 symbols>.H3)") from error
    return text
