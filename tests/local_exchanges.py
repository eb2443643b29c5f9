"""What tests of whole exchanges share: records, policies, and two sides in memory that run against each other."""

from collections.abc import Iterable

from bobbin.interlace.events import Now
from bobbin.interlace.messages import Delivered
from bobbin.policy.modules import compile_selector
from bobbin.records.record import Plex, Record, Seal, build_plex, seal
from bobbin.records.signing import SigningKey
from bobbin.runtime.local_peer import LocalSide
from bobbin.simulator.holdings import MemoryHoldings

START_NS = 1_700_000_000 * 10**9
APP = SigningKey.from_secret(bytes(31) + b"\x21")
SERVER = SigningKey.from_secret(bytes(31) + b"\x22")
ALICE = SigningKey.from_secret(bytes(31) + b"\x23")
EVE = SigningKey.from_secret(bytes(31) + b"\x24")

LINKS = (
    "SelectHave(P) :- Have(P), Field(P,'Group',_,'u'), Field(P,'App',_,'ding'), Field(P,'Name',_,N), "
    "StartsWith(N,'links/').\n"
    "SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'Group',_,'u'), "
    "AdvertisedField(P,S,'App',_,'ding'), AdvertisedField(P,S,'Name',_,N), StartsWith(N,'links/').\n"
)
GROUP_U = (
    "SelectHave(P) :- Have(P), Field(P,'Group',_,'u').\n"
    "SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'Group',_,'u').\n"
)
ALL = "SelectHave(P) :- Have(P).\nSelectAdvertised(P,S) :- Advertised(P,S).\n"
EVIDENCE = """\
SelectHave(P) :- Have(P), Field(P,'Group',_,'u'), Field(P,'App',_,'member').
SelectHave(P) :- Have(P), Field(P,'Group',_,'u'), Field(P,'App',_,'ding'), Field(P,'Signed-By',_,V), ActiveMember(V).
SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'Group',_,'u'), AdvertisedField(P,S,'App',_,'member').
SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'Group',_,'u'), AdvertisedField(P,S,'App',_,'ding'), \
AdvertisedField(P,S,'Signed-By',_,V), ActiveMember(V).
ActiveMember(V) :- Have(P), Field(P,'Group',_,'u'), Field(P,'App',_,'member'), Field(P,'Name',_,V).
"""
"""The module of the third example of Lace-050."""


def plex(name: str, data: bytes = b"", *, group: str = "u", app: str = "ding", tai: int = 0) -> Plex:
    return build_plex(group=group, app=app, name=name, tai_ns=START_NS + tai, data=data)


def sealed(
    name: str, data: bytes = b"", *, by: SigningKey = ALICE, group: str = "u", app: str = "ding", tai: int = 0
) -> Seal:
    return seal(plex(name, data, group=group, app=app, tai=tai), by, auxiliary=b"\x07" * 32)


def member(of: SigningKey) -> Seal:
    return sealed(of.verifier, app="member", by=ALICE)


class Clock:
    """A clock that goes on by a second with every look."""

    def __init__(self, start_ns: int = START_NS) -> None:
        self._now = start_ns

    def __call__(self) -> Now:
        self._now += 10**9
        return Now(tai_ns=self._now, monotonic_ns=self._now)


class Liar(MemoryHoldings):
    """A side that sends other bytes than it has promised."""

    def load(self, record: str) -> bytes | None:
        raw = super().load(record)
        return None if raw is None else raw + b"!"


def side(
    records: Iterable[Record] = (),
    policy: str = GROUP_U,
    *,
    key: SigningKey | None = None,
    holdings: MemoryHoldings | None = None,
) -> LocalSide:
    """One side in memory."""
    held = MemoryHoldings() if holdings is None else holdings
    for record in records:
        held.put(record)
    return LocalSide(holdings=held, selector=compile_selector(policy), verifier=None if key is None else key.verifier)


def delivered(record: Record) -> Delivered:
    return Delivered(record=record.hash, raw=record.raw)
