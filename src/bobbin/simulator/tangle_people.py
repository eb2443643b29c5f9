"""People who write in tangles: accounts with several keys, and messages of every kind at a place that knows a part.

What somebody writes follows from what is proven at the place where they write, as everywhere in this project: it stands
after everything that is proven there, and names the account as far as that is known there. So people who write at
places that do not know of each other make graphs that fork, and join again where somebody has seen both sides.
"""

from random import Random
from typing import Final, Protocol

from bobbin.tangles import accounts, compose
from bobbin.tangles.accounts import KeyRing, action_of
from bobbin.tangles.canonical import Json
from bobbin.tangles.keys import Keypair
from bobbin.tangles.message import Message, MessageId, moot_id
from bobbin.tangles.tangle import Tangle

FEED: Final = "post"
SET: Final = "set_v1__names"
DICT: Final = "dict_v1__profile"
THREAD: Final = "thread"
KEYS_MAX: Final = 3


class Place(Protocol):
    """What is known where somebody writes."""

    def proven(self, tangle: MessageId, /) -> Tangle: ...

    def message(self, id: MessageId, /) -> Message | None: ...


class Written(Protocol):
    """Takes down what was written, in a tangle."""

    def __call__(self, message: Message, tangle: MessageId, /) -> None: ...


class Person:
    """One account, its keys, and the roots of what it writes."""

    def __init__(self, name: str, random: Random) -> None:
        self.name: Final = name
        self.keys: Final = [Keypair(random.randbytes(32))]
        """All that were ever made, whether they belong to the account or not; the first one has all powers."""
        self.root: Final = compose.account_root(self.keys[0], nonce=name)
        self.feeds: Final = {domain: moot_id(self.root.id, domain) for domain in (FEED, SET, DICT)}
        """By domain, the ids of the feeds, which everybody can tell."""

    @property
    def account(self) -> MessageId:
        return self.root.id

    def keys_at(self, place: Place) -> list[Keypair]:
        """The keys that may sign for the account, as far as a place knows."""
        ring = KeyRing()
        for id in place.proven(self.account).topological():
            message = place.message(id)
            action = None if message is None else action_of(message)
            if action is not None:
                ring.apply(action)
        return [key for key in self.keys if key.public in ring.keys]


class Pen:
    """Writes at a place, for a person, whatever chance has it write."""

    def __init__(self, random: Random, place: Place, written: Written) -> None:
        self._random: Final = random
        self._place: Final = place
        self._written: Final = written

    def write(self, person: Person, threads: list[MessageId]) -> str | None:
        """Write something. Gives what it was; None where the person has no key there, or nothing can be written."""
        keys = person.keys_at(self._place)
        if not keys:
            return None
        kind = self._random.choices(
            ("post", "set", "dict", "thread", "reply", "key", "revoke"), weights=(5, 3, 2, 1, 5, 1, 0.6)
        )[0]
        key = self._random.choice(keys)
        if kind == "post":
            self._append(person, key, FEED, {"text": self._words()})
        elif kind in ("set", "dict"):
            self._update(person, key, SET if kind == "set" else DICT)
        elif kind == "thread" or (kind == "reply" and not self._reply(person, key, threads)):
            root = self._post(person, key, {"text": self._words()}, THREAD, [])
            self._written(root, root.id)
            threads.append(root.id)
            kind = "thread"
        elif kind == "key":
            self.add_key(person)
        elif kind == "revoke":
            self.revoke_key(person)
        return kind

    def add_key(self, person: Person) -> None:
        """A new key agrees to be one of the account's; at times one with powers of its own."""
        if len(person.keys) >= KEYS_MAX or person.keys[0] not in person.keys_at(self._place):
            return
        new = Keypair(self._random.randbytes(32))
        person.keys.append(new)
        account = self._place.proven(person.account)
        powers = self._random.choice((None, None, ("add",), ("add", "del")))
        consent = accounts.consent(new, person.account)
        message = compose.account_add(person.keys[0], account, key=new.public, consent=consent, powers=powers)
        self._written(message, person.account)

    def revoke_key(self, person: Person) -> None:
        """One of the later keys goes."""
        here = person.keys_at(self._place)
        later = [key for key in here if key is not person.keys[0]]
        if later and person.keys[0] in here:
            gone = self._random.choice(later)
            account = self._place.proven(person.account)
            self._written(compose.account_del(person.keys[0], account, key=gone.public), person.account)

    def begin(self, person: Person, domain: str) -> Tangle:
        """A feed whose moot is held here from now on."""
        feed = self._place.proven(person.feeds[domain])
        if feed.root is None:
            moot = compose.moot(person.keys[0], person.account, domain)
            self._written(moot, moot.id)
            feed = self._place.proven(moot.id)
        return feed

    def _append(self, person: Person, key: Keypair, domain: str, data: dict[str, Json]) -> None:
        feed = self.begin(person, domain)
        self._written(self._post(person, key, data, domain, [feed]), feed.id)

    def _update(self, person: Person, key: Keypair, domain: str) -> None:
        feed = self.begin(person, domain)
        earlier = [id for id in feed.topological() if id != feed.id and feed.has_data(id)]
        recent = earlier[-4:]
        gone: list[Json] = list(self._random.sample(recent, self._random.randrange(len(recent) + 1)))
        value = self._words()
        data: dict[str, Json] = (
            {"add": [value], "del": [], "supersedes": gone}
            if domain == SET
            else {"update": {"name": value}, "supersedes": gone}
        )
        self._written(self._post(person, key, data, domain, [feed]), feed.id)

    def _reply(self, person: Person, key: Keypair, threads: list[MessageId]) -> bool:
        """An answer in a thread that is known here, at times in the own feed as well."""
        known = [thread for thread in threads if self._place.proven(thread).root is not None]
        if not known:
            return False
        thread = self._place.proven(self._random.choice(known))
        tangles, domain = [thread], THREAD
        if self._random.random() < 0.3:
            tangles, domain = [thread, self.begin(person, FEED)], FEED
        self._written(self._post(person, key, {"text": self._words()}, domain, tangles), thread.id)
        return True

    def _post(self, person: Person, key: Keypair, data: dict[str, Json], domain: str, tangles: list[Tangle]) -> Message:
        account = self._place.proven(person.account)
        return compose.post(key, data, account=account, domain=domain, tangles=tangles)

    def _words(self) -> str:
        return self._random.randbytes(self._random.choice((4, 12, 40))).hex()
