"""Messages of tangles: any bytes are refused by a rule, or are a message whose texts and verdicts agree."""

from bobbin.tangles import canonical, compose
from bobbin.tangles.errors import InvalidMessage, MalformedText
from bobbin.tangles.judgement import Mark
from bobbin.tangles.keys import Keypair
from bobbin.tangles.memory import MemoryStore
from bobbin.tangles.message import Message, decode, is_message_id, message_id

_ALICE = Keypair.from_words("alice")
_ACCOUNT = compose.account_root(_ALICE, nonce="fuzz")
_MOOT = compose.moot(_ALICE, _ACCOUNT.id, "post")


def one_input(data: bytes) -> None:
    _check_json(data)
    try:
        message = decode(data)
    except InvalidMessage:
        return
    assert decode(message.raw) == message
    assert is_message_id(message.id)
    assert message.id == message_id(message.metadata)
    erased = message.erased()
    assert (erased.id, erased.has_data) == (message.id, False)
    assert decode(erased.raw) == erased
    _check_verdicts(message)


def _check_json(data: bytes) -> None:
    try:
        value = canonical.parse(data)
        text = canonical.canonical(value)
    except MalformedText:
        return
    assert canonical.canonical(canonical.parse(text)) == text
    plain = canonical.plain(value)
    assert canonical.plain(canonical.parse(plain)) == plain
    assert canonical.canonical(canonical.parse(plain)) == text


def _check_verdicts(message: Message) -> None:
    """A message is taken or refused with a rule, by either level; and what is refused leaves no trace."""
    for add_modern in (False, True):
        store = MemoryStore()
        store.load([_ACCOUNT, _MOOT])
        for tangle in (message.id, *message.places, _MOOT.id, _ACCOUNT.id):
            known = store.message(message.id) is not None
            try:
                (store.add_modern if add_modern else store.add)(message, tangle)
            except InvalidMessage:
                assert (store.message(message.id) is not None) == known
        for structure in (store.tangle(tangle) for tangle in (message.id, *message.places)):
            structure.check()
        if add_modern and message.id not in (_ACCOUNT.id, _MOOT.id):
            found = store.standing.judgement(next(iter(message.places), message.id), message.id)
            assert found is None or found.mark is not Mark.INTEROP or len(message.places) > 1
