"""What is at a place: walks along the index of places, names and times.

A listing costs what it answers, not what the store holds. Everything below a prefix is one range of the index; with
``tips`` the walk takes the newest record of each coordinate and jumps over the older ones. Groups, apps and names
come in the order of their UTF-8 bytes; at one coordinate the newest (TAI, hash text) comes first. Hash texts sort
like (kind, digest), so no text is built to compare.

In the places of messages of tangles anybody can write a newer record than that of the message. There the record of a
message that is kept comes first, so that nothing shadows it.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Final

import apsw

from bobbin import profile
from bobbin.errors import UsageError
from bobbin.records.coordinate import Coordinate, Prefix
from bobbin.store.base import Listed, StoreRecordId
from bobbin.store.sqlite import coding

_COLUMNS: Final = (
    "SELECT f.id, f.kind, f.digest, f.name, f.tai, f.data_length, t.value "
    "FROM fact f INDEXED BY fact_by_place LEFT JOIN text t ON t.id = f.signer "
)
_NEWEST_FIRST: Final = "f.tai DESC, f.kind DESC, f.digest DESC"

AT_NAME: Final = f"{_COLUMNS} WHERE f.place = ? AND f.name = ? ORDER BY {_NEWEST_FIRST}"
IN_RANGE: Final = (
    f"{_COLUMNS} WHERE f.place = ? AND f.name > ? AND f.name < CAST(? AS TEXT) ORDER BY f.name, {_NEWEST_FIRST}"
)
FROM_NAME: Final = f"{_COLUMNS} WHERE f.place = ? AND f.name > ? ORDER BY f.name, {_NEWEST_FIRST}"
OF_MESSAGE: Final = (
    "SELECT f.id, f.kind, f.digest, f.name, f.tai, f.data_length, t.value FROM message m "
    "CROSS JOIN fact f ON f.id = m.record LEFT JOIN text t ON t.id = f.signer "
    "WHERE m.id = ? AND f.place = ? AND f.name = ?"
)
PLACE: Final = "SELECT id, app FROM place WHERE group_path = ? AND app = ?"
PLACES: Final = "SELECT id, app FROM place WHERE group_path = ? ORDER BY app"

_PASSED_MAX: Final = 8
"""How many older records of a coordinate are passed one by one before the walk jumps over the rest."""

_Place = tuple[int, str]


def walk(connection: apsw.Connection, place: Coordinate | Prefix, *, tips: bool, limit: int | None) -> Iterator[Listed]:
    """The records at a place, in order."""
    if not all(coding.can_be_stored(text) for text in (place.group, place.app or "", place.name)):
        return
    listed = (
        listed
        for number, app in _places(connection, place)
        for listed in _at_place(connection, place, number, app, tips=tips)
    )
    yield from listed if limit is None else islice(listed, limit)


def _places(connection: apsw.Connection, place: Coordinate | Prefix) -> Iterator[_Place]:
    if place.app is None:
        if place.name:
            raise UsageError(f"a prefix that names no app cannot go on with the name {place.name!r}")
        return connection.execute(PLACES, (place.group,))
    return connection.execute(PLACE, (place.group, place.app))


def _at_place(
    connection: apsw.Connection, place: Coordinate | Prefix, number: int, app: str, *, tips: bool
) -> Iterator[Listed]:
    if isinstance(place, Coordinate):
        rows = _of_app(connection, number, app, _rows(connection, place.group, app, AT_NAME, (number, place.name)))
        return islice(rows, 1) if tips else rows
    if tips:
        return _tips(connection, place, number, app)
    return _below(connection, place, number, app, place.name)


def _below(connection: apsw.Connection, place: Prefix, number: int, app: str, after: str) -> Iterator[Listed]:
    """What the prefix covers, with names after ``after``. No name is empty or ends in a slash, so none is equal."""
    if place.name == "":
        rows = _rows(connection, place.group, app, FROM_NAME, (number, after))
    else:
        rows = _rows(connection, place.group, app, IN_RANGE, (number, after, coding.after_prefix(place.name)))
    return _of_app(connection, number, app, rows)


def _tips(connection: apsw.Connection, place: Prefix, number: int, app: str) -> Iterator[Listed]:
    after = place.name
    passed = _PASSED_MAX
    while passed == _PASSED_MAX:
        passed = 0
        for listed in _below(connection, place, number, app, after):
            if listed.name != after:
                yield listed
                after, passed = listed.name, 0
            elif (passed := passed + 1) == _PASSED_MAX:
                break


def _of_app(connection: apsw.Connection, number: int, app: str, rows: Iterator[Listed]) -> Iterator[Listed]:
    return _messages_first(connection, number, rows) if app == profile.TANGLE_APP else rows


def _messages_first(connection: apsw.Connection, number: int, rows: Iterator[Listed]) -> Iterator[Listed]:
    """The same rows; at each coordinate the record of the message that is kept under its name before all others."""
    name: str | None = None
    first: Listed | None = None
    for listed in rows:
        if listed.name != name:
            name = listed.name
            id = name.rpartition("/")[2]
            first = next(_rows(connection, listed.group, listed.app, OF_MESSAGE, (id, number, name)), None)
            if first is not None and first.id != listed.id:
                yield first
        elif first is not None and listed.id == first.id:
            continue
        yield listed


def _rows(
    connection: apsw.Connection, group: str, app: str, statement: str, bindings: tuple[int | str | bytes, ...]
) -> Iterator[Listed]:
    for number, kind, digest, name, tai, data_length, verifier in connection.execute(statement, bindings):
        yield Listed(
            id=StoreRecordId(number),
            hash=coding.hash_text(kind, digest),
            group=group,
            app=app,
            name=name,
            tai=coding.tai_of_column(tai),
            verifier=verifier,
            data_length=data_length,
        )
