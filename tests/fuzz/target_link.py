"""Record links: any header is a link that its value spells, or none."""

from bobbin.records import link


def one_input(data: bytes) -> None:
    name, _, value = data.decode("utf-8", "surrogateescape").partition(": ")
    found = link.parse(name, value)
    if found is not None:
        assert name.endswith(link.NAME_SUFFIX)
        assert found.data
        assert f"{found.data} {found.target}" == value
