"""Messages that should not be: what somebody who wants harm writes, with a key of their own or one that was taken away.

Each kind breaks one rule. Some of them a real pzp peer takes all the same, some nobody may take; which is which is not
said here, but follows from the rules that the watchers of a world know.
"""

from collections.abc import Callable
from random import Random
from typing import Final

from bobbin.simulator.tangle_people import FEED, Person
from bobbin.tangles import accounts
from bobbin.tangles.canonical import Json, canonical
from bobbin.tangles.keys import Keypair
from bobbin.tangles.message import SIGNATURE_TAG, VERSION, Message, MessageId, data_hash_and_size, from_json
from bobbin.tangles.tangle import Tangle

FAR: Final = 40
OVERSIZED: Final = 70_000


class Forger:
    """Writes what should not be, in tangles as they are known to it."""

    def __init__(self, random: Random, own: Person, victims: list[Person]) -> None:
        self._random: Final = random
        self._own: Final = own
        self._victims: Final = victims
        self._stranger: Final = Keypair(random.randbytes(32))
        self.made: dict[str, int] = {}
        """How many of each kind."""

    def forge(self, tangle: Tangle, account: Callable[[MessageId], Tangle], known: list[Message]) -> Message | None:
        """A message for a tangle; None where it knows too little for what it had in mind."""
        if tangle.root is None:
            return None
        kinds = _ACCOUNT_KINDS if tangle.root.is_account else _KINDS
        kind = self._random.choice(kinds)
        made = getattr(self, f"_{kind}")(tangle, account, known)
        if made is not None:
            self.made[kind] = self.made.get(kind, 0) + 1
        assert made is None or isinstance(made, Message)
        return made

    # ---- places ---------------------------------------------------------------------------------------------------

    def _wrong_depth(self, tangle: Tangle, account: Callable[[MessageId], Tangle], known: list[Message]) -> Message:
        del known
        depth, prev = self._place(tangle)
        return self._post(tangle, account, depth + self._random.choice((-1, 1, FAR)), prev)

    def _unknown_predecessor(
        self, tangle: Tangle, account: Callable[[MessageId], Tangle], known: list[Message]
    ) -> Message:
        """Nobody knows one of its predecessors; that frees it from its depth at real peers."""
        del known
        depth, prev = self._place(tangle)
        return self._post(tangle, account, depth + self._random.choice((0, 1, FAR)), [*prev, self._nobody()])

    def _hanging(self, tangle: Tangle, account: Callable[[MessageId], Tangle], known: list[Message]) -> Message:
        del known
        return self._post(tangle, account, self._random.randint(1, 9), [self._nobody()])

    def _backwards(self, tangle: Tangle, account: Callable[[MessageId], Tangle], known: list[Message]) -> Message:
        """It stands above something that it claims to come after: the only cycle that hashes leave."""
        del known
        _, prev = self._place(tangle)
        return self._post(tangle, account, 1, [*prev, tangle.id])

    def _unsorted(self, tangle: Tangle, account: Callable[[MessageId], Tangle], known: list[Message]) -> Message:
        del known
        depth, prev = self._place(tangle)
        wrong = prev * 2 if self._random.random() < 0.5 else sorted({*prev, tangle.id}, reverse=True)
        return self._post(tangle, account, depth, wrong, as_is=True)

    def _stray(self, tangle: Tangle, account: Callable[[MessageId], Tangle], known: list[Message]) -> Message:
        """Right here, and wrong in a second tangle."""
        others = [id for message in known for id in message.places if id != tangle.id]
        other = self._random.choice(others) if others else self._nobody()
        depth, prev = self._place(tangle)
        wrong: dict[str, Json] = {"depth": self._random.choice((1, FAR)), "prev": [self._nobody()]}
        return self._post(tangle, account, depth, prev, also={other: wrong})

    # ---- people ---------------------------------------------------------------------------------------------------

    def _foreign(self, tangle: Tangle, account: Callable[[MessageId], Tangle], known: list[Message]) -> Message:
        """In the name of an account that the key is not of."""
        del known
        depth, prev = self._place(tangle)
        key = self._random.choice((self._stranger, self._own.keys[0]))
        return self._post(tangle, account, depth, prev, key=key, name=self._random.choice(self._victims))

    def _unknown_tips(self, tangle: Tangle, account: Callable[[MessageId], Tangle], known: list[Message]) -> Message:
        """Tips that nobody knows: at real peers they let every key of the account pass."""
        del known
        victim = self._random.choice(self._victims)
        depth, prev = self._place(tangle)
        key = self._random.choice((self._stranger, victim.keys[-1]))
        return self._post(tangle, account, depth, prev, key=key, name=victim, tips=[self._nobody()])

    def _revoked(self, tangle: Tangle, account: Callable[[MessageId], Tangle], known: list[Message]) -> Message | None:
        """Signed by a key that is one of the account's no longer, or not yet."""
        del known
        several = [person for person in self._victims if len(person.keys) > 1]
        if not several:
            return None
        victim = self._random.choice(several)
        depth, prev = self._place(tangle)
        return self._post(tangle, account, depth, prev, key=self._random.choice(victim.keys[1:]), name=victim)

    def _account_action(
        self, tangle: Tangle, account: Callable[[MessageId], Tangle], known: list[Message]
    ) -> Message | None:
        """Keys that are added or removed by somebody who may not, or without having agreed."""
        del account, known
        victim = next((person for person in self._victims if person.account == tangle.id), None)
        if victim is None or tangle.root is None:
            return None
        new = self._stranger
        signer = self._random.choice((self._stranger, *victim.keys[1:]))
        key: dict[str, Json] = {"purpose": "sig", "algorithm": "ed25519", "bytes": new.public}
        data: dict[str, Json] = {"action": "add", "key": key}
        form = self._random.randrange(4)
        if form == 0:
            data = {"action": "del", "key": {**key, "bytes": self._random.choice(victim.keys).public}}
        elif form == 1:
            data["consent"] = accounts.consent(new, tangle.id)
        elif form == 2:
            signer = victim.keys[-1]
            data["consent"] = accounts.consent(new, self._own.account)
        else:
            data = {"action": "rename", "key": key}
        place = tangle.next_place()
        entry: dict[str, Json] = {"depth": place.depth, "prev": list(place.prev)}
        return _signed(signer, data, "self", None, {tangle.id: entry}, tangle.root.domain)

    # ---- contents -------------------------------------------------------------------------------------------------

    def _altered(self, tangle: Tangle, account: Callable[[MessageId], Tangle], known: list[Message]) -> Message | None:
        """Other data, or another signature, under the metadata of a message that is right, new or known."""
        here = [message for message in known if message.id in tangle and not message.is_moot]
        if tangle.root is not None and not tangle.root.is_account and self._random.random() < 0.7:
            here = [self._post(tangle, account, *self._place(tangle))]
        if not here:
            return None
        message = self._random.choice(here)
        data: Json = message.data
        sig = message.sig
        if self._random.random() < 0.5:
            data = {"text": "forged"}
        else:
            sig = self._stranger.sign(message.signed)
        return from_json({"data": data, "metadata": message.metadata, "sigkey": message.sigkey, "sig": sig})

    def _countersigned(
        self, tangle: Tangle, account: Callable[[MessageId], Tangle], known: list[Message]
    ) -> Message | None:
        """A message that is right, signed again by a key of somebody else: it has the same id."""
        del account
        here = [message for message in known if message.id in tangle]
        if not here:
            return None
        message = self._random.choice(here)
        key = self._random.choice((Keypair(self._random.randbytes(32)), *self._own.keys))
        return from_json(
            {"data": message.data, "metadata": message.metadata, "sigkey": key.public, "sig": key.sign(message.signed)}
        )

    def _oversized(self, tangle: Tangle, account: Callable[[MessageId], Tangle], known: list[Message]) -> Message:
        del known
        depth, prev = self._place(tangle)
        return self._post(tangle, account, depth, prev, data={"text": "x" * OVERSIZED})

    def _other_feed(self, tangle: Tangle, account: Callable[[MessageId], Tangle], known: list[Message]) -> Message:
        """Its domain or its account is not that of the feed that it stands in."""
        del known
        depth, prev = self._place(tangle)
        return self._post(tangle, account, depth, prev, name=self._own, domain="other_feed")

    # ---- parts ----------------------------------------------------------------------------------------------------

    def _place(self, tangle: Tangle) -> tuple[int, list[MessageId]]:
        place = tangle.next_place()
        return place.depth, list(place.prev)

    def _nobody(self) -> MessageId:
        return Keypair(self._random.randbytes(32)).public

    def _post(
        self,
        tangle: Tangle,
        account: Callable[[MessageId], Tangle],
        depth: int,
        prev: list[MessageId],
        *,
        data: Json = None,
        key: Keypair | None = None,
        name: Person | None = None,
        tips: list[MessageId] | None = None,
        domain: str | None = None,
        also: dict[str, Json] | None = None,
        as_is: bool = False,
    ) -> Message:
        """A message that is right but for what is said: of the account of the feed, if its key is at hand."""
        assert tangle.root is not None
        of_feed = next((person for person in self._victims if person.account == tangle.root.account), None)
        person = name or (of_feed if tangle.root.is_moot and of_feed is not None else self._own)
        # A key that the person has lent: whoever forges for another account than the own one has one of its keys.
        signer = key or person.keys[-1]
        entry: dict[str, Json] = {"depth": depth, "prev": list(prev if as_is else sorted(set(prev)))}
        known_tips = sorted(account(person.account).tips()) or [person.account]
        return _signed(
            signer,
            data if data is not None else {"text": self._random.randbytes(6).hex()},
            person.account,
            known_tips if tips is None else tips,
            {tangle.id: entry, **(also or {})},
            domain or (tangle.root.domain if tangle.root.is_moot else FEED),
        )


_KINDS: Final = (
    "wrong_depth",
    "unknown_predecessor",
    "hanging",
    "backwards",
    "unsorted",
    "stray",
    "foreign",
    "unknown_tips",
    "revoked",
    "altered",
    "countersigned",
    "oversized",
    "other_feed",
)
_ACCOUNT_KINDS: Final = ("account_action", "altered", "countersigned")


def _signed(
    key: Keypair, data: Json, account: str, tips: list[MessageId] | None, tangles: dict[str, Json], domain: str
) -> Message:
    hash_text, size = data_hash_and_size(data)
    metadata: dict[str, Json] = {
        "dataHash": hash_text,
        "dataSize": size,
        "account": account,
        "accountTips": None if tips is None else list(tips),
        "tangles": tangles,
        "domain": domain,
        "v": VERSION,
    }
    sig = key.sign(SIGNATURE_TAG + canonical(metadata))
    return from_json({"data": data, "metadata": metadata, "sigkey": key.public, "sig": sig})
