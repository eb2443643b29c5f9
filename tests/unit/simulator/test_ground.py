"""What a witness stands on begins empty."""

from bobbin.simulator.ground import Books


def test_books_begin_with_nothing() -> None:
    books = Books()
    assert not books.stored
    assert not books.sent
    assert (books.bytes_sent, books.bytes_received) == (0, 0)
    assert (books.summaries_said, books.summaries_heard) == (0, 0)
