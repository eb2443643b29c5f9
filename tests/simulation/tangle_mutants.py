"""Machines and stores of tangles with one fault each: what the simulated worlds must find.

A fault is planted by replacing one function for as long as a context lasts. Each is a mistake that somebody could make,
and many of them are mistakes that the reference makes.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final
from unittest.mock import patch

from msgspec import structs

from bobbin.simulator import tangle_keepers
from bobbin.simulator.batch import run_block
from bobbin.tangles import judgement, modern, validation
from bobbin.tangles.accounts import Accounts, Act, KeyRing
from bobbin.tangles.bloom import Bloom, items_of
from bobbin.tangles.exchange import Accepted, Credential, Exchange
from bobbin.tangles.judgement import Judgement, Mark, Spot, Standing
from bobbin.tangles.memory import MemoryStore
from bobbin.tangles.message import Message, MessageId
from bobbin.tangles.modern_index import DepthIndex
from bobbin.tangles.phases import IdsAndFilter, MessagesAndFilter, WantAndFilter
from bobbin.tangles.ranges import EMPTY, Range, WantNewest, Wish, exact_want_range
from bobbin.tangles.session import Session
from bobbin.tangles.session_effects import Commit
from bobbin.tangles.session_events import Committed
from bobbin.tangles.session_memory import ModernView, perform
from bobbin.tangles.session_news import News
from bobbin.tangles.session_state import ROUND_OF, Channel, Run
from bobbin.tangles.tangle import Tangle
from bobbin.tangles.upkeep import Sweep, sweep

SEEDS_MAX: Final = 400

_accept = Exchange.accept
_finish = Session._finish
_put = DepthIndex.put


def _check_nothing(*subjects: object) -> None:
    del subjects


def _judge_only(self: Standing, message: Message, tangle: MessageId) -> Judgement:
    return self.judge(message, tangle)


def _take_what_is_wrong(self: Standing, message: Message, tangle: MessageId) -> Judgement:
    from bobbin.tangles.judgement import FULL  # noqa: PLC0415 (only this fault needs it)

    judged = self.judge(message, tangle)
    return FULL if judged.rule is not None else judged


def _offer_what_others_refuse(
    self: Standing, message: Message, tangle: MessageId, missing: frozenset[Spot]
) -> Judgement:
    del self, message, tangle
    return Judgement(Mark.WAITING, missing=missing)


def _every_power(self: KeyRing, key: str, power: Act) -> bool:
    del self, key, power
    return True


def _every_power_at_real_peers(self: Accounts, account: MessageId, key: str) -> frozenset[str]:
    del self, account, key
    return frozenset(Act)


def _no_trails(
    structure: Tangle, ids: Collection[MessageId], is_held: Callable[[MessageId], bool]
) -> list[tuple[MessageId, bool]]:
    del is_held
    return [(id, False) for id in structure.topological() if id in ids]


def _everything_again(
    structure: Tangle, ids: Collection[MessageId], is_held: Callable[[MessageId], bool]
) -> list[tuple[MessageId, bool]]:
    """All concurrent branches go along, as the reference has it."""
    del is_held
    return [(piece.id, piece.erased) for piece in structure.slice(ids)] if ids else []


def _count_the_erased_as_held(
    self: DepthIndex, id: MessageId, depth: int, *, has_data: bool, credential: Credential
) -> None:
    del has_data
    _put(self, id, depth, has_data=True, credential=credential)


def _no_accounts(self: Exchange, credentials: Iterable[Credential]) -> list[MessageId]:
    del self, credentials
    return []


def _no_news(self: News, ids: Iterable[MessageId]) -> list[tuple[MessageId, list[bytes]]]:
    del self, ids
    return []


def _forget_what_was_told(self: News, ids: Iterable[MessageId]) -> None:
    del self, ids


def _never_bulky(self: News, account: list[Message]) -> bool:
    del self, account
    return False


def _newest_of_the_own(local: Range, remote: Range, wish: Wish) -> Range:
    if isinstance(wish, WantNewest) and not local.is_empty:
        return Range(local.high + 1, remote.high) if remote.high > local.high else EMPTY
    return exact_want_range(local, remote, wish)


def _only_the_last_round(
    self: Session, run: Run, frame: WantAndFilter | IdsAndFilter | MessagesAndFilter
) -> list[MessageId]:
    ids = self._exchange.missing(frame.id, ROUND_OF[frame.phase], run.remote_want, frame.bloom)
    run.sendable = dict.fromkeys(ids)
    return ids


def _take_a_filter_for_a_list(
    self: Exchange, tangle: MessageId, round_number: int, depths: Range, bloom: Bloom
) -> list[MessageId]:
    ids = [] if depths.is_empty else self.in_range(tangle, depths)
    return [id for id, has in zip(ids, bloom.has(items_of(round_number, ids)), strict=True) if has]


def _drop_the_deep(self: Exchange, tangle: MessageId, texts: Iterable[bytes], want: Range) -> Accepted:
    accepted = _accept(self, tangle, texts, want)
    kept = tuple(one for one in accepted.messages if one.is_account or (one.depth_in(tangle) or 0) < want.high)
    return structs.replace(accepted, messages=kept)


def _keep_the_run(self: Session, tangle: MessageId, channel: Channel, run: Run, *rest: object) -> None:
    _finish(self, tangle, channel, run, *rest)  # type: ignore[arg-type]
    channel.runs[run.role] = run


def _stop_at_the_first_wrong_one(store: MemoryStore, commit: Commit) -> Committed:
    added: tuple[MessageId, ...] = ()
    for message in commit.messages:
        done = perform(store, structs.replace(commit, messages=(message,)))
        added += done.added
        if done.refused:
            return structs.replace(done, added=added)
    return Committed(token=commit.token, added=added)


def _keep_every_account(store: MemoryStore, commit: Commit) -> Committed:
    return perform(store, structs.replace(commit, vouched=frozenset()))


def _lose_the_last_one(store: MemoryStore, commit: Commit) -> Committed:
    done = perform(store, structs.replace(commit, messages=commit.messages[:-1]))
    return structs.replace(done, added=(*done.added, commit.messages[-1].id))


def _erase_by_a_copy(store: MemoryStore, commit: Commit) -> Committed:
    for message in commit.messages:
        held = store.message(message.id)
        if held is not None and held.has_data and not message.has_data:
            store.erase(message.id)
    return perform(store, commit)


def _let_the_keys_go(store: MemoryStore, messages: Iterable[Message], goals: object, *, span: int) -> Sweep:
    held = list(messages)
    swept = sweep(store, held, goals, span=span)  # type: ignore[arg-type]
    keys = [message.id for message in held if message.is_account and not message.is_root]
    return structs.replace(swept, deleted=tuple(dict.fromkeys((*swept.deleted, *keys))))


def _tell_of_no_ghost(self: ModernView, tangle: MessageId) -> tuple[MessageId, ...]:
    del self, tangle
    return ()


MUTANTS: Final[Mapping[str, tuple[object, str, Callable[..., object]]]] = {
    "looks at no signature": (validation, "check_signature", _check_nothing),
    "looks at no data": (validation, "check_data", _check_nothing),
    "validates nothing in the modern mode": (Standing, "admit", _judge_only),
    "takes what breaks a rule": (Standing, "admit", _take_what_is_wrong),
    "offers what others must refuse": (Standing, "_judge_unproven", _offer_what_others_refuse),
    "asks nobody for consent": (judgement, "_check_consent", _check_nothing),
    "lets everybody change keys": (KeyRing, "has_power", _every_power),
    "lets every key add others in nine phases": (Accounts, "interop_powers", _every_power_at_real_peers),
    "looks at no place and no key": (judgement, "check_standing", _check_nothing),
    "sends messages that hang in the air": (modern, "with_trails", _no_trails),
    "sends every branch again": (modern, "with_trails", _everything_again),
    "counts the erased as held": (DepthIndex, "put", _count_the_erased_as_held),
    "sends no account messages": (Exchange, "account_messages_of", _no_accounts),
    "tells no news": (News, "came", _no_news),
    "tells an account again with every message": (News, "tell_accounts", _forget_what_was_told),
    "sends news of any length": (News, "_is_bulky", _never_bulky),
    "wants only what is above its own top": (modern, "exact_want_range", _newest_of_the_own),
    "sends the last round only": (Session, "_find_missing", _only_the_last_round),
    "takes a filter for a list": (Exchange, "missing", _take_a_filter_for_a_list),
    "drops what is deepest": (Exchange, "accept", _drop_the_deep),
    "keeps a finished run": (Session, "_finish", _keep_the_run),
    "stops at the first wrong message": (tangle_keepers, "perform", _stop_at_the_first_wrong_one),
    "stores accounts for what it refuses": (tangle_keepers, "perform", _keep_every_account),
    "says that it has stored what it has not": (tangle_keepers, "perform", _lose_the_last_one),
    "erases by a copy without data": (tangle_keepers, "perform", _erase_by_a_copy),
    "lets go the keys of what it keeps": (tangle_keepers, "sweep", _let_the_keys_go),
    "tells nobody of its ghosts": (ModernView, "ghosts", _tell_of_no_ghost),
}


@contextmanager
def planted(name: str) -> Iterator[None]:
    """A fault, for as long as the context lasts."""
    owner, attribute, fault = MUTANTS[name]
    with patch.object(owner, attribute, fault):
        yield


def seeds_to_find(name: str, seeds: range = range(SEEDS_MAX)) -> int | None:
    """The first seed whose world finds a fault; None if none of them does."""
    with planted(name):
        for seed in seeds:
            if run_block(range(seed, seed + 1), world="tangles").broken:
                return seed
    return None
