"""What is wanted: permitted, advertised, missing, of an accepted format, and not given up on."""

from collections.abc import Collection

from bobbin.interlace.advertise import advertisement
from bobbin.interlace.learned import Learned
from bobbin.interlace.limits import Limits
from bobbin.interlace.messages import Advertise
from bobbin.interlace.wants import Wants, format_of
from bobbin.policy.claims import ClaimedField
from bobbin.policy.operands import Origin
from tests.policy_worlds import plex

_SOURCE = Origin("source:1")
_FORMATS = frozenset({"H3"})


class _Store:
    def __init__(self) -> None:
        self.held: set[str] = set()

    def absent(self, records: Collection[str]) -> frozenset[str]:
        return frozenset(records) - self.held


def _learned(*names: str, value: str = "x") -> Learned:
    learned = Learned(2)
    _claim(learned, *names, value=value)
    return learned


def _claim(learned: Learned, *names: str, value: str = "x") -> None:
    fields = [ClaimedField("App", "0", value)]
    learned.open(Advertise(records=tuple(advertisement(name, _SOURCE, fields) for name in sorted(names))), Limits())


def _wanting(store: _Store, *names: str) -> Wants:
    wants = Wants()
    wants.update(frozenset(names), frozenset(), frozenset(), store.absent)
    wants.check()
    return wants


def test_the_list_ascends_and_is_bounded() -> None:
    """IL-199, ILC-119."""
    names = [plex(number) for number in (3, 1, 2)]
    store = _Store()
    wants, learned = _wanting(store, *names), _learned(*names)
    assert wants.choose(learned, _FORMATS, 2, store.absent) == (plex(1), plex(2))
    assert wants.choose(learned, _FORMATS, 9, store.absent) == (plex(1), plex(2), plex(3))


def test_all_four_conditions_are_looked_at_each_time() -> None:
    """IL-012, IL-040, IL-152."""
    store = _Store()
    names = [plex(number) for number in range(4)]
    wants, learned = _wanting(store, *names), _learned(*names)
    store.held.add(plex(0))
    assert wants.choose(learned, _FORMATS, 9, store.absent) == tuple(names[1:])
    wants.update(frozenset(), frozenset({plex(1)}), frozenset(), store.absent)
    assert wants.choose(learned, _FORMATS, 9, store.absent) == tuple(names[2:])
    _claim(learned, plex(3))
    assert wants.choose(learned, _FORMATS, 9, store.absent) == (plex(3),)
    assert wants.choose(learned, frozenset({"H4"}), 9, store.absent) == ()
    assert wants.may_request == set(names) - {plex(1)}


def test_a_record_that_leaves_the_store_is_missing_again() -> None:
    """IL-032, IL-239."""
    store = _Store()
    store.held.add(plex(0))
    wants, learned = _wanting(store, plex(0)), _learned(plex(0))
    assert wants.choose(learned, _FORMATS, 9, store.absent) == ()
    store.held.clear()
    wants.update(frozenset(), frozenset(), frozenset({plex(0), plex(7)}), store.absent)
    wants.check()
    assert wants.choose(learned, _FORMATS, 9, store.absent) == (plex(0),)
    wants.settle([plex(0)])
    assert wants.choose(learned, _FORMATS, 9, store.absent) == ()


def test_what_could_not_be_had_is_passed_over_until_its_advertisement_changes() -> None:
    """ILC-124."""
    store = _Store()
    wants, learned = _wanting(store, plex(0), plex(1)), _learned(plex(0), plex(1))
    wants.pass_over(plex(0), learned)
    wants.pass_over(plex(9), learned)  # never advertised: there is nothing to wait for
    assert wants.choose(learned, _FORMATS, 9, store.absent) == (plex(1),)
    _claim(learned, plex(0), plex(1), value="y")
    assert wants.choose(learned, _FORMATS, 9, store.absent) == (plex(0), plex(1))


def test_a_withdrawal_opens_the_way_too() -> None:
    """ILC-124."""
    store = _Store()
    wants, learned = _wanting(store, plex(0)), _learned(plex(0))
    wants.pass_over(plex(0), learned)
    learned.open(Advertise(records=(advertisement(plex(5), _SOURCE, ()),)), Limits())
    assert wants.choose(learned, _FORMATS, 9, store.absent) == ()
    _claim(learned, plex(0))
    assert wants.choose(learned, _FORMATS, 9, store.absent) == (plex(0),)


def test_a_new_exchange_tries_again() -> None:
    """IL-274, IL-237: what is kept of a link in memory does not keep what was given up in one exchange."""
    store = _Store()
    wants, learned = _wanting(store, plex(0)), _learned(plex(0))
    wants.pass_over(plex(0), learned)
    assert wants.choose(learned, _FORMATS, 9, store.absent) == ()
    wants.begin_exchange()
    assert wants.choose(learned, _FORMATS, 9, store.absent) == (plex(0),)


def test_the_format_of_a_name() -> None:
    assert format_of(plex(1)) == "H3"
    assert format_of("P.abc.H10") == "H10"
    assert format_of("nonsense") == "nonsense"
