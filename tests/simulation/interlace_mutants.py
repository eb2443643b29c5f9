"""Machines with one fault each: what the simulated worlds must find.

A fault is planted by replacing one method for as long as a context lasts. Each is a mistake that somebody could make:
a check that is left out, a state that is kept too long, a limit that nobody looks at.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, TypedDict, Unpack
from unittest.mock import patch

from msgspec import structs

from bobbin.datalog.canonicalise import identifier
from bobbin.interlace.assembly import Assembly
from bobbin.interlace.choice import Strategy
from bobbin.interlace.claim_index import ClaimIndex
from bobbin.interlace.dialogue import Dialogue
from bobbin.interlace.epoch import Epoch
from bobbin.interlace.events import Settled
from bobbin.interlace.learned import Learned
from bobbin.interlace.limits import Limits, Service
from bobbin.interlace.machine import InterlaceMachine
from bobbin.interlace.messages import Advertise, Advertisement, Delivered, Partition, Setup, Transfer
from bobbin.interlace.negotiation import Negotiation
from bobbin.interlace.offers import News, Offers, Questions
from bobbin.interlace.reasons import Abort
from bobbin.interlace.reconciliation import Changed, Part, Sketched, Standing
from bobbin.interlace.rounds import Round
from bobbin.interlace.setup import agree_plan, check_peer_setup
from bobbin.interlace.sketching import SketchTelling
from bobbin.interlace.ticks import Ticks
from bobbin.interlace.transfer import Account, TransferPhase
from bobbin.interlace.wants import FindAbsent, Wants
from bobbin.policy.executables import Budgets, LocalPolicy, PolicyCache
from bobbin.policy.modules import Query, Selector, receive_selector
from bobbin.policy.operands import Index, other
from bobbin.policy.plan import Plan
from bobbin.records import tai
from bobbin.simulator.batch import run_block

SEEDS_MAX: Final = 400

_open_block = InterlaceMachine._open_block
_choose = Epoch.choose
_load_sendable = Epoch.load_sendable
_opening = Offers.opening
_update = Wants.update
_changed = Assembly.changed
_hear_setup = Negotiation.hear_setup


def _send_whatever_is_stored(self: Epoch, record: str) -> bytes | None:
    return self._holdings.load(record)


def _serve_from_an_old_evaluation(self: InterlaceMachine) -> None:
    epoch = self._in_epoch()
    assert self._transfer is not None
    part = self._transfer.serve(epoch.load_sendable, epoch.terms.limits, self.config.service, stop=False)
    self._send(part)
    self._end_transfer_if_over()


def _verify_nothing(self: Learned, prefix: str, partition: Partition) -> None:
    del self, prefix, partition


def _end_at_empty_requests(self: InterlaceMachine) -> None:
    self._reach_fixed_point()


def _ask_for_what_is_here(self: Epoch, at_most: int) -> tuple[str, ...]:
    return tuple(sorted(self.wants.may_request))[:at_most]


def _ask_for_the_unadvertised(self: Epoch, at_most: int) -> tuple[str, ...]:
    chosen = _choose(self, at_most)
    return ("P." + "0" * 43 + ".H3", *chosen) if chosen else chosen


def _take_anything(self: TransferPhase, message: Transfer, limits: Limits) -> None:
    del limits
    for response in message.responses:
        self._outstanding.discard(response.record)
        if isinstance(response, Delivered) and response.record not in self._unsettled:
            self._unsettled.add(response.record)
            self._account.received += len(response.raw)
            self._arrivals.append(response)
    self.heard_last = message.last


def _always_room(self: Account, size: int, limits: Limits) -> bool:
    del self, size, limits
    return True


def _count_without_end(self: Round, limits: Limits) -> None:
    del limits
    self.iterations += 1


def _any_listing(self: Learned, records: tuple[Advertisement, ...], limits: Limits) -> None:
    del self, records, limits


def _keep_the_withdrawn(self: Learned, old: object, new: tuple[Advertisement, ...]) -> None:
    del old
    for advertisement in new:
        self._take(advertisement)


def _any_tick(self: Ticks, tick: str) -> str | None:
    try:
        self._peer_ns = max(self._start_ns, tai.parse(tick))
    except tai.TaiError as error:
        return str(error)
    return None


def _open_without_evaluating(self: InterlaceMachine) -> None:
    if self._new_selector:
        self._become_setup_again()
        return
    epoch = self._in_epoch()
    self._round.count_iteration(epoch.terms.limits)
    if self._round.iterations == 1:
        self._evaluate()
    self._open_block(confirming=False)


def _never_pass_over(self: Wants, record: str, learned: Learned) -> None:
    del self, record, learned


class _Manner(TypedDict, total=False):
    direct: bool
    strategy: Strategy


def _announce_once(self: Offers, limits: Limits, service: Service, **manner: Unpack[_Manner]) -> Advertise:
    return Advertise() if self._opened else _opening(self, limits, service, **manner)


def _withhold_some(self: Epoch, record: str) -> bytes | None:
    return None if record[2] < "C" else _load_sendable(self, record)


def _drop_what_came_before(self: TransferPhase) -> tuple[Delivered, ...]:
    arrivals, self._arrivals = tuple(self._arrivals), []
    return arrivals[1:]


def _timers_never_age(self: InterlaceMachine, monotonic_ns: int) -> None:
    from bobbin.interlace.effects import WakeAt  # noqa: PLC0415 (only this fault needs it)

    self._effects.append(WakeAt(monotonic_ns=monotonic_ns, token=self._token))


def _take_a_setup_at_any_time(self: InterlaceMachine, message: Setup) -> None:
    from bobbin.interlace.state import Phase  # noqa: PLC0415 (only this fault needs it)

    if self.phase in (Phase.ADVERTISE, Phase.IDLE):
        self._negotiate_anew()
    self._negotiation.hear_setup(message)
    self._become_hello()


def _answer_with_everything(self: Offers, questions: Questions, limits: Limits) -> Advertise:
    if not questions.lists:
        return Advertise()
    return Advertise(records=self._list(self._held, limits))


def _forget_what_moved(
    self: Wants, added: frozenset[str], removed: frozenset[str], moved: frozenset[str], find_absent: FindAbsent
) -> None:
    del moved
    _update(self, added, removed, frozenset(), find_absent)


def _stay_after_the_last_part(self: InterlaceMachine, settled: tuple[Settled, ...]) -> None:
    assert self._transfer is not None
    self._transfer.settle(settled)


def _own_limits_only(self: Limits, advertised: Mapping[str, int]) -> Limits:
    del advertised
    return self


def _believe_any_root(index: ClaimIndex, standing: Standing) -> None:
    del index, standing


def _sketch_more_than_is_offered(self: SketchTelling, count: int) -> Sketched:
    symbols = self._encoder.produce(count)
    return Sketched(first=symbols.first, raw=(symbols.sums + 1).astype("<u8").tobytes()[:8] + symbols.encode()[8:])


def _never_fall_back(self: Dialogue, part: Part | None) -> None:
    del part
    self._phase.failure = None


def _forget_what_is_gone(self: Assembly, news: News, peer: Standing) -> Advertise | None:
    block = _changed(self, news, peer)
    if block is None or not isinstance(block.part, Changed):
        return block
    return structs.replace(block, part=structs.replace(block.part, removed=()))


def _named(selector: Selector, name: str) -> Selector:
    return structs.replace(selector, lacegram=structs.replace(selector.lacegram, identifier=name))


def _take_a_module_under_any_name(
    self: PolicyCache, plan: Plan, index: Index, *, own: Selector, peer_module: bytes, query: Query | None = None
) -> LocalPolicy:
    peer = _named(receive_selector(peer_module, identifier(peer_module)), plan.operand(other(index)).module)
    return LocalPolicy(plan, index, own=own, peer=peer, query=query, budgets=self._budgets)


def _stand_in_for_a_module(self: Negotiation, message: Setup) -> None:
    try:
        _hear_setup(self, message)
    except Abort:
        if message.module is not None or self._peer_module is not None:
            raise
        own, config = self._own_setup, self._config
        check_peer_setup(message, own=own, own_party=config.own, peer_party=config.peer)
        self._peer_module = self._selector.canonical
        self._plan = agree_plan(own, message, config.parameters)
        peer = _named(self._selector, message.operand.module)
        self._policy = LocalPolicy(self._plan, own.index, own=self._selector, peer=peer, query=None, budgets=Budgets())


MUTANTS: Final[Mapping[str, tuple[type, str, Callable[..., object]]]] = {
    "sends whatever is stored": (Epoch, "load_sendable", _send_whatever_is_stored),
    "serves from an old evaluation": (InterlaceMachine, "_serve", _serve_from_an_old_evaluation),
    "verifies no root": (Learned, "_verify", _verify_nothing),
    "ends at empty requests": (InterlaceMachine, "_confirm", _end_at_empty_requests),
    "asks for what is here": (Epoch, "choose", _ask_for_what_is_here),
    "asks for what nobody advertises": (Epoch, "choose", _ask_for_the_unadvertised),
    "takes anything": (TransferPhase, "take", _take_anything),
    "has no transfer limit": (Account, "has_room", _always_room),
    "has no loop limit": (Round, "count_iteration", _count_without_end),
    "takes a listing of any size": (Learned, "check_listing", _any_listing),
    "keeps withdrawn advertisements": (Learned, "_replace", _keep_the_withdrawn),
    "takes any tick": (Ticks, "accept", _any_tick),
    "advertises without evaluating": (InterlaceMachine, "_open_iteration", _open_without_evaluating),
    "asks again for what was not available": (Wants, "pass_over", _never_pass_over),
    "announces only once": (Offers, "opening", _announce_once),
    "calls records missing that it has": (Epoch, "load_sendable", _withhold_some),
    "loses records on the way to the store": (TransferPhase, "hand_over", _drop_what_came_before),
    "obeys late timers": (InterlaceMachine, "_set_timer", _timers_never_age),
    "sets up again at any time": (InterlaceMachine, "_hear_setup", _take_a_setup_at_any_time),
    "answers with everything": (Offers, "answer", _answer_with_everything),
    "forgets what has moved": (Wants, "update", _forget_what_moved),
    "never ends a transfer": (InterlaceMachine, "_settle", _stay_after_the_last_part),
    "keeps to its own limits only": (Limits, "negotiated", _own_limits_only),
    "believes any root of claims": (Assembly, "_expect", staticmethod(_believe_any_root)),
    "makes symbols of something else": (SketchTelling, "_produce", _sketch_more_than_is_offered),
    "goes on after a fallback": (Dialogue, "_restart", _never_fall_back),
    "keeps quiet about what is gone": (Assembly, "changed", _forget_what_is_gone),
    "takes a module under any name": (PolicyCache, "prepare", _take_a_module_under_any_name),
    "runs its own module for one that never came": (Negotiation, "hear_setup", _stand_in_for_a_module),
}


@contextmanager
def planted(name: str) -> Iterator[None]:
    """A fault, for as long as the context lasts."""
    owner, method, fault = MUTANTS[name]
    with patch.object(owner, method, fault):
        yield


def seeds_to_find(name: str, seeds: range = range(SEEDS_MAX)) -> int | None:
    """The first seed whose world finds a fault; None if none of them does."""
    with planted(name):
        for seed in seeds:
            try:
                found = run_block(range(seed, seed + 1)).broken
            except Exception:  # noqa: BLE001 (a machine with a fault may fail in any way)
                found = 1
            if found:
                return seed
    return None
