"""What a person reads when an exchange has ended before its fixed point, or was asked for wrongly: word for word."""

from collections.abc import Callable
from typing import Unpack

import pytest
from msgspec import structs

from bobbin.datalog.local.budget import LimitExceeded
from bobbin.errors import BobbinError, ResourceError
from bobbin.interlace import merkle
from bobbin.interlace.config import Bounded, Open
from bobbin.interlace.events import (
    Cancelled,
    Event,
    LinkClosed,
    OperandChanged,
    Persisted,
    PersistFailed,
    Started,
    Undecodable,
    Unsendable,
)
from bobbin.interlace.limits import SECOND_NS, Limits, Service
from bobbin.interlace.messages import Advertise, Hello, Partition, Request, Transfer, Unavailable
from bobbin.interlace.partitions import Partitions
from bobbin.interlace.reasons import Reason
from bobbin.interlace.schema import Schema
from bobbin.interlace.setup import Party
from bobbin.interlace.statement import parse
from bobbin.interlace.ticks import Ticks
from bobbin.policy.operands import Origin
from tests.policy_worlds import ALICE, BOB
from tests.support.exchanges import (
    BY_GROUP,
    Against,
    Changes,
    Watched,
    config,
    delivered,
    record,
    records,
    selector,
)

_TAI = "1640995200:000000000"
_ZEROS = "0" * 43
_ROOT = b"r" * 32
_SIGNED = Changes(own=Party(verifier=ALICE), peer=Party(verifier=BOB))
_SMALL = Limits(max_advertisement_records_listed=3, max_partition_summaries=2, max_narrowing_depth=1)


def _detail(against: Against) -> str:
    assert against.result is not None, "it has ended"
    return against.result.detail


def _set_up(
    *, module: str | None = None, origin: str | None = None, same_index: bool = False, **changes: Unpack[Changes]
) -> str:
    against = Against(config(**changes))
    against.give(Started())
    setup = against.setup()
    operand = setup.operand
    operand = structs.replace(operand, module=module or operand.module, origin=Origin(origin or operand.origin))
    index = (1 - setup.index) if same_index else setup.index
    bare = module is not None
    against.say(structs.replace(setup, operand=operand, index=index, module=None if bare else setup.module))
    return _detail(against)


def _greet(alter: Callable[[Hello], Hello], rules: str = BY_GROUP, **changes: Unpack[Changes]) -> str:
    against = Against(config(rules, **changes))
    against.to_hello()
    against.say(alter(against.hello()))
    return _detail(against)


def _advertise(*blocks: Advertise, limits: Limits | None = None, service: Service | None = None, held: int = 0) -> str:
    against = Against(config(limits=limits or Limits(), service=service or Service()), Watched(records(held)))
    against.to_loop()
    for block in blocks:
        against.say(block)
    return _detail(against)


def _transfer(*parts: Transfer, limits: Limits | None = None, asked: int = 0) -> str:
    against = Against(config(limits=limits or Limits()), Watched(records(asked, first=50)))
    against.to_transfer([record(1)], [one.hash for one in records(asked, first=50)])
    for part in parts:
        against.say(part)
    return _detail(against)


def _summarised() -> str:
    against = Against(config(limits=_SMALL), Watched(records(4)))
    against.to_hello()
    against.say(against.hello())
    return _detail(against)


def _partition(prefix: str, count: int = 1, root: bytes = _ROOT) -> Partition:
    return Partition(prefix=prefix, count=count, root=root)


def _narrowed(children: tuple[Partition, ...]) -> str:
    """The peer announces a partition that is too large to list; we narrow it, and this is the answer."""
    limits = Limits(max_advertisement_records_listed=3)
    return _advertise(
        Advertise(partitions=(_partition("00", 4),)), Advertise(), Advertise(partitions=children), limits=limits
    )


def _listed(*some: int) -> str:
    """The peer announces one partition; we ask for its list, and these records are the answer."""
    against = Against(config())
    against.to_loop()
    claims = [against.claim(record(number)) for number in some]
    prefix = record(1).hash[2:4]
    against.say(Advertise(partitions=(_partition(prefix, 1),)))
    against.say(Advertise())
    against.say(Advertise(records=tuple(sorted(claims, key=lambda one: one.record))))
    return _detail(against)


def _phase(event: Event) -> str:
    against = Against(config())
    against.to_request()
    against.give(event)
    return _detail(against)


def _timed_out() -> str:
    against = Against(config())
    against.to_request()
    against.fire()
    return _detail(against)


def _looped() -> str:
    against = Against(config(limits=Limits(max_loop_iterations=1)))
    against.to_transfer([record(1)])
    against.say(delivered(record(1)))
    return _detail(against)


def _operand_anew(lifecycle: Bounded | Open) -> str:
    against = Against(config(lifecycle=lifecycle))
    against.to_loop()
    against.say(Advertise(partitions=(_partition("00"),)))
    against.say(against.setup())
    return _detail(against)


def _goes_on() -> str:
    against = Against(config(lifecycle=Open()))
    against.to_request()
    against.give(OperandChanged(selector(BY_GROUP)))
    against.say(Request())
    against.say(Advertise())
    against.say(Advertise())
    return _detail(against)


def _twice() -> object:
    against = Against(config())
    against.give(Started())
    return against.give(Started())


def _changed() -> object:
    against = Against(config())
    against.to_loop()
    return against.give(OperandChanged(selector(BY_GROUP)))


def _failing(error: Exception) -> str:
    holdings = Watched()

    def fail() -> None:
        raise error

    holdings.before_evaluate = fail
    against = Against(config(), holdings)
    against.to_hello()
    against.say(against.hello())
    return _detail(against)


def _phase_request() -> str:
    against = Against(config())
    against.to_request()
    against.say(Request(records=(record(1).hash, record(1).hash)))
    return _detail(against)


def _out_of_phase() -> str:
    against = Against(config())
    against.to_loop()
    against.say(Request())
    return _detail(against)


_MISSING = f"R.{_ZEROS}"

_DETAILS: list[tuple[Callable[[], str], str]] = [
    (lambda: _set_up(origin="local"), "the peer's operand claims the local origin"),
    (lambda: _set_up(origin=ALICE), (f"the peer's operand has the origin {ALICE}, without proof")),
    (
        lambda: _set_up(origin="source:0", **_SIGNED),
        (f"the peer's operand has the origin source:0, and proven is {BOB}"),
    ),
    (
        lambda: _set_up(origin="source:7"),
        "the peer's operand has the origin source:7, and this link has source:1 for it",
    ),
    (lambda: _set_up(same_index=True), "the peer's operand has the index 0, as ours has"),
    (lambda: _set_up(module="R.x"), "not a module identifier (R.<43 symbols>): 'R.x'"),
    (lambda: _set_up(module=_MISSING), (f"the peer's module R.{_ZEROS} was not supplied and is not known here")),
    (
        lambda: _greet(lambda hello: structs.replace(hello, signer=ALICE)),
        (f"the peer names the signer {ALICE}, and nothing is proven"),
    ),
    (
        lambda: _greet(lambda hello: structs.replace(hello, signer=ALICE), **_SIGNED),
        (f"the peer names the signer {ALICE}, and proven is {BOB}"),
    ),
    (lambda: _greet(lambda hello: hello, pinned=BOB), (f"the peer is to be {BOB}, and this is a peer without signer")),
    (
        lambda: _greet(lambda hello: hello, own=_SIGNED["own"], peer=_SIGNED["peer"], pinned=ALICE),
        (f"the peer is to be {ALICE}, and this is {BOB}"),
    ),
    (
        lambda: _greet(lambda hello: structs.replace(hello, signer=None), **_SIGNED),
        (f"the peer's operand has the origin {BOB}, and its hello does not name this signer"),
    ),
    (
        lambda: _greet(lambda hello: structs.replace(hello, plan="E.x")),
        "the plan here is E.tzlweXqbWwlrcQxOOk1yAGeEHXIbfZBOgoz2HYUWl9h, and the peer's is E.x",
    ),
    (
        lambda: _greet(lambda hello: structs.replace(hello, schema=Schema())),
        "the rules read fields that are not advertised: Group",
    ),
    (
        lambda: _greet(lambda hello: structs.replace(hello, tai="1640995501:000000000")),
        "the clocks differ by 301 seconds; 300 are accepted",
    ),
    (
        lambda: _greet(lambda hello: structs.replace(hello, tai="now")),
        "not a TAI time (ten digits, a colon, nine digits): 'now'",
    ),
    (
        lambda: _greet(lambda hello: structs.replace(hello, tick_interval_ns=0)),
        "a tick interval has from 1 to 86400000000000 nanoseconds here, not 0",
    ),
    (
        lambda: _greet(lambda hello: structs.replace(hello, formats=frozenset({"H9", "H8"}))),
        "no record format is accepted by both sides; the peer's: H8, H9",
    ),
    (
        lambda: _greet(lambda hello: structs.replace(hello, limits={"phase_timeout": 0})),
        "the limit phase_timeout lies between 1 and 18446744073709551615, not at 0",
    ),
    (lambda: _advertise(Advertise(lists=("00",))), "the first block of an iteration asks about partitions"),
    (
        lambda: _advertise(Advertise(records=(Against(config()).claim(record(1)),), partitions=(_partition("00"),))),
        "the first block of an iteration has both records and summaries",
    ),
    (lambda: _advertise(Advertise(partitions=(_partition("000"),))), "a partition starts with 2 symbols: '000'"),
    (
        lambda: _advertise(Advertise(partitions=(_partition("00", 0, merkle.EMPTY),))),
        "the partition '00' is empty and was sent",
    ),
    (
        lambda: _advertise(Advertise(partitions=tuple(_partition(f"0{number}") for number in range(3))), limits=_SMALL),
        "the peer sends more than 2 partition summaries",
    ),
    (
        lambda: _advertise(Advertise(records=tuple(Against(config()).claim(one) for one in records(4))), limits=_SMALL),
        "the peer lists 4 advertisement records at once; 3 are the most",
    ),
    (
        lambda: _advertise(
            Advertise(records=tuple(Against(config()).claim(one) for one in records(4))), service=Service(claims_max=3)
        ),
        "the peer advertises more than 3 records",
    ),
    (
        lambda: _advertise(
            Advertise(partitions=(_partition("00", 9),)),
            Advertise(),
            Advertise(partitions=(_partition("000", 9),)),
            limits=_SMALL,
        ),
        "the partition '000' has 9 records and cannot be narrowed",
    ),
    (lambda: _narrowed((_partition("110"),)), "nobody asked for the partition '110'"),
    (lambda: _narrowed((_partition("000", 0, merkle.EMPTY),)), "the partition '000' is empty and was sent"),
    (
        lambda: _narrowed((_partition("000", 3),)),
        "the partition '00' was announced with 4 records, its children have 3",
    ),
    (lambda: _listed(2), (f"nobody asked for the advertisement of {record(2).hash}")),
    (
        lambda: _listed(1),
        ("the partition 'dz' was announced with 1 records under another root than the 1 that were listed"),
    ),
    (
        lambda: _advertise(Advertise(partitions=(_partition("00"),)), Advertise(lists=("0",))),
        "a prefix has at least 2 symbols, not 1",
    ),
    (
        lambda: _advertise(Advertise(partitions=(_partition("00"),)), Advertise(narrows=("000",)), limits=_SMALL),
        "'000' lies below 1 steps of narrowing",
    ),
    (
        lambda: _advertise(
            Advertise(partitions=(_partition("00"),)),
            Advertise(lists=tuple(f"0{number}" for number in range(5))),
            limits=_SMALL,
        ),
        "the peer has asked 5 times about partitions",
    ),
    (
        lambda: _advertise(Advertise(partitions=(_partition("00"),)), Advertise(), Advertise(), Advertise()),
        ("the partition '00' was announced with 1 records under another root than the 0 that were listed"),
    ),
    (
        lambda: _advertise(
            Advertise(partitions=(_partition("00"),)),
            Advertise(lists=tuple(sorted({one.hash[2:4] for one in records(5)}))),
            limits=Limits(max_advertisement_records_listed=3),
            held=5,
        ),
        "5 advertisement records are to be listed; 3 are the most",
    ),
    (_summarised, "more than 2 partition summaries would be sent"),
    (_phase_request, "a request list ascends and names no record twice"),
    (lambda: _transfer(delivered(record(2))), f"{record(2).hash} is not an outstanding request"),
    (
        lambda: _transfer(Transfer(responses=(Unavailable(record=record(2).hash),))),
        f"{record(2).hash} is not an outstanding request",
    ),
    (
        lambda: _transfer(delivered(record(1)), limits=Limits(max_total_transferred_bytes=10)),
        "one round moves at most 10 record bytes",
    ),
    (
        lambda: _transfer(limits=Limits(max_total_transferred_bytes=10), asked=1),
        "one round moves at most 10 record bytes",
    ),
    (_out_of_phase, "Request came in the phase advertise, where it has no place"),
    (_timed_out, "the phase request was not over after 30 seconds"),
    (_looped, "after 1 iterations there is still something to do"),
    (lambda: _phase(Cancelled()), "this side ended the exchange"),
    (lambda: _phase(LinkClosed()), "the link ended in the phase request"),
    (lambda: _phase(Undecodable(Reason.MALFORMED_BLOCK, "it is none")), "it is none"),
    (
        lambda: _phase(
            Unsendable(reason=Reason.OVERSIZED_BLOCK, detail="it is too large", limit="max_fact_block_size")
        ),
        "it is too large",
    ),
    (lambda: _operand_anew(Bounded()), "a new operand came where the exchange keeps the old ones"),
    (lambda: _operand_anew(Open()), "a new operand came where the exchange keeps the old ones"),
    (_goes_on, "the peer goes on although a new operand was announced"),
    (lambda: _failing(LimitExceeded("steps_max", "too many steps")), "too many steps"),
    (lambda: _failing(ResourceError("the disk is full", retry=False)), "the disk is full"),
]


_TEXTS: list[tuple[Callable[[], object], str]] = [
    (lambda: config(formats=frozenset()), "an exchange accepts at least one record format"),
    (lambda: config(lifecycle=Bounded(ticks=-1)), "a number of ticks to wait for is not negative"),
    (lambda: Party(verifier=None, label=Origin(ALICE)), (f"a side without proof has a label, not a verifier: {ALICE}")),
    (lambda: Limits(phase_timeout=0), "the limit phase_timeout lies between 1 and 18446744073709551615"),
    (lambda: Service(request_records_max=0), "request_records_max lies between 1 and 18446744073709551615"),
    (
        lambda: Service(tick_interval_ns=2, tick_interval_ns_max=1),
        "the tick interval is longer than the longest one that is accepted",
    ),
    (lambda: Partitions(0), "a partition prefix has at least one character, not 0"),
    (lambda: Partitions(2).summary("0"), "a partition prefix has at least 2 characters here: '0'"),
    (lambda: Ticks(_TAI, 0), "a tick interval has at least one nanosecond, not 0"),
    (_twice, "an exchange starts once"),
    (_changed, "a bounded exchange keeps its operand"),
    (lambda: Against(config()).give(Persisted(())), "nothing is being stored"),
    (lambda: Against(config()).give(PersistFailed("x")), "nothing is being stored"),
    (lambda: parse(b""), "this is no completion statement: it has no line InterlaceStatement"),
    (lambda: parse(b"x"), "this is no completion statement: line 1 of a fact block: it does not end with LF"),
]
_TICKS = [
    ("1640995190:000000000", "the tick 1640995190:000000000 lies before the start 1640995200:000000000"),
    (
        "1640995205:000000000",
        "the tick 1640995205:000000000 is not a whole number of intervals of 10000000000 ns after the start",
    ),
    ("1640995210:000000000", "the tick 1640995210:000000000 goes back behind 1640995220:000000000"),
    ("soon", "not a TAI time (ten digits, a colon, nine digits): 'soon'"),
]


@pytest.mark.parametrize(("run", "text"), _DETAILS)
def test_what_is_said_of_an_end(run: Callable[[], str], text: str) -> None:
    assert run() == text


@pytest.mark.parametrize(("make", "text"), _TEXTS)
def test_what_is_said_of_a_mistake(make: Callable[[], object], text: str) -> None:
    with pytest.raises(BobbinError) as refused:
        make()
    assert str(refused.value) == text


@pytest.mark.parametrize(("tick", "text"), _TICKS)
def test_what_is_said_of_a_tick(tick: str, text: str) -> None:
    ticks = Ticks(_TAI, 10 * SECOND_NS)
    assert ticks.accept("1640995220:000000000") is None
    assert ticks.accept(tick) == text
