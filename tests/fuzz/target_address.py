"""Addresses: any text is an address, written back as it was, or is refused."""

from bobbin.wire.address import AddressError, parse


def one_input(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    try:
        address = parse(text)
    except AddressError:
        return
    assert str(address) == text
    text.encode()
