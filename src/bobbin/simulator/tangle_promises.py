"""What two nodes owe each other once nothing goes wrong any more, worked out by brute force from what they hold.

Everything here goes over plain lists of messages and says what a goal asks for in the plainest words. In the modern
mode, whatever a goal asks for and the neighbour has is there, with its data. In the nine phases the same holds for the
range of depths that a side asks for by the reference's rules, but for what is hidden by all three filters of a run.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from bobbin.simulator.tangle_endpoint import TangleEndpoint
from bobbin.simulator.tangle_keepers import SPAN, Keeper
from bobbin.simulator.tangle_truth import Truth, account_action
from bobbin.tangles.bloom import Bloom, items_of
from bobbin.tangles.errors import Rule
from bobbin.tangles.goals import Goal, GoalKind
from bobbin.tangles.judgement import Mark
from bobbin.tangles.message import ANY, SELF, Message, MessageId

ROUNDS: Final = 3


class Seen(NamedTuple):
    """One message of a tangle, as a node holds it."""

    depth: int
    prev: tuple[MessageId, ...]
    has_data: bool


View = Mapping[MessageId, Seen]


def view_of(keeper: Keeper, tangle: MessageId, truth: Truth | None = None) -> View:
    """What a node has of a tangle; nothing without its root. With the truth, what the modern mode sees of it.

    That is not what breaks its rules, nor what waits and could be given to nobody: who may sign it is not known there,
    or no way leads to it.
    """
    found: dict[MessageId, Seen] = {}
    waiting: list[MessageId] = []
    for id in keeper.tangle(tangle):
        message = keeper.message(id)
        assert message is not None, "a tangle has only what is held"
        mark = keeper.mark(tangle, id)
        if truth is not None and mark is not Mark.FULL:
            if mark is Mark.INTEROP or message.is_account or not account_is_held(keeper, message, truth):
                continue
            waiting.append(id)
        place = message.places.get(tangle)
        found[id] = Seen(0, (), message.has_data) if place is None else Seen(place.depth, place.prev, message.has_data)
    for id in sorted(waiting, key=lambda id: found[id].depth):
        if not _reaches_root(id, found, tangle):
            del found[id]
    return found if tangle in found else {}


def top_of(view: View, *, modern: bool) -> int:
    """The greatest depth of a message; in nine phases, of one with data. The root counts without."""
    return max((seen.depth for seen in view.values() if modern or seen.has_data), default=0)


def needed_from(keeper: Keeper, view: View) -> int | None:
    """The least depth at which a set or dict has something that no later message supersedes; None without any."""
    left: dict[MessageId, int] = {}
    for id in sorted(view, key=lambda id: (view[id].depth, id.lower(), id.swapcase())):
        if not view[id].has_data:
            continue
        message = keeper.message(id)
        data = None if message is None else message.data
        gone = data.get("supersedes") if isinstance(data, dict) else None
        for other in gone if isinstance(gone, list) else ():
            left.pop(str(other), None)
        left[id] = view[id].depth
    return min(left.values(), default=None)


def wanted_from(keeper: Keeper, goal: Goal | None, own: View, other: View, *, modern: bool) -> int | None:
    """The least depth at which a goal asks for what the other side has; None where it asks for nothing."""
    if goal is None or goal.kind is GoalKind.NONE or not other:
        return None
    if goal.kind is GoalKind.ALL:
        return 0
    if goal.kind is GoalKind.NEWEST:
        return _newest_from(goal.count, own, other, modern=modern)
    if not own:
        return 0
    least = needed_from(keeper, own)
    if least is None:
        return 0 if modern else None
    low = max(0, least - SPAN)
    return None if not modern and top_of(other, modern=False) < low else low


def _newest_from(count: int, own: View, other: View, *, modern: bool) -> int | None:
    theirs, ours = top_of(other, modern=modern), top_of(own, modern=modern)
    if modern:
        return max(theirs, ours) - count + 1
    own_low, own_high = (0, ours) if own else (1, 0)
    if theirs < own_low:
        return None
    size = max(count, theirs - own_high)
    return max(theirs - size + 1, own_high - size + 1, 0)


def owed(own: Keeper, other: Keeper, tangle: MessageId, truth: Truth) -> list[str]:
    """What the modern mode should have brought from another node and has not.

    A message whose account nobody can prove is refused, and rightly so: whoever has come by it in nine phases may keep
    it while it waits, and has nothing to show for it. So it is owed only by whoever can prove who may sign it, or has
    once, if the two still have the account between them.
    """
    mine, theirs = view_of(own, tangle, truth), view_of(other, tangle, truth)
    low = wanted_from(own, own.goal(tangle), mine, theirs, modern=True)
    if low is None:
        return []
    ghosts = frozenset(own.ghosts(tangle))
    wrong: list[str] = []
    for id, seen in theirs.items():
        if seen.depth < low or id in ghosts:
            continue
        if not truth.is_full(tangle, id) or not _reaches_root(id, theirs, tangle):
            continue
        if own.mark(tangle, id) is not Mark.FULL and not _account_is_between(own, other, truth[id], truth):
            continue
        if id not in mine:
            wrong.append(f"{id} at depth {seen.depth} of {tangle} is not there")
        elif seen.has_data and not mine[id].has_data:
            wrong.append(f"{id} at depth {seen.depth} of {tangle} has no data there")
    return wrong


def refused_in_vain(own: TangleEndpoint, other: TangleEndpoint) -> list[MessageId]:
    """What a side has refused although the other could have known that it must: that comes again in every session.

    Of a message that is proven, everything that it comes after may have been let go since. It is still held, and only
    others know whether they have what comes before it. So it is offered, and what is held after it with it; and whoever
    has nothing of what comes before must refuse it.
    """
    keeper = other.node.keeper
    return sorted(
        id for id, why in own.refused.items() if not why.startswith(Rule.PREV_UNKNOWN) or not _is_cut_off(keeper, id)
    )


def _is_cut_off(keeper: Keeper, id: MessageId) -> bool:
    """Whether no way to a message is left in some tangle, though it was proven there, or something that leads to it."""
    message = keeper.message(id)
    for tangle in () if message is None else message.places:
        view = view_of(keeper, tangle)
        led = _leading_to(id, view) if view else {tangle}
        if tangle not in led and any(keeper.mark(tangle, before) is Mark.FULL for before in led):
            return True
    return False


def unproven(own: Keeper, other: Keeper, tangle: MessageId, truth: Truth) -> list[str]:
    """What another node has proven, and this one should have: it wants all of it, and gets what proves it."""
    goal = own.goal(tangle)
    theirs = view_of(other, tangle, truth)
    if goal is None or goal.kind is not GoalKind.ALL or not theirs:
        return []
    if not all(before in theirs for seen in theirs.values() for before in seen.prev):
        return []
    ghosts = frozenset(own.ghosts(tangle))
    wrong: list[str] = []
    for id in theirs:
        message = other.message(id)
        assert message is not None, "it has just been seen"
        if id in ghosts or other.mark(tangle, id) is not Mark.FULL or not truth.is_full(tangle, id):
            continue
        if not account_is_held(other, message, truth):
            continue
        if own.mark(tangle, id) is not Mark.FULL:
            wrong.append(f"{id} of {tangle} is {own.mark(tangle, id)}, and the neighbour has the proof")
    return wrong


def owed_in_phases(own: TangleEndpoint, other: TangleEndpoint, tangle: MessageId, truth: Truth) -> list[str]:
    """What the last run in nine phases should have brought and has not. ``own`` is the end that wants."""
    keeper = own.node.keeper
    mine, theirs = (view_of(end.node.keeper, tangle) for end in (own, other))
    low = wanted_from(keeper, keeper.goal(tangle), mine, theirs, modern=False)
    if low is None:
        return []
    let_go = _let_go(keeper.goal(tangle), {**mine, **theirs}) | frozenset(keeper.ghosts(tangle))
    filters = [own.filters[tangle, number] for number in range(ROUNDS) if (tangle, number) in own.filters]
    wrong: list[str] = []
    for id, seen in theirs.items():
        if not low <= seen.depth <= top_of(theirs, modern=False) or id in mine or id in let_go or not seen.has_data:
            continue
        message = other.node.keeper.message(id)
        assert message is not None, "it has just been seen"
        if _is_hidden(id, filters) or not _can_be_taken(keeper, message, tangle, mine, truth):
            continue
        if own.refused.get(id, "").startswith(Rule.SIGKEY_UNAUTHORISED):
            # A real peer reads what stands beside the tips as well: there the key may be gone.
            continue
        wrong.append(f"{id} at depth {seen.depth} of {tangle} is not there: {own.refused.get(id, 'never came')}")
    return wrong


def _let_go(goal: Goal | None, view: View) -> frozenset[MessageId]:
    """What a real peer lets go as soon as it has come: it wants the newest by depth, and keeps them by number."""
    if goal is None or goal.kind is not GoalKind.NEWEST:
        return frozenset()
    order = sorted(view, key=lambda id: (view[id].depth, id.lower(), id.swapcase()))
    first = max(0, len(order) - goal.count)
    gone = set(order[:first])
    # It goes by what the oldest one that is kept comes after: a forged one may come after what is deeper.
    left = [*order[first : first + 1]]
    while left:
        before = [id for id in view[left.pop()].prev if id in view and id not in gone]
        gone.update(before)
        left += before
    return frozenset(gone)


def _is_hidden(id: MessageId, filters: list[Bloom]) -> bool:
    return len(filters) == ROUNDS and all(bloom.has(items_of(number, [id]))[0] for number, bloom in enumerate(filters))


def _can_be_taken(keeper: Keeper, message: Message, tangle: MessageId, mine: View, truth: Truth) -> bool:
    """Whether a real peer would take a message: it is right, and a predecessor and the account are at hand."""
    if not truth.is_full(tangle, message.id, message.sigkey):
        return False
    place = message.places.get(tangle)
    if place is not None and not any(before in mine for before in place.prev):
        return False
    return message.account in (SELF, ANY) or message.is_moot or keeper.message(message.account) is not None


def _reaches_root(id: MessageId, view: View, tangle: MessageId) -> bool:
    """Whether a way leads from a message to the root, over messages that are there."""
    return tangle in _leading_to(id, view)


def _leading_to(id: MessageId, view: View) -> set[MessageId]:
    """A message, and all that is there of what it comes after, by whatever way."""
    left, seen = [id], {id}
    while left:
        at = left.pop()
        for before in view[at].prev:
            if before in view and before not in seen and view[before].depth < view[at].depth:
                seen.add(before)
                left.append(before)
    return seen


def account_is_held(keeper: Keeper, message: Message, truth: Truth) -> bool:
    """Whether everything is at hand that the account of a message needs to be judged."""
    return all(_is_whole(keeper, id) for id in _account_of(message, truth))


def _account_is_between(own: Keeper, other: Keeper, message: Message, truth: Truth) -> bool:
    """The same, where another node gives what it has of the account; without its root it gives nothing of it."""
    gives = other.message(message.account) is not None
    return all(_is_whole(own, id) or (gives and _is_whole(other, id)) for id in _account_of(message, truth))


def _account_of(message: Message, truth: Truth) -> set[MessageId]:
    """The account messages that a message outside of account tangles needs."""
    if message.account in (SELF, ANY) or message.is_moot:
        return set()
    return truth.ancestors(message.account, message.account_tips or ())


def _is_whole(keeper: Keeper, id: MessageId) -> bool:
    held = keeper.message(id)
    return held is not None and held.has_data


def hears(way: Sequence[Keeper], modes: Sequence[bool], message: Message, truth: Truth) -> bool:
    """Whether news must come to the end of a way, as far as its account goes. It was written at the beginning.

    In the modern mode whatever the next node may lack of the account goes along, so whoever passes it on must have it.
    In nine phases nothing is sent that is older than the stream, so the next node must know tips and key itself.
    """
    is_whole = account_is_held(way[0], message, truth)
    for keeper, is_modern in zip(way[1:], modes, strict=True):
        if is_modern:
            if not is_whole:
                return False
        elif _knows_key(keeper, message):
            is_whole = account_is_held(keeper, message, truth)
        else:
            return False
    return True


def _knows_key(keeper: Keeper, message: Message) -> bool:
    """Whether a real peer that holds the tips of a message finds its key in what it holds of the account.

    The tips alone do not tell. A run in nine phases compares accounts by the tips of all messages of a range together,
    and leaves out what comes after any of them. So whoever has a message from before a key was added and one from
    after it may get the last tip, and never the key. And what stands beside the tips is read as well.
    """
    if message.account in (SELF, ANY) or message.is_moot:
        return True
    view, tips = view_of(keeper, message.account), frozenset(message.account_tips or ())
    if not tips <= view.keys():
        return False
    read = [id for id in view if id in tips or tips.isdisjoint(_leading_to(id, view))]
    is_known = False
    for id in sorted(read, key=lambda id: (view[id].depth, id.lower(), id.swapcase())):
        held = keeper.message(id)
        action = None if held is None else account_action(held)
        if action is not None and action[1] == message.sigkey:
            is_known = action[0] == "add"
    return is_known
