"""A codebook: the one form of what it decodes to, or an ``IntegrityError``."""

from bobbin.cluster.codebook.global_book import GlobalCodebook
from bobbin.errors import IntegrityError


def one_input(data: bytes) -> None:
    try:
        book = GlobalCodebook.decode(1, data)
    except IntegrityError:
        return
    assert book.encode() == data
