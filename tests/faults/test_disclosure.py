"""What a node tells whom: strangers get one line and nothing else, and a peer's rules never see outside its view."""

import asyncio
import re
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from secrets import token_bytes
from typing import Final

import pytest
from msgspec import structs

from bobbin.cli.exit_codes import ExitCode
from bobbin.errors import PeerError
from bobbin.lace import Lace
from bobbin.records.signing import SigningKey
from bobbin.runtime.connection import Connection, Destination
from bobbin.runtime.remote import INSECURE
from bobbin.transport.base import ByteStream, Route
from bobbin.transport.dial import dial
from bobbin.wire import address as addresses
from bobbin.wire import proof
from bobbin.wire.elements import Elements
from bobbin.wire.greeting import Greeting, encode_preface, encode_proof
from bobbin.wire.proof import Nonces, Proof, Role
from tests.end_to_end.command import bobbin
from tests.faults.clients import PREFACE, Raw, converse, greet, raw, serves_carol
from tests.faults.proxy import Proxy, Way
from tests.faults.served import BOB, CAROL, MALLORY, NODE, Served, fsck, make_lace, peer_table
from tests.policy_worlds import EVERYTHING
from tests.support.exchanges import hashes, records

_RECORDS: Final = 5
_EAGER: Final = (
    b"ExchangeOperand('0','R.vVOiJPlxJfZ1Ef~4TkndZKY3UCQPblz7GNyfD3E5oAO','source:0','selector')\n"
    + "🧩: R.vVOiJPlxJfZ1Ef~4TkndZKY3UCQPblz7GNyfD3E5oAO\nData-Length: 68\n\n".encode()
    + b"SelectAdvertised(P,S) :- Advertised(P,S).\nSelectHave(P) :- Have(P).\n\n"
)
"""A good setup, said without waiting for anything."""


# ---- strangers ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A node that even lets links off this machine be insecure, and has no terms for peers that prove nothing."""
    folder = tmp_path_factory.mktemp("strangers") / "node"
    listen = ("tcp:0.0.0.0:0", "tls:127.0.0.1:0")
    with Served(folder, records=records(_RECORDS), listen=listen, settings="allow_insecure = true\n") as node:
        node.addresses["tcp"] = f"tcp:127.0.0.1:{node.port}"
        yield node
        assert not node.entries("link-up") or {entry["peer"] for entry in node.entries("link-up")} == {"carol"}
    fsck(folder)


def _nonces(connection: Raw) -> Nonces:
    own = token_bytes(32)
    connection.send(encode_preface(own))
    greeting = Greeting(Elements())
    greeting.feed(connection.hear(len(encode_preface(own))))
    assert greeting.nonce is not None
    return Nonces(initiator=own, responder=greeting.nonce)


def _prove(connection: Raw, key: SigningKey, role: Role = Role.INITIATOR, *, binding: bytes | None) -> Proof:
    return proof.make(key, role, _nonces(connection), binding=binding, auxiliary=token_bytes(32))


def _nothing(connection: Raw) -> None:
    """Not a word, and then the end."""
    connection.hear(len(encode_preface(bytes(32))))
    connection.socket.shutdown(socket.SHUT_WR)


def _no_proof(connection: Raw) -> None:
    greet(connection, None)


def _unknown_key(connection: Raw) -> None:
    greet(connection, MALLORY)


def _stolen_name(connection: Raw) -> None:
    """The verifier of somebody who is known, over a signature by somebody else."""
    made = _prove(connection, MALLORY, binding=connection.binding)
    connection.send(encode_proof(Proof(verifier=BOB.verifier, signature=made.signature)))


def _other_role(connection: Raw) -> None:
    connection.send(encode_proof(_prove(connection, BOB, Role.RESPONDER, binding=connection.binding)))


def _other_channel(connection: Raw) -> None:
    connection.send(encode_proof(_prove(connection, BOB, binding=b"\x07" * 32)))


def _other_nonces(connection: Raw) -> None:
    """A proof that was good on another link of the same peer."""
    _nonces(connection)
    nonces = Nonces(initiator=token_bytes(32), responder=token_bytes(32))
    made = proof.make(BOB, Role.INITIATOR, nonces, binding=connection.binding, auxiliary=token_bytes(32))
    connection.send(encode_proof(made))


_STRANGERS: Final[dict[str, tuple[Callable[[Raw], None], str]]] = {
    "no proof": (_no_proof, "no-proof"),
    "unknown key": (_unknown_key, "unknown-key"),
    "stolen name": (_stolen_name, "negotiation-failure"),
    "other role": (_other_role, "negotiation-failure"),
    "other channel": (_other_channel, "negotiation-failure"),
    "replayed": (_other_nonces, "negotiation-failure"),
    "nothing": (_nothing, "closed-before-proof"),
}


@pytest.mark.parametrize("tls", [False, True], ids=["tcp", "tls"])
@pytest.mark.parametrize("stranger", _STRANGERS)
def test_a_stranger_hears_one_line(served: Served, tmp_path: Path, stranger: str, tls: bool) -> None:  # noqa: FBT001
    """Every byte that the node writes to who is not let in, compared with the preface: it is that, and nothing else."""
    says, reason = _STRANGERS[stranger]
    before = served.refusals(reason)
    with raw(served.port_of("tls" if tls else "tcp"), tls=tls) as connection:
        says(connection)
        if says is not _nothing:
            connection.send_quietly(_EAGER)
        assert PREFACE.fullmatch(connection.hear_all()), connection.heard
    served.refuses(reason, before + 1)
    serves_carol(served, tmp_path / "carol", _RECORDS, scheme="tls" if tls else "tcp")


def _own_address() -> str | None:
    """An address of this machine that is not loopback. Nothing is sent anywhere to find out."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            asking.connect(("192.0.2.1", 9))
        except OSError:
            return None
        found: str = asking.getsockname()[0]
    return None if found.startswith(("127.", "0.")) else found


def test_a_known_key_over_an_open_network_hears_one_line(served: Served) -> None:
    """A proof that is bound to no channel does not count off loopback, even where insecure links are allowed."""
    host = _own_address()
    if host is None:
        pytest.skip("this machine has no address besides loopback")
    before = served.refusals("no-proof")
    with raw(served.port, host=host) as connection:
        greet(connection, BOB)
        connection.send_quietly(_EAGER)
        assert PREFACE.fullmatch(connection.hear_all()), connection.heard
    served.refuses("no-proof", before + 1)


# ---- a known peer that is lured -------------------------------------------------------------------------------------


class _OpenNetwork:
    """A stream as one sees it that leads away from this machine, without encryption."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream: Final = stream
        self.read: Final = stream.read
        self.write: Final = stream.write
        self.close: Final = stream.close
        self.abort: Final = stream.abort

    @property
    def route(self) -> Route:
        return structs.replace(self._stream.route, loopback=False)


def _lured(folder: Path, port: int, *, allow_insecure: bool) -> PeerError:
    """Bob dials somebody who stands on an open network; what comes of it."""
    where = addresses.parse(f"tcp:127.0.0.1:{port}")

    async def away() -> ByteStream:
        return _OpenNetwork(await dial(where))

    destination = Destination(address=where, allow_insecure=allow_insecure)
    peer = structs.replace(destination.peer(), dial=away)
    with Lace.open(make_lace(folder, BOB)) as lace, pytest.raises(PeerError) as refused:
        asyncio.run(Connection(lace, peer, EVERYTHING).sync())
    return refused.value


def test_a_known_peer_on_an_open_network_says_nothing_that_could_be_passed_on(served: Served, tmp_path: Path) -> None:
    """Whoever answers relays each byte to the node's port on loopback, where a proof without a channel would count."""
    before = served.refusals("closed-before-proof")
    with Proxy(served.port) as mallory:
        assert _lured(tmp_path / "bob", mallory.port, allow_insecure=False).code == INSECURE
        served.refuses("closed-before-proof", before + 1)
        assert not mallory.passed[Way.TO_SERVER]


def test_a_known_peer_that_puts_up_with_an_open_network_gives_no_proof_there(served: Served, tmp_path: Path) -> None:
    """It asks as nobody, so nobody is let in, and the one between hears what every stranger hears."""
    before = served.refusals("no-proof")
    with Proxy(served.port) as mallory:
        assert _lured(tmp_path / "bob", mallory.port, allow_insecure=True).code == "closed-before-proof"
        served.refuses("no-proof", before + 1)
        assert PREFACE.match(mallory.passed[Way.TO_SERVER])
        assert BOB.verifier.encode() not in mallory.passed[Way.TO_SERVER]
        assert PREFACE.fullmatch(mallory.passed[Way.TO_CLIENT])


# ---- rules that try to see what is not theirs -----------------------------------------------------------------------

_VIEW: Final = "Queryable(P,O) :- Have(P), Field(P,'Group',_,'u'), Viewer(O).\n"
_OPEN: Final = records(6, group="u")
_SECRET: Final = records(6, first=100, group="secret")
_TAKE: Final = "SelectAdvertised(P,S) :- Advertised(P,S).\n"
_PROBES: Final = {
    "everything": "SelectHave(P) :- Have(P).\n",
    "by name": "SelectHave(P) :- Have(P), Field(P,'Group',_,'secret').\n",
    "one bit": "SelectHave(P) :- Have(P), Field(Q,'Group',_,'secret').\n",
    "one bit by absence": "Found(X) :- Field(_,'Group',_,X).\nSelectHave(P) :- Have(P), not Found('secret').\n",
    "one bit by a guess": f"SelectHave(P) :- Have(P), Have('{_SECRET[0].hash}').\n",
    "by the data": f"SelectHave(P) :- Have(P), BlobHash(Q,'{_SECRET[0].inner().hash}').\n",
}


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, Served]]:
    """Two nodes that differ in nothing but six records outside Bob's view. Their own policy would send him all."""
    folder = tmp_path_factory.mktemp("views")
    made = []
    for name, some in (("with", [*_OPEN, *_SECRET]), ("without", _OPEN)):
        lace = make_lace(folder / name, NODE, some)
        (lace / "view.policy").write_text(_VIEW)
        peers = [peer_table("bob", BOB.verifier, query_policy="view.policy"), peer_table("carol", CAROL.verifier)]
        made.append(Served(lace, peers=peers))
    with made[0], made[1]:
        yield made[0], made[1]


_CHANGING: Final = re.compile(
    rb"lace/1 \S+|KnotProof\(.*|HelloTAI\(.*|TickReady\(.*|HelloLimit\('bobbin_reconcile_1'.*"
)
"""What differs between any two links: nonces, signatures, times, shares of a key."""


def _heard(served: Served, folder: Path, rules: str) -> tuple[bytes, frozenset[str]]:
    """Every byte that a peer with these rules hears, and the records that it gets."""
    with Proxy(served.port) as proxy:
        result = converse(folder, f"tcp:127.0.0.1:{proxy.port}", rules=rules)
        heard = bytes(proxy.passed[Way.TO_CLIENT])
    return heard, frozenset(result.received)


@pytest.mark.parametrize("probe", _PROBES)
def test_rules_see_nothing_outside_their_view(nodes: tuple[Served, Served], tmp_path: Path, probe: str) -> None:
    """Whatever Bob's rules ask, a node with secrets says to the byte what one without them says."""
    rules = _TAKE + _PROBES[probe]
    (heard, got), (other_heard, other_got) = (
        _heard(node, tmp_path / str(number), rules) for number, node in enumerate(nodes)
    )
    assert got == other_got
    assert got <= hashes(_OPEN)
    said = heard.replace(rules.encode(), b"")
    assert not [one.hash for one in _SECRET if one.hash.encode() in said or one.data in said]
    assert _CHANGING.sub(b"", heard) == _CHANGING.sub(b"", other_heard)


def test_a_view_holds_between_two_processes(nodes: tuple[Served, Served], tmp_path: Path) -> None:
    """The same by the command: Bob gets what he may see, and Carol, whose view is everything, gets it all."""
    for key, expected in ((BOB, hashes(_OPEN)), (CAROL, hashes([*_OPEN, *_SECRET]))):
        lace = make_lace(tmp_path / key.verifier, key)
        policy = lace / "probe.policy"
        policy.write_text(_TAKE + _PROBES["everything"])
        done = bobbin("sync", lace, nodes[0].addresses["tcp"], "--policy", policy, "--verifier", NODE.verifier)
        assert done.code == ExitCode.OK, done
        assert set(bobbin("list", lace, "--json").text.split('"')) & hashes([*_OPEN, *_SECRET]) == expected
