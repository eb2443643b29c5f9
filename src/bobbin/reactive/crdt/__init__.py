"""Replicated cells: values that several peers write at once, and that converge without anybody deciding."""

from bobbin.reactive.crdt.binding import CellPort, GraphPort, ReplicatedCells
from bobbin.reactive.crdt.clock import HybridClock, StampRefused
from bobbin.reactive.crdt.lww import Lww
from bobbin.reactive.crdt.mv import Mv
from bobbin.reactive.crdt.plane import CellName, Merged, Plane
from bobbin.reactive.crdt.pn_counter import PnCounter
from bobbin.reactive.crdt.session import SessionConfig, SyncSession
from bobbin.reactive.crdt.states import Kind, MalformedState

__all__ = [
    "CellName",
    "CellPort",
    "GraphPort",
    "HybridClock",
    "Kind",
    "Lww",
    "MalformedState",
    "Merged",
    "Mv",
    "Plane",
    "PnCounter",
    "ReplicatedCells",
    "SessionConfig",
    "StampRefused",
    "SyncSession",
]
