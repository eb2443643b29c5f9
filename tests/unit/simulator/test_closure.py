"""Where exchanges must end, worked out on small cases by hand."""

from bobbin.simulator.closure import close, missing
from bobbin.simulator.policies import Choice
from tests.unit.simulator.exchanges import NOBODY, Setting, note

START = "1700000000:000000000"
SMALL = Choice(
    selector=(
        "SelectHave(P) :- Have(P), Field(P,'Name',_,'n/1').\n"
        "SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'Name',_,'n/1').\n"
    )
)


def test_what_may_still_move_is_missing() -> None:
    setting = Setting([note(1), note(2)], [note(3)])
    pair = (setting.nodes[0], setting.nodes[1])
    assert missing(pair, (NOBODY, NOBODY), START, setting.decided) == {note(1).hash, note(2).hash, note(3).hash}
    setting.nodes[1].remove(note(3).hash)
    setting.nodes[1].put(note(1))
    assert missing(pair, (NOBODY, NOBODY), START, setting.decided) == {note(2).hash}


def test_a_closure_holds_what_both_policies_let_through() -> None:
    setting = Setting([note(1), note(2)], [note(3)], choice=SMALL)
    pair = (setting.nodes[0], setting.nodes[1])
    before = {node.name: set(node.records) for node in setting.nodes}
    closed = close([(pair, (NOBODY, NOBODY))], before, setting.everything, setting.decided)
    assert closed == {"left": before["left"], "right": {note(3).hash, note(1).hash}}


def test_what_is_refused_stays_away() -> None:
    setting = Setting([note(1)], [])
    setting.nodes[1].remove(note(1).hash)
    pair = (setting.nodes[0], setting.nodes[1])
    assert missing(pair, (NOBODY, NOBODY), START, setting.decided) == set()
