"""``bobbin graph set``: write cells of a graph that is served."""

import asyncio
import json
from typing import TYPE_CHECKING, Annotated, Final

import typer

from bobbin.cli.elsewhere import AllowInsecure, Authorities, ExpectedKey, Pin
from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.graph_options import KeyOf, Shown, TokenFile, Where, connect, find_graph
from bobbin.cli.options import AsJson
from bobbin.cli.output import Output
from bobbin.errors import UsageError

if TYPE_CHECKING:
    from bobbin.runtime.graph_client import GraphMirror, Name
    from bobbin.wire.address import Address

_SEEN_SECONDS: Final = 3.0
"""How long a value that was written may take to be seen."""
_BOOLS: Final = {"true": True, "false": False}


def graph_set(
    where: Where,
    values: Annotated[
        list[str], typer.Argument(metavar="KEY=VALUE", help="What to write, all at once.", show_default=False)
    ],
    token_file: TokenFile = None,
    key_of: KeyOf = None,
    verifier: ExpectedKey = None,
    pin: Pin = None,
    authorities: Authorities = None,
    allow_insecure: AllowInsecure = False,
    as_json: AsJson = False,
) -> ExitCode:
    """Write cells of a graph that is served, where we may, and wait until they are seen.

    A cell's tag says how a value is read: a number, true or false, JSON, or the text itself.

    Example: bobbin graph set notes.lace board/text='open until six'
    """
    out = Output(as_json=as_json)
    shown = Shown(
        token_file=token_file,
        key_of=key_of,
        verifier=verifier,
        pin=pin,
        authorities=authorities,
        allow_insecure=allow_insecure,
    )
    wanted: dict[str, str] = {}
    for text in values:
        key, equals, value = text.partition("=")
        if not equals or not key or key in wanted:
            raise UsageError(f"a write is KEY=VALUE, each key once, not {text[:80]!r}")
        wanted[key] = value
    taken = asyncio.run(_write(find_graph(where), shown, wanted))
    for key in wanted:
        fate = "written" if taken[key] else "not written: we may not, or somebody else has written it since"
        out.row({"key": key, "written": taken[key]}, out.style(f"{key}  {fate}"))
    return ExitCode.OK if all(taken.values()) else ExitCode.NOT_ALL


async def _write(address: "Address", shown: Shown, wanted: dict[str, str]) -> dict[str, bool]:
    """Which of them are as wanted afterwards. A server does not say what it has not taken."""
    from bobbin.reactive.type_tags import TypeTags

    async with connect(address, shown, lost=lambda _: None) as mirror:
        values: dict[Name, object] = {key: _read(mirror, key, text) for key, text in wanted.items()}
        await mirror.write(values)
        await mirror.acknowledged()
        tags = TypeTags.standard()

        def is_taken(key: str) -> bool:
            node = mirror.find(key)
            # There are values that do not equal themselves; their bytes do.
            return mirror.value(key) == values[key] or node.value == tags.encode(node.tag, values[key])

        def taken() -> dict[str, bool]:
            return {key: is_taken(key) for key in wanted}

        try:
            async with asyncio.timeout(_SEEN_SECONDS):
                async for _ in mirror.updates():
                    if all(taken().values()):
                        break
        except TimeoutError:
            pass
        return taken()


def _read(mirror: "GraphMirror", key: str, text: str) -> object:
    """A value as it is typed, by the tag of its cell. Raises ``UsageError``."""
    tag = mirror.find(key).tag
    try:
        match tag:
            case "i64":
                return int(text)
            case "f64":
                return float(text)
            case "bool":
                return _BOOLS[text]
            case "json":
                return json.loads(text)
            case "string":
                return text
            case _:
                return text.encode()
    except (ValueError, KeyError) as error:
        raise UsageError(f"{key} is {tag}, which {text[:80]!r} is not") from error
