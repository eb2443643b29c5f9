"""A process that has a graph, and shows it to whoever opens a data channel to it. Run with a signaling address.

It takes one observer that shows its token, follows what that one writes, and prints what the graph came to once the
observer is gone.
"""

import asyncio
import json
import sys
from contextlib import suppress

from bobbin.reactive.graph import Graph
from bobbin.reactive.messages import PeerId
from bobbin.reactive.permissions import OpKind
from bobbin.runtime.graph_allowances import Allowance
from bobbin.runtime.graph_host import GraphHost, Tell, Values
from bobbin.runtime.graph_peers import Identities, token_digest
from bobbin.runtime.graph_server import GraphServer, ServerSettings
from bobbin.runtime.signal_client import join
from bobbin.runtime.webrtc import RtcHub
from bobbin.transport.base import TransportError
from bobbin.wire import address

SOURCE, CALLER = PeerId(11), PeerId(12)
"""In the room. Whoever calls there is nobody yet."""
SESSION = "graphs"
OBSERVER = PeerId(77)
"""At the graph, for whoever has the token."""
TOKEN = "a-token-of-the-observer"
IDENTITIES = Identities(tokens={token_digest(TOKEN): OBSERVER})


def make_host(tell: Tell) -> GraphHost:
    """A sum over two cells, a text that grows with it, and a secret."""
    graph = Graph()
    left, right = graph.cell(1, tag="i64", key="left"), graph.cell(2, tag="i64", key="right")
    total = graph.slot(lambda: left.get() + right.get(), tag="i64", key="total")
    graph.signal(lambda: "x" * (1000 * total.get()), tag="string", key="text")
    graph.cell("hidden", tag="string", key="secret")
    return GraphHost(
        graph,
        allowed=[
            *(Allowance(OBSERVER, OpKind.READ, key) for key in ("left", "right", "total", "text")),
            Allowance(OBSERVER, OpKind.WRITE, "left"),
        ],
        tell=tell,
    )


async def _main(place: str) -> None:
    ends: list[str] = []
    turned: list[str] = []
    over = asyncio.Event()

    def tell(word: str, values: Values) -> None:
        if word == "turned-away":
            turned.append(str(values["reason"]))
        elif word == "ended":
            ends.append(str(values["reason"]))
            over.set()

    host = make_host(tell)
    server = GraphServer(host, ServerSettings(identities=IDENTITIES))
    async with (
        await join(address.parse(place), SESSION, SOURCE) as client,
        RtcHub(client, accepts=lambda peer: peer == CALLER) as hub,
    ):
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        with suppress(TransportError):
            # Until the signaling server is gone. Links that were made stay.
            await server.take_calls(hub)
        await over.wait()
    nodes = {
        node.key: None if not isinstance(node.value, bytes) else node.value.hex() for node in host.snapshot().nodes
    }
    sys.stdout.write(json.dumps({"why": ends[0], "turned": len(turned), "nodes": nodes}) + "\n")


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1]))
