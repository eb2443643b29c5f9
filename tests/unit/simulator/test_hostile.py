"""Every vice twists something, keeps to the form of messages, and is survived by an honest machine."""

from random import Random

import pytest

from bobbin.interlace.advertise import advertisement
from bobbin.interlace.choice import Strategy
from bobbin.interlace.messages import Advertise
from bobbin.simulator.hostile import VICES, Hostile
from bobbin.simulator.hostile_sketches import TWISTS
from bobbin.simulator.policies import Choice
from tests.unit.simulator.exchanges import Setting, note

GROUP = Choice(
    selector=(
        "SelectHave(P) :- Have(P).\nSelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'Group',_,'u').\n"
    )
)
RECORDS = [note(number) for number in range(1, 8)]
ORDERED = sorted(RECORDS, key=lambda record: record.hash)


@pytest.mark.parametrize("vice", sorted(VICES))
def test_an_honest_machine_ends_and_keeps_only_valid_records(vice: str) -> None:
    twisted = 0
    for seed in range(6):
        setting = Setting(RECORDS[:2], RECORDS[1:6], choice=GROUP)
        setting.everything.update({record.hash: record for record in RECORDS})
        hostile = Hostile(Random(seed), RECORDS, [vice])
        shares = (1, 2) if vice in TWISTS else (None, None)
        setting.connect(tamper=hostile, strategy=Strategy.SKETCH, shares=shares)
        setting.run()
        end = setting.ends[0]
        assert end.result is not None, vice
        assert set(setting.nodes[0].records) <= {record.hash for record in RECORDS}
        twisted += hostile.twisted
    needs_more = {"misstated partitions", "spoilt bytes"}  # summaries, and a stream of bytes
    assert twisted > 0 or vice in needs_more


def test_a_listing_stays_in_order_without_repetition() -> None:
    listed = 0
    for vice in ("invented records", "overload", "lies about fields", "withdrawals"):
        for seed in range(10):
            hostile = Hostile(Random(seed), RECORDS, [vice])
            honest = Advertise(records=tuple(advertisement(record.hash, hostile.source, ()) for record in ORDERED))
            for message in (said for _ in range(5) for said in hostile(honest)):
                assert isinstance(message, Advertise)
                names = [ad.record for ad in message.records]
                assert names == sorted(set(names))
                listed += message != honest
    assert listed > 20


def test_bytes_are_spoilt_only_by_those_who_do_that() -> None:
    raw = b"some bytes" * 5
    assert Hostile(Random(1), RECORDS, ["silence"]).spoil(raw) == raw
    spoiler = Hostile(Random(1), RECORDS, ["spoilt bytes"])
    assert any(spoiler.spoil(raw) != raw for _ in range(100))


def test_vices_are_drawn_from_the_seed() -> None:
    assert Hostile(Random(4), RECORDS).names == Hostile(Random(4), RECORDS).names
    assert {name for seed in range(200) for name in Hostile(Random(seed), RECORDS).names} == set(VICES)


def test_an_invented_record_is_nobodys() -> None:
    hostile = Hostile(Random(2), RECORDS)
    names = {hostile.invent() for _ in range(50)}
    assert len(names) == 50
    assert any(name.endswith(".H9") for name in names)
