"""Opening channels, and what it says when there is none."""

import socket
from pathlib import Path

import pytest

from bobbin.errors import PeerError
from bobbin.records.signing import SigningKey
from bobbin.runtime.graph_dial import ClientSettings, dial_graph
from bobbin.runtime.graph_peers import Credentials
from bobbin.runtime.introduction import NotAdmitted
from bobbin.transport.base import TransportError
from bobbin.wire import address as addresses
from tests.support.byte_streams import until
from tests.support.graphs import PEER, TOKEN, Sample, run, serving
from tests.unit.cli.command_line import SECRET

SEVEN = Credentials(peer=PEER, token=TOKEN)


async def _dial(text: str, credentials: Credentials = SEVEN, **other: object) -> None:
    settings = ClientSettings(**other)  # type: ignore[arg-type]
    channel = await dial_graph(addresses.parse(text), credentials, settings)
    await channel.close()


def test_each_way_opens(tmp_path: Path) -> None:
    async def main() -> None:
        sample = Sample()
        async with serving(sample.host, "tcp:127.0.0.1:0", f"unix:{tmp_path}/s", "ws:127.0.0.1:0") as places:
            for place in places:
                await _dial(str(place))
            await until(lambda: len([word for word, _ in sample.told if word == "linked"]) == len(places))

    run(main())


@pytest.mark.parametrize("place", ["tcp:192.0.2.1:80", "ws:192.0.2.1:80"])
def test_nothing_is_shown_in_the_clear_off_this_machine(place: str) -> None:
    with pytest.raises(NotAdmitted) as caught:
        run(_dial(place))
    assert caught.value.code == "insecure-route"


def test_a_server_that_does_not_answer(tmp_path: Path) -> None:
    with pytest.raises(TransportError, match="nothing listens"):
        run(_dial("tcp:127.0.0.1:1"))
    with pytest.raises(TransportError, match="no such socket"):
        run(_dial(f"unix:{tmp_path}/none"))


def test_a_server_that_is_slow() -> None:
    """What connects, and is never taken, hears nothing."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        place = f"ws:127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(TransportError, match=r"no answer within 0\.05 seconds") as caught:
            run(_dial(place, dial_seconds=0.05))
        assert caught.value.retry


def test_who_is_not_let_in() -> None:
    async def main() -> None:
        async with serving(Sample().host, "ws:127.0.0.1:0") as (address,):
            for credentials in (
                Credentials(),
                Credentials(peer=PEER, token="a-wrong-token"),
                Credentials(key=SigningKey.from_text(SECRET)),
            ):
                with pytest.raises(PeerError) as caught:
                    await _dial(str(address), credentials)
                assert caught.value.code == "not-known"

    run(main())
