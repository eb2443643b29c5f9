"""A liar: lies of every kind, none of them in a language that members do not speak, each forgery announced."""

from bobbin.cluster.membership.messages import Sync, speaker
from bobbin.simulator.membership_liar import Liar
from bobbin.simulator.membership_world import MembershipWorld

KINDS = {"about another", "about the hearer", "about itself", "for another", "suspicion", "answers"}


def world_with_liar() -> tuple[MembershipWorld, Liar]:
    for seed in range(100):
        world = MembershipWorld(seed)
        if world._liar is not None:
            for member in world.members.values():
                world._start(member)
            return world, world._liar
    raise AssertionError("no world has a liar")


def test_it_tells_lies_of_every_kind() -> None:
    world, liar = world_with_liar()
    told = [liar.lie() for _ in range(300)]
    assert {kind for kind, _ in told} == KINDS
    assert all(lies and all(to != liar.member.node for to, _ in lies) for _, lies in told)
    assert {to for _, lies in told for to, _ in lies} == set(world.members) - {liar.member.node}


def test_every_forged_word_is_announced_to_the_checker() -> None:
    world, liar = world_with_liar()
    for _ in range(300):
        kind, lies = liar.lie()
        for _, message in lies:
            if isinstance(message, Sync) and kind != "for another":
                assert set(message.states) <= world.checker.forged
                assert {(state.node, state.incarnation) for state in message.states} <= world.checker.invented


def test_only_lies_for_another_are_in_anothers_name() -> None:
    _, liar = world_with_liar()
    for _ in range(300):
        kind, lies = liar.lie()
        names = {speaker(message) for _, message in lies} - {None}
        assert (kind == "for another") == bool(names - {liar.member.node})


def test_one_that_is_down_says_nothing() -> None:
    _, liar = world_with_liar()
    liar.member.crash()
    assert liar.lie() == ("silence", [])
