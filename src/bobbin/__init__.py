"""Bobbin converges verified records between parties that do not fully trust each other.

``Lace`` is the way in: one folder with a store of records and the keys that sign them::

    import bobbin

    with bobbin.Lace.create("notes.lace") as lace:
        name = lace.put(b"hello", group="u", app="ding", name="links/1")
        assert lace.get(name).data == b"hello"

What is named here is the public interface. Importing the package costs next to nothing: each name is loaded when it
is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bobbin.config.keys import KeyFileError, NoSuchKey
    from bobbin.errors import BobbinError, IntegrityError, PeerError, ProgramError, ResourceError, UsageError
    from bobbin.lace import Lace, NoLace, RefusedRecord
    from bobbin.records.coordinate import Address, Coordinate, Prefix
    from bobbin.records.ids import HashText, Kind, Verifier
    from bobbin.records.reasons import InvalidRecord, Reason
    from bobbin.records.record import Blob, Plex, Record, Seal, validate
    from bobbin.records.signing import SigningKey
    from bobbin.runtime.accounts import SyncReport
    from bobbin.runtime.connection import Connection, Destination
    from bobbin.runtime.following import Following
    from bobbin.runtime.ingest import Form, Ingested
    from bobbin.runtime.introduction import NotAdmitted, NotIntroduced
    from bobbin.runtime.operations import Got, Listing, Placed
    from bobbin.runtime.remote import RemoteFollowing
    from bobbin.runtime.statements import StatementCheck
    from bobbin.runtime.transfer import Exported, Problem
    from bobbin.store.base import Finding, Listed, Quarantined, Refusal, Snapshot, Stat

_HOMES = {
    "Address": "bobbin.records.coordinate",
    "Blob": "bobbin.records.record",
    "BobbinError": "bobbin.errors",
    "Connection": "bobbin.runtime.connection",
    "Coordinate": "bobbin.records.coordinate",
    "Destination": "bobbin.runtime.connection",
    "Exported": "bobbin.runtime.transfer",
    "Finding": "bobbin.store.base",
    "Following": "bobbin.runtime.following",
    "Form": "bobbin.runtime.ingest",
    "Got": "bobbin.runtime.operations",
    "HashText": "bobbin.records.ids",
    "Ingested": "bobbin.runtime.ingest",
    "IntegrityError": "bobbin.errors",
    "InvalidRecord": "bobbin.records.reasons",
    "KeyFileError": "bobbin.config.keys",
    "Kind": "bobbin.records.ids",
    "Lace": "bobbin.lace",
    "Listed": "bobbin.store.base",
    "Listing": "bobbin.runtime.operations",
    "NoLace": "bobbin.lace",
    "NotAdmitted": "bobbin.runtime.introduction",
    "NotIntroduced": "bobbin.runtime.introduction",
    "NoSuchKey": "bobbin.config.keys",
    "PeerError": "bobbin.errors",
    "Placed": "bobbin.runtime.operations",
    "Plex": "bobbin.records.record",
    "Prefix": "bobbin.records.coordinate",
    "Problem": "bobbin.runtime.transfer",
    "ProgramError": "bobbin.errors",
    "Quarantined": "bobbin.store.base",
    "Reason": "bobbin.records.reasons",
    "Record": "bobbin.records.record",
    "Refusal": "bobbin.store.base",
    "RefusedRecord": "bobbin.lace",
    "RemoteFollowing": "bobbin.runtime.remote",
    "ResourceError": "bobbin.errors",
    "Seal": "bobbin.records.record",
    "SigningKey": "bobbin.records.signing",
    "Snapshot": "bobbin.store.base",
    "Stat": "bobbin.store.base",
    "StatementCheck": "bobbin.runtime.statements",
    "SyncReport": "bobbin.runtime.accounts",
    "UsageError": "bobbin.errors",
    "Verifier": "bobbin.records.ids",
    "validate": "bobbin.records.record",
}

__all__ = [
    "Address",
    "Blob",
    "BobbinError",
    "Connection",
    "Coordinate",
    "Destination",
    "Exported",
    "Finding",
    "Following",
    "Form",
    "Got",
    "HashText",
    "Ingested",
    "IntegrityError",
    "InvalidRecord",
    "KeyFileError",
    "Kind",
    "Lace",
    "Listed",
    "Listing",
    "NoLace",
    "NoSuchKey",
    "NotAdmitted",
    "NotIntroduced",
    "PeerError",
    "Placed",
    "Plex",
    "Prefix",
    "Problem",
    "ProgramError",
    "Quarantined",
    "Reason",
    "Record",
    "Refusal",
    "RefusedRecord",
    "RemoteFollowing",
    "ResourceError",
    "Seal",
    "SigningKey",
    "Snapshot",
    "Stat",
    "StatementCheck",
    "SyncReport",
    "UsageError",
    "Verifier",
    "validate",
]


def __getattr__(name: str) -> object:
    if name == "__version__":
        return import_module("importlib.metadata").version("bobbin")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *_HOMES, "__version__"]
