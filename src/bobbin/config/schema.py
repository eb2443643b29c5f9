"""From a TOML table to a value of a known class: strictly, with every mistake named by file and key.

The class is the schema. Its fields are the keys; the bounds and descriptions that stand beside them (``Meta``) are
those that the file is checked against and that the manual shows. A key that no field has is an error with the nearest
one that exists, since a setting that is silently ignored is worse than none.
"""

import difflib
import re
import tomllib
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from types import UnionType
from typing import Annotated, Final, TypeAlias, TypeVar, Union, cast, get_args, get_origin

import msgspec
from msgspec import NODEFAULT, UNSET, Meta, Struct, structs

from bobbin.config.findings import Findings
from bobbin.config.sources import Sources, UnusableFile

Table: TypeAlias = dict[str, object]

T = TypeVar("T", bound=Struct)

_TYPE_WORDS: Final[Mapping[str, str]] = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
    "datetime": "a time",
    "date": "a date",
    "time": "a time",
    "null": "nothing",
}
_EXPECTED: Final = re.compile(r"Expected `([^`]+)`, got `([^`]+)`")
_BOUND: Final = re.compile(r"Expected `(?:int|float)` (>=|<=|>|<) (\S+)")
_PLACE: Final = re.compile(r" - at `[^`]*`$")
_BOUND_WORDS: Final[Mapping[str, str]] = {
    ">=": "at least",
    "<=": "at most",
    ">": "more than",
    "<": "less than",
}


class Row(Struct, frozen=True, kw_only=True):
    """One key of a schema, for the manual."""

    key: str
    kind: str
    default: str
    """Empty where the key must be given."""
    description: str


def read_table(path: Path, sources: Sources, findings: Findings) -> Table | None:
    """The content of a TOML file, or None after saying what is wrong."""
    try:
        return tomllib.loads(sources.read(path).decode())
    except UnusableFile as error:
        findings.add(path, "", str(error))
    except UnicodeDecodeError as error:
        findings.add(path, "", f"not UTF-8 text: byte {error.start + 1} begins no character")
    except ValueError as error:  # not only TOMLDecodeError: a number of thousands of digits is refused by int itself
        findings.add(path, "", f"not TOML: {error}")
    except RecursionError:
        findings.add(path, "", "not TOML that can be read: its values are nested too deeply")
    return None


def convert(
    table: Table, kind: type[T], file: Path, findings: Findings, at: str = "", *, partly: bool = False
) -> T | None:
    """The value that a table describes, or None after saying everything that is wrong with it.

    ``partly``: what is wrong is left at its default, so that mistakes that can be seen only in the value are said in
    the same breath; None stands in a list for a table that is wrong. After a finding such a value is not to be used for
    anything else. It is None only where something is wrong that has no default.
    """
    before = len(findings)
    values: dict[str, object] = {}
    fields = {field.encode_name: field for field in structs.fields(kind)}
    for name, value in table.items():
        key = _join(at, name)
        if name not in fields:
            findings.add(file, key, f"there is no such setting; {_nearest(name, fields)}")
            continue
        count = len(findings)
        made = _convert_value(value, fields[name].type, file, findings, key)
        if len(findings) == count or _is_table_list(value, fields[name].type):
            values[fields[name].name] = made
    for name, field in fields.items():
        if field.required and name not in table:
            findings.add(file, _join(at, name), "it is missing, and there is no default")
    is_usable = partly and all(field.name in values for field in fields.values() if field.required)
    return kind(**values) if is_usable or len(findings) == before else None


def rows(kind: type[Struct], at: str = "") -> Iterator[Row]:
    """The keys of a schema, tables within tables included."""
    for field in structs.fields(kind):
        key = _join(at, field.encode_name)
        inner = _struct_in(field.type)
        shown, described = _shown(field.type)
        if inner is None or shown:
            yield Row(key=key, kind=shown, default=_default(field), description=described)
        if inner is not None:
            yield from rows(inner, key)


def _convert_value(value: object, kind: object, file: Path, findings: Findings, key: str) -> object:
    inner = _struct_in(kind)
    if inner is not None and isinstance(value, dict):
        return convert(value, inner, file, findings, key)
    if inner is not None and isinstance(value, list) and _is_list(kind):
        return _convert_list(value, inner, file, findings, key)
    try:
        return msgspec.convert(value, cast(type[object], kind))
    except msgspec.ValidationError as error:
        findings.add(file, key, _in_words(str(error), kind))
        return None


def _convert_list(value: list[object], kind: type[Struct], file: Path, findings: Findings, key: str) -> object:
    """The entries of ``[[key]]``. Schemas are frozen, so a list of theirs is a tuple."""
    converted: list[object] = []
    for number, entry in enumerate(value, start=1):
        if isinstance(entry, dict):
            name = entry.get("name")
            shown = f" ({name[:64]})" if isinstance(name, str) else ""
            converted.append(convert(entry, kind, file, findings, f"{key} {number}{shown}"))
        else:
            findings.add(file, f"{key} {number}", f"expected a table, as in [[{key}]]")
            converted.append(None)
    return tuple(converted)


def _join(at: str, name: str) -> str:
    shown = name if re.fullmatch(r"[A-Za-z0-9_-]{1,80}", name) else repr(name[:80])
    if not at:
        return shown
    return f"{at}, {shown}" if " " in at else f"{at}.{shown}"


def _nearest(name: str, known: Mapping[str, object]) -> str:
    near = difflib.get_close_matches(name[:80], known, n=1)
    return f"did you mean {near[0]}?" if near else f"the settings here are {', '.join(known)}"


def _in_words(message: str, kind: object) -> str:
    """What msgspec says, for the people who write the file."""
    message = _PLACE.sub("", message)
    if choices := _choices(kind):
        return f"expected one of {', '.join(choices)}"
    if found := _BOUND.match(message):
        return f"expected a number that is {_BOUND_WORDS[found[1]]} {found[2]}"
    if found := _EXPECTED.match(message):
        wanted = [_TYPE_WORDS.get(name.strip(), name.strip()) for name in found[1].split("|")]
        wanted = [words for words in wanted if words != "nothing"]
        return f"expected {' or '.join(wanted)}, not {_TYPE_WORDS.get(found[2], found[2])}"
    return message[:1].lower() + message[1:].replace("`", "")


def _parts(kind: object) -> Iterator[object]:
    """The types that a type is made of, from the outside in."""
    yield kind
    if get_origin(kind) is Annotated:
        yield from _parts(get_args(kind)[0])
    else:
        for part in get_args(kind):
            yield from _parts(part)


def _struct_in(kind: object) -> type[Struct] | None:
    return next((part for part in _parts(kind) if isinstance(part, type) and issubclass(part, Struct)), None)


def _is_table_list(value: object, kind: object) -> bool:
    return isinstance(value, list) and _is_list(kind) and _struct_in(kind) is not None


def _is_list(kind: object) -> bool:
    return any(get_origin(part) in (list, tuple) for part in _parts(kind))


def _is_one_enough(kind: object) -> bool:
    """Whether a text may stand for a list of one."""
    if get_origin(kind) is Annotated:
        return _is_one_enough(get_args(kind)[0])
    return get_origin(kind) in (Union, UnionType) and str in get_args(kind)


def _choices(kind: object) -> list[str]:
    enums = (part for part in _parts(kind) if isinstance(part, type) and issubclass(part, Enum))
    return [str(member.value) for enum in enums for member in enum]


def _shown(kind: object) -> tuple[str, str]:
    """How the manual calls a type, and the description that stands beside it."""
    notes = [note for part in _parts(kind) for note in _notes(part)]
    described = " ".join(note.description for note in notes if note.description)
    if choices := _choices(kind):
        return " or ".join(f'`"{choice}"`' for choice in choices), described
    plain = {part for part in _parts(kind) if part in (int, float, str, bool)}
    if not plain:
        return "", described
    words = " or ".join(_TYPE_WORDS[part.__name__] for part in (str, bool, int, float) if part in plain)
    if _struct_in(kind) is not None:
        return f"{words} or a table", described
    if _is_list(kind):
        return f"{f'{words} or ' if _is_one_enough(kind) else ''}a list of {words}", described
    return words + "".join(_range(note) for note in notes), described


def _notes(kind: object) -> list[Meta]:
    return [note for note in get_args(kind)[1:] if isinstance(note, Meta)] if get_origin(kind) is Annotated else []


def _range(note: Meta) -> str:
    if note.ge is not None and note.le is not None:
        return f", {note.ge:,} to {note.le:,}"
    if note.gt is not None and note.le is not None:
        return f", more than {note.gt:,} and at most {note.le:,}"
    if note.ge is not None:
        return f", at least {note.ge:,}"
    return ""


def _default(field: structs.FieldInfo) -> str:
    if field.required:
        return ""
    value = field.default if field.default is not NODEFAULT else None
    if value is None or value is UNSET or value == ():
        return "none"
    if isinstance(value, bool):
        return "`true`" if value else "`false`"
    if isinstance(value, Enum):
        return f'`"{value.value}"`'
    return f'`"{value}"`' if isinstance(value, str) else f"`{value}`"
