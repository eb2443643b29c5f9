"""The frames of muxrpc and the calls they make up: the same whole and byte by byte, or refused with a known fault."""

from bobbin.wire.address import AddressError
from bobbin.wire.pzp import manifest
from bobbin.wire.pzp.address import parse
from bobbin.wire.pzp.calls import Called, Calls, Data, Ended, Way
from bobbin.wire.pzp.faults import Fault, WireFault
from bobbin.wire.pzp.frames import Decoder, Frame, Packet, encode

_BOUND = 4096


def one_input(data: bytes) -> None:
    packets, fault = _split([data])
    assert _split([data[at : at + 1] for at in range(len(data))]) == (packets, fault)
    for packet in packets:
        if not isinstance(packet, Frame) or packet.body:
            assert _split([b"".join(encode(packet))])[0] == [packet]
    _call(packets)
    manifest.offers(data, ("sync", "connect"))
    _address(data)


def _split(parts: list[bytes]) -> tuple[list[Packet], str]:
    decoder = Decoder(body_bytes_max=_BOUND)
    found: list[Packet] = []
    try:
        for part in parts:
            decoder.feed(part)
            while (packet := decoder.next()) is not None:
                found.append(packet)
        decoder.finish()
    except WireFault as fault:
        return found, Fault(fault.code).value
    return found, ""


def _call(packets: list[Packet]) -> None:
    calls = Calls(open_calls_max=3)
    calls.ask(("sync", "connect"), Way.DUPLEX)
    calls.ask(("manifest",), Way.ASYNC)
    for packet in packets:
        try:
            event, answer = calls.take(packet)
        except WireFault as fault:
            Fault(fault.code)
            return
        if answer is not None:
            encode(answer)
        match event:
            case Called(call=call, name=name):
                assert all(isinstance(word, str) for word in name)
                if len(name) > 1:
                    encode(calls.end(call, "no"))
            case Data(call=call) | Ended(call=call):
                assert call
            case _:
                pass
        assert sum(call < 0 for call in calls.open) <= 3


def _address(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    try:
        address = parse(text)
    except AddressError:
        return
    assert parse(str(address)) == address
