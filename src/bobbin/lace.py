"""``Lace``: the public interface. One folder, one store of verified records, the keys that sign them.

::

    with Lace.open("notes.lace") as lace:
        name = lace.put(b"hello", group="u", app="ding", name="links/1", sign=True)
        record = lace.get("//u//ding//links/1")

What always holds: whatever a method has returned is durable; whatever ``get`` returns is bytes that match their name,
checked when they were stored and again when they are read; a method that raises has changed nothing, except that a
long import keeps the batches it has acknowledged.

A ``Lace`` is used by one thread at a time. Several processes may have the same folder open.
"""

import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO, Final, Self, assert_never

from blake3 import blake3

from bobbin.config import durable, keys
from bobbin.config.key_copies import read_keys
from bobbin.config.layout import Layout
from bobbin.config.records import create_records, open_records
from bobbin.config.settings import FORMAT, DamagedSettings, Settings, read_settings, write_settings
from bobbin.errors import IntegrityError, UsageError
from bobbin.facts.relations import FIELD, FactSource
from bobbin.records import coordinate, ids
from bobbin.records.canonical import MARKLINE_SIZE
from bobbin.records.coordinate import Address, Coordinate, Prefix
from bobbin.records.ids import HashText, IdentifierError, Kind
from bobbin.records.record import Header, Plex, Record, Seal, build_plex, read_trusted, seal
from bobbin.records.signing import SigningKey
from bobbin.records.tai import parse as parse_tai
from bobbin.runtime.clock import tai_now
from bobbin.runtime.exchanging import Exchanging
from bobbin.runtime.tangle_records import meant
from bobbin.runtime.viewing import Viewing
from bobbin.store.base import (
    Finding,
    Listed,
    Outcome,
    Progress,
    Quarantined,
    Refusal,
    Snapshot,
    Stat,
    Store,
    StoreError,
)

if TYPE_CHECKING:
    from bobbin.config.account_keys import AccountKeys
    from bobbin.interlace.limits import Limits
    from bobbin.policy.executables import Budgets
    from bobbin.policy.modules import Query, Selector
    from bobbin.runtime.connection import Connection, Destination
    from bobbin.runtime.decisions import Decisions
    from bobbin.runtime.ingest import Form, Ingested
    from bobbin.runtime.operations import Participant
    from bobbin.runtime.tangle_writing import Tangles
    from bobbin.runtime.transfer import Exported, Problem
    from bobbin.wire.address import Address as PeerAddress

_DECISIONS_MAX: Final = 4
"""Query policies, each with its budgets, for which decisions are kept in memory."""


class NoLace(UsageError):
    """There is no lace in this folder."""


class RefusedRecord(UsageError):
    """The record was removed on purpose earlier, and nobody has lifted the refusal since. Nothing was stored."""


class Lace(Exchanging, Viewing, AbstractContextManager["Lace"]):
    """An open lace. Get one from ``Lace.create`` or ``Lace.open``, and close it or use it in a ``with``."""

    def __init__(self, layout: Layout, settings: Settings, store: Store) -> None:
        self._layout: Final = layout
        self._store: Final = store
        self._decisions: Final[dict[tuple[str, Budgets], Decisions]] = {}
        self._tangles: Tangles | None = None
        self.settings: Final = settings

    # ---- opening and closing ----------------------------------------------------------------------------------

    @classmethod
    def create(cls, path: str | Path, *, default_key: str = "main", lake: str | Path | None = None) -> Self:
        """Make a new, empty lace in a folder that does not exist yet or is empty.

        With ``lake``, a lace over the records of a lake, which it reads and never changes.
        """
        keys.check_name(default_key)
        layout = Layout(Path(path))
        if layout.is_lace():
            raise UsageError(f"there is already a lace in {layout.folder}")
        _make_folder(layout)
        try:
            return cls(layout, *create_records(layout, default_key=default_key, lake=lake, now=tai_now))
        except (OSError, StoreError, UsageError) as error:
            # Of several creations at once one completes the lace, whatever the others stumble over.
            if layout.is_lace():
                raise UsageError(f"there is already a lace in {layout.folder}") from error
            raise

    @classmethod
    def open(cls, path: str | Path, *, read_only: bool = False, settings: Settings | None = None) -> Self:
        """Open the lace in a folder. With ``read_only`` its records cannot be changed through this object.

        ``settings`` stand in for ``lace.toml``, so that a lace can be looked at whose file is damaged or lost.
        """
        layout = Layout(Path(path))
        if settings is None:
            if not layout.is_lace():
                raise _no_lace(layout)
            settings = read_settings(layout.settings)
        return cls(layout, settings, open_records(layout, settings, now=tai_now, read_only=read_only))

    def close(self) -> None:
        """Let go of the folder. Everything that was acknowledged is already safe."""
        self._store.close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Lace({str(self.path)!r})"

    @property
    def path(self) -> Path:
        """The folder."""
        return self._layout.folder

    @property
    def store(self) -> Store:
        """The store underneath, for work that this class has no word for."""
        return self._store

    # ---- keys -------------------------------------------------------------------------------------------------

    def new_key(self, name: str | None = None, *, secret: str | None = None) -> SigningKey:
        """Make a key (the default one if no name is given), or keep a secret that exists."""
        return keys.create_key(self._layout.keys, name or self.settings.default_key, secret=secret)

    def key(self, name: str | None = None) -> SigningKey:
        """A key by name, or the default one."""
        return keys.load_key(self._layout.keys, name or self.settings.default_key)

    def key_names(self) -> tuple[str, ...]:
        """The names of all keys here."""
        return tuple(keys.key_names(self._layout.keys))

    # ---- writing ----------------------------------------------------------------------------------------------

    def put(
        self,
        data: bytes,
        *,
        group: str,
        app: str,
        name: str,
        tai: str | int | None = None,
        headers: Iterable[Header] = (),
        sign: bool | str = False,
    ) -> HashText:
        """Store data at a place; returns the name of the record, which is durable by then.

        ``tai`` is a TAI text or nanoseconds; now, if it is not given. ``sign`` is True for the default key or the
        name of one: then the record is a Seal. Storing the same record twice is no error.
        """
        record = self.build(data, group=group, app=app, name=name, tai=tai, headers=headers, sign=sign)
        return self.put_record(record)

    def build(
        self,
        data: bytes,
        *,
        group: str,
        app: str,
        name: str,
        tai: str | int | None = None,
        headers: Iterable[Header] = (),
        sign: bool | str = False,
    ) -> Plex | Seal:
        """The record that ``put`` would store, without storing it."""
        instant = tai_now() if tai is None else tai if isinstance(tai, int) else parse_tai(tai)
        plex = build_plex(group=group, app=app, name=name, tai_ns=instant, data=data, extras=headers)
        return plex if sign is False else self._seal(plex, None if sign is True else sign)

    def put_record(self, record: Record) -> HashText:
        """Store a record that exists as a value; returns its name."""
        (put,) = self._store.put_records([record])
        if put.outcome is Outcome.REFUSED:
            raise RefusedRecord(
                f"{record.hash} was removed on purpose ({put.reason or 'no reason given'}); lift the refusal first"
            )
        return record.hash

    def sign(self, hash: HashText | str, *, key: str | None = None) -> HashText:
        """Sign a stored Plex; returns the name of the Seal, which is stored beside it."""
        record = self.get(hash)
        if record is None:
            raise UsageError(f"{hash} is not stored here")
        if not isinstance(record, Plex):
            raise UsageError(f"only a Plex can be signed; {hash} is a {type(record).__name__}")
        return self.put_record(self._seal(record, key))

    def remove(self, hash: HashText | str, *, reason: str) -> bool:
        """Take a record and its facts out, and refuse it until ``lift``. False if it was not there (still refused)."""
        return self._store.remove(_hash_of(hash), reason=reason)

    def lift(self, hash: HashText | str) -> bool:
        """End a refusal, so that the record may be stored again. False if there was none."""
        return self._store.lift(_hash_of(hash))

    # ---- reading ----------------------------------------------------------------------------------------------

    def get(self, what: HashText | str | Address | Coordinate) -> Record | None:
        """One record: by hash, by address, or the tip of a coordinate. None where there is none.

        A text may be a bare hash (``P.….H3``), an address (``////P.….H3``) or a coordinate (``//g//a//n``).
        """
        match parsed := _parse(what):
            case Address():
                return self._load(parsed.hash)
            case Coordinate():
                return self.tip(parsed)
            case Prefix():
                raise UsageError(f"{parsed} is a prefix and names many records; list them")
            case _:
                assert_never(parsed)

    def tip(self, place: Coordinate) -> Record | None:
        """The newest record at a coordinate, by (TAI, hash text); in the place of a message, that of the message.

        Where that is not proven here, and ``tangle_records.PLACE_RECORDS_MAX`` newer ones are in its place, None.
        """
        return meant(self._store, place, self._load)

    def list(
        self, place: str | Coordinate | Prefix | None = None, *, tips: bool = False, limit: int | None = None
    ) -> Iterator[Listed]:
        """The records at a coordinate or below a prefix, by place, within one coordinate the newest first.

        With ``tips`` only the newest of each coordinate. Without a place, every record that has one, group by group in
        the order in which the groups came into the store. What has no place is in ``blobs``.
        """
        if place is None:
            return self._list_all(tips=tips, limit=limit)
        parsed = coordinate.parse(place) if isinstance(place, str) else place
        if isinstance(parsed, Address):
            raise UsageError(f"////{parsed.hash} names one record; get it")
        return self._store.list(parsed, tips=tips, limit=limit)

    def _list_all(self, *, tips: bool, limit: int | None) -> Iterator[Listed]:
        with self._store.snapshot() as moment:
            seen: set[str] = set()
            left = limit
            for _, _, _, group in moment.facts.match(FIELD, (None, "Group", None, None)):
                if group in seen:
                    continue
                seen.add(group)
                for listed in moment.list(Prefix(group=group), tips=tips, limit=left):
                    yield listed
                    left = None if left is None else left - 1
                if left == 0:
                    return

    def blobs(self) -> Iterator[HashText]:
        """The Blobs that are stored by themselves and so have no place, in the order in which they came."""
        with self._store.snapshot() as moment:
            for blob, *_ in moment.facts.match(FIELD, (None, "Type", None, Kind.BLOB.letter)):
                yield HashText(blob)

    def have(self, hash: HashText | str) -> bool:
        """Whether a record of this name is stored here."""
        return self._store.have(_hash_of(hash))

    @property
    def facts(self) -> FactSource:
        """What the stored records say, as relations."""
        return self._store.facts

    def snapshot(self) -> Snapshot:
        """A coherent view of this moment, whatever is written meanwhile. Close it soon."""
        return self._store.snapshot()

    # ---- in and out -------------------------------------------------------------------------------------------

    def import_(
        self,
        stream: BinaryIO,
        *,
        source: str,
        form: "Form | None" = None,
        workers: int = 0,
        report: "Callable[[Problem], None] | None" = None,
        acknowledge: "Callable[[Ingested], None] | None" = None,
    ) -> "Ingested":
        """Store every valid record of a stream; what is none goes to the quarantine under the name ``source``.

        ``form`` None looks at how the stream begins. ``report`` hears of every record that was not taken,
        ``acknowledge`` of every durable commit.
        """
        from bobbin.runtime import transfer  # noqa: PLC0415 -- many programs never move records in bulk

        return transfer.import_records(
            self._store, stream, source=source, form=form, workers=workers, report=report, acknowledge=acknowledge
        )

    def export(
        self,
        stream: BinaryIO,
        *,
        form: "Form" = "bundle",
        at: str | Coordinate | Prefix | None = None,
        progress: Progress | None = None,
    ) -> "Exported":
        """Write the records of this moment to a stream: all in commit order, or those at a place.

        Each is checked against its name first. A damaged one is ``DamagedStore``; it is not written.
        """
        from bobbin.runtime import transfer  # noqa: PLC0415 -- as above

        place = coordinate.parse(at) if isinstance(at, str) else at
        if isinstance(place, Address):
            raise UsageError(f"////{place.hash} names one record; get it")
        with self._store.snapshot() as moment:
            return transfer.export_records(moment, stream, form=form, at=place, progress=progress)

    def backup(self, target: str | Path, *, with_keys: bool = False, progress: Progress | None = None) -> None:
        """Copy this moment into a new lace folder while the lace goes on. Secrets are copied only when asked for.

        A backup that fails takes away again what it has written.
        """
        layout = Layout(Path(target))
        if self._layout.holds(layout.folder):
            raise UsageError(f"{layout.folder} is inside the lace {self.path}; a backup goes to a folder of its own")
        if layout.folder.is_dir() and not _is_blank(layout):
            raise UsageError(f"{layout.folder} is not empty; a backup goes to a folder of its own")
        copied = read_keys(self._layout.keys) if with_keys else []
        with ExitStack() as undo:
            if not layout.folder.exists():
                undo.callback(_remove_folder, layout.folder)
            undo.callback(_remove_folder, layout.keys)
            _make_folder(layout)
            self._store.backup(layout.records, progress=progress)
            undo.callback(layout.records.unlink)
            for copy in copied:
                undo.callback(copy.write(layout.keys).unlink)
            write_settings(layout.settings, self.settings)
            undo.pop_all()
        with suppress(OSError):
            layout.clear_leftovers()

    # ---- tangles ----------------------------------------------------------------------------------------------

    @property
    def tangles(self) -> "Tangles":
        """The tangles that are kept beside the records."""
        if self._tangles is None:
            from bobbin.runtime.tangle_writing import Tangles, tables_of  # noqa: PLC0415 -- many have none

            self._tangles = Tangles(tables_of(self._store), own_keys=self.account_keys.publics)
        return self._tangles

    @property
    def account_keys(self) -> "AccountKeys":
        """The Ed25519 keys of accounts of tangles: make, load, list."""
        from bobbin.config.account_keys import AccountKeys  # noqa: PLC0415 -- as above

        return AccountKeys(self._layout.keys)

    # ---- exchange ---------------------------------------------------------------------------------------------

    def participant(
        self,
        policy: "str | Selector",
        query_policy: "str | Query | None" = None,
        *,
        budgets: "Budgets | None" = None,
    ) -> "Participant":
        """This lace as one side of an exchange, with its default key if it has that."""
        from bobbin.policy.executables import Budgets, PolicyCache  # noqa: PLC0415 -- as below
        from bobbin.runtime.decisions import Decisions  # noqa: PLC0415 -- many programs never exchange
        from bobbin.runtime.operations import Participant, compiled_query, compiled_selector  # noqa: PLC0415

        query = compiled_query(query_policy)
        kind = "" if query is None else query.identifier, budgets or Budgets()
        if kind not in self._decisions:
            if len(self._decisions) >= _DECISIONS_MAX:
                del self._decisions[next(iter(self._decisions))]
            self._decisions[kind] = Decisions(self._store, query=query, policies=PolicyCache(budgets=kind[1]))
        return Participant(
            decisions=self._decisions[kind],
            selector=compiled_selector(policy),
            key=self.key() if self.settings.default_key in self.key_names() else None,
            name=f"lace {self.settings.created}",
        )

    def connect(
        self,
        peer: "str | PeerAddress | Destination",
        policy: "str | Selector | None" = None,
        *,
        verifier: str | None = None,
        query_policy: "str | Query | None" = None,
        limits: "Limits | None" = None,
        budgets: "Budgets | None" = None,
        workers: int | None = None,
        strategy: str = "auto",
    ) -> "Connection":
        """This lace and a peer elsewhere, for ``async with``: its address, the name of a known peer, or a destination.

        A known name may have several addresses, which are tried in their order. ``verifier`` is the key that the peer
        must prove. What ``peers.toml`` says of the peer holds where the caller
        says nothing: the policies and limits of a known name; for an address the key that is noted with it, which
        ``verifier`` does not set aside. Nothing is dialled yet. ``workers`` processes check what arrives, once that is
        much; without a number, one less than there are cores, up to four. ``strategy`` says how the two find out what
        the other offers.
        """
        from bobbin.config.peers import parse_verifier, read_peer, read_peers  # noqa: PLC0415 -- many never exchange
        from bobbin.runtime.connection import Connection, Destination, is_address  # noqa: PLC0415
        from bobbin.wire import address as addresses  # noqa: PLC0415 -- as above

        wanted = None if verifier is None else parse_verifier(verifier)
        if isinstance(peer, Destination):
            peer = peer if wanted is None else peer.demanding(wanted)
            return Connection(
                self,
                peer.peer(),
                policy,
                query_policy=query_policy,
                limits=limits,
                budgets=budgets,
                workers=workers,
                strategy=strategy,
            )
        known = read_peers(self._layout.peers)
        if isinstance(peer, str) and not is_address(peer):
            entry = known.named(peer)
            if entry is None or not entry.ways:
                why = "nobody here is called" if entry is None else "there is no address for"
                raise UsageError(f"{why} {peer!r}; a peer is a lace opened by Lace.open, an address, or a known name")
            destination = Destination.by(entry.ways, name=entry.name, verifier=entry.verifier)
        else:
            if not isinstance(peer, str | addresses.Address):
                raise UsageError(f"a peer is an open lace, an address, or the name of a known one, not {peer!r}")
            address = addresses.parse(peer) if isinstance(peer, str) else peer
            entry, way = known.at(lambda one: addresses.same_place(one, address)) or (None, None)
            destination = Destination(address=address)
            if entry is not None and way is not None:
                destination = Destination(
                    address=address, name=entry.name, verifier=entry.verifier, certificate=way.certificate
                )
        if wanted is not None:
            destination = destination.demanding(wanted)
        if policy is None and entry is not None and entry.policy is not None:
            terms = read_peer(self._layout.peers, entry.name)
            assert terms is not None, "it is in the file"
            policy, query_policy, limits = terms.selector, query_policy or terms.query, limits or terms.limits
        return Connection(
            self,
            destination.peer(),
            policy,
            query_policy=query_policy,
            limits=limits,
            budgets=budgets,
            workers=workers,
            strategy=strategy,
        )

    @contextmanager
    def copied(self) -> "Iterator[Lace]":
        """A copy of this moment, without keys, gone afterwards."""
        with TemporaryDirectory(prefix="bobbin-copy-") as folder:
            self.backup(Path(folder) / "copy.lace")
            with Lace.open(Path(folder) / "copy.lace") as copy:
                yield copy

    # ---- care -------------------------------------------------------------------------------------------------

    def check(self, *, progress: Progress | None = None) -> Iterator[Finding]:
        """Verify every stored byte again, and that everything derived agrees with it. Nothing found is good."""
        return self._store.check(progress=progress)

    def stat(self) -> Stat:
        """Sizes and counts."""
        return self._store.stat()

    def refusals(self) -> Iterator[Refusal]:
        """What was removed and must not come back."""
        return self._store.refusals()

    def quarantined(self, *, with_bytes: bool = True) -> Iterator[Quarantined]:
        """What was offered as records and is none; without its bytes, if they are not wanted."""
        return self._store.quarantined(with_bytes=with_bytes)

    def quarantined_row(self, id: int) -> Quarantined | None:
        """One row of the quarantine with its bytes, or None."""
        return self._store.quarantined_row(id)

    def release(self, id: int) -> bool:
        """Forget one row of the quarantine. False if there was none."""
        return self._store.release(id)

    def release_all(self) -> int:
        """Forget every row of the quarantine, all or none; returns how many there were."""
        return self._store.release_all()

    def compact(self) -> None:
        """Give unused space back to the file system."""
        self._store.compact()

    # ---- inside -----------------------------------------------------------------------------------------------

    def _seal(self, plex: Plex, key: str | None) -> Seal:
        return seal(plex, self.key(key), auxiliary=secrets.token_bytes(32))

    def _load(self, hash: HashText) -> Record | None:
        raw = self._store.get(hash)
        if raw is None:
            return None
        # The digest covers every byte that was validated when it came in, so one hash proves the whole record again.
        _, digest = ids.parse_hash(hash)
        if blake3(memoryview(raw)[MARKLINE_SIZE:]).digest() == digest and (record := read_trusted(raw)).hash == hash:
            return record
        raise IntegrityError(f"the stored bytes of {hash} have changed; run `bobbin fsck` on this lace")


def _is_blank(layout: Layout) -> bool:
    """Whether a folder holds nothing, or only what a copy that was cut off leaves before it has any content."""
    rest = [entry for entry in layout.folder.iterdir() if entry not in layout.leftovers()]
    return not rest or (rest == [layout.keys] and layout.keys.is_dir() and not any(layout.keys.iterdir()))


def _remove_folder(folder: Path) -> None:
    """Take an empty folder away; what someone has put something into stays."""
    with suppress(OSError):
        folder.rmdir()


def _make_folder(layout: Layout) -> None:
    if layout.folder.exists() and not layout.folder.is_dir():
        raise UsageError(f"{layout.folder} is not a folder")
    layout.folder.mkdir(parents=True, exist_ok=True)
    if strangers := layout.strangers():
        raise UsageError(
            f"{layout.folder} is not empty (it holds {', '.join(strangers[:3])}); a lace wants its own folder"
        )
    layout.keys.mkdir(mode=0o700, exist_ok=True)
    durable.sync_folder(layout.folder)
    durable.sync_folder(layout.folder.absolute().parent)


def _no_lace(layout: Layout) -> NoLace | DamagedSettings:
    """Why there is no lace here, and what to do about it."""
    folder = layout.folder
    if folder.exists() and not folder.is_dir():
        return NoLace(f"{folder} is a file; a lace is a folder")
    if layout.records.is_file():
        return DamagedSettings(
            f"there is a store in {folder}, but no {layout.settings.name}: it was lost, or a creation was cut off. "
            f"`bobbin init {folder}` completes a lace without records; otherwise restore the file from a backup, or "
            f'write one with two lines: format = {FORMAT} and created = "1640995200:000000000" (a TAI time)'
        )
    if not folder.is_dir() or not (strangers := layout.strangers()):
        return NoLace(f"there is no lace in {folder}; `bobbin init {folder}` makes one")
    inside = [name for name in strangers if Layout(folder / name).is_lace()]
    if inside:
        return NoLace(f"{folder} is no lace, but holds one: did you mean {folder / inside[0]}?")
    return NoLace(
        f"there is no lace in {folder}, and none can be made there, since it holds other things "
        f"({', '.join(strangers[:3])}); choose a folder of its own, as in `bobbin init {folder / 'notes.lace'}`"
    )


def _parse(what: str | Address | Coordinate) -> Address | Coordinate | Prefix:
    if not isinstance(what, str):
        return what
    return coordinate.parse(what) if what.startswith("//") else Address(hash=_hash_of(what))


def _hash_of(text: str) -> HashText:
    bare = text.removeprefix("////")
    try:
        ids.parse_hash(bare)
    except IdentifierError as error:
        raise UsageError(str(error)) from error
    return HashText(bare)
