"""The log of a raft node and its way to the disk, each against the slow and obvious way."""

from dataclasses import dataclass, field
from itertools import takewhile
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from bobbin.cluster.names import Index, NodeId, Term
from bobbin.cluster.raft.durability import Durability
from bobbin.cluster.raft.entries import Configuration, Entry
from bobbin.cluster.raft.events import Persisted, Received, Recovered, Tick
from bobbin.cluster.raft.log import RaftLog
from bobbin.cluster.raft.machine import RaftMachine
from bobbin.cluster.raft.messages import AppendAnswer
from tests.properties.effort import scaled
from tests.support.raft_cluster import PLAIN, entry, metadata_of, names
from tests.support.raft_messages import append

ABC = Configuration(names("abc"))
PAYLOADS = st.one_of(
    st.binary(max_size=20),
    st.none(),
    st.sampled_from([Configuration(names("ab")), Configuration(names("abc"), names("d"))]),
)


@st.composite
def logs(draw: st.DrawFn, *, most: int = 12) -> tuple[Entry, ...]:
    """Entries from 1 on, in terms that never fall."""
    terms = sorted(draw(st.lists(st.integers(1, 5), max_size=most)))
    return tuple(entry(term, index, draw(PAYLOADS)) for index, term in enumerate(terms, 1))


def held(log: RaftLog) -> tuple[Entry, ...]:
    return log.entries(log.first_index, log.last_index + 1)


@given(logs(), st.data())
def test_readings_are_those_of_a_plain_list(found: tuple[Entry, ...], data: st.DataObject) -> None:
    log = RaftLog(ABC)
    for place in range(0, len(found), 3):
        log.append(found[place : place + 3])
    log.check()
    assert held(log) == found
    index = data.draw(st.integers(0, len(found) + 1))
    term = data.draw(st.integers(0, 6))
    assert log.last_at_most(index, term) == sum(1 for e in found if e.index <= index and e.term <= term)
    named = [e for e in found if isinstance(e.payload, Configuration) and e.index <= index]
    expected = (named[-1].index, named[-1].payload) if named else (0, ABC)
    assert log.configuration_at(index) == expected
    if found:
        first = data.draw(st.integers(1, len(found)))
        entries_max, bytes_max = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 60))
        end = log.batch_end(first, entries_max=entries_max, bytes_max=bytes_max)
        batch = log.entries(first, end)
        assert 1 <= len(batch) <= entries_max
        plain = all(isinstance(e.payload, bytes) for e in found)
        if plain:
            size = sum(len(e.payload) for e in batch if isinstance(e.payload, bytes))
            assert len(batch) == 1 or size <= bytes_max
            following = found[end - 1 : end]
            if following and len(batch) < entries_max:
                extra = following[0].payload
                assert isinstance(extra, bytes)
                assert size + len(extra) > bytes_max, "one more would have fitted"


@given(logs(), st.data())
def test_a_cut_changes_nothing_that_is_left(found: tuple[Entry, ...], data: st.DataObject) -> None:
    log = RaftLog(ABC)
    log.append(found)
    if not found:
        return
    index = data.draw(st.integers(1, len(found)))
    configuration = log.configuration_at(index)[1]
    first = data.draw(st.integers(1, index + 1))
    log.cut(first, metadata_of(b"s", index=index, term=found[index - 1].term, configuration=configuration))
    log.check()
    assert held(log) == found[first - 1 :]
    assert (log.last_index, log.last_term) == (len(found), found[-1].term)
    for place in range(first - 1, len(found) + 1):
        assert log.term_at(place) == (found[place - 1].term if place else 0)
    assert log.configuration == RaftLog.recovered(None, found, ABC)[0].configuration
    again, gave_way = RaftLog.recovered(
        metadata_of(b"s", index=index, term=found[index - 1].term, configuration=configuration), held(log), ABC
    )
    again.check()
    assert not gave_way
    assert (again.last_index, again.configuration) == (log.last_index, log.configuration)


@dataclass
class Model:
    """The disk as it is and as it would be after each write that is under way, as whole copies."""

    memory: list[Entry] = field(default_factory=list)
    images: list[tuple[int, list[Entry], int]] = field(default_factory=lambda: [(0, [], 0)])
    """Token, log and term; the first is durable."""

    def durable(self) -> int:
        """As far as memory is the same as every one of them."""

        def common(image: list[Entry]) -> int:
            pairs = zip(self.memory, image, strict=False)
            return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))

        return min(common(image) for _, image, _ in self.images)


@scaled(0.6)
@given(st.randoms(use_true_random=False), st.integers(5, 30))
def test_a_failed_write_leads_back_to_the_disk_whatever_came_before(chance: Random, steps: int) -> None:
    log = RaftLog(ABC)
    disk = Durability(log, Term(0), None)
    model = Model()
    committed = 0
    for _ in range(steps):
        match chance.randrange(6):
            case 0 | 1:
                new = [
                    entry(chance.randrange(disk.term, disk.term + 1), len(model.memory) + place, chance.randbytes(3))
                    for place in range(1, chance.randrange(2, 5))
                ]
                model.memory += new
                disk.append(tuple(new))
            case 2 if len(model.memory) > committed:
                index = chance.randrange(committed + 1, len(model.memory) + 1)
                del model.memory[index - 1 :]
                disk.truncate(Index(index))
            case 3:
                disk.set_hard_state(Term(disk.term + 1), None)
            case 4 if len(model.images) > 1:
                token = chance.choice(model.images[1:])[0]
                disk.confirm(token)
                model.images = [image for image in model.images if image[0] >= token]
            case 5 if len(model.images) > 1:
                token = chance.choice(model.images[1:])[0]
                failed, _ = disk.fail(token)
                assert failed
                model.images = [image for image in model.images if image[0] < token]
                model.memory = list(model.images[-1][1])
                assert disk.term == model.images[-1][2]
            case _:
                pass
        persist = disk.close()
        if persist is not None:
            model.images.append((persist.token, list(model.memory), disk.term))
        assert held(log) == tuple(model.memory)
        assert disk.durable_index <= model.durable()
        if len(model.images) == 1:
            assert disk.durable_index == len(model.memory)
        committed = max(committed, chance.randrange(disk.durable_index + 1) if chance.random() < 0.3 else 0)
        disk.check()


@given(logs(), logs(), st.integers(0, 12), st.integers(0, 12), st.integers(0, 12), st.integers(0, 12))
def test_a_follower_ends_with_the_leaders_log_up_to_what_it_acknowledges(
    leaders: tuple[Entry, ...], own: tuple[Entry, ...], shared: int, previous: int, count: int, commit: int
) -> None:
    # Equal places of equal term hold equal entries in real logs, so payloads follow from place and term.
    common = leaders[:shared]
    tail = [e for e in own if e.index > len(common) and e.term >= (common[-1].term if common else 0)]
    mine = [_stamped(e) for e in (*common, *tail)]
    mine = [e for place, e in enumerate(mine, 1) if e.index == place]
    theirs = [_stamped(e) for e in leaders]
    previous = min(previous, len(theirs))
    sent = tuple(theirs[previous : previous + count])
    follower = RaftMachine(
        PLAIN,
        node=NodeId("b"),
        recovered=Recovered(term=Term(5), entries=tuple(mine)),
        bootstrap=ABC,
        random=Random(0),
        checking=True,
    )
    follower.step(Tick(), now_ns=0)
    previous_term = theirs[previous - 1].term if previous else 0
    message = append("a", 6, (previous_term, previous), sent, commit=min(commit, len(theirs)))
    effects = follower.step(Received(NodeId("a"), message), now_ns=1)
    effects += follower.step(Persisted(1), now_ns=2)
    (answer,) = [
        effect.message for effect in effects if hasattr(effect, "message") and isinstance(effect.message, AppendAnswer)
    ]
    after = held(follower.log)
    agrees = previous <= len(mine) and (previous == 0 or mine[previous - 1].term == previous_term)
    assert answer.success == agrees
    if not agrees:
        assert after == tuple(mine)
        true_common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(mine, theirs, strict=False)))
        assert true_common <= answer.match_index < previous, "a bound that is never below the truth"
        return
    reached = previous + len(sent)
    assert answer.match_index == reached
    assert after[previous:reached] == sent
    is_prefix = all(e in mine for e in sent)
    assert after[reached:] == (tuple(mine)[reached:] if is_prefix else ()), "cut only at a conflict"
    assert follower.commit_index <= min(message.commit, reached)


def _stamped(found: Entry) -> Entry:
    return entry(found.term, found.index, b"%d.%d" % (found.term, found.index))
