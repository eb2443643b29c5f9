"""docs/protocols/stream.md shows a whole exchange, byte by byte: the very bytes that two machines say."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs

from bobbin.interlace.config import Bounded
from bobbin.interlace.machine import InterlaceMachine
from bobbin.interlace.result import Result
from bobbin.records.record import build_plex
from bobbin.records.signing import SigningKey
from bobbin.runtime import introduction
from bobbin.runtime.exchange import Exchange
from bobbin.runtime.introduction import configure, introduce
from bobbin.runtime.stream_link import StreamLink
from bobbin.simulator.holdings import MemoryHoldings
from bobbin.wire import elements, greeting, interlace, proof
from bobbin.wire.proof import Role
from tests.local_exchanges import ALICE, SERVER
from tests.support.byte_streams import MemoryStream, stream_pair
from tests.support.exchanges import START_NS, SetClock, selector

_PAGE = Path(__file__).resolve().parents[2] / "docs" / "protocols" / "stream.md"
_BLOCK = re.compile(r"<!-- bytes: (\w+) -->\n\n```text\n(.*?)```\n", flags=re.DOTALL)

_RULES = (
    "SelectHave(P) :- Have(P), Field(P,'Group',_,'u').\n"
    "SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'Group',_,'u').\n"
)
_RECORD = build_plex(group="u", app="ding", name="links/1", tai_ns=START_NS, data=b"hello")


def _chance() -> Iterator[bytes]:
    """Chance that is none: 32 bytes of 1, then of 2, and so on."""
    number = 0
    while True:
        number += 1
        yield bytes([number]) * 32


async def _side(stream: MemoryStream, role: Role, key: SigningKey, holdings: MemoryHoldings) -> Result:
    introduced, _ = await introduce(stream, role=role, key=key, admit=lambda _: None)
    config = configure(introduced, role=role, selector=selector(_RULES), lifecycle=Bounded())
    # As a side that knows only what the protocol page asks for.
    config = structs.replace(config, share=None)
    machine = InterlaceMachine(config, holdings)
    link = StreamLink(stream, introduced.elements, machine)
    return await Exchange(machine, holdings, link, clock=SetClock()).run()


async def _spoken() -> dict[str, str]:
    ours, theirs = stream_pair()
    here, there = MemoryHoldings(), MemoryHoldings([_RECORD])
    results = await asyncio.gather(
        _side(ours, Role.INITIATOR, ALICE, here), _side(theirs, Role.RESPONDER, SERVER, there)
    )
    assert all(result.fixed_point for result in results)
    assert set(here.records) == {_RECORD.hash}
    return {"initiator": ours.outgoing.written.decode(), "responder": theirs.outgoing.written.decode()}


def spoken(patch: pytest.MonkeyPatch) -> dict[str, str]:
    """What each side says."""
    chance = _chance()
    patch.setattr(introduction, "token_bytes", lambda _: next(chance))
    return asyncio.run(_spoken())


def test_the_page_has_the_bytes_of_an_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = dict(_BLOCK.findall(_PAGE.read_text(encoding="utf-8")))
    assert shown == spoken(monkeypatch)


def test_the_page_has_the_bounds() -> None:
    page = _PAGE.read_text(encoding="utf-8")
    for bound in (
        proof.PROOF_BYTES_MAX,
        elements.COMMENT_BYTES_MAX,
        elements.RESOURCE_BYTES_MAX,
        interlace.SETUP_BYTES_MAX,
        interlace.HELLO_BYTES_MAX,
        int(introduction.TIMEOUT_SECONDS),
    ):
        assert f"{bound:,}" in page, bound
    assert greeting.encode_preface(bytes(32)).decode().startswith("🪢: lace/1 ")
