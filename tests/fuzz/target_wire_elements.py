"""The stream: any bytes fall into the same elements whole and byte by byte, or are refused with a known reason."""

from bobbin.errors import PeerError
from bobbin.interlace.reasons import Reason
from bobbin.wire.elements import Element, Elements, Facts, Preface, RecordBytes, Resource
from bobbin.wire.greeting import Greeting

_BOUND = 4096


def one_input(data: bytes) -> None:
    whole = _split([data])
    assert _split([data[at : at + 1] for at in range(len(data))]) == whole
    _greet(data)


def _split(parts: list[bytes]) -> tuple[list[Element], str]:
    stream = Elements(fact_bytes_max=_BOUND, record_bytes_max=_BOUND, resource_bytes_max=_BOUND)
    found: list[Element] = []
    try:
        for part in parts:
            stream.feed(part)
            while element := stream.next():
                found.append(element)
                _check(element)
        stream.finish()
    except PeerError as refused:
        return found, Reason(refused.code)
    return found, ""


def _check(element: Element) -> None:
    match element:
        case Preface():
            assert len(element.nonce) == 32
        case Facts():
            assert element.block.endswith(b"\n")
            assert len(element.block) <= _BOUND
        case RecordBytes() | Resource():
            assert len(element.raw) <= _BOUND
        case _:
            pass


def _greet(data: bytes) -> None:
    greeting = Greeting(Elements())
    try:
        greeting.feed(data)
    except PeerError as refused:
        Reason(refused.code)
