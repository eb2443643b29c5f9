"""Messages for tests: an author with an account, feeds and threads; and tangles of every shape.

An author remembers the tangles that it writes to (``moot``, ``root``, ``post``, ``feed``), as somebody does who has
read them. What it *says* (``say``, and the shapes made of that) stands after what is given with it, and is remembered
by nobody: each call begins anew.
"""

from collections.abc import Iterable, Sequence
from random import Random

from bobbin.tangles import accounts, compose
from bobbin.tangles.canonical import Json, canonical
from bobbin.tangles.keys import Keypair
from bobbin.tangles.message import (
    SIGNATURE_TAG,
    VERSION,
    Message,
    MessageId,
    data_hash_and_size,
    from_json,
    message_id,
    moot_metadata,
)
from bobbin.tangles.tangle import Tangle


class Author:
    """An account with one key or more, and the tangles that it writes to, as the author sees them."""

    def __init__(self, words: str = "alice") -> None:
        self.keys = [Keypair.from_words(words)]
        self.account = compose.account_root(self.key, nonce=f"nonce-{words}")
        self.account_messages = [self.account]
        self.tangles: dict[str, Tangle] = {self.account.id: Tangle(self.account.id, [self.account])}

    @property
    def key(self) -> Keypair:
        """The first key, which has all powers."""
        return self.keys[0]

    @property
    def account_tangle(self) -> Tangle:
        """The account with all its keys."""
        return self.tangles[self.account.id]

    def add_key(self, words: str) -> Message:
        """Add a key to the account; from then on what is said is signed by it."""
        new = Keypair.from_words(words)
        consent = accounts.consent(new, self.account.id)
        message = compose.account_add(self.key, self.account_tangle, key=new.public, consent=consent)
        self.account_tangle.add(message)
        self.account_messages.append(message)
        self.keys.append(new)
        return message

    # ---- with a memory -------------------------------------------------------------------------------------------

    def sign(self, data: Json, metadata: dict[str, Json]) -> Message:
        """The message of some data and the rest of its metadata."""
        hash_text, size = data_hash_and_size(data)
        whole: dict[str, Json] = {"dataHash": hash_text, "dataSize": size, **metadata, "v": VERSION}
        return self._signed(data, whole)

    def _signed(self, data: Json, metadata: dict[str, Json]) -> Message:
        sig = self.key.sign(SIGNATURE_TAG + canonical(metadata))
        return from_json({"data": data, "metadata": metadata, "sigkey": self.key.public, "sig": sig})

    def moot(self, domain: str = "post") -> Message:
        """The root of a feed."""
        message = self._signed(None, moot_metadata(self.account.id, domain))
        assert message.id == message_id(moot_metadata(self.account.id, domain))
        self.tangles.setdefault(message.id, Tangle(message.id, [message]))
        return message

    def root(self, data: Json, domain: str = "post") -> Message:
        """The root of a thread."""
        message = self.sign(data, self._own(domain, {}))
        self.tangles[message.id] = Tangle(message.id, [message])
        return message

    def post(self, tangles: str | Iterable[str], data: Json, domain: str = "post") -> Message:
        """A message after everything that this author knows of these tangles."""
        entries: dict[str, Json] = {}
        for id in [tangles] if isinstance(tangles, str) else tangles:
            place = self.tangles[id].next_place()
            entries[id] = {"depth": place.depth, "prev": list(place.prev)}
        message = self.sign(data, self._own(domain, entries))
        for id in entries:
            self.tangles[id].add(message)
        return message

    def feed(self, count: int, domain: str = "post") -> list[Message]:
        """A moot, and so many messages after everything that is in the feed, one after the other."""
        moot = self.moot(domain)
        return [moot, *(self.post(moot.id, {"text": f"{domain} {number}"}, domain) for number in range(count))]

    def sees(self, *messages: Message) -> None:
        """Take messages of others into account."""
        for message in messages:
            for id in (message.id, *message.places):
                if id in self.tangles or id == message.id:
                    self.tangles.setdefault(id, Tangle(id)).add(message)

    def _own(self, domain: str, entries: dict[str, Json]) -> dict[str, Json]:
        tips: list[Json] = [*sorted(self.account_tangle.tips())]
        return {"account": self.account.id, "accountTips": tips, "tangles": entries, "domain": domain}

    # ---- without -------------------------------------------------------------------------------------------------

    def say(self, text: str, *tangles: Tangle, domain: str = "post") -> Message:
        """A message after everything in some tangles, signed by the last key."""
        return compose.post(self.keys[-1], {"text": text}, account=self.account_tangle, domain=domain, tangles=tangles)

    def line(self, count: int, domain: str = "post") -> list[Message]:
        """A moot and messages, each after the one before."""
        messages = [compose.moot(self.key, self.account.id, domain)]
        tangle = Tangle(messages[0].id, messages)
        for number in range(count):
            messages.append(self.say(f"m{number}", tangle, domain=domain))
            tangle.add(messages[-1])
        return messages

    def star(self, count: int) -> list[Message]:
        """A thread of which every reply answers the root."""
        root = self.say("root")
        return [root] + [self.say(f"r{number}", Tangle(root.id, [root])) for number in range(count)]

    def weave(self, random: Random, count: int, *, moot: bool = False) -> list[Message]:
        """A graph that grows in three places, each of which sees only a part of it."""
        root = compose.moot(self.key, self.account.id, "post") if moot else self.say(f"root {random.random()}")
        places = [Tangle(root.id, [root]) for _ in range(3)]
        messages = [root]
        for number in range(count):
            here = random.choice(places)
            messages.append(self.say(f"w{number}", here))
            here.add(messages[-1])
            if random.random() < 0.3:
                here.add_all(messages)
        return messages

    def set_feed(self, count: int, supersedes: int = 1) -> list[Message]:
        """A feed of a set, each message of which supersedes the one before it."""
        domain = "set_v1__names"
        messages = [compose.moot(self.key, self.account.id, domain)]
        tangle = Tangle(messages[0].id, messages)
        for number in range(count):
            gone: list[Json] = [message.id for message in messages[1:][-supersedes:]] if supersedes else []
            data: dict[str, Json] = {"add": [f"value {number}"], "del": [], "supersedes": gone}
            messages.append(
                compose.post(self.keys[-1], data, account=self.account_tangle, domain=domain, tangles=[tangle])
            )
            tangle.add(messages[-1])
        return messages


def signed_again(key: Keypair, message: Message) -> Message:
    """A copy of a message that another key has signed. It has the same id."""
    return from_json(
        {"data": message.data, "metadata": message.metadata, "sigkey": key.public, "sig": key.sign(message.signed)}
    )


def closed(messages: Sequence[Message], tangle: MessageId, kept: Iterable[int]) -> list[Message]:
    """Some of a tangle's messages, by number, and all that they come after; the root is always there."""
    by_id = {message.id: message for message in messages}
    structure = Tangle(tangle, messages)
    ids = {messages[number].id for number in kept} | {tangle}
    ids |= structure.ancestors(ids)
    return [by_id[message.id] for message in messages if message.id in ids]


def thread(random: Random, authors: Sequence[Author], count: int) -> list[Message]:
    """A graph of several authors, who add keys to their accounts now and then; the root is the first one's."""
    root = authors[0].say(f"root {random.random()}")
    places = [Tangle(root.id, [root]) for _ in range(2)]
    messages = [root]
    for number in range(count):
        author, here = random.choice(authors), random.choice(places)
        if random.random() < 0.1:
            author.add_key(f"{author.account.id[:9]} key {number}")
        messages.append(author.say(f"t{number}", here))
        here.add(messages[-1])
        if random.random() < 0.3:
            here.add_all(messages)
    return messages


def accounts_of(authors: Iterable[Author], messages: Iterable[Message]) -> list[Message]:
    """The account messages that some messages need, and no others."""
    needed: dict[MessageId, set[MessageId]] = {}
    for message in messages:
        needed.setdefault(message.account, set()).update(message.account_tips or ())
    found: list[Message] = []
    for author in authors:
        tips = needed.get(author.account.id, set())
        ids = tips | author.account_tangle.ancestors(tips)
        found += [message for message in author.account_messages if message.id in ids]
    return found
