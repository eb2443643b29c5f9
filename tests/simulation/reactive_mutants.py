"""Publishers and mirrors with one fault each: what the simulated worlds must find.

A fault is planted by replacing one function for as long as a context lasts. Each is a mistake that somebody could make,
and some of them are mistakes that published bindings make.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final
from unittest.mock import patch

from msgspec import structs

from bobbin.reactive import publisher
from bobbin.reactive.handshake import Capabilities
from bobbin.reactive.link_effects import Write
from bobbin.reactive.messages import (
    Delta,
    EdgeAdd,
    Invalidate,
    Message,
    NodeId,
    NodeState,
    Operation,
    PeerId,
    Snapshot,
)
from bobbin.reactive.mirror import Mirror, MirrorPhase
from bobbin.reactive.outbox import TakenFrames, TakenWrites
from bobbin.reactive.permissions import OpKind, PeerPermissions, RemoteOp
from bobbin.reactive.projection import Projection
from bobbin.reactive.publisher import Publisher
from bobbin.reactive.replica import Replica
from bobbin.simulator.batch import run_block
from bobbin.wire.lazily import conversation

SEEDS_MAX: Final = 400

_apply = Replica.apply
_become_live = Mirror._become_live
_bring_in = Projection._bring_in
_project = Projection.project
_receive = Mirror._receive
_replace = Replica.replace
_snapshot = Projection.snapshot
_memory_of = TakenWrites.of
_take_greeting = Publisher._take_greeting


def _nothing(*subjects: object) -> None:
    del subjects


def _no_operations(*subjects: object) -> list[Operation]:
    del subjects
    return []


def _apply_whatever_fits(self: Mirror, delta: Delta) -> str | None:
    return "" if self._last is None else self.replica.misfit(delta.operations)


def _look_only_ahead(self: Mirror, delta: Delta) -> str | None:
    if self._last is None or self.phase is MirrorPhase.RESYNCING:
        return ""
    return "a gap" if delta.base_epoch > self._last else self.replica.misfit(delta.operations)


def _stay_at_the_old_epoch(self: Mirror, epoch: int) -> None:
    _become_live(self, epoch if self._last is None else self._last)


def _merge(self: Replica, snapshot: Snapshot) -> str | None:
    kept = [node for id, node in self.nodes.items() if id not in {one.id for one in snapshot.nodes}]
    return _replace(self, Snapshot(snapshot.epoch, (*kept, *snapshot.nodes), snapshot.edges, snapshot.roots))


def _clear_what_is_stale(self: Replica, operations: Iterable[Operation]) -> None:
    for operation in operations:
        _apply(self, (operation,))
        if isinstance(operation, Invalidate):
            node = self._nodes[operation.id]
            self._nodes[operation.id] = type(node)(node.id, node.tag, node.state, None, node.key)


def _take_what_is_stale_for_fresh(self: Replica, operations: Iterable[Operation]) -> None:
    _apply(self, [one for one in operations if not isinstance(one, Invalidate)])


def _swap_edges(self: Replica, operations: Iterable[Operation]) -> None:
    swapped = [EdgeAdd(one.dependency, one.dependent) if isinstance(one, EdgeAdd) else one for one in operations]
    _apply(self, swapped)


def _sort_by_kind(self: Replica, operations: Iterable[Operation]) -> None:
    _apply(self, sorted(operations, key=lambda one: type(one).__name__))


def _see_as_the_first_peer(self: Projection, id: NodeId) -> bool:
    return self._permissions.allows(PeerId(1), RemoteOp(OpKind.READ, id))


def _show_all_edges(self: Projection) -> Snapshot:
    snapshot = _snapshot(self)
    return Snapshot(snapshot.epoch, snapshot.nodes, tuple(self._truth.edges), snapshot.roots)


def _show_hidden_nodes_without_value(self: Projection) -> Snapshot:
    snapshot = _snapshot(self)
    hidden = [node for id, node in self._truth.nodes.items() if id not in self._visible]
    opaque = tuple(type(node)(node.id, node.tag, NodeState.UNSET) for node in hidden)
    return Snapshot(snapshot.epoch, (*snapshot.nodes, *opaque), snapshot.edges, snapshot.roots)


def _count_every_flush(self: Projection, operations: Iterable[Operation]) -> Delta | None:
    delta = _project(self, operations)
    if delta is None:
        self.epoch += 1
    return delta


def _tell_of_every_flush(self: Projection, operations: Iterable[Operation]) -> Delta | None:
    delta = _project(self, operations)
    if delta is None:
        self.epoch += 1
        return Delta(self.epoch - 1, self.epoch, ())
    return delta


def _bring_no_edges(self: Projection, revised: set[NodeId] | None) -> list[Operation]:
    return [one for one in _bring_in(self, revised) if not isinstance(one, EdgeAdd)]


def _take_all_for_roots(self: Projection, operations: Iterable[Operation]) -> Iterable[Operation]:
    del self
    return operations


def _say_the_first_snapshot_again(self: Projection) -> Snapshot:
    kept: Snapshot | None = getattr(self, "kept", None)
    if kept is None:
        kept = _snapshot(self)
        self.kept = kept  # type: ignore[attr-defined]
    return kept


def _grant_everything(self: Publisher, op: RemoteOp, *, is_cell: bool) -> bool:
    del self, op, is_cell
    return True


def _let_readers_write(self: Publisher, op: RemoteOp, *, is_cell: bool) -> bool:
    root = not is_cell or self._truth.is_root(op.node)
    return root and self._permissions.allows(self.peer, RemoteOp(OpKind.READ, op.node))


def _take_writes_as_they_come(self: Publisher, delta: Delta) -> None:
    self._owes_ack = delta.epoch
    self._remember(delta.epoch)
    writes = tuple(operation for operation in delta.operations if self._may_write(operation))
    if writes:
        self._effects.append(Write(writes))


def _forget_with_the_link(self: TakenWrites, peer: PeerId, name: str) -> TakenFrames:
    return TakenFrames(_memory_of(self, peer, name).memory)


def _call_every_memory_the_same(self: TakenWrites, peer: PeerId, name: str) -> TakenFrames:
    kept = _memory_of(self, peer, name)
    if kept.memory != "0":
        self._peers[peer][name] = kept = TakenFrames("0")
    return kept


def _repeat_to_whoever_comes(self: Mirror, aimed: object) -> bool:
    del self, aimed
    return True


def _write_to_whoever_has_the_id(self: Mirror, frame: Delta, aimed: object) -> tuple[Operation, ...]:
    del self, aimed
    return frame.operations


def _take_stale_values_for_fresh(message: Message) -> tuple[Message, ...]:
    if not isinstance(message, Snapshot):
        return (message,)
    fresh = [
        structs.replace(node, state=NodeState.RESOLVED) if node.value is not None else node for node in message.nodes
    ]
    return (structs.replace(message, nodes=tuple(fresh)),)


def _believe_a_name(self: Publisher, capabilities: Capabilities) -> None:
    with patch.object(self, "peer", capabilities.peer):
        _take_greeting(self, capabilities)


def _tell_without_bound(self: Publisher, operations: tuple[Operation, ...]) -> None:
    delta = None if self._view is None else self._view.project(operations)
    if delta is not None and not self._owes_snapshot:
        self._outbox.append(delta)
        self._outbox_bytes += publisher._cost(delta)


def _keep_what_waits(self: Publisher) -> None:
    self._owes_snapshot = True


def _refuse_late_snapshots(self: Mirror, message: Message) -> None:
    if not (isinstance(message, Snapshot) and self.phase is MirrorPhase.RESYNCING):
        _receive(self, message)


MUTANTS: Final[Mapping[str, tuple[object, str, Callable[..., object]]]] = {
    "applies whatever fits": (Mirror, "_judge", _apply_whatever_fits),
    "notices only gaps ahead": (Mirror, "_judge", _look_only_ahead),
    "stays at the old epoch": (Mirror, "_become_live", _stay_at_the_old_epoch),
    "never asks for a snapshot": (Mirror, "_request", _nothing),
    "asks once and never again": (Mirror, "_wake", _nothing),
    "takes no snapshot that it asked for": (Mirror, "_receive", _refuse_late_snapshots),
    "merges a snapshot into what it has": (Replica, "replace", _merge),
    "clears what is stale": (Replica, "apply", _clear_what_is_stale),
    "takes what is stale for fresh": (Replica, "apply", _take_what_is_stale_for_fresh),
    "swaps the ends of edges": (Replica, "apply", _swap_edges),
    "groups operations by kind": (Replica, "apply", _sort_by_kind),
    "sees with another's eyes": (Projection, "_may_see", _see_as_the_first_peer),
    "shows edges to what is hidden": (Projection, "snapshot", _show_all_edges),
    "shows that there is something hidden": (Projection, "snapshot", _show_hidden_nodes_without_value),
    "counts flushes out of sight": (Projection, "project", _count_every_flush),
    "sends empty deltas": (Projection, "project", _tell_of_every_flush),
    "adds nothing on a grant": (Projection, "_bring_in", _no_operations),
    "adds no edges on a grant": (Projection, "_bring_in", _bring_no_edges),
    "removes nothing on a revocation": (Projection, "_take_away", _no_operations),
    "lets the derived pass for roots": (Projection, "_with_roots_told", _take_all_for_roots),
    "answers with an old snapshot": (Projection, "snapshot", _say_the_first_snapshot_again),
    "leaves grants to the next owner of an id": (PeerPermissions, "forget_node", _nothing),
    "lets everybody write": (Publisher, "_grants", _grant_everything),
    "lets readers write": (Publisher, "_grants", _let_readers_write),
    "does a write twice": (Publisher, "_take_writes", _take_writes_as_they_come),
    "forgets with the link which writes it has": (TakenWrites, "of", _forget_with_the_link),
    "takes a new memory of writes for the old one": (TakenWrites, "of", _call_every_memory_the_same),
    "repeats to a new source what the old one may have done": (Mirror, "_may_send", _repeat_to_whoever_comes),
    "writes to whoever has the id now": (Mirror, "_find", _write_to_whoever_has_the_id),
    "shows old values as new where a form has no word for it": (
        conversation,
        "to_canonical",
        _take_stale_values_for_fresh,
    ),
    "believes a claimed name": (Publisher, "_take_greeting", _believe_a_name),
    "keeps everything for the slow": (Publisher, "_tell", _tell_without_bound),
    "sends what waited after the snapshot": (Publisher, "_owe_snapshot", _keep_what_waits),
}


@contextmanager
def planted(name: str) -> Iterator[None]:
    """A fault, for as long as the context lasts."""
    owner, attribute, fault = MUTANTS[name]
    with patch.object(owner, attribute, fault):
        yield


def seeds_to_find(name: str, seeds: range = range(SEEDS_MAX)) -> int | None:
    """The first seed whose world finds a fault; None if none of them does."""
    with planted(name):
        for seed in seeds:
            if run_block(range(seed, seed + 1), world="reactive").broken:
                return seed
    return None
