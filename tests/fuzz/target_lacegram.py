"""Programs: any bytes compile to one canonical form that compiles to itself, or are refused with places in the text."""

from bobbin.datalog.compile import Lacegram
from bobbin.datalog.compile import compile as compile_program
from bobbin.datalog.diagnostics import InvalidProgram
from bobbin.policy.vocabulary import SELECTOR


def one_input(data: bytes) -> None:
    written = _compile(data, received=False)
    received = _compile(data, received=True)
    if written is None:
        assert received is None
        return
    assert (received is not None) == (written.canonical == data)
    again = _compile(written.canonical, received=True)
    assert again is not None
    assert (again.canonical, again.identifier) == (written.canonical, written.identifier)


def _compile(data: bytes, *, received: bool) -> Lacegram | None:
    try:
        return compile_program(data, SELECTOR, received=received)
    except InvalidProgram as refused:
        lines = data.count(b"\n") + 1
        assert refused.diagnostics  # noqa: PT017 -- no test of pytest's
        assert all(1 <= found.place.line <= lines for found in refused.diagnostics)  # noqa: PT017
        return None
