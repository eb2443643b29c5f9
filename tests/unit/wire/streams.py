"""Streams for the tests of ``wire``: messages to draw, and streams cut into chunks."""

import unicodedata
from collections.abc import Iterable, Iterator

from hypothesis import strategies as st

from bobbin.datalog.canonicalise import identifier
from bobbin.errors import PeerError
from bobbin.interlace.advertise import advertisement
from bobbin.interlace.limits import NAMES, VALUE_MAX, Limits
from bobbin.interlace.messages import (
    Advertise,
    Delivered,
    Hello,
    Message,
    Partition,
    Request,
    Response,
    Setup,
    Transfer,
    Unavailable,
)
from bobbin.interlace.schema import Schema
from bobbin.interlace.state import Awaits
from bobbin.policy.claims import ClaimedField
from bobbin.policy.operands import Operand, Origin
from bobbin.policy.plan import plan_identifier
from bobbin.records import b64a, tai
from bobbin.records.record import Record, build_blob, build_plex
from bobbin.wire.elements import Element, Elements
from bobbin.wire.interlace import Decoder, encode
from tests.policy_worlds import ALICE, BOB, DING, DING_IDENTIFIER

SOURCE = Origin(ALICE)
SCHEMA = Schema(names=frozenset({"App", "Group", "Name", "TAI", "Type", "Ünicode+Link"}))
MODULE = DING.encode()
PLAN_BYTES = b"ExchangePlan('lace-exchange-plan/v1','intersection')\n"
PLAN = plan_identifier(PLAN_BYTES)
SETUP = Setup(index=0, operand=Operand(module=DING_IDENTIFIER, origin=SOURCE), module=MODULE)

BLOB = build_blob(b"A('x')\n\n# no comment\n\n")
PLEX = build_plex(group="u", app="ding", name="links/1", tai_ns=1_640_995_200 * 10**9, data=b"hello")


def delivered(record: Record) -> Delivered:
    return Delivered(record=record.hash, raw=record.raw)


# ---- messages to draw -----------------------------------------------------------------------------------------------

_DIGESTS = st.binary(min_size=32, max_size=32)
HASHES = st.tuples(st.sampled_from("BPS"), _DIGESTS).map(lambda drawn: f"{drawn[0]}.{b64a.encode(drawn[1])}.H3")
FOREIGN = st.sampled_from(["P.a.H4", "B.~~~.H33", "S.0.H"])
TEXTS = (
    st.text(st.characters(exclude_categories=["Cs", "Cc"]) | st.sampled_from("'\\,()é"), min_size=1, max_size=20)
    .map(lambda text: unicodedata.normalize("NFC", text))
    .filter(bool)
)
PREFIXES = st.text(st.sampled_from(b64a.ALPHABET), min_size=1, max_size=43)
_TICKS = st.none() | st.integers(0, tai.TAI_MAX).map(tai.render)
_ORIGINS = st.sampled_from([Origin(ALICE), Origin(BOB)]) | TEXTS.map(lambda text: Origin(f"source:{text}"))
_FIELDS = st.lists(
    st.builds(
        ClaimedField,
        st.sampled_from(sorted(SCHEMA.names)),
        st.integers(0, 300).map(str),
        TEXTS,
    ),
    max_size=5,
    unique_by=lambda field: (field.name, field.index),
)


@st.composite
def setups(draw: st.DrawFn) -> Setup:
    module = draw(st.binary(max_size=60))
    operand = Operand(module=identifier(module), origin=draw(_ORIGINS))
    return Setup(index=draw(st.sampled_from([0, 1])), operand=operand, module=draw(st.sampled_from([None, module])))


@st.composite
def hellos(draw: st.DrawFn) -> Hello:
    raw = draw(st.binary(max_size=60))
    return Hello(
        plan=plan_identifier(raw),
        tai=tai.render(draw(st.integers(0, tai.TAI_MAX))),
        tick_interval_ns=draw(st.integers(0, VALUE_MAX)),
        formats=draw(st.frozensets(st.from_regex(r"[A-Z][A-Z0-9]{0,3}", fullmatch=True), min_size=1, max_size=3)),
        schema=draw(
            st.just(Schema(all=True)) | st.frozensets(TEXTS, max_size=5).map(lambda names: Schema(names=names))
        ),
        signer=draw(st.sampled_from([None, ALICE, BOB])),
        limits=draw(st.dictionaries(st.sampled_from(NAMES), st.integers(1, VALUE_MAX))),
        plan_bytes=draw(st.sampled_from([None, raw])),
    )


@st.composite
def advertises(draw: st.DrawFn) -> Advertise:
    records = sorted(draw(st.sets(HASHES | FOREIGN, max_size=4)))
    prefixes = sorted(draw(st.sets(PREFIXES, max_size=4)))
    return Advertise(
        records=tuple(advertisement(record, SOURCE, draw(_FIELDS)) for record in records),
        partitions=tuple(
            Partition(prefix=prefix, count=draw(st.integers(0, VALUE_MAX)), root=draw(_DIGESTS)) for prefix in prefixes
        ),
        lists=tuple(draw(st.lists(PREFIXES, max_size=3, unique=True))),
        narrows=tuple(draw(st.lists(PREFIXES, max_size=3, unique=True))),
        tick=draw(_TICKS),
    )


@st.composite
def requests(draw: st.DrawFn) -> Request:
    return Request(records=tuple(sorted(draw(st.sets(HASHES | FOREIGN, max_size=5)))), tick=draw(_TICKS))


_RESPONSES: st.SearchStrategy[Response] = (
    st.binary(max_size=40).map(build_blob).map(delivered)
    | st.sampled_from([delivered(BLOB), delivered(PLEX)])
    | HASHES.map(lambda record: Unavailable(record=record))
)


@st.composite
def transfers(draw: st.DrawFn) -> Transfer:
    return Transfer(responses=tuple(draw(st.lists(_RESPONSES, max_size=6))), last=True, tick=draw(_TICKS))


MESSAGES: st.SearchStrategy[Message] = setups() | hellos() | advertises() | requests() | transfers()

AWAITS: dict[type[Message], Awaits] = {
    Setup: Awaits.SETUP,
    Hello: Awaits.HELLO,
    Advertise: Awaits.ADVERTISE,
    Request: Awaits.REQUEST,
    Transfer: Awaits.TRANSFER,
}


# ---- bytes and messages ---------------------------------------------------------------------------------------------


def encoded(message: Message) -> bytes:
    return b"".join(encode(message, source=SOURCE))


def decoder(*, schema: Schema = SCHEMA, limits: Limits | None = None, **bounds: int) -> Decoder:
    """A decoder of a stream without preface, its terms agreed."""
    made = Decoder(Elements(has_preface=False), limits=Limits(), **bounds)
    made.agree(source=SOURCE, schema=schema, limits=limits or Limits())
    return made


def decode(raw: bytes, awaits: Awaits, *, schema: Schema = SCHEMA, limits: Limits | None = None) -> Message:
    """The one message that bytes are, in this phase."""
    reader = decoder(schema=schema, limits=limits)
    reader.expect(awaits)
    (message,) = reader.feed(raw)
    reader.expect(Awaits.NOTHING)
    assert reader.feed(b"") == []
    reader.finish()
    return message


def chunks(raw: bytes, sizes: Iterable[int]) -> Iterator[bytes]:
    """The bytes in chunks of these sizes, the last of them for all that is left."""
    at = 0
    for size in sizes:
        yield raw[at : at + size]
        at += size
    yield raw[at:]


def split(parts: Iterable[bytes], **bounds: int | bool) -> tuple[list[Element], str]:
    """The elements of a stream and the code of the error that ends it; empty if it ends well."""
    reader = Elements(**bounds)  # type: ignore[arg-type]
    found: list[Element] = []
    try:
        for part in parts:
            reader.feed(part)
            while element := reader.next():
                found.append(element)
        reader.finish()
    except PeerError as error:
        return found, error.code
    return found, ""


def hash_of(number: int) -> str:
    return f"P.{number:042d}0.H3"
