"""A chain in one process: workspaces, group commit and signed blocks, without anybody to agree with.

This is what a shard's leader does between a client's wish and a proposal, with the proposal decided at once. Time and
chance come in as arguments.
"""

from collections import Counter
from random import Random
from typing import Final

from msgspec import Struct

from bobbin.cluster.chain.block import CoSignature
from bobbin.cluster.chain.co_signatures import CoSignatures
from bobbin.cluster.chain.draft import Clash, ClashKind
from bobbin.cluster.chain.encoding import header_hash
from bobbin.cluster.chain.errors import ChainError, CommitFailed
from bobbin.cluster.chain.group_commit import Waiting, choose
from bobbin.cluster.chain.history import Touch
from bobbin.cluster.chain.ledger import Appended, Ledger
from bobbin.cluster.chain.likeness import Alike, change_of, found_alike
from bobbin.cluster.chain.verification import Fault
from bobbin.cluster.chain.versions import Item
from bobbin.cluster.chain.workspace import TransactionWorkspace, WorkspaceState
from bobbin.cluster.conflicts.classify import ConflictResult, Thresholds, detect_conflict
from bobbin.cluster.identity import SEED_SIZE, Identity
from bobbin.cluster.settings import ChainConfig
from bobbin.errors import BobbinError


class Committed(Struct, frozen=True):
    """The transaction is in a block."""

    height: int
    hash: bytes
    refusals: tuple[tuple[int, str], ...] = ()
    """Operations that the state refused, and why; all others are done."""


class Refused(Struct, frozen=True):
    """Nothing of the transaction was done."""

    clash: Clash | None = None
    """What the versions, or the limits, have against it."""
    alike: Alike | None = None
    """What geometry has against it."""

    @property
    def reason(self) -> str:
        if self.clash is not None:
            return self.clash.reason
        return "somebody else has just made a change that is very alike"


class ChainMetrics(Struct):
    """What has become of workspaces since this object was made."""

    begun: int = 0
    committed: int = 0
    rolled_back: int = 0
    blocks: int = 0
    merged: int = 0
    """Committed in a block that another one led."""
    alike: int = 0
    """Refused by geometry alone."""
    failed: int = 0
    clashes: Counter[ClashKind] = Counter()


class LocalChain:
    """The whole of a chain: begin, commit, roll back, look at it, verify it."""

    def __init__(
        self,
        config: ChainConfig | None = None,
        *,
        chance: Random,
        identity: Identity | None = None,
        optimistic_locking: bool = True,
    ) -> None:
        """Without an identity one is made by chance. A ``node_id`` in the configuration must be the identity's."""
        self.config: Final = config or ChainConfig()
        self.identity: Final = identity or Identity(chance.randbytes(SEED_SIZE))
        if self.config.node_id not in (None, self.identity.node):
            raise ChainError("the configuration names another node than the identity that signs")
        self.ledger: Final = Ledger(config=self.config)
        self.metrics: Final = ChainMetrics(clashes=Counter())
        self._chance = chance
        self._asks_geometry = optimistic_locking
        merge = self.config.auto_merge
        self._thresholds: Final = Thresholds(
            orthogonal=min(merge.orthogonal_threshold, self.config.conflict_threshold),
            conflicting=min(self.config.conflict_threshold, Thresholds().identical),
        )
        self._waiting: dict[bytes, tuple[TransactionWorkspace, Waiting]] = {}
        """By id, in the order of asking."""
        self._co_signatures: Final = CoSignatures()
        self._taken_along: dict[bytes, Committed] = {}
        """Committed in somebody else's block, until their owners ask."""

    # ---- transactions ------------------------------------------------------------------------------------------------

    def begin(self, *, now_ms: int = 0, priority: int = 0) -> TransactionWorkspace:
        """A workspace that reads the chain as it is now."""
        height = self.ledger.height
        self.metrics.begun += 1
        id = height.to_bytes(8, "big") + self._chance.randbytes(8)
        return TransactionWorkspace(id, self.ledger, since=height, born_ms=now_ms, priority=priority)

    def rollback(self, workspace: TransactionWorkspace) -> None:
        """Forget a workspace that is active. What others have committed stays."""
        workspace.rollback()
        self.metrics.rolled_back += 1

    def ask(self, workspace: TransactionWorkspace, *, now_ms: int) -> None:
        """Ask to commit, without waiting for it: another one's commit may take it along, or ``commit`` of its own."""
        transaction = workspace.ask()
        waiting = Waiting(transaction, change_of(self.ledger, transaction), now_ms)
        self._waiting[workspace.id] = (workspace, waiting)

    def commit(self, workspace: TransactionWorkspace, *, now_ms: int) -> Committed | Refused:
        """Commit a workspace, and those with it that have asked and fit into its block.

        Raises ``CommitFailed`` when no block could be made. Whatever comes of it: unless it is committed, store and
        chain are as they were, and the workspace has failed. One that another block has taken along is told so here.
        """
        if workspace.state is WorkspaceState.ACTIVE:
            self.ask(workspace, now_ms=now_ms)
        told = self._taken_along.pop(workspace.id, None)
        if told is not None:
            return told
        own = self._waiting.pop(workspace.id, None)
        if own is None:
            raise ChainError(f"the workspace is {workspace.state.value}, and does not wait to be committed here")
        leader = own[1]
        try:
            result = self._refusal(leader) or self._put_on(leader, now_ms)
        except BobbinError as error:
            workspace.failed()
            self.metrics.failed += 1
            raise CommitFailed(f"no block could be put on the chain: {error}") from error
        if isinstance(result, Refused):
            workspace.failed()
            self.metrics.failed += 1
            return result
        workspace.committed()
        self.metrics.committed += 1
        return result

    def _refusal(self, leader: Waiting) -> Refused | None:
        """By versions first, which decide; then by geometry, which may only add a refusal."""
        clash = self.ledger.clash(leader.transaction)
        if clash is not None:
            self.metrics.clashes[clash.kind] += 1
            return Refused(clash=clash)
        if self._asks_geometry:
            alike = found_alike(self.ledger, leader.transaction, thresholds=self._thresholds)
            if alike is not None:
                self.metrics.alike += 1
                return Refused(alike=alike)
        return None

    def _put_on(self, leader: Waiting, now_ms: int) -> Committed:
        """A block of the leader and of those that go along; who may not stays waiting, as it was."""
        chosen = choose(
            [leader, *(waiting for _, waiting in self._waiting.values() if self._refusal_free(waiting))],
            now_ms=now_ms,
            config=self.config.auto_merge,
            operations_max=self.config.max_transactions,
        )
        draft = self.ledger.draft([one.transaction for one in chosen], proposer=self.identity.node, timestamp_ms=now_ms)
        block = self.ledger.seal(draft, self.identity)
        appended = self.ledger.append(block, draft)
        if isinstance(appended, str):
            raise CommitFailed(appended)
        self.metrics.blocks += 1
        results = [_committed(appended, place) for place in range(len(block.transactions))]
        for transaction, result in zip(block.transactions[1:], results[1:], strict=True):
            workspace, _ = self._waiting.pop(transaction.id)
            workspace.committed()
            self._taken_along[transaction.id] = result
            self.metrics.committed += 1
            self.metrics.merged += 1
        return results[0]

    def _refusal_free(self, waiting: Waiting) -> bool:
        if not self._asks_geometry:
            return True
        return found_alike(self.ledger, waiting.transaction, thresholds=self._thresholds) is None

    # ---- looking at it -----------------------------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """How many have asked to commit and are in no block yet."""
        return len(self._waiting)

    def conflict(self, one: TransactionWorkspace, other: TransactionWorkspace) -> ConflictResult:
        """What geometry says of two workspaces. The versions decide all the same."""
        first, second = (change_of(self.ledger, workspace.transaction()) for workspace in (one, other))
        return detect_conflict(first, second, self._thresholds)

    def get(self, key: bytes, at: int | None = None) -> Item | None:
        """What a storage key holds, or held at a height."""
        return self.ledger.get(key, at)

    def history(self, key: bytes) -> list[Touch]:
        """Every operation on a key, in order."""
        return self.ledger.history(key)

    def verify(self) -> Fault | None:
        """Look at the whole chain again; None if it is right."""
        return self.ledger.verify()

    # ---- the word of others ------------------------------------------------------------------------------------------

    def co_sign(self, height: int, given: CoSignature) -> None:
        """Keep another validator's word for a block. It is checked, and one of each validator is kept."""
        block = self.ledger.block(height)
        if block is None or header_hash(block.header) != given.block_hash:
            raise ChainError(f"the signature is not for block {height} of this chain")
        self._co_signatures.add(given)

    def co_signatures(self, height: int) -> tuple[CoSignature, ...]:
        """Who else stands by a block."""
        block = self.ledger.block(height)
        return () if block is None else self._co_signatures.of(header_hash(block.header))


def _committed(appended: Appended, place: int) -> Committed:
    refusals = tuple((number, reason) for of, number, reason in appended.refusals if of == place)
    return Committed(appended.height, appended.hash, refusals)
