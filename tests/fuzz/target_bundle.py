"""Bundles: the pieces of any bytes tile them, however they arrive. The first byte says in which chunks."""

from bobbin.records.bundle import BundleReader, Damage, Piece


def one_input(data: bytes) -> None:
    chunk, raw = (data[0] + 1, data[1:]) if data else (1, b"")
    whole = BundleReader()
    pieces = whole.feed(raw) + whole.finish()
    assert b"".join(piece.raw for piece in pieces) == raw
    offset = 0
    for piece in pieces:
        assert piece.raw
        assert piece.offset == offset
        assert not isinstance(piece, Damage) or piece.reason
        offset += len(piece.raw)
    reader = BundleReader()
    again: list[Piece] = []
    for start in range(0, len(raw), chunk):
        again += reader.feed(raw[start : start + chunk])
    assert again + reader.finish() == pieces
