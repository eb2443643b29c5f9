"""B64A: any text decodes to bytes that encode to that very text, or is refused."""

from bobbin.records import b64a


def one_input(data: bytes) -> None:
    try:
        decoded = b64a.decode(data)
    except b64a.B64aError:
        pass
    else:
        assert b64a.encode_bytes(decoded) == data
    try:
        decoded = b64a.decode(data.decode("utf-8", "surrogateescape"))
    except b64a.B64aError:
        pass
    else:
        assert b64a.encode_bytes(decoded) == data
    assert b64a.decode(b64a.encode(data)) == data
