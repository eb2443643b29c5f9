"""What may rest at an honest node: held to the truth of the world, message by message."""

from collections.abc import Container, Iterable, Iterator, Mapping
from types import MappingProxyType

from bobbin.simulator.tangle_keepers import Keeper
from bobbin.simulator.tangle_people import Person
from bobbin.simulator.tangle_promises import needed_from, view_of
from bobbin.simulator.tangle_truth import Truth, account_action, is_sound
from bobbin.tangles.goals import Goal, GoalKind
from bobbin.tangles.judgement import Mark
from bobbin.tangles.message import ANY, SELF, Message, MessageId, decode


def audit(
    keeper: Keeper,
    truth: Truth,
    people: list[Person],
    *,
    modern: bool = False,
    let_go: Mapping[MessageId, Container[MessageId]] = MappingProxyType({}),
) -> Iterator[str]:
    """What is wrong with what a node holds, and with what it makes of it. ``modern``: it has spoken nothing else.

    ``let_go``: what is known to have been let go for good, by tangle, even if the node has forgotten it.
    """
    yield from keeper.findings()
    held = keeper.snapshot()
    keys = {person.account: {key.public for key in person.keys} for person in people}
    if not modern:
        yield from _add_by_power(keys, people, map(decode, held.values()))
    for id, raw in held.items():
        message = decode(raw)
        if message.id != id:
            yield f"{id} is kept under another name"
        problem = is_sound(raw)
        if problem is not None:
            yield f"{id} is kept, but {problem}"
        needs_key = message.account not in (SELF, ANY) and not message.is_moot
        if needs_key and message.sigkey not in keys.get(message.account, ()):
            yield f"{id} is kept, and was signed by a key that was never of its account"
        if not _stands_somewhere(message):
            yield f"{id} is kept, and has no proper place in any tangle"
        if message.has_data and any(id in keeper.ghosts(at) or id in let_go.get(at, ()) for at in message.places):
            yield f"{id} was let go for good, and is back with its data"
        if modern and all(keeper.mark(tangle, id) is Mark.INTEROP for tangle in message.places or (id,)):
            yield f"{id} is kept, and breaks a rule of the modern mode wherever it stands"
        yield from _audit_marks(keeper, truth, message)


def _add_by_power(keys: dict[MessageId, set[str]], people: list[Person], messages: Iterable[Message]) -> Iterator[str]:
    """Nine phases ask nobody whether a key has agreed to be added, as real peers do not: it signs for the account.

    They do ask whether whoever adds it was ever given the power to. Gives what was added by somebody else.
    """
    adders = {person.account: {person.keys[0].public} for person in people}
    left = [
        (message, account, action)
        for message in messages
        if message.is_account and (action := account_action(message)) is not None and action[0] == "add"
        for account in message.places
    ]
    while granted := [one for one in left if one[0].sigkey in adders.get(one[1], ())]:
        left = [one for one in left if one not in granted]
        for _, account, (_, key, powers, _) in granted:
            if key is not None:
                keys[account].add(key)
                if "add" in powers:
                    adders[account].add(key)
    for message, _, _ in left:
        yield f"{message.id} is kept, and adds a key by one that may not"


def _stands_somewhere(message: Message) -> bool:
    """Interop takes a message for one of its tangles; in that one its place is well formed."""
    if not message.places:
        return True
    return any(
        place.depth > 0 and place.prev and list(place.prev) == sorted(set(place.prev))
        for place in message.places.values()
    )


def _audit_marks(keeper: Keeper, truth: Truth, message: Message) -> Iterator[str]:
    for tangle in (message.id, *message.places):
        mark = keeper.mark(tangle, message.id)
        full = truth.is_full(tangle, message.id, message.sigkey)
        if mark is Mark.FULL and not full:
            yield f"{message.id} is called proven in {tangle}, and is not"
        if mark is Mark.INTEROP and full:
            yield f"{message.id} is called wrong in {tangle}, and is not"
        if mark is Mark.WAITING and full and _could_be_told(keeper, tangle, message):
            yield f"{message.id} waits in {tangle}, and nothing is missing"


def _could_be_told(keeper: Keeper, tangle: MessageId, message: Message) -> bool:
    """Whether everything that a message builds on is proven here, and every account message has its data."""
    if message.id == tangle and message.places:
        return any(keeper.mark(other, message.id) is Mark.FULL for other in message.places)
    before = () if message.id == tangle else (*message.places[tangle].prev, tangle)
    if not all(keeper.mark(tangle, id) is Mark.FULL for id in before):
        return False
    accounts: list[tuple[MessageId, tuple[MessageId, ...]]] = []
    if message.is_account:
        accounts = [(tangle, (message.id,))]
    elif message.account != ANY and not message.is_moot:
        accounts = [(message.account, message.account_tips or ())]
    for account, tips in accounts:
        structure = keeper.tangle(account)
        if not all(tip == message.id or keeper.mark(account, tip) is Mark.FULL for tip in tips):
            return False
        ids = structure.ancestors(tips) | set(tips)
        if not all((held := keeper.message(id)) is not None and held.has_data for id in ids):
            return False
    return True


def audit_upkeep(keeper: Keeper, before: Mapping[MessageId, bytes]) -> Iterator[str]:
    """What was let go although a goal asks for it, or a key that something kept was signed with."""
    messages = {id: decode(raw) for id, raw in before.items()}
    for id, message in messages.items():
        held = keeper.message(id)
        for tangle in (id, *message.places) if message.is_root else message.places:
            goal = keeper.goal(tangle)
            if not _is_goal(keeper, goal, tangle, message, messages):
                continue
            if held is None:
                yield f"{id} was let go, and the goal of {tangle} asks for it"
            elif message.has_data and not held.has_data:
                yield f"the data of {id} was let go, and the goal of {tangle} asks for it"
    for id in keeper.snapshot():
        account = messages[id].account
        if account not in (SELF, ANY):
            gone = [other for other in messages if _is_of(messages[other], account) and keeper.message(other) is None]
            if gone:
                yield f"{gone[0]} of the account that {id} was signed for was let go"


def _is_of(message: Message, account: MessageId) -> bool:
    return message.id == account or account in message.places


def _is_goal(
    keeper: Keeper, goal: Goal | None, tangle: MessageId, message: Message, messages: Mapping[MessageId, Message]
) -> bool:
    depth = message.depth_in(tangle)
    if depth is None or tangle not in messages:
        return False
    if goal is None or goal.kind is GoalKind.ALL:
        return True
    if goal.kind is GoalKind.NONE:
        return False
    depths = [found for other in messages.values() if (found := other.depth_in(tangle)) is not None]
    if goal.kind is GoalKind.NEWEST:
        return depth > max(depths) - goal.count
    least = needed_from(keeper, view_of(keeper, tangle))
    return least is not None and depth >= least
