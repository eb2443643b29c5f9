"""Identifiers: any text is the one spelling of a hash, a verifier or a secret, or is refused."""

from collections.abc import Callable

from bobbin.records import ids
from bobbin.records.ids import IdentifierError


def one_input(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    found = [
        _spelling(lambda: ids.hash_text(*ids.parse_hash(text))),
        _spelling(lambda: ids.verifier_text(ids.parse_verifier(text))),
        _spelling(lambda: ids.secret_text(ids.parse_secret(text))),
    ]
    assert [spelling for spelling in found if isinstance(spelling, str)] in ([], [text])
    # What is said about a text that is no secret never depends on the text.
    assert isinstance(found[2], str) or str(found[2]) == "not a signing secret (&.<43 symbols>.H3)"


def _spelling(read_and_write: Callable[[], str]) -> str | IdentifierError:
    try:
        return read_and_write()
    except IdentifierError as error:
        return error
