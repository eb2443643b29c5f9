"""The blocks of the loop, from bytes to messages: advertise, request, and the facts among a transfer (Lace-050).

A listing may have a hundred thousand records and half a million lines, so it is read in one pass. An advertisement's
digest is taken over the bytes as they came: lines have one spelling and the order was checked, so these bytes are the
canonical ones.
"""

from operator import lt
from typing import Final

from bobbin import profile
from bobbin.errors import PeerError
from bobbin.facts import block
from bobbin.facts.block import MalformedBlock
from bobbin.facts.extract import Fact
from bobbin.facts.relations import Tuple
from bobbin.facts.text import is_plain
from bobbin.interlace.advertise import record_digest
from bobbin.interlace.messages import Advertise, Advertisement, Partition, Request, Unavailable
from bobbin.interlace.reasons import Abort, LimitReached, Reason
from bobbin.interlace.schema import Schema
from bobbin.policy.claims import ClaimedField
from bobbin.policy.operands import Origin
from bobbin.policy.vocabulary import ADVERTISED, ADVERTISED_FIELD
from bobbin.wire import texts
from bobbin.wire.predicates import LIST, MAY_REQUEST, NARROW, NOT_AVAILABLE, PARTITION, RECONCILE, TICK_READY, refuse
from bobbin.wire.reconciliation import PartReader

_LINE_BYTES: Final = 64
"""Fewer than an honest line of a large block has. A larger block may have so many more lines."""
_INDEX_DIGITS_MAX: Final = 19
"""What the claims of a peer can hold; no record has a field with an index of more than three."""
_NOWHERE: Final = ("", 0, "")
_SHORT: Final = profile.FACT_VALUE_BYTES_MAX // 4
"""No value in a text of so few characters can be too long."""
_HEAD: Final = f"{ADVERTISED}('"
_BETWEEN: Final = f"\n{_HEAD}"
_AT_ONCE_BYTES: Final = 256 * 1024
"""What is read at a time of a block that is on its way."""
_ALIKE_MAX: Final = 256
_WANTED: Final = f"{MAY_REQUEST}('"
_TICK: Final = f"{TICK_READY}('"
_END: Final = "')\n"


def lines_max(bytes_max: int) -> int:
    """How many lines a block of so many bytes may have."""
    return max(profile.FACT_BLOCK_LINES_MAX, bytes_max // _LINE_BYTES)


class _Tick:
    """The one ``TickReady`` that a block may have. What its text says is for the machine to judge."""

    def __init__(self) -> None:
        self.text: str | None = None

    def take(self, line: int, values: Tuple, phase: str) -> None:
        if len(values) != 1:
            refuse(line, TICK_READY, values, phase)
        if self.text is not None:
            raise MalformedBlock(line, f"a block has at most one {TICK_READY}")
        self.text = values[0]


class _Summaries:
    """What an advertise block has besides its listing."""

    def __init__(self, partitions_max: int) -> None:
        self.partitions: list[Partition] = []
        self.questions: dict[str, dict[str, None]] = {LIST: {}, NARROW: {}}
        self.tick: Final = _Tick()
        self.part: Final = PartReader()
        self._partitions_max: Final = partitions_max

    def take(self, line: int, predicate: str, values: Tuple) -> None:
        if predicate == PARTITION and len(values) == 3:
            self._take_partition(*values)
        elif predicate in self.questions and len(values) == 1:
            self._ask(line, self.questions[predicate], values[0])
        elif predicate == TICK_READY:
            self.tick.take(line, values, "advertise")
        elif predicate in RECONCILE:
            self.part.take(line, predicate, values)
        else:
            refuse(line, predicate, values, "advertise")

    def _take_partition(self, prefix: str, count: str, root: str) -> None:
        number, digest = texts.decimal(count), texts.digest(root)
        if not texts.PREFIX.fullmatch(prefix):
            raise Abort(Reason.MALFORMED_SUMMARY, f"not a partition prefix: {prefix[:80]!r}")
        if number is None:
            raise Abort(Reason.MALFORMED_SUMMARY, f"not the count of a partition: {count[:80]!r}")
        if digest is None:
            raise Abort(Reason.MALFORMED_SUMMARY, f"not the root of a partition (43 symbols): {root[:80]!r}")
        if self.partitions and prefix <= self.partitions[-1].prefix:
            raise Abort(Reason.MALFORMED_SUMMARY, f"the partition {prefix} does not come in order")
        if len(self.partitions) >= self._partitions_max:
            detail = f"more than {self._partitions_max} partition summaries in one block"
            raise LimitReached(Reason.SUMMARY_LIMIT, "max_partition_summaries", detail)
        self.partitions.append(Partition(prefix=prefix, count=number, root=digest))

    @staticmethod
    def _ask(line: int, asked: dict[str, None], prefix: str) -> None:
        if not texts.PREFIX.fullmatch(prefix):
            raise MalformedBlock(line, "not a partition prefix")
        if prefix in asked:
            raise MalformedBlock(line, "the same question stands before it")
        asked[prefix] = None


def read_advertise(
    raw: bytes, *, source: Origin, schema: Schema, bytes_max: int, records_max: int, partitions_max: int
) -> Advertise:
    """One block of the advertise phase. ``source`` is the origin of the peer's operand."""
    listing = _Listing(source, schema, records_max)
    summaries = _Summaries(partitions_max)
    text = _text(raw, bytes_max)
    if text.startswith(_HEAD) and is_plain(source):
        _read_pieces(text[len(_HEAD) : -1].split(_BETWEEN), 0, listing, summaries)
    else:
        _read_lines(text[:-1], 0, listing, summaries)
    return _advertise(listing, summaries)


class AdvertiseReader:
    """Reads a block of the advertise phase while the rest of it is on its way.

    A long block takes its sender as long to make as it takes to read, so most of it has been read when its end comes.
    Nothing is judged before that: where anything is not as it usually is, the whole block is read once more by
    ``read_advertise``, and what that says is what counts.
    """

    def __init__(self, *, source: Origin, schema: Schema, records_max: int, partitions_max: int) -> None:
        self._listing: Final = _Listing(source, schema, records_max)
        self._summaries: Final = _Summaries(partitions_max)
        self._usual = is_plain(source)
        """Whether all so far is as it usually is."""
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._rest = ""
        """From the hash text of a record on, whose last line need not have been read."""
        self._lines = 0

    def take(self, raw: bytes) -> None:
        """Lines, or parts of lines, as they come."""
        self._waiting.append(raw)
        self._waiting_bytes += len(raw)
        # At least as much as is looked through for the second time.
        if self._usual and self._waiting_bytes >= max(_AT_ONCE_BYTES, len(self._rest)):
            self._usual = self._read(has_ended=False)
        if not self._usual:
            self._waiting, self._waiting_bytes, self._rest = [], 0, ""
            self._listing.records.clear()

    def finish(self, raw: bytes, *, bytes_max: int, records_max: int) -> Advertise | None:
        """The block, which as a whole is ``raw``; None where it has to be read as a whole."""
        is_whole = raw.endswith(b"\n") and len(raw) <= bytes_max and raw.count(b"\n") <= lines_max(bytes_max)
        if not (self._usual and is_whole and self._read(has_ended=True)):
            return None
        return _advertise(self._listing, self._summaries) if len(self._listing.records) <= records_max else None

    def _read(self, *, has_ended: bool) -> bool:
        """Read what waits, but for the last record while there may be more of it; whether it was as usual."""
        raw = b"".join(self._waiting)
        self._waiting, self._waiting_bytes = [], 0
        if not raw.isascii():
            return False
        text = self._rest + raw.decode("ascii")
        if not self._lines and not self._rest:
            if not text.startswith(_HEAD):
                return False
            text = text[len(_HEAD) :]
        pieces = (text[:-1] if has_ended else text).split(_BETWEEN)
        self._rest = "" if has_ended else pieces.pop()
        try:
            self._lines = _read_pieces(pieces, self._lines, self._listing, self._summaries)
        except PeerError:
            return False
        return True


def _advertise(listing: "_Listing", summaries: _Summaries) -> Advertise:
    return Advertise(
        records=tuple(listing.records),
        partitions=tuple(summaries.partitions),
        lists=tuple(summaries.questions[LIST]),
        narrows=tuple(summaries.questions[NARROW]),
        part=summaries.part.part(),
        tick=summaries.tick.text,
    )


def _read_pieces(pieces: list[str], before: int, listing: "_Listing", summaries: _Summaries) -> int:
    """Read records, each from its hash text on; returns the number of the last line, given that before the first."""
    number = before
    for piece in pieces:
        taken = listing.take_quickly(number, piece)
        number += taken or _read_lines(f"{_HEAD}{piece}", number, listing, summaries)
    return number


def _read_lines(text: str, before: int, listing: "_Listing", summaries: _Summaries) -> int:
    """Read any lines of the advertise phase, one by one. ``before`` is the number of the line before the first."""
    lines = text.split("\n") if text else []
    for number, line in enumerate(lines, start=before + 1):
        predicate, values = _parse(line, number)
        if predicate == ADVERTISED_FIELD and len(values) == 5:
            listing.check_owner(number, *values[:2])
            listing.take_field(number, *values[2:])
            listing.lines.append(line)
            continue
        listing.close("\n".join(listing.lines))
        if predicate == ADVERTISED and len(values) == 2:
            listing.open(number, *values)
            listing.lines = [line]
        else:
            summaries.take(number, predicate, values)
    listing.close("\n".join(listing.lines))
    return len(lines)


class _Listing:
    """The advertisement records of a block, and the one whose lines are being read."""

    def __init__(self, source: Origin, schema: Schema, records_max: int) -> None:
        self.records: list[Advertisement] = []
        self.current = ""
        """The record whose lines are being read; empty where there is none."""
        self.lines: list[str] = []
        """Its lines, where they are read one by one."""
        self._source: Final = source
        self._schema: Final = schema
        self._records_max: Final = records_max
        self._last = ""
        self._place = _NOWHERE
        self._fields: list[ClaimedField] = []
        self._tail: Final = f"','{source}')"
        self._alike: Final[dict[str, tuple[list[str], tuple[ClaimedField, ...]]]] = {}
        """By what is left of a record's lines without its name: what stood between the names, and the fields."""
        self._names: dict[str, str] = {}
        """Names that were found good, each kept once."""

    def open(self, line: int, record: str, origin: str) -> None:
        """A record begins."""
        if record <= self._last or not texts.RECORD.fullmatch(record):
            raise MalformedBlock(line, "not the hash text of a record, or not in order")
        if origin != self._source:
            raise _foreign(origin)
        if len(self.records) >= self._records_max:
            detail = f"more than {self._records_max} advertisement records are listed"
            raise LimitReached(Reason.LISTING_LIMIT, "max_advertisement_records_listed", detail)
        self.current = self._last = record
        self._place = _NOWHERE
        self._fields = []

    def check_owner(self, line: int, record: str, origin: str) -> None:
        """Refuse a field of anything but the record that is being read."""
        if origin != self._source:
            raise _foreign(origin)
        if record != self.current:
            raise MalformedBlock(line, "the field is of another record than the lines before it")

    def take_field(self, line: int, name: str, index: str, value: str) -> None:
        """A field of the record that is being read."""
        known = self._names.get(name)
        if known is None:
            if name not in self._schema:
                raise MalformedBlock(line, "the field is outside the negotiated schema")
            if not texts.is_said_by_records(name):
                raise MalformedBlock(line, "no field of a record has this name")
            known = self._names[name] = name
        if index != "0" and (len(index) > _INDEX_DIGITS_MAX or texts.decimal(index) is None):
            raise MalformedBlock(line, "the index of a field is a decimal")
        if not value or "\t" in value:
            raise MalformedBlock(line, "no field of a record has this value")
        place = (known, len(index), index)
        if place <= self._place:
            raise MalformedBlock(line, "the fields of a record stand by name and index, each once")
        self._place = place
        self._fields.append(ClaimedField(known, index, value))

    def close(self, canonical: str) -> None:
        """The lines of the record that is being read, if any, are these, the last without its LF."""
        if self.current:
            self._close_as(tuple(self._fields), canonical)

    def take_quickly(self, before: int, piece: str) -> int:
        """Take a record whose lines are as they usually are, and say how many; 0 where they are not.

        ``piece`` is everything from the record's hash text on.
        """
        record, tail, rest = piece.partition(self._tail)
        bare = piece.replace(record, "")
        if (known := self._alike.get(bare)) and record.join(known[0]) == piece:
            self.open(before + 1, record, self._source)
            self._close_as(known[1], _HEAD + piece)
            return 1 + len(known[1])
        # Without escapes, what stands between two quotes is a value as it is.
        if "\\" in piece:
            return 0
        shared, *fields = rest.split(f"\n{ADVERTISED_FIELD}('{record}','{self._source}','")
        said = "".join(fields)
        # What can be printed is no control character, so no LF.
        if shared or not tail or "'" in record or len(said) > _SHORT or not said.isprintable():
            return 0
        number = before + 1
        self.open(number, record, self._source)
        for field in fields:
            number += 1
            parts = field.split("','")
            # Three values, and no quote besides theirs.
            if len(parts) != 3 or field.count("'") != 5 or not field.endswith("')"):
                raise MalformedBlock(number, f"it is no {ADVERTISED_FIELD} with five values")
            name, index, value = parts
            self.take_field(number, name, index, value[:-2])
        told = tuple(self._fields)
        self._remember(bare, piece.split(record), told)
        self._close_as(told, _HEAD + piece)
        return number - before

    def _remember(self, bare: str, pieces: list[str], fields: tuple[ClaimedField, ...]) -> None:
        """The lines of another record may be just like these, but for its name."""
        # Each line names the record once, and no value does.
        if len(pieces) == len(fields) + 2:
            if len(self._alike) >= _ALIKE_MAX:
                self._alike.clear()
            self._alike[bare] = pieces, fields

    def _close_as(self, fields: tuple[ClaimedField, ...], canonical: str) -> None:
        digest = record_digest(f"{canonical}\n".encode())
        self.records.append(Advertisement(record=self.current, fields=fields, digest=digest))
        self.current = ""


def _text(raw: bytes, bytes_max: int) -> str:
    """The text of a block, which as a whole is as a block must be. Its lines have still to be parsed."""
    lines = lines_max(bytes_max)
    if raw.isascii() and raw.endswith(b"\n") and len(raw) <= bytes_max and raw.count(b"\n") <= lines:
        return raw.decode("ascii")
    # The first fact is not given out before the whole text was checked.
    next(block.read(raw, bytes_max=bytes_max, lines_max=lines), None)
    return raw.decode()


def _parse(line: str, number: int) -> Fact:
    try:
        return next(block.read(f"{line}\n".encode()))
    except MalformedBlock as error:
        raise MalformedBlock(number, error.reason) from error


def _foreign(origin: str) -> Abort:
    return Abort(Reason.FOREIGN_SOURCE, f"the peer advertises for the source {origin[:80]!r}")


def read_request(raw: bytes, *, bytes_max: int) -> Request:
    """The block of the request phase."""
    quickly = _read_plain_request(_text(raw, bytes_max))
    return _read_request(raw, bytes_max) if quickly is None else quickly


def _read_plain_request(text: str) -> Request | None:
    """A request as it usually is: hash texts in order, and perhaps a tick at the end. None for any other."""
    tick: str | None = None
    before, _, last = text[:-1].rpartition("\n")
    if last.startswith(_TICK):
        text, tick = f"{before}\n", last[len(_TICK) : -2]
        if not last.endswith("')") or not is_plain(tick) or len(tick) > _SHORT:
            return None
    if not (text.startswith(_WANTED) and text.endswith(_END)):
        return None
    records = text[len(_WANTED) : -len(_END)].split(f"{_END}{_WANTED}")
    if not all(map(texts.RECORD.fullmatch, records)) or not all(map(lt, records, records[1:])):
        return None
    return Request(records=tuple(records), tick=tick)


def _read_request(raw: bytes, bytes_max: int) -> Request:
    records: list[str] = []
    tick = _Tick()
    last = ""
    facts = block.read(raw, bytes_max=bytes_max, lines_max=lines_max(bytes_max))
    for line, (predicate, values) in enumerate(facts, start=1):
        if predicate == TICK_READY:
            tick.take(line, values, "request")
            continue
        if predicate != MAY_REQUEST or len(values) != 1:
            refuse(line, predicate, values, "request")
        (record,) = values
        if record <= last or not texts.RECORD.fullmatch(record):
            raise MalformedBlock(line, "not the hash text of a record, or not in order")
        last = record
        records.append(record)
    return Request(records=tuple(records), tick=tick.text)


def read_responses(raw: bytes, *, bytes_max: int) -> tuple[list[Unavailable], str | None]:
    """Fact lines of the transfer phase that follow one another: records that cannot be sent, and a tick."""
    refused: list[Unavailable] = []
    tick = _Tick()
    facts = block.read(raw, bytes_max=bytes_max, lines_max=lines_max(bytes_max))
    for line, (predicate, values) in enumerate(facts, start=1):
        if predicate == TICK_READY:
            tick.take(line, values, "transfer")
            continue
        if predicate != NOT_AVAILABLE or len(values) != 1:
            refuse(line, predicate, values, "transfer")
        (record,) = values
        if not texts.RECORD.fullmatch(record):
            raise MalformedBlock(line, "not the hash text of a record")
        refused.append(Unavailable(record=record))
    return refused, tick.text
