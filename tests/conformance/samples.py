"""Records to put into stores: fixed ones for examples, drawn ones for laws.

Drawn records come from small alphabets, so that coordinates, times, signers and header values meet often: what is
interesting about a store happens where records share something. Signing is slow, so a few Seals are made once and
drawn from.
"""

from collections.abc import Sequence
from functools import cache

from hypothesis import strategies as st

from bobbin.records.record import Blob, Header, Plex, Record, Seal, build_blob, build_plex, seal
from bobbin.records.signing import SigningKey
from bobbin.records.tai import TAI_MAX

KEYS = tuple(SigningKey.from_secret(bytes([number]) * 32) for number in (1, 2))
EMPTY_BLOB = build_blob(b"")

GROUPS = ("u", "u/v", "é", "\U0010ffff")
APPS = ("ding", "b", "a", "\U0010fffe/x")
NAMES = ("links/1", "links/2", "links", "links0", "links/\U0010ffff", "links/é/x", "a")
TIMES = (0, 1, 1_640_995_200_000_000_000, 2**63 - 1, 2**63, TAI_MAX)
EXTRAS: tuple[Header, ...] = (
    ("+Link", f"source {EMPTY_BLOB.hash}"),
    ("+Link", f"two words {EMPTY_BLOB.hash}"),
    ("+Link", "not a link"),
    ("+Link", "of another suite P.abc.K9"),
    ("Chunk+Link", f"0..5 {EMPTY_BLOB.hash}"),
    ("X-Custom", "header value"),
    ("X-Custom", "u"),
    ("X-Längs", "ü"),
)


def plex(
    number: int = 0,
    *,
    group: str = "u",
    app: str = "ding",
    name: str | None = None,
    tai: int = 0,
    extras: Sequence[Header] = (),
    data: bytes | None = None,
) -> Plex:
    """A Plex; another one for another number."""
    return build_plex(
        group=group,
        app=app,
        name=f"links/{number}" if name is None else name,
        tai_ns=tai,
        data=b"data %d" % number if data is None else data,
        extras=extras,
    )


def sealed(number: int = 0, *, signer: int = 0, tai: int = 0, extras: Sequence[Header] = ()) -> Seal:
    """A Seal of the Plex of this number. The same arguments give the same record."""
    return seal(plex(number, tai=tai, extras=extras), KEYS[signer], auxiliary=b"\x01" * 32)


@cache
def _some_seals() -> tuple[Seal, ...]:
    places = [(group, app, name) for group in GROUPS[:2] for app in APPS[:2] for name in NAMES[:3]]
    return tuple(
        seal(
            plex(group=group, app=app, name=name, tai=TIMES[number % len(TIMES)], extras=EXTRAS[: number % 4]),
            KEYS[number % 2],
            auxiliary=b"\x01" * 32,
        )
        for number, (group, app, name) in enumerate(places)
    )


def blobs() -> st.SearchStrategy[Blob]:
    """Some Blob."""
    return st.binary(max_size=3).map(build_blob)


def plexes() -> st.SearchStrategy[Plex]:
    """Some Plex."""
    return st.builds(
        plex,
        group=st.sampled_from(GROUPS),
        app=st.sampled_from(APPS),
        name=st.sampled_from(NAMES),
        tai=st.sampled_from(TIMES),
        extras=st.lists(st.sampled_from(EXTRAS), max_size=4),
        data=st.binary(max_size=2),
    )


def records() -> st.SearchStrategy[Record]:
    """Some record."""
    return st.one_of(blobs(), plexes(), st.deferred(lambda: st.sampled_from(_some_seals())))
