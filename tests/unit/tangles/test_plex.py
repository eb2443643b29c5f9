"""A message as a record: the same bytes everywhere, and nothing else is taken for one."""

import pytest

from bobbin.records import tai
from bobbin.records.record import Plex, build_plex, validate
from bobbin.tangles import canonical
from bobbin.tangles.errors import InvalidMessage, Rule
from bobbin.tangles.message import Message, decode, from_json
from bobbin.tangles.plex import DEPTH_MAX, is_whole, message_of, names_signer, plex_of
from bobbin.tangles.validation import check_signature
from tests.support.tangle_messages import Author

ALICE = Author("alice")


def plex(message: Message) -> Plex:
    made = plex_of(message)
    assert made is not None
    return made


def test_the_plex_of_a_post() -> None:
    moot, first, second = ALICE.feed(2)
    made = plex(second)
    assert (made.group, made.app, made.name) == (ALICE.account.id, "pzp", f"post/{second.id}")
    assert made.tai_text == "0000000000:000000002"
    assert made.extras == (
        ("Pzp-Account", ALICE.account.id),
        ("Pzp-Depth", "2"),
        ("Pzp-Domain", "post"),
        ("Pzp-Id", second.id),
        ("Pzp-Key", ALICE.key.public),
        ("Pzp-Tangle", moot.id),
    )
    assert made.data == canonical.canonical(canonical.parse(second.raw))
    assert validate(made.raw).hash == made.hash
    assert plex(first).tai == 1


def test_the_roots() -> None:
    moot = ALICE.moot("about")
    account = plex(ALICE.account)
    assert (account.group, account.tai, account.name) == (
        ALICE.account.id,
        0,
        f"account__person/{ALICE.account.id}",
    )
    assert dict(account.extras)["Pzp-Account"] == "self"
    assert dict(account.extras)["Pzp-Tangle"] == ALICE.account.id
    assert dict(plex(moot).extras)["Pzp-Tangle"] == moot.id
    assert plex(moot).group == ALICE.account.id


def test_a_message_of_two_tangles_is_one_record_that_names_both() -> None:
    author = Author("two")
    moot = author.moot()
    author.post(moot.id, {"text": "one"})
    thread = author.root({"text": "topic"}, "thread")
    reply = author.post([moot.id, thread.id], {"text": "reply"})
    made = plex(reply)
    tangles = [value for name, value in made.extras if name == "Pzp-Tangle"]
    depths = [value for name, value in made.extras if name == "Pzp-Depth"]
    assert tangles == sorted([moot.id, thread.id])
    assert dict(zip(tangles, depths, strict=True)) == {moot.id: "2", thread.id: "1"}
    assert made.tai == 2, "the greatest depth"


def test_the_order_of_keys_makes_no_difference() -> None:
    (_, post) = Author("order").feed(1)
    value = canonical.parse(post.raw)
    assert isinstance(value, dict)
    turned = from_json(dict(reversed(value.items())))
    assert turned.raw != post.raw
    assert plex(turned).raw == plex(post).raw


def test_a_message_comes_back_from_its_plex() -> None:
    for message in [ALICE.account, *ALICE.feed(2, "chess")]:
        back = message_of(plex(message))
        assert back is not None
        assert back.id == message.id
        assert plex(back).raw == plex(message).raw
        assert (back.metadata, back.data) == (message.metadata, message.data)
        assert ((back.sigkey, back.sig) == (message.sigkey, message.sig)) is not message.is_moot


def signed_otherwise(message: Message, **changed: canonical.Json) -> Message:
    value = canonical.parse(message.raw)
    assert isinstance(value, dict)
    return from_json(value | changed)


def test_a_moot_is_one_record_whoever_has_signed_it() -> None:
    moot = ALICE.moot("about")
    made = plex(moot)
    stranger = Author("stranger").key
    for copy in [
        signed_otherwise(moot, sigkey=stranger.public, sig=stranger.sign(moot.signed)),
        signed_otherwise(moot, sig="no signature"),
        signed_otherwise(moot, more="than there should be"),
    ]:
        assert copy.id == moot.id
        assert plex(copy).raw == made.raw
    assert "Pzp-Key" not in dict(made.extras)
    assert canonical.parse(made.data) == {"data": None, "metadata": moot.metadata}
    back = message_of(made)
    assert back is not None
    assert back.is_moot
    assert message_of(plex(back)) == back


def test_a_message_that_any_key_may_sign_is_one_record_and_not_made_from_it() -> None:
    metadata: dict[str, canonical.Json] = {"account": "any", "accountTips": None, "tangles": {}, "domain": "thread"}
    one, other = (Author(words).sign({"text": "anybody"}, dict(metadata)) for words in ("one", "other"))
    assert (one.id, one.sigkey == other.sigkey) == (other.id, False)
    assert not names_signer(one)
    assert plex(one).raw == plex(other).raw
    back = message_of(plex(one))
    assert back is not None
    assert (back.id, back.data) == (one.id, one.data)
    with pytest.raises(InvalidMessage) as caught:
        check_signature(back)
    assert caught.value.rule is Rule.SIGNATURE


def test_a_signer_who_is_proven_is_part_of_the_record() -> None:
    (_, post) = Author("proven").feed(1)
    assert names_signer(post)
    stranger = Author("stranger").key
    stolen = signed_otherwise(post, sigkey=stranger.public, sig=stranger.sign(post.signed))
    assert plex(stolen).hash != plex(post).hash
    assert plex(signed_otherwise(post, more=[1])).raw == plex(post).raw, "what nobody has signed is left out"


def test_what_is_erased_is_no_record() -> None:
    (moot, post) = Author("erased").feed(1)
    assert is_whole(moot)
    assert is_whole(post)
    assert not is_whole(post.erased())
    assert plex_of(post.erased()) is None


def test_another_plex_of_the_same_app_is_no_message() -> None:
    (_, post) = Author("other").feed(1)
    made = plex(post)

    def built(**changed: object) -> Plex:
        fields: dict[str, object] = {
            "group": made.group,
            "app": made.app,
            "name": made.name,
            "tai_ns": made.tai,
            "data": made.data,
            "extras": made.extras,
        }
        return build_plex(**(fields | changed))  # type: ignore[arg-type]

    assert message_of(built()) is not None
    assert message_of(built(tai_ns=made.tai + 1)) is None
    assert message_of(built(tai_ns=tai.NANOSECONDS + made.tai)) is None
    assert message_of(built(group="any")) is None
    assert message_of(built(app="ding")) is None
    assert message_of(built(name=f"posts/{post.id}")) is None
    assert message_of(built(data=post.raw)) is None, "not the canonical text"
    assert message_of(built(data=b"{}")) is None
    assert message_of(built(data=b"\xff")) is None
    assert message_of(built(extras=made.extras[1:])) is None
    assert message_of(built(extras=[*made.extras, ("X-More", "y")])) is None


@pytest.mark.parametrize("depth", [DEPTH_MAX, DEPTH_MAX + 1])
def test_a_depth_that_does_not_fit_into_nanoseconds(depth: int) -> None:
    author = Author("deep")
    moot = author.moot()
    message = author.sign(
        {"text": "deep"},
        {
            "account": author.account.id,
            "accountTips": [author.account.id],
            "tangles": {moot.id: {"depth": depth, "prev": [moot.id]}},
            "domain": "post",
        },
    )
    assert (plex_of(message) is not None) is (depth <= DEPTH_MAX)


def test_an_account_or_tangle_that_is_no_id_makes_no_record() -> None:
    author = Author("strange")
    for account, tangle in [("a/b", "x"), ("any\nany", "x"), ("self", "no id")]:
        message = author.sign(
            {"text": "?"},
            {"account": account, "accountTips": None, "tangles": {tangle: {"depth": 1, "prev": ["y"]}}, "domain": "ab"},
        )
        assert plex_of(message) is None
        assert message_of(plex(ALICE.account)) is not None
    assert decode(ALICE.account.raw) == ALICE.account
