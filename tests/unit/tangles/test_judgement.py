"""The modern level: what is proven, what waits, and what is never believed, in whatever order it comes."""

import itertools
from typing import Any

import pytest

from bobbin.tangles import accounts, canonical, compose
from bobbin.tangles.admission import Admission
from bobbin.tangles.canonical import Json
from bobbin.tangles.errors import InvalidMessage, Rule
from bobbin.tangles.judgement import FULL, Judgement, Mark, Spot, Standing
from bobbin.tangles.keys import Keypair
from bobbin.tangles.memory import MemoryStore
from bobbin.tangles.message import MODERN_BYTES_MAX, Message, MessageId, from_json
from bobbin.tangles.tangle import Tangle
from tests.support.tangle_messages import Author
from tests.vectors.load import load

ALICE = Author("alice")
ROOT = ALICE.account
MOOT, *POSTS = ALICE.feed(4)
BOB, CAROL, MALLORY = (Keypair.from_words(words) for words in ("bob", "carol", "mallory"))


def held(*messages: Message) -> MemoryStore:
    """A store that holds messages as they are, judged as they come."""
    store = MemoryStore()
    store.load(messages)
    return store


def mark(store: MemoryStore, tangle: MessageId, message: Message) -> tuple[Mark, Rule | None]:
    found = store.standing.judgement(tangle, message.id)
    assert found is not None
    return found.mark, found.rule


def account(*messages: Message) -> Tangle:
    return Tangle(ROOT.id, [ROOT, *messages])


def adding(by: Keypair, new: Keypair, *before: Message, powers: tuple[str, ...] = ()) -> Message:
    consent = accounts.consent(new, ROOT.id)
    return compose.account_add(by, account(*before), key=new.public, consent=consent, powers=powers)


def speaking(by: Keypair, *account_messages: Message, text: str = "hi") -> Message:
    """The first post of the feed, signed by a key under an account as it is after some messages."""
    return compose.post(
        by, {"text": text}, account=account(*account_messages), domain="post", tangles=[Tangle(MOOT.id, [MOOT])]
    )


def crafted(
    by: Author, tangle: MessageId, depth: int, prev: list[str], text: str = "crafted", **other: Json
) -> Message:
    entries: dict[str, Json] = {tangle: {"depth": depth, "prev": [*prev]}}
    metadata: dict[str, Json] = {
        "account": by.account.id,
        "accountTips": [by.account.id],
        "tangles": entries,
        "domain": "post",
    }
    return by.sign({"text": text}, {**metadata, **other})


def test_an_honest_feed_is_full() -> None:
    store = held(ROOT, MOOT, *POSTS)
    assert all(store.standing.is_full(MOOT.id, message.id) for message in (MOOT, *POSTS))
    assert store.standing.is_full(ROOT.id, ROOT.id)
    assert store.standing.judgement(MOOT.id, "unknown") is None
    assert store.standing.judgement(ROOT.id, POSTS[0].id) is None
    assert store.standing.full_tangle(MOOT.id) is store.tangle(MOOT.id)


def test_the_order_of_arrival_means_nothing() -> None:
    messages = [ROOT, MOOT, *POSTS[:3]]
    for order in itertools.permutations(messages):
        store = held(*order)
        assert all(store.standing.is_full(MOOT.id, message.id) for message in messages[1:])
        # Nothing is left of the time when they waited.
        assert store.standing.full_tangle(MOOT.id) is store.tangle(MOOT.id)
        assert (store.standing._waiting, store.standing._doubtful) == ({}, {})


def test_what_lacks_something_waits_for_it() -> None:
    store = held(MOOT, POSTS[1])
    found = store.standing.judgement(MOOT.id, POSTS[1].id)
    assert found is not None
    assert found.mark is Mark.WAITING
    assert found.missing == {Spot(MOOT.id, POSTS[0].id), Spot(ROOT.id, ROOT.id)}
    store.load([POSTS[0]])
    assert mark(store, MOOT.id, POSTS[1]) == (Mark.WAITING, None)
    changed: dict[Spot, Judgement] = {}
    store._messages[ROOT.id] = ROOT
    changed = dict(store.standing.came(ROOT))
    assert {spot.message for spot, judgement in changed.items() if judgement is FULL} == {
        ROOT.id,
        POSTS[0].id,
        POSTS[1].id,
    }


def test_a_wrong_depth_is_never_believed() -> None:
    unknown = crafted(ALICE, MOOT.id, 1, [MOOT.id])
    wrong = crafted(ALICE, MOOT.id, 9, sorted([MOOT.id, unknown.id]))
    after = crafted(ALICE, MOOT.id, 10, [wrong.id])
    store = held(ROOT, MOOT)
    store.add(wrong, MOOT.id)
    store.add(after, MOOT.id)
    assert mark(store, MOOT.id, wrong) == (Mark.WAITING, None)
    store.add(unknown, MOOT.id)
    assert mark(store, MOOT.id, wrong) == (Mark.INTEROP, Rule.DEPTH)
    assert mark(store, MOOT.id, after) == (Mark.INTEROP, Rule.PREV_UNPROVEN)
    assert mark(store, MOOT.id, unknown) == (Mark.FULL, None)


def test_a_stranger_cannot_remove_a_key() -> None:
    stranger = compose.account_del(MALLORY, account(), key=ALICE.key.public)
    post = speaking(ALICE.key)
    store = held(MOOT)
    store.add(ROOT, ROOT.id)
    store.add(stranger, ROOT.id)
    assert mark(store, ROOT.id, stranger) == (Mark.INTEROP, Rule.POWER)
    assert store.standing.admit(post, MOOT.id) == FULL
    # A real peer takes the stranger's word: at tips after it, the key is gone, and so is the post for such a peer.
    misled = speaking(ALICE.key, stranger)
    with pytest.raises(InvalidMessage) as caught:
        store.add(misled, MOOT.id)
    assert caught.value.rule is Rule.SIGKEY_UNAUTHORISED
    with pytest.raises(InvalidMessage) as caught:
        store.standing.admit(misled, MOOT.id)
    assert caught.value.rule is Rule.UNKNOWN_ACCOUNT


def test_a_removal_by_one_who_may_counts() -> None:
    add = adding(ALICE.key, BOB)
    removed = compose.account_del(ALICE.key, account(add), key=BOB.public)
    before, after = speaking(BOB, add, text="before"), speaking(BOB, add, removed, text="after")
    store = held(ROOT, add, removed, MOOT, before, after)
    assert mark(store, ROOT.id, removed) == (Mark.FULL, None)
    assert mark(store, MOOT.id, before) == (Mark.FULL, None)
    assert mark(store, MOOT.id, after) == (Mark.INTEROP, Rule.SIGKEY_UNAUTHORISED)


def test_a_key_needs_the_power_for_what_it_does() -> None:
    add_bob = adding(ALICE.key, BOB, powers=("add",))
    add_carol = adding(BOB, CAROL, add_bob)
    bob_removes = compose.account_del(BOB, account(add_bob, add_carol), key=CAROL.public)
    carol_adds = adding(CAROL, MALLORY, add_bob, add_carol)
    store = held(ROOT, add_bob, add_carol, bob_removes, carol_adds)
    assert mark(store, ROOT.id, add_carol) == (Mark.FULL, None)
    assert mark(store, ROOT.id, bob_removes) == (Mark.INTEROP, Rule.POWER)
    assert mark(store, ROOT.id, carol_adds) == (Mark.INTEROP, Rule.POWER)


def test_a_removed_key_has_no_power() -> None:
    add_bob = adding(ALICE.key, BOB, powers=("add",))
    removed = compose.account_del(ALICE.key, account(add_bob), key=BOB.public)
    late = adding(BOB, CAROL, add_bob, removed)
    store = held(ROOT, add_bob, removed, late)
    assert mark(store, ROOT.id, late) == (Mark.INTEROP, Rule.POWER)


def test_a_key_that_has_not_agreed_is_not_added() -> None:
    data: dict[str, Json] = {"action": "add", "key": {"purpose": "sig", "algorithm": "ed25519", "bytes": BOB.public}}
    entries: dict[str, Json] = {ROOT.id: {"depth": 1, "prev": [ROOT.id]}}
    metadata: dict[str, Json] = {
        "account": "self",
        "accountTips": None,
        "tangles": entries,
        "domain": "account__person",
    }
    for consent in (None, accounts.consent(BOB, MOOT.id), accounts.consent(CAROL, ROOT.id)):
        add = ALICE.sign(data if consent is None else {**data, "consent": consent}, metadata)
        store = held(ROOT)
        store.add(add, ROOT.id)
        assert mark(store, ROOT.id, add) == (Mark.INTEROP, Rule.CONSENT)


def test_an_account_message_must_do_something() -> None:
    entries: dict[str, Json] = {ROOT.id: {"depth": 1, "prev": [ROOT.id]}}
    metadata: dict[str, Json] = {
        "account": "self",
        "accountTips": None,
        "tangles": entries,
        "domain": "account__person",
    }
    idle = ALICE.sign({"action": "wave"}, metadata)
    assert mark(held(ROOT, idle), ROOT.id, idle) == (Mark.INTEROP, Rule.ACCOUNT_ACTION)


def test_unknown_tips_never_widen_the_keys() -> None:
    add = adding(ALICE.key, BOB)
    removed = compose.account_del(ALICE.key, account(add), key=BOB.public)
    late = speaking(BOB, add, removed)
    store = held(MOOT)
    for message in (ROOT, add):
        store.add(message, ROOT.id)
    # A real peer that has not seen the removal ignores the unknown tip, and takes the message.
    store.add(late, MOOT.id)
    assert mark(store, MOOT.id, late) == (Mark.WAITING, None)
    store.add(removed, ROOT.id)
    assert mark(store, MOOT.id, late) == (Mark.INTEROP, Rule.SIGKEY_UNAUTHORISED)


def test_without_tips_nobody_is_authorised() -> None:
    choices: list[Json] = [None, []]
    for tips in choices:
        bare = crafted(ALICE, MOOT.id, 1, [MOOT.id], accountTips=tips)
        store = held(ROOT, MOOT)
        store.add(bare, MOOT.id)
        assert mark(store, MOOT.id, bare) == (Mark.INTEROP, Rule.ACCOUNT_TIPS)


def test_only_what_the_tips_build_on_is_read_of_an_account() -> None:
    add = adding(ALICE.key, BOB)
    beside = compose.account_del(ALICE.key, account(), key=ALICE.key.public)
    post = speaking(BOB, add)
    for order in ([add, beside, post], [add, post, beside], [beside, add, post], [post, beside, add]):
        store = held(ROOT, MOOT, *order)
        assert mark(store, MOOT.id, post) == (Mark.FULL, None)


def test_an_erased_account_message_gives_no_authority_until_its_data_is_back() -> None:
    add = adding(ALICE.key, BOB)
    post = speaking(BOB, add)
    store = held(ROOT, add.erased(), MOOT, post)
    assert store.standing.judgement(ROOT.id, add.id) == Judgement(
        Mark.WAITING, missing=frozenset({Spot(ROOT.id, add.id)}), hangs=True
    )
    assert mark(store, MOOT.id, post) == (Mark.WAITING, None)
    store.add(add, ROOT.id)
    assert mark(store, ROOT.id, add) == (Mark.FULL, None)
    assert mark(store, MOOT.id, post) == (Mark.FULL, None)


def test_what_was_proven_stays_proven_when_data_goes_but_nothing_new_is_built_on_a_gap() -> None:
    add = adding(ALICE.key, BOB)
    store = held(ROOT, add, MOOT)
    store.erase(ROOT.id)
    assert store.standing.is_full(ROOT.id, add.id)
    post = speaking(BOB, add)
    store.load([post])
    # Who may sign cannot be told without what the root says.
    assert mark(store, MOOT.id, post) == (Mark.WAITING, None)
    store.load([ROOT])
    assert mark(store, MOOT.id, post) == (Mark.FULL, None)


def test_a_removal_that_cannot_be_read_leaves_nobody_authorised() -> None:
    add = adding(ALICE.key, BOB)
    removal = compose.account_del(ALICE.key, account(add), key=BOB.public)
    first, second = speaking(BOB, add, removal, text="1"), speaking(BOB, add, removal, text="2")
    store = held(ROOT, add, removal, MOOT)
    store.erase(removal.id)
    store.load([first, second])
    assert mark(store, MOOT.id, first) == mark(store, MOOT.id, second) == (Mark.WAITING, None)
    store.load([removal])
    assert mark(store, MOOT.id, first) == mark(store, MOOT.id, second) == (Mark.INTEROP, Rule.SIGKEY_UNAUTHORISED)


def test_what_was_proven_stays_proven_when_what_proved_it_is_deleted() -> None:
    store = held(ROOT, MOOT, *POSTS[:3])
    store.delete(POSTS[0].id)
    store.erase(POSTS[1].id)
    with pytest.raises(InvalidMessage) as caught:
        store.add_modern(POSTS[1].filled({"text": "other"}), MOOT.id)
    assert caught.value.rule is Rule.DATA_HASH
    assert store.add_modern(POSTS[1], MOOT.id) is Admission.FILLED
    assert store.message(POSTS[1].id) == POSTS[1]
    assert store.standing.is_full(MOOT.id, POSTS[1].id)
    assert store.standing.is_full(MOOT.id, POSTS[2].id)


def test_deleted_messages_are_no_evidence_any_more() -> None:
    store = held(ROOT, MOOT, *POSTS[:2])
    store.delete(POSTS[1].id)
    assert store.standing.judgement(MOOT.id, POSTS[1].id) is None
    store.load([POSTS[2]])
    assert mark(store, MOOT.id, POSTS[2]) == (Mark.WAITING, None)
    store.delete(POSTS[2].id)
    assert store.standing._waiting == {}
    assert store.standing._doubtful == {}
    store.load([POSTS[2], POSTS[1]])
    assert store.standing.is_full(MOOT.id, POSTS[2].id)


def test_a_message_is_judged_in_each_of_its_tangles() -> None:
    thread = ALICE.root({"text": "thread"})
    entries: dict[str, Json] = {
        MOOT.id: {"depth": 1, "prev": [MOOT.id]},
        thread.id: {"depth": 7, "prev": [thread.id]},
    }
    both = crafted(ALICE, MOOT.id, 1, [MOOT.id], tangles=entries)
    store = held(ROOT, MOOT, thread)
    store.add(both, MOOT.id)
    assert mark(store, MOOT.id, both) == (Mark.FULL, None)
    assert mark(store, thread.id, both) == (Mark.INTEROP, Rule.DEPTH)
    view = store.standing.full_tangle(thread.id)
    assert list(view.topological()) == [thread.id]
    assert list(store.tangle(thread.id).topological()) == [thread.id, both.id]


def test_a_place_is_checked_by_all_rules_in_every_tangle() -> None:
    other = ALICE.moot("other")
    first, second = sorted([MOOT.id, POSTS[0].id])
    places: list[tuple[MessageId, dict[str, Json], Rule]] = [
        (other.id, {"depth": 1, "prev": [other.id]}, Rule.FEED_DOMAIN),
        (ROOT.id, {"depth": 1, "prev": [ROOT.id]}, Rule.ACCOUNT_KIND),
        (MOOT.id, {"depth": 2, "prev": [second, first]}, Rule.PREV_UNSORTED),
        (MOOT.id, {"depth": 2, "prev": [first, first, second]}, Rule.PREV_DUPLICATES),
    ]
    for tangle, place, rule in places:
        message = crafted(ALICE, tangle, 1, [], tangles={tangle: place})
        store = held(ROOT, MOOT, POSTS[0], other, message)
        assert mark(store, tangle, message) == (Mark.INTEROP, rule)


def test_a_post_is_the_root_of_a_thread_once_it_is_proven_in_its_feed() -> None:
    store = held(MOOT, POSTS[0])
    own = POSTS[0].id
    assert mark(store, own, POSTS[0]) == (Mark.WAITING, None)
    store.load([ROOT])
    assert mark(store, own, POSTS[0]) == (Mark.FULL, None)
    bad = crafted(ALICE, MOOT.id, 5, [MOOT.id])
    store = held(ROOT, MOOT, bad)
    assert mark(store, bad.id, bad) == (Mark.INTEROP, Rule.PREV_UNPROVEN)


def test_an_account_begins_with_a_message_of_its_own() -> None:
    add = adding(ALICE.key, BOB)
    store = held(ROOT, add)
    assert mark(store, add.id, add) == (Mark.INTEROP, Rule.ACCOUNT_KIND)


def test_an_account_is_signed_by_its_first_key() -> None:
    stolen = signed_by(MALLORY, ROOT)
    store = held(stolen)
    assert mark(store, ROOT.id, ROOT) == (Mark.INTEROP, Rule.POWER)
    store.load([ROOT])
    assert store.message(ROOT.id) == ROOT
    assert mark(store, ROOT.id, ROOT) == (Mark.FULL, None)
    metadata: dict[str, Json] = {"account": "self", "accountTips": None, "tangles": {}, "domain": "account__person"}
    for purpose, act in [("box", "add"), ("sig", "del")]:
        key: dict[str, Json] = {"purpose": purpose, "algorithm": "ed25519", "bytes": ALICE.key.public}
        odd = ALICE.sign({"action": act, "key": key}, metadata)
        assert mark(held(odd), odd.id, odd) == (Mark.INTEROP, Rule.ACCOUNT_ACTION)


def test_long_messages_are_for_real_peers_alone() -> None:
    def filling(size: int) -> Message:
        """A post whose whole text has exactly this length."""
        base = len(crafted(ALICE, MOOT.id, 1, [MOOT.id], text="").raw)
        # The number of symbols of hash and signature varies a little.
        tries = ((letter, length) for letter in "abcdef" for length in range(size - base - 5, size - base + 5))
        return next(
            message
            for letter, length in tries
            if (message := crafted(ALICE, MOOT.id, 1, [MOOT.id], text=letter * length)).whole_size == size
        )

    short, long = filling(MODERN_BYTES_MAX), filling(MODERN_BYTES_MAX + 1)
    store = held(ROOT, MOOT, short)
    store.add(long, MOOT.id)
    assert mark(store, MOOT.id, short) == (Mark.FULL, None)
    assert mark(store, MOOT.id, long) == (Mark.INTEROP, Rule.TOO_LARGE)
    erased = long.erased()
    assert erased.whole_size == long.whole_size
    assert mark(held(ROOT, MOOT, erased), MOOT.id, erased) == (Mark.INTEROP, Rule.TOO_LARGE)


def test_any_key_speaks_for_nobody() -> None:
    root = compose.post(BOB, {"text": "room"}, account=None, domain="chat_room")
    reply = compose.post(CAROL, {"text": "hi"}, account=None, domain="chat_room", tangles=[Tangle(root.id, [root])])
    store = held(root, reply)
    assert mark(store, root.id, root) == (Mark.FULL, None)
    assert mark(store, root.id, reply) == (Mark.FULL, None)


def test_the_full_part_of_a_tangle() -> None:
    wrong = crafted(ALICE, MOOT.id, 7, [POSTS[0].id])
    store = held(ROOT, MOOT, POSTS[0], wrong, POSTS[1], POSTS[2].erased())
    whole, view = store.tangle(MOOT.id), store.standing.full_tangle(MOOT.id)
    view.check()
    assert (len(whole), len(view)) == (5, 4)
    assert list(view.topological()) == [MOOT.id, *(post.id for post in POSTS[:3])]
    assert view.root == MOOT
    assert [view.depth(post.id) for post in POSTS[:3]] == [1, 2, 3]
    assert [view.has_data(post.id) for post in POSTS[:3]] == [True, True, False]
    assert view.prev(POSTS[2].id) == whole.prev(POSTS[2].id)
    assert (whole.tips(), view.tips()) == ({wrong.id, POSTS[2].id}, {POSTS[2].id})
    assert (whole.next_place().depth, view.next_place().depth) == (8, 4)
    # Without a root that is full, nothing of the tangle is.
    rootless = held(ROOT, POSTS[0])
    assert list(rootless.standing.full_tangle(MOOT.id)) == []


def test_new_messages_build_on_full_ones_alone() -> None:
    stranger = compose.account_del(MALLORY, account(), key=ALICE.key.public)
    store = held(ROOT, stranger)
    assert store.tangle(ROOT.id).tips() == {stranger.id}
    view = store.standing.full_tangle(ROOT.id)
    assert view.tips() == {ROOT.id}
    add = compose.account_add(ALICE.key, view, key=BOB.public, consent=accounts.consent(BOB, ROOT.id))
    store.load([add])
    assert mark(store, ROOT.id, add) == (Mark.FULL, None)


def test_admitting_checks_everything() -> None:
    store = held(ROOT, MOOT, POSTS[0])
    assert store.standing.admit(POSTS[1], MOOT.id) == FULL
    assert store.standing.judgement(MOOT.id, POSTS[1].id) is None
    value: dict[str, Any] = {"data": POSTS[1].data, "metadata": POSTS[1].metadata, "sigkey": POSTS[1].sigkey}
    cases = [
        (from_json({**value, "sig": POSTS[0].sig}), Rule.SIGNATURE),
        (from_json({**value, "sig": POSTS[1].sig, "data": {"text": "other"}}), Rule.DATA_HASH),
        (POSTS[3], Rule.PREV_UNKNOWN),
        (speaking(MALLORY), Rule.SIGKEY_UNAUTHORISED),
        (crafted(ALICE, MOOT.id, 3, [POSTS[0].id]), Rule.DEPTH),
    ]
    for message, rule in cases:
        with pytest.raises(InvalidMessage) as caught:
            store.standing.admit(message, MOOT.id)
        assert caught.value.rule is rule
    with pytest.raises(InvalidMessage) as caught:
        store.standing.admit(POSTS[1], ROOT.id)
    assert caught.value.rule is Rule.NO_ENTRY
    store.save_ghost(MOOT.id, POSTS[1].id, 2)
    with pytest.raises(InvalidMessage) as caught:
        store.standing.admit(POSTS[1], MOOT.id)
    assert caught.value.rule is Rule.GHOST


def test_admitting_roots() -> None:
    store = MemoryStore()
    assert store.standing.admit(ROOT, ROOT.id) == FULL
    assert store.standing.admit(MOOT, MOOT.id) == FULL
    thread = ALICE.root({"text": "thread"})
    with pytest.raises(InvalidMessage) as caught:
        store.standing.admit(thread, thread.id)
    assert caught.value.rule is Rule.UNKNOWN_ACCOUNT
    store.load([ROOT])
    assert store.standing.admit(thread, thread.id) == FULL


def test_from_a_modern_peer_only_predecessors_may_be_missing() -> None:
    place: dict[str, Json] = {MOOT.id: {"depth": 3, "prev": [*sorted([MOOT.id, POSTS[1].id])]}}
    store = held(ROOT, MOOT)
    found = store.standing.admit(crafted(ALICE, MOOT.id, 3, [], tangles=place), MOOT.id)
    assert found == Judgement(Mark.WAITING, missing=frozenset({Spot(MOOT.id, POSTS[1].id)}))
    # A stranger who claims tips that nobody knows gets no place to wait in.
    # Nor does one who claims tips that everybody knows, under which they have no key; in whichever tangle it came.
    claim, forged = (
        crafted(Author("mallory"), MOOT.id, 3, [], account=ROOT.id, accountTips=[tip], tangles=place)
        for tip in (POSTS[3].id, ROOT.id)
    )
    add = adding(ALICE.key, BOB)
    gap = adding(ALICE.key, CAROL, add)
    for message, tangle, rule in [
        (claim, MOOT.id, Rule.UNKNOWN_ACCOUNT),
        (claim, claim.id, Rule.UNKNOWN_ACCOUNT),
        (forged, MOOT.id, Rule.SIGKEY_UNAUTHORISED),
        (forged, forged.id, Rule.SIGKEY_UNAUTHORISED),
        (gap, ROOT.id, Rule.PREV_UNKNOWN),
        (add.erased(), ROOT.id, Rule.PREV_UNPROVEN),
    ]:
        with pytest.raises(InvalidMessage) as caught:
            store.standing.admit(message, tangle)
        assert caught.value.rule is rule


def signed_by(keypair: Keypair, message: Message) -> Message:
    """A copy of a message that somebody else has signed: it has the same id."""
    copy = from_json(
        {
            "data": message.data,
            "metadata": message.metadata,
            "sigkey": keypair.public,
            "sig": keypair.sign(message.signed),
        }
    )
    assert copy.id == message.id
    return copy


def test_a_copy_signed_by_a_stranger_does_not_keep_the_message_out() -> None:
    removal = compose.account_del(ALICE.key, account(), key=BOB.public)
    after = compose.account_del(ALICE.key, account(removal), key=CAROL.public)
    stolen = signed_by(MALLORY, removal)
    store = held(ROOT)
    store.add(stolen, ROOT.id)
    store.add(after, ROOT.id)
    assert mark(store, ROOT.id, stolen) == (Mark.INTEROP, Rule.POWER)
    assert mark(store, ROOT.id, after) == (Mark.WAITING, None)
    assert not store.standing.replaces(stolen, stolen, ROOT.id)
    assert not store.standing.replaces(signed_by(CAROL, removal), stolen, ROOT.id)
    assert not store.standing.replaces(removal.erased(), stolen, ROOT.id)
    assert store.standing.replaces(removal, stolen, ROOT.id)
    for add in (store.add, store.add_modern):
        assert add(removal, ROOT.id) in (Admission.REPLACED, Admission.KNOWN)
    assert store.message(removal.id) == removal
    assert mark(store, ROOT.id, removal) == (Mark.FULL, None)
    assert mark(store, ROOT.id, after) == (Mark.FULL, None)
    # And never the other way round.
    assert store.add(stolen, ROOT.id) is Admission.KNOWN
    assert not store.standing.replaces(stolen, removal, ROOT.id)


def test_a_proven_copy_without_data_does_not_replace_one_with_data() -> None:
    stolen = signed_by(MALLORY, POSTS[0])
    store = held(ROOT, MOOT, stolen)
    assert mark(store, MOOT.id, stolen) == (Mark.INTEROP, Rule.SIGKEY_UNAUTHORISED)
    assert not store.standing.replaces(POSTS[0].erased(), stolen, MOOT.id)
    assert store.standing.replaces(POSTS[0], stolen, MOOT.id)


def test_data_for_a_proven_message_does_not_bring_another_signature() -> None:
    removal = compose.account_del(ALICE.key, account(), key=BOB.public)
    store = held(ROOT, removal)
    store.erase(removal.id)
    assert store.add(signed_by(MALLORY, removal), ROOT.id) is Admission.FILLED
    assert store.message(removal.id) == removal


def test_judgements_can_be_kept_elsewhere() -> None:
    first = held(ROOT, MOOT, *POSTS)
    again = Standing(first)
    for message in (ROOT, MOOT, *POSTS[:3]):
        for tangle in (message.id, *message.places):
            found = first.standing.judgement(tangle, message.id)
            assert found is not None
            again.restore(Spot(tangle, message.id), found)
    assert again.judge(POSTS[3], MOOT.id) == FULL
    assert [spot.message for spot, _ in again.came(POSTS[3])] == [POSTS[3].id, POSTS[3].id]


@pytest.mark.parametrize("writer", ["alice", "bob"])
def test_everything_that_a_real_peer_does_rightly_is_full(writer: str) -> None:
    expected = {
        "key with add power adds a key": (Mark.FULL, None),
        "add without consent is still accepted by db.add": (Mark.INTEROP, Rule.CONSENT),
        "stranger sends a del (no power check)": (Mark.INTEROP, Rule.POWER),
        "account root alone": (Mark.FULL, None),
        "feed msg by root key, tips root": (Mark.FULL, None),
        "feed msg by key added later, tips include it": (Mark.FULL, None),
        "feed msg by deleted key, tips before the del": (Mark.FULL, None),
        "feed msg whose tips are unknown here": (Mark.WAITING, None),
        "feed msg by added key whose tips are unknown here": (Mark.WAITING, None),
        "moot needs no account": (Mark.FULL, None),
        "dataless copy after dataful is ignored": (Mark.FULL, None),
        "dataful after dataless replaces": (Mark.FULL, None),
        "same msg twice": (Mark.FULL, None),
    }
    seen = {}
    for case in load(f"pzp/account/rules-{writer}.json")["cases"]:
        if case["accepted"]:
            store = MemoryStore()
            for entry in case["preset"]:
                store.add(from_json(entry["msg"]), entry["tangleID"])
            store.add(from_json(case["msg"]), case["tangleID"])
            seen[case["name"]] = mark(store, case["tangleID"], from_json(case["msg"]))
    assert seen == expected


def test_a_padded_copy_spoils_nothing() -> None:
    value = canonical.parse(POSTS[0].raw)
    moot = canonical.parse(MOOT.raw)
    assert isinstance(value, dict)
    assert isinstance(moot, dict)
    padding = "x" * MODERN_BYTES_MAX
    store = held(ROOT, from_json(moot | {"sig": padding}), from_json(value | {"padding": padding}), *POSTS[1:])
    assert all(store.standing.is_full(MOOT.id, message.id) for message in (MOOT, *POSTS))
    assert all(len(message.raw) < MODERN_BYTES_MAX for message in store)


def test_a_moot_with_words_of_its_own_is_not_believed() -> None:
    value = canonical.parse(MOOT.raw)
    assert isinstance(value, dict)
    speaking_moot = from_json(value | {"metadata": {**MOOT.metadata, "says": "I owe Mallory a million"}})
    assert speaking_moot.is_moot
    store = held(ROOT, speaking_moot)
    assert mark(store, speaking_moot.id, speaking_moot) == (Mark.INTEROP, Rule.SHAPE)
    with pytest.raises(InvalidMessage) as caught:
        MemoryStore().add_modern(speaking_moot, speaking_moot.id)
    assert caught.value.rule is Rule.SHAPE
    assert MemoryStore().add(speaking_moot, speaking_moot.id) is Admission.ADDED, "as a real peer does"


def test_who_has_signed_is_proven_in_whichever_tangle() -> None:
    author = Author("two tangles")
    moot = author.moot()
    thread = author.root({"text": "topic"}, "thread")
    second = Keypair.from_words("second key")
    reply = author.post([moot.id, thread.id], {"text": "reply"})
    store = held(author.account, thread, reply)
    assert store.standing.is_full(thread.id, reply.id)
    assert not store.standing.is_full(moot.id, reply.id)
    assert not store.standing.replaces(signed_by(second, reply), reply, moot.id)
