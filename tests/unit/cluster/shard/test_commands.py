from typing import get_args

from bobbin.cluster.shard.commands import TAGS, Command, Kind


def test_commands_have_numbers_of_their_own_within_the_range_of_the_machine() -> None:
    tags = [command.__struct_config__.tag for command in get_args(Command)]
    assert tags == sorted(set(tags))
    assert set(tags) <= set(TAGS)
    assert (TAGS.start, TAGS.stop) == (32, 48)


def test_kinds_from_sixteen_on_say_that_nothing_was_done() -> None:
    assert {kind for kind in Kind if kind.is_refusal} == {
        Kind.NO_COMMAND,
        Kind.BAD_BLOCK,
        Kind.STALE_BLOCK,
        Kind.BAD_ENTRY,
        Kind.BAD_CODEBOOK,
        Kind.UNKNOWN_TRANSACTION,
    }
