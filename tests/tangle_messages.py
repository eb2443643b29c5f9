"""Valid messages of every shape for tests: feeds, stars, random graphs, sets."""

from collections.abc import Iterable, Sequence
from random import Random

from bobbin.tangles import accounts, compose
from bobbin.tangles.keys import Keypair
from bobbin.tangles.message import Message, MessageId
from bobbin.tangles.tangle import Tangle


class Author:
    """One account with one or more keys, and what it writes."""

    def __init__(self, name: str = "alice") -> None:
        self.keys = [Keypair.from_words(name)]
        root = compose.account_root(self.keys[0], nonce=name)
        self.account = Tangle(root.id, [root])
        self.account_messages = [root]

    def add_key(self, name: str) -> Message:
        """Add a key to the account; from then on posts are signed by it."""
        new = Keypair.from_words(name)
        consent = accounts.consent(new, self.account.id)
        message = compose.account_add(self.keys[0], self.account, key=new.public, consent=consent)
        self.account.add(message)
        self.account_messages.append(message)
        self.keys.append(new)
        return message

    def post(self, text: str, *tangles: Tangle, domain: str = "post") -> Message:
        """A message after everything in some tangles."""
        return compose.post(self.keys[-1], {"text": text}, account=self.account, domain=domain, tangles=tangles)

    def feed(self, count: int, domain: str = "post") -> list[Message]:
        """A moot and posts, each after the one before."""
        messages = [compose.moot(self.keys[0], self.account.id, domain)]
        tangle = Tangle(messages[0].id, messages)
        for number in range(count):
            messages.append(self.post(f"m{number}", tangle, domain=domain))
            tangle.add(messages[-1])
        return messages

    def star(self, count: int) -> list[Message]:
        """A thread of which every reply answers the root."""
        root = self.post("root")
        return [root] + [self.post(f"r{number}", Tangle(root.id, [root])) for number in range(count)]

    def weave(self, random: Random, count: int, *, moot: bool = False) -> list[Message]:
        """A graph that grows in three places, each of which sees only a part of it."""
        root = compose.moot(self.keys[0], self.account.id, "post") if moot else self.post(f"root {random.random()}")
        places = [Tangle(root.id, [root]) for _ in range(3)]
        messages = [root]
        for number in range(count):
            here = random.choice(places)
            messages.append(self.post(f"w{number}", here))
            here.add(messages[-1])
            if random.random() < 0.3:
                here.add_all(messages)
        return messages

    def set_feed(self, count: int, supersedes: int = 1) -> list[Message]:
        """A feed of a set, each message of which supersedes the one before it."""
        domain = "set_v1__names"
        messages = [compose.moot(self.keys[0], self.account.id, domain)]
        tangle = Tangle(messages[0].id, messages)
        for number in range(count):
            gone: list[object] = [message.id for message in messages[1:][-supersedes:]] if supersedes else []
            data = {"add": [f"value {number}"], "del": [], "supersedes": gone}
            messages.append(
                compose.post(self.keys[-1], data, account=self.account, domain=domain, tangles=[tangle])  # type: ignore[arg-type]
            )
            tangle.add(messages[-1])
        return messages


def closed(messages: Sequence[Message], tangle: MessageId, kept: Iterable[int]) -> list[Message]:
    """Some of a tangle's messages, by number, and all that they come after; the root is always there."""
    by_id = {message.id: message for message in messages}
    structure = Tangle(tangle, messages)
    ids = {messages[number].id for number in kept} | {tangle}
    ids |= structure.ancestors(ids)
    return [by_id[message.id] for message in messages if message.id in ids]


def thread(random: Random, authors: Sequence[Author], count: int) -> list[Message]:
    """A graph of several authors, who add keys to their accounts now and then; the root is the first one's."""
    root = authors[0].post(f"root {random.random()}")
    places = [Tangle(root.id, [root]) for _ in range(2)]
    messages = [root]
    for number in range(count):
        author, here = random.choice(authors), random.choice(places)
        if random.random() < 0.1:
            author.add_key(f"{author.account.id[:9]} key {number}")
        messages.append(author.post(f"t{number}", here))
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
        ids = tips | author.account.ancestors(tips)
        found += [message for message in author.account_messages if message.id in ids]
    return found
