"""Laces with tangles for the tests of commands."""

import shutil
from pathlib import Path

from msgspec import Struct

from bobbin.lace import Lace


class Woven(Struct, frozen=True):
    """A lace with an account, a feed of three posts, and a thread with one reply that is also in the feed."""

    folder: Path
    account: str
    feed: str
    thread: str
    posts: tuple[str, ...]

    def copied(self, folder: Path) -> "Woven":
        """The same in another folder."""
        shutil.copytree(self.folder, folder)
        return Woven(folder, self.account, self.feed, self.thread, self.posts)


def weave(folder: Path) -> Woven:
    """Make one."""
    with Lace.create(folder) as lace:
        key = lace.account_keys.create("account")
        account = lace.tangles.new_account(key).id
        feed = lace.tangles.feed(key, "post")
        posts = [lace.tangles.post(key, {"text": f"post {number}"}, tangles=[feed]).id for number in range(3)]
        thread = lace.tangles.post(key, {"text": "topic"}, domain="thread").id
        posts.append(lace.tangles.post(key, {"text": "reply"}, tangles=[thread, feed]).id)
    return Woven(folder, account, feed, thread, tuple(posts))
