"""Feeds that are the same on every machine, and a side of ours and of the reference that holds one.

One account writes one feed, post after post. A side may lack some of it: the newest posts, or as many spread over all
of it.
"""

import json
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Final

from msgspec import Struct

from benchmarks.network_processes import PeerFailedError
from bobbin.runtime.tangle_store import TangleStore
from bobbin.store.sqlite import open_store
from bobbin.store.tangles import Level
from bobbin.tangles import compose
from bobbin.tangles.keys import Keypair
from bobbin.tangles.message import Message, MessageId
from bobbin.tangles.tangle import Tangle

WRITER: Final = Keypair.from_words("writer")
READER: Final = Keypair.from_words("reader")
DOMAIN: Final = "post"
_TEXT: Final = "a post of the benchmark with the number {:06d}, about as long as what people write in one line"


class Lacking(StrEnum):
    """Which posts a side does not have."""

    NEWEST = "newest"
    SCATTERED = "scattered"


class Feed(Struct, frozen=True, kw_only=True):
    """An account, the root of its feed, and the posts."""

    account: Message
    root: Message
    posts: Sequence[Message]

    @property
    def id(self) -> MessageId:
        """The tangle."""
        return self.root.id

    def messages(self, posts: Sequence[Message] | None = None) -> list[Message]:
        """Everything in the order of writing, with these posts or all."""
        return [self.account, self.root, *(self.posts if posts is None else posts)]

    def without(self, count: int, lacking: Lacking) -> list[Message]:
        """The posts of a side that lacks so many."""
        if lacking is Lacking.NEWEST:
            return list(self.posts[: len(self.posts) - count])
        gone: set[MessageId] = set()
        step = len(self.posts) // count
        for first in range(step // 2, step * count, step):
            # A post comes in only where one of those before it is held; so not every post can be lacking alone.
            gone.add(next(post.id for post in self.posts[first:] if self._can_lack(post.id, gone)))
        return [post for post in self.posts if post.id not in gone]

    def _can_lack(self, id: MessageId, gone: set[MessageId]) -> bool:
        after = (post.places[self.id].prev for post in self.posts if id in post.places[self.id].prev)
        return id not in gone and all(set(prev) - gone - {id} for prev in after)


def make_feed(count: int) -> Feed:
    """A feed of so many posts."""
    account = compose.account_root(WRITER, nonce="benchmark")
    owner = Tangle(account.id, [account])
    root = compose.moot(WRITER, account.id, DOMAIN)
    feed = Tangle(root.id, [root])
    posts: list[Message] = []
    for number in range(count):
        data = {"text": _TEXT.format(number)}
        post = compose.post(WRITER, data, account=owner, domain=DOMAIN, tangles=[feed])
        feed.add(post)
        posts.append(post)
    return Feed(account=account, root=root, posts=posts)


def write_lines(path: Path, messages: Sequence[Message]) -> None:
    """Messages as the reference's script reads them: one ``[id, message]`` on each line."""
    lines = (f"[{json.dumps(message.id)},{message.raw.decode()}]\n" for message in messages)
    path.write_text("".join(lines), encoding="utf-8")


def fill(path: Path, feed: MessageId, messages: Sequence[Message]) -> None:
    """A new store of ours with these messages, which wants all of the feed."""
    with open_store(path, create=True, now=lambda: 0) as opened:
        store = TangleStore(opened.tangles)
        store_all(store, messages)
        store.set_goal(feed, "all")


def store_all(store: TangleStore, messages: Sequence[Message]) -> None:
    """Have messages stored by the rules of the modern mode. None of them may be refused."""
    done = store.commit(messages, level=Level.MODERN)
    if done.refused or len(done.added) != len(messages):
        raise PeerFailedError(f"{len(done.added)} of {len(messages)} messages were stored")


def held(store: TangleStore) -> int:
    """How many messages a store has."""
    return sum(1 for _ in store.kept())
