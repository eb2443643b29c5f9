from bobbin.runtime.guesses import BURST, ROOM_BURST, Guesses, in_room


def test_so_many_wrong_tokens_and_then_time_must_pass() -> None:
    guesses = Guesses(burst=3, per_second=0.5)
    for _ in range(3):
        assert guesses.may_try("here", 10.0)
        guesses.note_wrong("here", 10.0)
    assert not guesses.may_try("here", 10.0)
    assert guesses.may_try("elsewhere", 10.0)
    assert not guesses.may_try("here", 11.9)
    assert guesses.may_try("here", 12.0)
    guesses.note_wrong("here", 12.0)
    assert not guesses.may_try("here", 13.9)


def test_whoever_was_wrong_long_ago_has_it_all_again_and_no_more() -> None:
    guesses = Guesses(burst=2, per_second=1.0)
    guesses.note_wrong("here", 0.0)
    guesses.note_wrong("here", 1_000.0)
    assert guesses.may_try("here", 1_000.0)
    guesses.note_wrong("here", 1_000.0)
    assert not guesses.may_try("here", 1_000.0)


def test_being_wrong_without_end_costs_no_more_than_all_there_is() -> None:
    guesses = Guesses(burst=2, per_second=1.0)
    for _ in range(50):
        guesses.note_wrong("here", 0.0)
    assert guesses.may_try("here", 1.0)


def test_only_so_many_addresses_are_remembered() -> None:
    guesses = Guesses(burst=1, per_second=0.0, addresses_max=2)
    for address in ("a", "b", "a", "c"):
        guesses.note_wrong(address, 0.0)
    assert [address for address in "abc" if not guesses.may_try(address, 0.0)] == ["a", "c"]


def test_whoever_can_choose_its_address_is_bounded_with_all_others() -> None:
    guesses = in_room()
    for _ in range(10 * BURST):
        guesses.note_wrong("one", 0.0)
    assert not guesses.may_try("one", 0.0)
    assert guesses.may_try("another", 0.0)
    for number in range(ROOM_BURST):
        guesses.note_wrong(str(number), 0.0)
    assert not guesses.may_try("another", 0.0)
    assert guesses.may_try("another", 1.0)
