"""Effects are values: what each end of a link can want done."""

from typing import get_args

from bobbin.reactive import link_effects
from bobbin.reactive.link_effects import MirrorEffect, Notice, PublisherEffect


def test_every_effect_is_of_one_of_the_two_ends() -> None:
    known = {*get_args(PublisherEffect), *get_args(MirrorEffect), *get_args(Notice)}
    own = {one for one in vars(link_effects).values() if getattr(one, "__module__", "") == link_effects.__name__}
    assert {one for one in own if isinstance(one, type)} == known
