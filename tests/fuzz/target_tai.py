"""TAI: any text parses to an instant that renders as that very text, or is refused."""

from bobbin.records import tai


def one_input(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    try:
        instant = tai.parse(text)
    except tai.TaiError:
        return
    assert tai.render(instant) == text
    assert tai.add(text, 0) == text
    try:
        later = tai.add(text, 37 * tai.NANOSECONDS)
    except tai.TaiError:
        assert instant + 37 * tai.NANOSECONDS > tai.TAI_MAX
    else:
        assert later > text
