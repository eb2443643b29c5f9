"""What is attached to a node."""

import asyncio
from typing import cast

from bobbin.cluster.names import Index, Term
from bobbin.cluster.raft.entries import Entry
from bobbin.runtime.cluster_attachment import Attachment, Attachments, Host
from bobbin.runtime.cluster_port import Port
from bobbin.wire.cluster.client import Request, Status

_PORT = cast(Port, None)


class _Seen(Attachment):
    def __init__(self, *, takes: bool = False) -> None:
        self.seen: list[str] = []
        self.takes = takes

    def attach(self, host: Host) -> None:
        del host
        self.seen.append("attached")

    def applied(self, entries: object, answers: object) -> None:
        del entries, answers
        self.seen.append("applied")

    def lead(self, term: Term) -> None:
        self.seen.append(f"leads in {term}")

    def follow(self) -> None:
        self.seen.append("follows")

    def restored(self, index: Index) -> None:
        self.seen.append(f"restored {index}")

    def take(self, port: Port, request: Request) -> bool:
        del port, request
        return self.takes

    def gauges(self) -> dict[str, float]:
        return {"height": 3.0}

    def counts(self) -> dict[str, int]:
        return {"done": 4}


def _entries(term: int) -> list[Entry]:
    return [Entry(Term(term), Index(1), None)]


def test_a_node_leads_once_it_has_applied_an_entry_of_its_own_term() -> None:
    seen = _Seen()
    attached = Attachments(cast(Host, None), [seen])
    attached.applied(_entries(3), [b""], None)
    attached.applied(_entries(3), [b""], Term(4))
    assert seen.seen == ["attached", "applied", "applied"]
    attached.applied(_entries(4), [b""], Term(4))
    attached.applied(_entries(4), [b""], Term(4))
    assert seen.seen[3:] == ["applied", "leads in 4", "applied"]
    attached.follow()
    attached.follow()
    assert seen.seen[-2:] == ["applied", "follows"]
    attached.restored(Index(9))
    assert seen.seen[-1] == "restored 9"


def test_a_node_that_stops_while_it_leads_does_not_lead_again_in_the_same_term() -> None:
    """Its machine goes on applying for a moment. What it has proposed may be in the log and not applied yet."""
    seen = _Seen()
    attached = Attachments(cast(Host, None), [seen])
    attached.applied(_entries(4), [b""], Term(4))
    asyncio.run(attached.close())
    attached.applied(_entries(4), [b""], Term(4))
    assert seen.seen[-2:] == ["follows", "applied"]
    attached.applied(_entries(6), [b""], Term(6))
    assert seen.seen[-1] == "leads in 6"


def test_closing_ends_the_office() -> None:
    seen = _Seen()
    attached = Attachments(cast(Host, None), [seen])
    attached.applied(_entries(1), [b""], Term(1))
    asyncio.run(attached.close())
    assert seen.seen[-1] == "follows"


def test_a_request_is_for_the_first_that_takes_it() -> None:
    attached = Attachments(cast(Host, None), [Attachment(), _Seen(), _Seen(takes=True)])
    asked = [Status(1), Status(2)]
    assert attached.take_all(_PORT, asked) == []
    assert Attachments(cast(Host, None), [Attachment(), _Seen()]).take_all(_PORT, asked) == asked
    assert (attached.gauges(), attached.counts()) == ({"height": 3.0}, {"done": 4})


class _Keeps(Attachment):
    def __init__(self, root: bytes | None) -> None:
        self._root = root

    def root(self, index: Index) -> bytes | None:
        assert index == 7
        return self._root


def test_the_root_that_is_shown_covers_what_is_kept_beside_the_machines() -> None:
    def shown(*roots: bytes | None) -> bytes:
        return Attachments(cast(Host, None), [Attachment(), *map(_Keeps, roots)]).root(b"machines", Index(7))

    assert shown() == b"machines", "nothing is kept beside them"
    assert len({shown(), shown(b"one"), shown(b"two"), shown(b"one", b"two")}) == 4
    assert shown(b"one", None) == b"", "what lags behind has no root of this place"


def test_by_itself_it_does_nothing() -> None:
    attached = Attachments(cast(Host, None), [Attachment()])
    attached.applied(_entries(1), [b""], Term(1))
    attached.restored(Index(1))
    attached.sweep()
    asyncio.run(attached.close())
    assert (attached.gauges(), attached.counts(), attached.take_all(_PORT, [Status(1)])) == (
        {},
        {},
        [Status(1)],
    )
