"""How far an exchange has come: records and bytes of both directions, and the phase."""

from bobbin.interlace.effects import Send
from bobbin.interlace.events import Fate, Persisted, Received, Settled, Started
from bobbin.interlace.messages import Delivered, Request, Transfer, Unavailable
from bobbin.runtime.local_peer import run_local
from bobbin.runtime.progressing import Progressing
from tests.local_exchanges import Clock, plex, side


def test_progress_counts_both_directions() -> None:
    told: list[tuple[int, int]] = []
    progressing = Progressing(lambda done, total: told.append((done, total)))
    progressing.observe(Started(), ())
    assert told == [], "nothing has changed"
    progressing.observe(Received(Request(records=("a",))), (Send(Request(records=("b", "c"))),))
    progressing.observe(Started(), (Send(Transfer(responses=(Unavailable(record="a"),))),))
    progressing.observe(Persisted((Settled(record="b", fate=Fate.STORED),)), ())
    assert told == [(0, 3), (1, 3), (2, 3)]


def test_progress_of_a_whole_exchange_ends_where_all_is_done() -> None:
    told: list[tuple[int, int]] = []
    progressing = Progressing(lambda done, total: told.append((done, total)))
    run_local(side([plex("a")]), side([plex("b"), plex("c")]), clock=Clock(), observers=[progressing.observe])
    assert told[-1] == (3, 3)


def test_bytes_and_the_phase_are_followed() -> None:
    told: list[tuple[int, int]] = []
    progressing = Progressing(lambda done, total: told.append((done, total)))
    assert (progressing.phase, progressing.bytes_moved) == ("", 0)
    progressing.observe(Started(), (Send(Request()),))
    assert (progressing.phase, told) == ("request", [(0, 0)])
    came = Transfer(responses=(Delivered(record="b", raw=b"12345"), Unavailable(record="c")))
    progressing.observe(Received(came), (Send(Transfer(responses=(Delivered(record="a", raw=b"123"),))),))
    assert (progressing.phase, progressing.bytes_moved) == ("transfer", 8)
    assert told[-1] == (1, 0)


def test_a_whole_exchange_goes_through_all_phases() -> None:
    phases: list[str] = []
    progressing = Progressing(lambda done, total: phases.append(progressing.phase))  # noqa: ARG005
    one, other = plex("a"), plex("b")
    run_local(side([one]), side([other]), clock=Clock(), observers=[progressing.observe])
    assert list(dict.fromkeys(phases)) == ["setup", "hello", "advertise", "request", "transfer"]
    assert progressing.bytes_moved == len(one.raw) + len(other.raw)
