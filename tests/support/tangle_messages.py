"""Messages for tests: a small author who writes accounts, feeds and threads."""

from collections.abc import Iterable

from bobbin.tangles.canonical import Json, canonical
from bobbin.tangles.keys import Keypair
from bobbin.tangles.message import Message, data_hash_and_size, from_json, message_id, moot_metadata
from bobbin.tangles.tangle import Tangle


class Author:
    """An account with one key, and the tangles that it writes to, as the author sees them."""

    def __init__(self, words: str) -> None:
        self.key = Keypair.from_words(words)
        key: dict[str, Json] = {"purpose": "shs-and-sig", "algorithm": "ed25519", "bytes": self.key.public}
        powers: list[Json] = ["add", "del", "external-encryption", "internal-encryption"]
        self.account = self.sign(
            {"action": "add", "key": key, "nonce": f"nonce-{words}", "powers": powers},
            {"account": "self", "accountTips": None, "tangles": {}, "domain": "account__person"},
        )
        self.tangles: dict[str, Tangle] = {self.account.id: Tangle(self.account.id, [self.account])}

    def sign(self, data: Json, metadata: dict[str, Json]) -> Message:
        """The message of some data and the rest of its metadata."""
        hash_text, size = data_hash_and_size(data)
        whole: dict[str, Json] = {"dataHash": hash_text, "dataSize": size, **metadata, "v": 4}
        return self._signed(data, whole)

    def _signed(self, data: Json, metadata: dict[str, Json]) -> Message:
        sig = self.key.sign(b":msg-v4:" + canonical(metadata))
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
        """A moot, and so many messages one after the other."""
        moot = self.moot(domain)
        return [moot, *(self.post(moot.id, {"text": f"{domain} {number}"}, domain) for number in range(count))]

    def sees(self, *messages: Message) -> None:
        """Take messages of others into account."""
        for message in messages:
            for id in (message.id, *message.places):
                if id in self.tangles or id == message.id:
                    self.tangles.setdefault(id, Tangle(id)).add(message)

    def _own(self, domain: str, entries: dict[str, Json]) -> dict[str, Json]:
        tips: list[Json] = [*sorted(self.tangles[self.account.id].tips())]
        return {"account": self.account.id, "accountTips": tips, "tangles": entries, "domain": domain}


def signed_again(key: Keypair, message: Message) -> Message:
    """A copy of a message that another key has signed. It has the same id."""
    return from_json(
        {"data": message.data, "metadata": message.metadata, "sigkey": key.public, "sig": key.sign(message.signed)}
    )
