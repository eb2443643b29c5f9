from random import Random

import pytest

from bobbin.cluster import key_value as module
from bobbin.cluster.key_value import (
    CLIENT_BYTES,
    KEY_BYTES_MAX,
    SEQUENCE_MAX,
    SESSION_WINDOW,
    UNSETTLED_MAX,
    VALUE_BYTES_MAX,
    Command,
    CompareAndSwap,
    Delete,
    Head,
    Item,
    KeyValue,
    Kind,
    Outcome,
    Put,
    SessionEntry,
    SnapshotEntry,
    client_id,
    why_invalid,
)
from bobbin.cluster.names import Index, Term
from bobbin.cluster.sorted_keys import SortedKeys
from bobbin.errors import IntegrityError, UsageError
from bobbin.wire.cluster.commands import KeyValueCodec, decode_outcome, encode_command, key_value

_ANN = client_id(Index(0), b"anns  id")
_BEN = client_id(Index(0), b"bens  id")


class _Log:
    """A table, and the next place in the log."""

    def __init__(self, sessions_max: int = 1_024) -> None:
        self.table = key_value(sessions_max=sessions_max)
        self.index = 0

    def do(self, command: Command | bytes) -> Outcome:
        self.index += 1
        raw = command if isinstance(command, bytes) else encode_command(command)
        return decode_outcome(self.table.apply(Index(self.index), Term(1), raw))

    def put(self, key: bytes, value: bytes) -> Outcome:
        return self.do(Put(b"", 0, key, value))


def _entries(*entries: SnapshotEntry) -> list[bytes]:
    return [KeyValueCodec.entry(entry) for entry in entries]


# ---- commands -------------------------------------------------------------------------------------------------------


def test_put_sets_a_key_and_its_version() -> None:
    log = _Log()
    assert log.put(b"k", b"1") == Outcome(Kind.WRITTEN, 1)
    assert log.put(b"other", b"x") == Outcome(Kind.WRITTEN, 2)
    assert log.put(b"k", b"2") == Outcome(Kind.WRITTEN, 3)
    assert log.table.get(b"k") == Item(b"k", b"2", 3)
    assert log.table.get(b"nothing") is None
    assert len(log.table) == 2


def test_delete_takes_a_key_away_once() -> None:
    log = _Log()
    log.put(b"k", b"1")
    assert log.do(Delete(b"", 0, b"k")) == Outcome(Kind.DELETED, 0)
    assert log.table.get(b"k") is None
    assert log.do(Delete(b"", 0, b"k")) == Outcome(Kind.ABSENT, 0)


@pytest.mark.parametrize(
    ("present", "expected", "value", "kind", "after"),
    [
        (b"a", b"a", b"b", Kind.WRITTEN, b"b"),
        (b"a", b"x", b"b", Kind.DIFFERENT, b"a"),
        (b"a", None, b"b", Kind.DIFFERENT, b"a"),
        (None, None, b"b", Kind.WRITTEN, b"b"),
        (None, b"", b"b", Kind.DIFFERENT, None),
        (b"", b"", b"b", Kind.WRITTEN, b"b"),
        (b"", None, b"b", Kind.DIFFERENT, b""),
        (b"a", b"a", None, Kind.DELETED, None),
        (None, None, None, Kind.ABSENT, None),
    ],
)
def test_compare_and_swap_changes_only_what_was_expected(
    present: bytes | None, expected: bytes | None, value: bytes | None, kind: Kind, after: bytes | None
) -> None:
    log = _Log()
    if present is not None:
        log.put(b"k", present)
    outcome = log.do(CompareAndSwap(b"", 0, b"k", expected, value))
    assert outcome.kind is kind
    item = log.table.get(b"k")
    assert (None if item is None else item.value) == after
    assert outcome.version == (0 if item is None else item.version)


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        (Put(b"", 0, b"", b""), Kind.WRONG_KEY),
        (Put(b"", 0, bytes(KEY_BYTES_MAX + 1), b""), Kind.WRONG_KEY),
        (Delete(b"", 0, b""), Kind.WRONG_KEY),
        (Put(b"", 0, b"k", bytes(VALUE_BYTES_MAX + 1)), Kind.WRONG_VALUE),
        (CompareAndSwap(b"", 0, b"k", None, bytes(VALUE_BYTES_MAX + 1)), Kind.WRONG_VALUE),
        (CompareAndSwap(b"", 0, b"k", bytes(VALUE_BYTES_MAX + 1), None), Kind.WRONG_VALUE),
        (Put(b"short", 1, b"k", b""), Kind.WRONG_CLIENT),
        (Put(bytes(CLIENT_BYTES + 1), 1, b"k", b""), Kind.WRONG_CLIENT),
        (Put(_ANN, 0, b"k", b""), Kind.WRONG_CLIENT),
        (Put(_ANN, -1, b"k", b""), Kind.WRONG_CLIENT),
        (Put(_ANN, SEQUENCE_MAX + 1, b"k", b""), Kind.WRONG_CLIENT),
        (Put(b"", 1, b"k", b""), Kind.WRONG_CLIENT),
    ],
)
def test_a_wrong_command_is_refused_before_and_after_it_is_in_the_log(command: Command, kind: Kind) -> None:
    assert why_invalid(command) is kind
    log = _Log()
    log.put(b"k", b"kept")
    root = log.table.root
    assert log.do(command) == Outcome(kind, 0)
    assert kind.is_refusal
    assert log.table.root == root
    assert log.table.refusals == {kind: 1}


@pytest.mark.parametrize(
    "command",
    [
        Put(b"", 0, bytes(KEY_BYTES_MAX), bytes(VALUE_BYTES_MAX)),
        CompareAndSwap(_ANN, SEQUENCE_MAX, b"k", None, bytes(VALUE_BYTES_MAX)),
        Delete(_ANN, 1, b"k"),
    ],
)
def test_the_bounds_themselves_are_allowed(command: Command) -> None:
    assert why_invalid(command) is None
    assert not _Log().do(command).kind.is_refusal


@pytest.mark.parametrize(
    "raw", [b"", b"\x00", b"nonsense", b"\x95\x01", b"\x90", encode_command(Delete(b"", 0, b"k")) + b"!"]
)
def test_bytes_that_are_no_command_are_a_recorded_refusal(raw: bytes) -> None:
    log = _Log()
    root = log.table.root
    assert log.do(raw) == Outcome(Kind.NO_COMMAND, 0)
    assert log.table.refusals == {Kind.NO_COMMAND: 1}
    assert log.table.root == root


# ---- once only ------------------------------------------------------------------------------------------------------


def test_a_repeated_command_is_answered_as_before_and_not_done_again() -> None:
    log = _Log()
    first = log.do(Put(_ANN, 1, b"k", b"anns"))
    log.do(Put(_BEN, 1, b"k", b"bens"))
    assert log.do(Put(_ANN, 1, b"k", b"anns")) == first
    assert log.table.get(b"k") == Item(b"k", b"bens", 2)


def test_the_same_number_of_another_client_is_another_command() -> None:
    log = _Log()
    log.do(Put(_ANN, 1, b"a", b""))
    assert log.do(Put(_BEN, 1, b"b", b"")) == Outcome(Kind.WRITTEN, 2)


def test_without_a_client_a_repetition_is_done_again() -> None:
    log = _Log()
    log.put(b"k", b"1")
    assert log.put(b"k", b"1") == Outcome(Kind.WRITTEN, 2)


def test_numbers_may_come_in_any_order() -> None:
    log = _Log()
    answers = {number: log.do(Put(_ANN, number, b"%d" % number, b"")) for number in (3, 1, 4, 2)}
    assert [answers[number].version for number in (3, 1, 4, 2)] == [1, 2, 3, 4]
    for number, answer in answers.items():
        assert log.do(Put(_ANN, number, b"%d" % number, b"")) == answer


def test_a_refused_comparison_is_remembered_like_any_answer() -> None:
    log = _Log()
    refused = log.do(CompareAndSwap(_ANN, 1, b"k", b"x", b"y"))
    assert refused.kind is Kind.DIFFERENT
    log.put(b"k", b"x")
    assert log.do(CompareAndSwap(_ANN, 1, b"k", b"x", b"y")) == refused
    item = log.table.get(b"k")
    assert item is not None
    assert item.value == b"x"


@pytest.mark.parametrize("is_gradual", [True, False])
def test_the_newest_answers_are_remembered_and_older_numbers_are_not_done_at_all(*, is_gradual: bool) -> None:
    log = _Log()
    numbers = range(2, SESSION_WINDOW + 2) if is_gradual else [2, SESSION_WINDOW + 1]
    for number in numbers:
        log.do(Put(_ANN, number, b"k%d" % number, b""))
    assert log.do(Put(_ANN, 1, b"late", b"")) == Outcome(Kind.FORGOTTEN, 0)
    assert log.table.get(b"late") is None
    assert log.do(Put(_ANN, 2, b"k2", b"again")) == Outcome(Kind.WRITTEN, 1)
    item = log.table.get(b"k2")
    assert item is not None
    assert item.value == b""
    log.do(Put(_ANN, SESSION_WINDOW + 2, b"next", b""))
    assert log.do(Put(_ANN, 2, b"k2", b"again")).kind is Kind.FORGOTTEN


def test_a_number_that_leaps_far_ahead_costs_no_more_than_what_is_held() -> None:
    log = _Log()
    log.do(Put(_ANN, 1, b"k", b""))
    assert log.do(Put(_ANN, SEQUENCE_MAX, b"k", b"")) == Outcome(Kind.WRITTEN, 2)
    assert log.do(Put(_ANN, 1, b"k", b"")).kind is Kind.FORGOTTEN


def test_the_client_that_was_quiet_longest_makes_way_and_is_not_taken_for_a_new_one() -> None:
    log = _Log(sessions_max=2)
    log.do(Put(_ANN, 1, b"a", b""))
    log.do(Put(_BEN, 1, b"b", b""))
    log.do(Put(_ANN, 2, b"a", b""))
    carl = client_id(Index(log.index), b"carls id")
    assert log.do(Put(carl, 1, b"c", b"")).kind is Kind.WRITTEN
    assert log.table.horizon == 2
    assert log.do(Put(_BEN, 1, b"b", b"twice")) == Outcome(Kind.EXPIRED, 2)
    assert log.do(Put(_BEN, 2, b"b", b"next")) == Outcome(Kind.EXPIRED, 2)
    item = log.table.get(b"b")
    assert item is not None
    assert item.value == b""
    assert log.do(Put(_ANN, 2, b"a", b"")) == Outcome(Kind.WRITTEN, 3)
    again = client_id(Index(2), b"ben anew")
    assert log.do(Put(again, 1, b"b", b"new")).kind is Kind.WRITTEN


def test_an_id_of_the_future_is_refused() -> None:
    log = _Log()
    log.put(b"k", b"")
    assert log.do(Put(client_id(Index(2), b"12345678"), 1, b"k", b"")).kind is Kind.WRONG_CLIENT
    assert log.do(Put(client_id(Index(2), b"12345678"), 1, b"k", b"")).kind is Kind.WRITTEN


def test_an_id_takes_eight_bytes_of_chance() -> None:
    with pytest.raises(UsageError):
        client_id(Index(0), b"short")


# ---- reads ----------------------------------------------------------------------------------------------------------


def test_scan_gives_ascending_keys_of_a_range() -> None:
    log = _Log()
    for key in (b"b", b"d", b"a", b"c"):
        log.put(key, key)
    assert [item.key for item in log.table.scan()] == [b"a", b"b", b"c", b"d"]
    assert [item.key for item in log.table.scan(b"b", end=b"d")] == [b"b", b"c"]
    assert [item.key for item in log.table.scan(b"aa", limit=2)] == [b"b", b"c"]
    assert log.table.scan(b"x") == []
    log.do(Delete(b"", 0, b"b"))
    log.put(b"e", b"")
    assert [item.key for item in log.table.scan()] == [b"a", b"c", b"d", b"e"]
    log.do(Delete(b"", 0, b"c"))
    log.put(b"c", b"back")
    assert [item.key for item in log.table.scan(b"c", limit=1)] == [b"c"]
    assert [item.key for item in log.table.scan()] == [b"a", b"c", b"d", b"e"]


@pytest.mark.parametrize("unsettled_max", [1, 3, 4_096])
def test_scans_and_captures_are_those_of_a_plain_table_whatever_comes_and_goes(
    monkeypatch: pytest.MonkeyPatch, unsettled_max: int
) -> None:
    monkeypatch.setattr(module, "UNSETTLED_MAX", unsettled_max)
    log, model, random = _Log(), dict[bytes, bytes](), Random(unsettled_max)
    for step in range(600):
        key, value = b"%02d" % random.randrange(40), b"%d" % step
        if random.random() < 0.5:
            log.do(Put(b"", 0, key, value))
            model[key] = value
        else:
            log.do(Delete(b"", 0, key))
            model.pop(key, None)
        if random.random() < 0.2:
            first, end = sorted(b"%02d" % random.randrange(40) for _ in range(2))
            wanted = [(key, model[key]) for key in sorted(model) if first <= key < end][:7]
            assert [(item.key, item.value) for item in log.table.scan(first, end=end, limit=7)] == wanted
        if random.random() < 0.05:
            copy = key_value()
            copy.restore(log.table.snapshot())
            assert [(item.key, item.value) for item in copy.scan()] == sorted(model.items())


def test_a_scan_after_a_new_key_looks_at_that_key_and_its_own_rows_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """However large the table is; a scan of everything would keep the node from its timers."""
    log = _Log()
    for number in range(10_000):
        log.do(Put(b"", 0, b"%05d" % ((number * 7) % 10_000), b"v"))
    looked: list[bytes] = []
    added = SortedKeys.add

    def add(keys: SortedKeys, key: bytes) -> None:
        looked.append(key)
        added(keys, key)

    monkeypatch.setattr(SortedKeys, "add", add)
    log.table.scan(limit=1)
    assert 0 < len(looked) < UNSETTLED_MAX
    looked.clear()
    order = log.table._order
    log.do(Put(b"", 0, b"new", b"v"))
    assert [item.key for item in log.table.scan(b"new", limit=1)] == [b"new"]
    assert (looked, log.table._order is order) == ([b"new"], True)


@pytest.mark.parametrize("limit", [0, -1, 1_001])
def test_a_scan_has_a_bound(limit: int) -> None:
    with pytest.raises(UsageError):
        _Log().table.scan(limit=limit)


# ---- root and snapshot ----------------------------------------------------------------------------------------------


def test_equal_contents_have_equal_roots_however_they_came_about() -> None:
    one, other = _Log(), _Log()
    for number in range(50):
        one.put(b"k%d" % number, b"v")
    other.put(b"gone", b"v")
    other.do(Delete(b"", 0, b"gone"))
    other.index = 0
    for number in range(50):
        other.put(b"k%d" % number, b"v")
        assert len(other.table.root) == 32
    assert one.table.root == other.table.root


def test_everything_that_later_answers_rest_on_is_in_the_root() -> None:
    def after(*commands: Command, first: int = 0) -> bytes:
        log = _Log(sessions_max=1)
        log.index = first
        for command in commands:
            log.do(command)
        return log.table.root

    roots = [
        after(),
        after(Put(b"", 0, b"k", b"v")),
        after(Put(b"", 0, b"k", b"w")),
        after(Put(b"", 0, b"j", b"v")),
        after(Put(b"", 0, b"k", b"v"), first=5),
        after(Put(_ANN, 1, b"k", b"v")),
        after(Put(_ANN, 2, b"k", b"v")),
        after(Put(_BEN, 1, b"k", b"v")),
        after(Put(_ANN, 1, b"k", b"v"), Put(_ANN, 1, b"k", b"v")),
        after(Put(_ANN, 1, b"k", b"v"), Delete(client_id(Index(1), bytes(8)), 1, b"x")),
    ]
    assert len(set(roots)) == len(roots)


def test_the_root_is_the_same_whether_asked_for_often_or_once() -> None:
    """More keys than it leaves unsettled, and one that goes out of the table's sight meanwhile."""
    rarely, often = _Log(sessions_max=2), _Log(sessions_max=2)
    for number in range(UNSETTLED_MAX + 10):
        command = Put(client_id(Index(number), bytes(8)), 1, b"k%d" % (number % 5_000), b"v")
        rarely.do(command)
        often.do(command)
        if number % 500 == 0:
            assert often.table.root == often.table.root
    assert rarely.table.root == often.table.root


def test_a_capture_stays_as_it_was_while_writes_go_on() -> None:
    log = _Log()
    log.do(Put(_ANN, 1, b"a", b"1"))
    log.put(b"b", b"2")
    before = list(log.table.snapshot())
    capture = log.table.snapshot()
    log.do(Put(_ANN, 2, b"a", b"changed"))
    log.do(Delete(b"", 0, b"b"))
    log.put(b"c", b"3")
    assert len(capture) == len(before) == 4
    assert list(capture) == before


def test_a_restored_table_answers_repeats_as_the_first_did() -> None:
    log = _Log(sessions_max=2)
    for number, client in enumerate((_ANN, _BEN, client_id(Index(1), b"carls id")), 1):
        log.do(Put(client, number, b"k%d" % number, b"v"))
    copy = key_value(sessions_max=2)
    copy.restore(log.table.snapshot())
    assert copy.root == log.table.root
    assert list(copy.snapshot()) == list(log.table.snapshot())
    assert copy.horizon == log.table.horizon == 1
    repeat = encode_command(Put(_BEN, 2, b"k2", b"again"))
    assert decode_outcome(copy.apply(Index(9), Term(1), repeat)) == Outcome(Kind.WRITTEN, 2)
    gone = encode_command(Put(_ANN, 1, b"k1", b"again"))
    assert decode_outcome(copy.apply(Index(10), Term(1), gone)) == Outcome(Kind.EXPIRED, 1)
    assert [item.key for item in copy.scan()] == [b"k1", b"k2", b"k3"]


def test_restoring_replaces_everything() -> None:
    log, target = _Log(), _Log()
    log.put(b"k", b"v")
    target.do(Put(_ANN, 1, b"other", b"x"))
    assert target.table.root != log.table.root
    target.table.restore(log.table.snapshot())
    assert target.table.root == log.table.root
    assert target.table.get(b"other") is None


_HEAD = Head(1, 0, 1, 1)
_ITEM = Item(b"k", b"v", 1)
_SESSION = SessionEntry(_ANN, 1, 1, ((1, b"answer"),))


@pytest.mark.parametrize(
    "entries",
    [
        [],
        [b"nonsense"],
        _entries(_ITEM, _SESSION),
        _entries(_HEAD, _HEAD, _ITEM, _SESSION),
        _entries(_ITEM, _HEAD, _SESSION),
        _entries(_HEAD, _ITEM),
        _entries(_HEAD, _SESSION),
        _entries(_HEAD, _ITEM, _ITEM, _SESSION),
        _entries(Head(1, 0, 2, 1), Item(b"z", b"", 1), _ITEM, _SESSION),
        _entries(_HEAD, _SESSION, _ITEM),
        _entries(Head(1, 0, 1, 2), _ITEM, _SESSION, _SESSION),
        _entries(Head(1, 0, 1, 2), _ITEM, _SESSION, SessionEntry(_BEN, 1, 1, ())),
        _entries(Head(2, 0, 1, 1), _ITEM, _SESSION),
        _entries(Head(1, -1, 1, 1), _ITEM, _SESSION),
    ],
)
def test_a_snapshot_that_is_wrong_changes_nothing(entries: list[bytes]) -> None:
    log = _Log()
    log.do(Put(_BEN, 1, b"kept", b"v"))
    root, before = log.table.root, list(log.table.snapshot())
    with pytest.raises(IntegrityError):
        log.table.restore(entries)
    assert log.table.root == root
    assert list(log.table.snapshot()) == before


def test_the_entries_that_are_wrong_above_are_right_when_complete() -> None:
    table = KeyValue(KeyValueCodec())
    table.restore(_entries(_HEAD, _ITEM, _SESSION))
    assert table.get(b"k") == _ITEM
