"""``lace.toml``: the few things that are fixed when a lace is created, and what its owner chooses.

The file is for people: it is written once, with comments, and Bobbin never rewrites it, so edits stay. Reading is
strict: a field that this version does not know is an error that names it, since a silently ignored setting is worse
than none.
"""

import json
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from bobbin.config.durable import write_new
from bobbin.config.keys import check_name
from bobbin.errors import IntegrityError, ResourceError, UsageError
from bobbin.records import tai

FORMAT: Final = 1
"""The version of the folder layout that this code reads and writes."""

_TEMPLATE: Final = """\
# A Bobbin lace. Created {utc} UTC.

# Version of the folder layout. Do not change it.
format = {format}

# When this lace was created, in TAI.
created = "{created}"

# The key that signs when none is named: keys/<name>.key
default_key = "{default_key}"
"""

_LAKE: Final = """
# The lake that holds the records, which are only read here. A relative path starts from this folder.
lake = {lake}
"""


class DamagedSettings(IntegrityError):
    """``lace.toml`` is missing, cannot be read or does not say what it should. Nothing was opened or changed."""


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of ``lace.toml``."""

    format: int
    created: str
    """TAI text."""
    default_key: str = "main"
    lake: str | None = None
    """Where the records are, if they are in a lake and not in a store of this folder."""


def write_settings(target: Path, settings: Settings) -> None:
    """Create the file, durable when this returns. ``FileExistsError`` if there is one: it is never replaced."""
    born = datetime.fromtimestamp(tai.to_utc(tai.parse(settings.created)) // tai.NANOSECONDS, UTC)
    text = _TEMPLATE.format(
        utc=born.strftime("%Y-%m-%d %H:%M:%S"),
        format=settings.format,
        created=settings.created,
        default_key=settings.default_key,
    )
    if settings.lake is not None:
        text += _LAKE.format(lake=_quoted(settings.lake))
    write_new(target, text.encode())


def _quoted(text: str) -> str:
    """A text as TOML has it. JSON spells it in a way that TOML reads the same, if it can be spelled at all."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"{text!r} cannot be written into a file of settings") from error
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def read_settings(source: Path) -> Settings:
    """Read and check the file."""
    try:
        table = tomllib.loads(source.read_bytes().decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DamagedSettings(f"{source} is not a TOML file: {error}") from error
    found = table.get("format")
    if isinstance(found, int) and found > FORMAT:
        raise ResourceError(
            f"{source} has format {found}; this version of Bobbin knows formats up to {FORMAT}. Use a newer one.",
            retry=False,
        )
    try:
        settings = msgspec.convert(table, Settings)
        tai.parse(settings.created)
        check_name(settings.default_key)
    except (msgspec.ValidationError, UsageError) as error:
        raise DamagedSettings(f"{source}: {error}") from error
    if settings.format != FORMAT:
        raise DamagedSettings(f"{source}: there is no format {settings.format}")
    return settings
