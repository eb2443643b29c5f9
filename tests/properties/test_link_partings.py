"""The last word of a side whose store has failed: the peer hears it wherever it is, and takes nothing else for it."""

from collections.abc import Callable

import pytest

from bobbin.errors import PeerError
from bobbin.interlace.effects import Persist
from bobbin.interlace.events import Settled
from bobbin.interlace.limits import Service
from bobbin.interlace.machine import InterlaceMachine
from bobbin.interlace.messages import Transfer
from bobbin.interlace.reasons import Reason
from bobbin.interlace.result import Result
from bobbin.interlace.state import Awaits
from bobbin.runtime import stream_link
from bobbin.runtime.exchange import LinkEnded
from bobbin.runtime.stream_link import StreamLink
from bobbin.store.base import StoreError
from bobbin.wire.elements import Elements
from tests.policy_worlds import EVERYTHING
from tests.support.byte_streams import MemoryStream, run_story, seeded, stream_pair, whole
from tests.support.exchanges import Watched, config, record, records
from tests.support.linked import Linked


def _transfer_link() -> tuple[StreamLink, MemoryStream]:
    ours, peer = stream_pair()
    return StreamLink(ours, Elements(has_preface=False), InterlaceMachine(config(), Watched()), quiet_seconds=0), peer


class _Full(Watched):
    """Holdings that cannot store."""

    def persist(self, effect: Persist) -> tuple[Settled, ...]:
        del effect
        raise StoreError("no majority answers", retry=True)


@pytest.mark.parametrize("count", [1, 400], ids=["few", "many"])
@pytest.mark.parametrize("cut", [whole, seeded(7)], ids=["at once", "in pieces"])
def test_a_peer_hears_that_the_store_here_has_failed(count: int, cut: Callable[[int], int]) -> None:
    """Also one that has so much to say that it does not listen at that moment."""

    async def work() -> tuple[Result, Result]:
        service = Service(chunk_records_max=2)
        here, there = Watched(records(count)), _Full()
        left = config(EVERYTHING, service=service)
        right = config(EVERYTHING, initiator=False, cursor_key="k")
        linked = Linked(left, right, here, there, cut=cut, room_bytes=1_000)
        results = await linked.run()
        assert "save" not in there.doings, "nobody waits for a cursor in a store that has failed"
        return results

    ours, theirs = run_story(work)
    assert (ours.reason, theirs.reason) == (Reason.PEER_STORE, Reason.STORE)
    assert "cannot store" in ours.detail
    assert "majority" not in ours.detail, "what exactly has failed is nobody else's business"


def test_a_last_word_counts_only_at_the_end() -> None:
    async def work() -> None:
        link, peer = _transfer_link()
        await peer.write(b"# ended: store-failure\n" + record(1).raw + b"\n")
        await peer.close()
        assert isinstance(await link.receive(Awaits.TRANSFER), Transfer)
        with pytest.raises(LinkEnded):
            await link.receive(Awaits.SETUP)

    run_story(work)


def test_a_last_word_is_heard_inside_a_phase_that_has_no_end() -> None:
    async def work() -> None:
        link, peer = _transfer_link()
        await peer.write(record(1).raw + b"# ended: store-failure\n")
        await peer.close()
        assert isinstance(await link.receive(Awaits.TRANSFER), Transfer)
        with pytest.raises(PeerError) as refused:
            await link.receive(Awaits.TRANSFER)
        assert refused.value.code == Reason.PEER_STORE

    run_story(work)


def test_a_last_word_is_heard_by_a_side_that_only_writes() -> None:
    async def work() -> None:
        link, peer = _transfer_link()
        await peer.write(b"# ended: store-failure\n")
        await peer.close()
        with pytest.raises(PeerError) as refused:
            await link.send(Transfer(last=True))
        assert refused.value.code == Reason.PEER_STORE
        with pytest.raises(PeerError) as refused:
            await link.receive(Awaits.TRANSFER)
        assert refused.value.code == Reason.PEER_STORE

    run_story(work)


def test_what_came_before_a_last_word_is_left_for_whoever_receives() -> None:
    async def work() -> None:
        link, peer = _transfer_link()
        await peer.write(record(1).raw + b"\n# ended: store-failure\n")
        await peer.close()
        with pytest.raises(LinkEnded):
            await link.send(Transfer(last=True))
        assert isinstance(await link.receive(Awaits.TRANSFER), Transfer)
        with pytest.raises(PeerError) as refused:
            await link.receive(Awaits.SETUP)
        assert refused.value.code == Reason.PEER_STORE

    run_story(work)


def test_a_last_word_that_the_peer_does_not_take_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_link, "PARTING_SECONDS", 0.01)

    async def work() -> None:
        ours, _ = stream_pair(room_bytes=1)
        link = StreamLink(ours, Elements(has_preface=False), InterlaceMachine(config(), Watched()))
        await link.close(Reason.STORE)
        assert ours.is_closed

    run_story(work)


def test_a_last_word_that_came_with_something_else_is_heard_by_a_side_that_writes() -> None:
    async def work() -> None:
        link, peer = _transfer_link()
        await peer.write(record(1).raw + b"# ended: store-failure\n")
        await peer.close()
        await link.receive(Awaits.TRANSFER)
        with pytest.raises(PeerError) as caught:
            await link.send(Transfer(last=True))
        assert caught.value.code == Reason.PEER_STORE

    run_story(work)


def test_what_something_comes_behind_is_no_last_word() -> None:
    async def work() -> None:
        link, peer = _transfer_link()
        await peer.write(b"# ended: store-failure\n" + record(1).raw[:30])
        await peer.close()
        with pytest.raises((PeerError, LinkEnded)) as caught:
            await link.receive(Awaits.TRANSFER)
        assert getattr(caught.value, "code", None) != Reason.PEER_STORE

    run_story(work)
