"""What a session in the modern mode costs two sides that have indexed the tangle, in feeds of different lengths.

    python -m benchmarks.tangles_growth MISSING ROUNDS POSTS…

For each length there are two stores, one of which gets so many posts more before each session; the session brings them
to the other one. Both sides are in this process, with every frame written and read but no link between them: handshake,
cipher and socket cost the same whatever the tangle, and would hide what grows. Prints for each length the processor
seconds of both sides, session by session. The lengths take turns.
"""

import json
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from benchmarks.network_processes import PeerFailedError
from benchmarks.tangles_material import Feed, fill, make_feed, store_all
from benchmarks.tangles_side import warm
from bobbin.runtime.tangle_library import StoreKeeper
from bobbin.runtime.tangle_pair import sync_pair
from bobbin.runtime.tangle_store import TangleStore
from bobbin.store.sqlite import open_store


class Sides:
    """Two stores with the same feed."""

    def __init__(self, stack: ExitStack, folder: Path, feed: Feed, posts: int) -> None:
        self._feed: Final = feed
        self._posts = posts
        self._stores: Final = [
            _opened(stack, folder / f"{side}-{posts}.db", feed, posts) for side in ("reader", "writer")
        ]
        for store in self._stores:
            warm(StoreKeeper(store), feed.id, modern=True)

    def session(self, missing: int) -> float:
        """So many posts more on one side, and a session; the processor time of that."""
        reader, writer = self._stores
        store_all(writer, self._feed.posts[self._posts : self._posts + missing])
        self._posts += missing
        began = time.process_time()
        sync_pair(reader, writer, [self._feed.id])
        spent = time.process_time() - began
        if len(reader.tangle(self._feed.id)) != self._posts + 1:
            raise PeerFailedError(f"the feed has {len(reader.tangle(self._feed.id))} of {self._posts + 1} messages")
        return spent


def _opened(stack: ExitStack, path: Path, feed: Feed, posts: int) -> TangleStore:
    fill(path, feed.id, feed.messages(feed.posts[:posts]))
    store = TangleStore(stack.enter_context(open_store(path, create=False, now=lambda: 0)).tangles)
    store.refresh()
    return store


def main(missing: int, rounds: int, *lengths: int) -> None:
    """As the command line says. The first session of each is not counted."""
    feed = make_feed(max(lengths) + missing * (rounds + 1))
    spent: dict[int, list[float]] = {posts: [] for posts in lengths}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bobbin-bench-")))
        sides = {posts: Sides(stack, folder, feed, posts) for posts in lengths}
        for turn in range(rounds + 1):
            for posts in lengths if turn % 2 else reversed(lengths):
                seconds = sides[posts].session(missing)
                if turn:
                    spent[posts].append(seconds)
    print(json.dumps({str(posts): seconds for posts, seconds in spent.items()}))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
