"""Validation: what a real peer accepts, and the first rule of its order that everything else breaks."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from bobbin.tangles.canonical import Json, canonical
from bobbin.tangles.errors import InvalidMessage, Rule
from bobbin.tangles.message import Message, data_hash_and_size, from_json, moot_metadata
from bobbin.tangles.tangle import Tangle
from bobbin.tangles.validation import check_domain, check_signature, check_standing, validate
from tests.support.tangle_messages import Author
from tests.vectors.load import load

ALICE = Author("alice")
BOB = Author("bob")
MOOT, *POSTS = ALICE.feed(4)
THREAD = ALICE.root({"text": "thread"})
KEYS = frozenset({ALICE.key.public})


def feed() -> Tangle:
    return Tangle(MOOT.id, [MOOT, *POSTS])


def broken(value: Json, tangle: Tangle, keys: frozenset[str] = KEYS) -> Rule | None:
    """The rule that a message breaks in a tangle."""
    try:
        validate(from_json(value), tangle, keys)
    except InvalidMessage as error:
        return error.rule
    return None


@pytest.mark.parametrize("writer", ["alice", "bob"])
def test_the_verdicts_of_a_real_peer(writer: str) -> None:
    cases = load(f"pzp/validate/feed-{writer}.json")
    tangle = Tangle(cases["rootID"], [from_json(entry["msg"]) for entry in cases["tangle"]])
    keys = frozenset(cases["sigkeys"])
    assert len(cases["cases"]) == 62
    for case in cases["cases"]:
        assert broken(case["msg"], tangle, keys) == case["fails"], case["name"]
        assert case["ok"] == (case["fails"] is None)


@pytest.mark.parametrize("writer", ["alice", "bob"])
def test_roots_under_their_own_and_other_ids(writer: str) -> None:
    for case in load(f"pzp/validate/feed-{writer}.json")["root_cases"]:
        message = from_json(case["msg"])
        assert message.id == case["msgID"]
        assert broken(case["msg"], Tangle(case["rootID"], [message])) == case["fails"], case["name"]


def test_domains() -> None:
    for domain, valid in load("pzp/validate/domains.json")["cases"]:
        if valid:
            check_domain(domain)
        else:
            with pytest.raises(InvalidMessage) as caught:
                check_domain(domain)
            assert caught.value.rule is Rule.DOMAIN
    with pytest.raises(InvalidMessage):
        check_domain("post\n")
    with pytest.raises(InvalidMessage):
        check_domain(7)


FAULTS: list[tuple[Rule, dict[str, Json]]] = [
    # In the order of validation; each is a fault of its own, written into a message that is right otherwise.
    (Rule.DATA_SIZE_TYPE, {"dataSize": -1}),
    (Rule.DATA_HASH, {"dataHash": "x"}),
    (Rule.DOMAIN, {"domain": "no"}),
    (Rule.ACCOUNT_KIND, {"account": "self"}),
    (Rule.NO_ENTRY, {"tangles": {}}),
]


def with_faults(*faults: dict[str, Json]) -> Json:
    """The next post of the feed with these faults, unsigned, so that the signature is the last fault of all."""
    value: dict[str, Any] = json.loads(POSTS[-1].raw)
    for fault in faults:
        value["metadata"].update(fault)
    return value


def test_of_two_faults_the_first_in_order_is_named() -> None:
    for position, (rule, fault) in enumerate(FAULTS):
        assert broken(with_faults(fault), feed()) is rule
        for later, other in FAULTS[position + 1 :]:
            assert broken(with_faults(other, fault), feed()) is rule, later
    place: dict[str, Json] = {"depth": 9, "prev": [POSTS[2].id]}
    assert broken(with_faults({"tangles": {MOOT.id: place}}), feed()) is Rule.DEPTH
    assert broken(with_faults({"accountTips": []}), feed()) is Rule.SIGNATURE
    assert broken(with_faults({"accountTips": []}), feed(), frozenset()) is Rule.SIGKEY_UNAUTHORISED


def entry_fault(entry: Json) -> Rule | None:
    return broken(with_faults({"tangles": {MOOT.id: entry}}), feed())


def test_faults_of_a_place_in_order() -> None:
    first, second = sorted(post.id for post in POSTS[:2])
    assert entry_fault(None) is Rule.NO_ENTRY
    assert entry_fault(0) is Rule.NO_ENTRY
    assert entry_fault("text") is Rule.PREV_TYPE
    assert entry_fault([]) is Rule.PREV_TYPE
    assert entry_fault({"depth": 0, "prev": None}) is Rule.PREV_TYPE
    assert entry_fault({"depth": 0, "prev": [7]}) is Rule.DEPTH_TYPE
    assert entry_fault({"depth": 2**53, "prev": []}) is Rule.DEPTH_TYPE
    assert entry_fault({"depth": 9, "prev": [7]}) is Rule.PREV_ITEM
    assert entry_fault({"depth": 9, "prev": ["pzp:message/x"]}) is Rule.PREV_URI
    assert entry_fault({"depth": 9, "prev": [second, second]}) is Rule.PREV_DUPLICATES
    assert entry_fault({"depth": 9, "prev": [second, first]}) is Rule.PREV_UNSORTED
    assert entry_fault({"depth": 1, "prev": [POSTS[0].id]}) is Rule.PREV_DEPTH
    assert entry_fault({"depth": 9, "prev": []}) is Rule.PREV_UNKNOWN
    assert entry_fault({"depth": 9, "prev": ["unknown"]}) is Rule.PREV_UNKNOWN
    assert entry_fault({"depth": 9, "prev": [POSTS[0].id]}) is Rule.DEPTH
    # Everything about the place is right, or cannot be told: the signature is next.
    assert entry_fault({"depth": 9, "prev": [POSTS[0].id, "zzz"]}) is Rule.SIGNATURE
    assert entry_fault({"depth": 2.0, "prev": [POSTS[0].id]}) is Rule.SIGNATURE


def test_prev_is_sorted_by_utf16_code_unit() -> None:
    known = POSTS[0].id
    assert entry_fault({"depth": 9, "prev": [known, "\U0001f600", "\ufb33"]}) is Rule.SIGNATURE
    assert entry_fault({"depth": 9, "prev": [known, "\ufb33", "\U0001f600"]}) is Rule.PREV_UNSORTED


def test_a_feed_has_one_domain_and_one_account() -> None:
    assert broken(with_faults({"domain": "other"}), feed()) is Rule.FEED_DOMAIN
    other: dict[str, Json] = {"account": BOB.account.id}
    assert broken(with_faults(other), feed()) is Rule.FEED_ACCOUNT
    assert broken(with_faults({"account": "any"}), feed(), frozenset()) is Rule.FEED_ACCOUNT


def test_a_moot_is_accepted_in_a_feed_whoever_signed_it() -> None:
    value = json.loads(MOOT.raw)
    value["sig"] = BOB.key.sign(b"something")
    value["sigkey"] = BOB.key.public
    moot = from_json(value)
    validate(moot, Tangle(moot.id, [moot]), ())


def test_without_the_root_nothing_can_be_validated() -> None:
    with pytest.raises(InvalidMessage) as caught:
        validate(POSTS[0], Tangle(MOOT.id), KEYS)
    assert caught.value.rule is Rule.TANGLE_TYPE


def test_weaves_and_any_account() -> None:
    weave = Tangle(THREAD.id, [THREAD])
    validate(THREAD, weave, KEYS)
    with pytest.raises(InvalidMessage) as caught:
        validate(THREAD, weave, ())
    assert caught.value.rule is Rule.SIGKEY_UNAUTHORISED
    anyone = BOB.sign({"text": "hi"}, {"account": "any", "accountTips": None, "tangles": {}, "domain": "chat_room"})
    validate(anyone, Tangle(anyone.id, [anyone]), ())


def test_account_tangles() -> None:
    account = Tangle(ALICE.account.id, [ALICE.account])
    validate(ALICE.account, account, ())
    place: dict[str, Json] = {ALICE.account.id: {"depth": 1, "prev": [ALICE.account.id]}}
    metadata: dict[str, Json] = {"account": "self", "accountTips": None, "tangles": place, "domain": "account__person"}
    validate(ALICE.sign({"action": "del"}, metadata), account, ())
    changes: list[tuple[dict[str, Json], Rule]] = [
        ({"account": ALICE.account.id}, Rule.ACCOUNT_KIND),
        ({"account": "any"}, Rule.ACCOUNT_KIND),
        ({"accountTips": []}, Rule.ACCOUNT_TIPS),
    ]
    for change, rule in changes:
        with pytest.raises(InvalidMessage) as caught:
            validate(ALICE.sign({"action": "del"}, {**metadata, **change}), account, ())
        assert caught.value.rule is rule


def test_data() -> None:
    value = json.loads(POSTS[0].raw)
    value["data"] = {"text": "post 1"}
    assert broken(value, feed()) is Rule.DATA_HASH
    value["metadata"]["dataHash"] = data_hash_and_size(value["data"])[0]
    assert broken(value, feed()) is Rule.SIGNATURE
    value["metadata"]["dataSize"] += 1
    assert broken(value, feed()) is Rule.DATA_SIZE
    value["data"] = None
    assert broken(value, feed()) is Rule.SIGNATURE
    value["metadata"]["dataSize"] = 0
    assert broken(value, feed()) is Rule.SIGNATURE
    validate(POSTS[0].erased(), Tangle(MOOT.id, [MOOT]), KEYS)


def test_an_encrypted_text_counts_its_quotes() -> None:
    sealed = ALICE.post(MOOT.id, "c2VjcmV0.box")
    assert sealed.data_size == len("c2VjcmV0.box") + 2
    validate(sealed, feed(), KEYS)


def test_signatures() -> None:
    check_signature(POSTS[0])
    for sig, rule in [
        ("0", Rule.SIG_FORMAT),
        (POSTS[0].sig[:-3], Rule.SIG_FORMAT),
        (POSTS[1].sig, Rule.SIGNATURE),
        (ALICE.key.sign(canonical(POSTS[0].metadata)), Rule.SIGNATURE),
    ]:
        value = json.loads(POSTS[0].raw) | {"sig": sig}
        with pytest.raises(InvalidMessage) as caught:
            check_signature(from_json(value))
        assert caught.value.rule is rule


def test_a_root_has_no_entry_for_itself() -> None:
    """No message can name its own hash; one that is told to be the root all the same is refused."""
    posing = replace(POSTS[0], id=MOOT.id)
    with pytest.raises(InvalidMessage) as caught:
        validate(posing, feed(), KEYS)
    assert caught.value.rule is Rule.ROOT_ENTRY


def unsigned(message: Message) -> Message:
    return from_json(json.loads(message.raw) | {"sig": "1"})


def test_standing_leaves_out_what_is_the_same_in_every_tangle() -> None:
    check_standing(unsigned(POSTS[0]), feed(), KEYS)
    check_standing(unsigned(MOOT), feed(), ())
    with pytest.raises(InvalidMessage) as caught:
        check_standing(POSTS[0], feed(), ())
    assert caught.value.rule is Rule.SIGKEY_UNAUTHORISED
    with pytest.raises(InvalidMessage) as caught:
        check_standing(POSTS[0], Tangle(MOOT.id), KEYS)
    assert caught.value.rule is Rule.TANGLE_TYPE
    odd = ALICE._signed(None, moot_metadata(ALICE.account.id, "?"))
    validate(odd, Tangle(odd.id, [odd]), ())
    with pytest.raises(InvalidMessage) as caught:
        check_standing(odd, Tangle(odd.id, [odd]), ())
    assert caught.value.rule is Rule.DOMAIN


@pytest.mark.parametrize("lacks", ["lipmaa link", "tip", "sorted tips", "small size"])
def test_what_a_real_peer_does_not_ask_for(lacks: str) -> None:
    tangle = feed()
    prev, depth, tips, text = [POSTS[3].id], 5, [ALICE.account.id], "short"
    if lacks == "lipmaa link":
        tangle = Tangle(MOOT.id, [MOOT, *POSTS[:2]])
        prev, depth = [POSTS[1].id], 3
    elif lacks == "tip":
        prev, depth = [POSTS[2].id], 4
    elif lacks == "sorted tips":
        tips = ["b", "a"]
    else:
        text = "x" * 70_000
    entries: dict[str, Json] = {MOOT.id: {"depth": depth, "prev": [*prev]}}
    metadata: dict[str, Json] = {
        "account": ALICE.account.id,
        "accountTips": [*tips],
        "tangles": entries,
        "domain": "post",
    }
    validate(ALICE.sign({"text": text}, metadata), tangle, KEYS)
