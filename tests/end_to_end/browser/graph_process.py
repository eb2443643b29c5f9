"""A process that serves a small graph over WebSocket: ``python graph_process.py PORT COUNT ORIGIN``.

Its first line says the port. Commands on its standard input: ``set N`` sets the count, ``drop`` lets every observer go
and listens again at once, ``show`` prints the count and how often the effect was run.
"""

import asyncio
import sys

from bobbin.reactive.graph import Graph
from bobbin.reactive.messages import PeerId
from bobbin.reactive.permissions import OpKind
from bobbin.runtime.graph_allowances import Allowance
from bobbin.runtime.graph_host import GraphHost
from bobbin.runtime.graph_peers import Identities, token_digest
from bobbin.runtime.graph_server import GraphServer, ServerSettings
from bobbin.wire.address import Address, Scheme

TOKEN = "a-token-of-the-test"
PEER = PeerId(7)


async def main(port: int, count: int, origin: str) -> None:
    """Serve until the input ends."""
    graph = Graph()
    counted = graph.cell(count, tag="i64", key="count")
    graph.cell("nobody may see this", tag="string", key="secret")
    graph.signal(lambda: counted.get() * 2, tag="i64", key="double")
    graph.signal(lambda: f"count is {counted.get()}", tag="string", key="text")
    allowed = [Allowance(PEER, OpKind.READ, key) for key in ("count", "double", "text")]
    host = GraphHost(graph, allowed=[*allowed, Allowance(PEER, OpKind.WRITE, "count")])
    identities = Identities(tokens={token_digest(TOKEN): PEER})
    settings = ServerSettings(identities=identities, origins=frozenset({origin}))
    server = GraphServer(host, settings)
    address = await server.start(Address(scheme=Scheme.WS, host="127.0.0.1", port=port))
    _say(address.port)
    loop = asyncio.get_running_loop()
    while words := (await loop.run_in_executor(None, sys.stdin.readline)).split():
        if words[0] == "set":
            with host.changing():
                counted.set(int(words[1]))
        elif words[0] == "drop":
            await server.close()
            server = GraphServer(host, settings)
            await server.start(address)
        _say(counted.peek())
    await server.close()


def _say(number: object) -> None:
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
