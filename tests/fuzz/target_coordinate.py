"""Coordinates: any text addresses records and reads the same when written again, or is refused."""

from bobbin.records import coordinate
from bobbin.records.coordinate import Address, CoordinateError


def one_input(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    try:
        place = coordinate.parse(text)
    except CoordinateError:
        return
    assert (f"////{place.hash}" if isinstance(place, Address) else str(place)) == text
