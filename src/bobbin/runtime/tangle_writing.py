"""The tangles of a lace, for programs: accounts, feeds, threads and posts, written with a key.

A new message stands after everything that is proven of its tangles, names its account as far as that is proven, and is
stored like one that came from anybody: validated by the rules of the modern mode, in one durable commit.

Where a goal lets go of what came before (``newest-N``, ``set``, ``dict``), the newest messages cannot be proven for
lack of the oldest. There a new message stands after those as well that only wait for predecessors, signed by somebody
who may: after the root alone it would stand where nobody looks who wants the newest, and where the goal lets go of it.
It is proven wherever the whole tangle is.
"""

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Final

from bobbin.errors import UsageError
from bobbin.runtime.tangle_store import TangleStore
from bobbin.store.base import Store
from bobbin.store.tangles import Level, TangleTables
from bobbin.tangles import accounts, compose
from bobbin.tangles.accounts import Act, KeyRing, action_of
from bobbin.tangles.canonical import Json
from bobbin.tangles.errors import InvalidMessage, Rule
from bobbin.tangles.goals import GoalKind
from bobbin.tangles.keys import Keypair
from bobbin.tangles.message import ACCOUNT_DOMAIN_PREFIX, ANY, Message, MessageId, Place, is_message_id, moot_id
from bobbin.tangles.session_events import Refused
from bobbin.tangles.structures import DICT_DOMAIN_PREFIX, SET_DOMAIN_PREFIX
from bobbin.tangles.tangle import Kind, Tangle

_SET_FORM: Final = '{"add":[VALUE…],"del":[VALUE…],"supersedes":[ID…]}'
_DICT_FORM: Final = '{"update":{NAME:VALUE…},"supersedes":[ID…]}'
_LETTING_GO: Final = frozenset({GoalKind.NEWEST, GoalKind.SET, GoalKind.DICT})
"""Goals by which what came before is not kept."""
_NONCE_BYTES: Final = 16
_PREFIX_MIN: Final = 4


class NoAccount(UsageError):
    """A key belongs to no account that is known here. Nothing was changed."""


class SeveralAccounts(UsageError):
    """A key belongs to several accounts, and nobody has said which one is meant. Nothing was changed."""


def tables_of(store: Store) -> TangleTables:
    """The tangles of a store that has any."""
    tables: TangleTables | None = getattr(store, "tangles", None)
    if tables is None:
        raise UsageError("tangles are not replicated, nor in a lake: keep them in a lace of one machine")
    return tables


class Tangles(TangleStore):
    """The tangles of a lace. Get it from ``Lace.tangles``."""

    # ---- finding -------------------------------------------------------------------------------------------------

    def resolve(self, text: str) -> MessageId:
        """The id that a text names: a whole one, known here or not, or the beginning of one that is known here."""
        if is_message_id(text):
            return text
        if len(text) < _PREFIX_MIN:
            raise UsageError(
                f"{text!r} is too short: an id is given whole, or at least its first {_PREFIX_MIN} characters"
            )
        found = self.beginning(text)
        if len(found) == 1:
            return found[0]
        if found:
            raise UsageError(f"{text!r} is the beginning of {', '.join(found)}; say more of it")
        raise UsageError(f"{text[:80]!r} is neither the id of a tangle nor the beginning of one that is known here")

    def accounts(self) -> list[MessageId]:
        """The accounts that are known here."""
        return [message.id for message in self.roots() if message.is_account]

    def keys_of(self, account: MessageId) -> frozenset[str]:
        """The public keys that may sign for an account at its tips, as far as that is proven."""
        return self._ring_of(account).keys

    def powers_of(self, account: MessageId) -> dict[str, frozenset[Act]]:
        """The same keys, each with its powers over the account itself."""
        ring = self._ring_of(account)
        return {key: frozenset(act for act in Act if ring.has_power(key, act)) for key in ring.keys}

    def _ring_of(self, account: MessageId) -> KeyRing:
        ring = KeyRing()
        for message in self.shelf.messages(list(self.proven(account).topological())):
            action = None if message is None else action_of(message)
            if action is not None:
                ring.apply(action)
        return ring

    def account_with(self, key: Keypair) -> MessageId:
        """The one account here that a key may sign for."""
        found = [account for account in self.accounts() if key.public in self.keys_of(account)]
        if not found:
            raise NoAccount(f"no account here has the key {key.public}")
        if len(found) > 1:
            raise SeveralAccounts(f"the key {key.public} belongs to {len(found)} accounts here: {', '.join(found)}")
        return found[0]

    def account_begun_by(self, key: Keypair, *, subdomain: str = "person") -> MessageId | None:
        """The account that this key began under a subdomain and still belongs to; of several, the first that came."""
        domain = ACCOUNT_DOMAIN_PREFIX + subdomain
        for root in self.roots():
            is_own = root.is_account and root.domain == domain and root.sigkey == key.public
            if is_own and key.public in self.keys_of(root.id):
                return root.id
        return None

    # ---- writing -------------------------------------------------------------------------------------------------

    def new_account(self, key: Keypair, *, nonce: str | None = None, subdomain: str = "person") -> Message:
        """Begin an account whose first key, with all powers, this is."""
        text = secrets.token_hex(_NONCE_BYTES) if nonce is None else nonce
        return self.publish(compose.account_root(key, nonce=text, subdomain=subdomain))

    def add_key(
        self, key: Keypair, account: MessageId, new: Keypair, *, powers: Sequence[str] | None = None
    ) -> Message:
        """Add a key to an account. ``key`` must hold the power to add; the new one agrees by being here."""
        return self.add_public(key, account, new.public, consent=accounts.consent(new, account), powers=powers)

    def add_public(
        self, key: Keypair, account: MessageId, new: str, *, consent: str, powers: Sequence[str] | None = None
    ) -> Message:
        """Add a key of which only the public half is here, and that has agreed elsewhere (``accounts.consent``)."""
        self.refresh()
        return self.publish(compose.account_add(key, self._known(account), key=new, consent=consent, powers=powers))

    def remove_key(self, key: Keypair, account: MessageId, public: str) -> Message:
        """Remove a key from an account. ``key`` must hold the power to remove."""
        self.refresh()
        return self.publish(compose.account_del(key, self._known(account), key=public))

    def feed(self, key: Keypair, domain: str, *, account: MessageId | None = None) -> MessageId:
        """The feed of an account under a domain; its root is made where it is not here yet."""
        self.refresh()
        owner = self.account_with(key) if account is None else account
        root = moot_id(owner, domain)
        if self.message(root) is None:
            self.publish(compose.moot(key, owner, domain))
        return root

    def post(
        self,
        key: Keypair,
        data: Mapping[str, Json],
        *,
        tangles: Iterable[MessageId] = (),
        account: MessageId | None = None,
        domain: str | None = None,
    ) -> Message:
        """Write a message after everything in these tangles; in none, it is the root of a thread of its own.

        ``account`` is the one to speak for (``any`` for none); without it, the account of a feed among the tangles, or
        the one that the key belongs to. Without ``domain``, that of the first tangle's root.
        """
        self.refresh()
        standing = [self._foundation(id) for id in dict.fromkeys(tangles)]
        feed = next((tangle for tangle in standing if tangle.kind is Kind.FEED), None)
        if domain is None:
            root = (feed or standing[0]).root if standing else None
            if root is None:
                raise UsageError("a message that stands in no tangle needs a domain")
            domain = root.domain
        if account is None:
            account = feed.root.account if feed is not None and feed.root is not None else self.account_with(key)
        if feed is not None:
            check_structure(domain, data)
        speaker = None if account == ANY else self._known(account)
        message = compose.post(key, data, account=speaker, domain=domain, tangles=standing)
        # What waits by modern rules goes again when it turns out wrong; what one has written oneself must not.
        waits = any(
            not self.shelf.standing.is_full(root, one) for root, place in message.places.items() for one in place.prev
        )
        return self.publish(message, level=Level.INTEROP if waits else Level.MODERN)

    def publish(self, message: Message, *, level: Level = Level.MODERN) -> Message:
        """Store a message of one's own. Raises ``UsageError`` where others would not take it."""
        done = self.commit([message], level=level)
        if done.refused:
            raise UsageError(f"this message cannot be stored: {_in_words(message, done.refused[0])}")
        return message

    def _foundation(self, id: MessageId) -> Tangle:
        """What a new message of a tangle builds on: what is proven of it and, where a goal lets go, what waits."""
        proven = self._known(id)
        goal = self.shelf.goal(id)
        if goal is None or goal.kind not in _LETTING_GO:
            return proven
        sound = self.shelf.sound(id)
        return _without(sound, _unfounded(sound, lambda one: one in proven or self._is_signed(id, one)))

    def _is_signed(self, tangle: MessageId, id: MessageId) -> bool:
        """Whether a message that waits is right in everything but its predecessors, its signer among it."""
        message = self.message(id)
        assert message is not None, "it is in the tangle"
        try:
            self.shelf.standing.admit(message, tangle)
        except InvalidMessage:
            return False
        return True

    def _known(self, id: MessageId) -> Tangle:
        tangle = self.proven(id)
        if tangle.root is None:
            raise UsageError(f"the tangle {id} is not known here, or its root is not proven")
        return tangle


def check_structure(domain: str, data: Mapping[str, Json]) -> None:
    """Refuse what a set or a dict cannot hold: those who read one pass over it without a word. Others hold anything."""
    wanted: dict[str, type]
    if domain.startswith(SET_DOMAIN_PREFIX):
        form, wanted = _SET_FORM, {"add": list, "del": list, "supersedes": list}
    elif domain.startswith(DICT_DOMAIN_PREFIX):
        form, wanted = _DICT_FORM, {"update": dict, "supersedes": list}
    else:
        return
    wrong = [name for name, kind in wanted.items() if not isinstance(data.get(name), kind)]
    superseded = data.get("supersedes")
    if isinstance(superseded, list) and not all(isinstance(id, str) and is_message_id(id) for id in superseded):
        wrong.append("supersedes")
    if wrong:
        raise UsageError(f"in the domain {domain} a message says {form}; not right: {', '.join(dict.fromkeys(wrong))}")


def _unfounded(structure: Tangle, is_right: Callable[[MessageId], bool]) -> set[MessageId]:
    """What to leave out of a tangle so that a new message would come after nothing that is not right.

    Whatever comes after something that is left out is left out with it. From the tips downwards, each message goes at
    most once, and is asked about at most once. The root is right.
    """
    ask = cache(is_right)
    gone: set[MessageId] = set()
    followers: dict[MessageId, int] = {}
    order = list(structure.topological())
    suspects = list(structure.tips())
    while suspects:
        going = [one for one in suspects if one not in gone and not ask(one)]
        suspects = []
        while going:
            one = going.pop()
            if one in gone:
                continue
            gone.add(one)
            going += structure.followers(one)
            for before in dict.fromkeys(structure.prev(one)):
                followers[before] = followers.get(before, len(structure.followers(before))) - 1
                if not followers[before] and before in structure:
                    suspects.append(before)
        if not suspects:
            # No tip is wrong any more. The other messages that a new one names depend on how deep it stands.
            while order[-1] in gone:
                order.pop()
            deepest = structure.depth(order[-1])
            assert deepest is not None, "it is held"
            suspects = [one for one in structure.lipmaa_set(deepest + 1) if one not in gone and not ask(one)]
    return gone


def _without(structure: Tangle, left_out: set[MessageId]) -> Tangle:
    """A tangle without some of its messages."""
    if not left_out:
        return structure
    assert structure.root is not None, "it is known"
    rest = Tangle(structure.id, [structure.root])
    for id in structure:
        depth = structure.depth(id)
        if id not in left_out and id != structure.id and depth is not None:
            rest.place(id, Place(depth=depth, prev=structure.prev(id)), has_data=structure.has_data(id))
    return rest


def _in_words(message: Message, refused: Refused) -> str:
    """Why a message of one's own is refused, for somebody who has not read the rules of the format."""
    if refused.rule is Rule.ACCOUNT_KIND:
        return "in an account stand only messages that add and remove keys"
    if refused.rule is Rule.SIGKEY_UNAUTHORISED:
        return f"the key {message.sigkey} may not sign for the account {message.account}"
    return refused.detail
