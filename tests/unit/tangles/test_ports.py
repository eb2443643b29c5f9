"""The store in memory is what the tangles ask for."""

from bobbin.tangles.memory import MemoryStore
from bobbin.tangles.ports import MessageStore
from tests.support.tangle_messages import Author


def as_asked_for(store: MessageStore) -> MessageStore:
    return store


def test_a_store_in_memory_is_one() -> None:
    alice = Author("alice")
    memory = MemoryStore()
    store = as_asked_for(memory)
    assert store.message(alice.account.id) is None
    assert len(store.tangle(alice.account.id)) == 0
    assert alice.account.id not in store.ghosts(alice.account.id)
    memory.add(alice.account, alice.account.id)
    assert store.message(alice.account.id) == alice.account
    assert list(store.tangle(alice.account.id).topological()) == [alice.account.id]
