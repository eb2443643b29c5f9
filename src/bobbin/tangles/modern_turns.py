"""What a side of the modern mode makes of what it hears about spans, and what it answers.

The answerer begins: a list, a sketch, or a request for a list, for each span. Whoever then knows both sets of a span
works out what either side lacks (``Difference``). Lists are taken at any time, so they are the way out when a sketch
leads nowhere.
"""

from collections.abc import Sequence
from typing import Final, Protocol

from msgspec import Struct

from bobbin.errors import PeerError
from bobbin.reconcile import (
    Bulk,
    Decoder,
    Encoder,
    InconsistentSymbols,
    SharedId,
    Symbols,
    digest_rows,
    estimate,
    keyed_ids,
    measure,
)
from bobbin.reconcile.symbols import SYMBOL_BYTES
from bobbin.tangles.errors import Rule
from bobbin.tangles.exchange import Library
from bobbin.tangles.message import MessageId
from bobbin.tangles.modern_frames import SHORT_BYTES, Form, MalformedModernFrame, Part
from bobbin.tangles.modern_index import DepthIndex, digest_of
from bobbin.tangles.modern_spans import (
    Difference,
    Picture,
    both_shorts,
    count_above,
    first_form,
    pack,
    symbols_for,
    unpack,
)
from bobbin.tangles.modern_state import ModernRun, Reply
from bobbin.tangles.session_effects import Role


class ModernLibrary(Library, Protocol):
    """What a session of the modern mode reads: only messages that its rules let in, proven or waiting for proof."""

    def depths(self, tangle: MessageId, /) -> DepthIndex:
        """The standing index of a tangle; an empty one where nothing of it is held."""
        ...


class SpanLimits(Struct, frozen=True, kw_only=True):
    """How far the two sides go in one span."""

    first_symbols: int = 32
    """Sent unasked, at least. Enough for a difference of about eighteen."""
    more_max: int = 4
    """How often a sketch is continued before the span is listed."""
    symbols_max: int = 1 << 18
    listed_max: int = 1_000_000
    """How many short ids a side lists."""


class SpanWork:
    """The spans of runs, over one library."""

    def __init__(self, limits: SpanLimits, library: ModernLibrary) -> None:
        self._limits: Final = limits
        self._library: Final = library

    def begin(self, tangle: MessageId, run: ModernRun, top: int) -> Reply:
        """The answerer's first words on each span. ``top`` is where the opener has nothing any more above."""
        reply = Reply()
        index = self._library.depths(tangle)
        for number, span in enumerate(run.spans):
            own = index.count(span.low, span.high)
            if top < span.low:
                if run.wants_remote(span):
                    reply.lacking.update(dict.fromkeys(self._picture(tangle, run, number).all_messages()))
                continue
            peer = max(0, count_above(run.marks, span.low) - count_above(run.marks, span.high + 1))
            form, symbols = first_form(own, peer, self._limits.first_symbols)
            if form is Form.SYMBOLS:
                reply.parts.append(self._symbols(tangle, run, number, symbols))
            elif form is Form.LIST:
                reply.parts.append(Part(number, Form.LIST))
            else:
                reply.parts.append(self._listed(tangle, run, number))
        reply.names_ghosts = bool(reply.parts)
        return reply

    def hear(self, tangle: MessageId, run: ModernRun, part: Part, reply: Reply) -> None:
        """Take one part of what the peer says. Raises ``PeerError`` for what no honest peer says."""
        if part.span >= len(run.spans):
            raise MalformedModernFrame(f"there is no span {part.span}")
        match part.form:
            case Form.LISTED:
                ghosts = self._library.ghosts(tangle)
                difference = self._picture(tangle, run, part.span).difference(unpack(part.body), ghosts)
                self._resolve(run, part.span, difference, reply)
            case Form.LIST:
                reply.parts.append(self._listed(tangle, run, part.span))
                reply.names_ghosts = True
            case Form.SYMBOLS:
                self._hear_symbols(tangle, run, part, reply)
            case Form.MORE:
                reply.parts.append(self._continue(tangle, run, part))

    def fulfil(self, tangle: MessageId, run: ModernRun, wants: bytes, reply: Reply) -> None:
        """The peer wants messages: those of them that are here, in spans that it said it wants, go out."""
        shorts = unpack(wants).tolist()
        for number, span in enumerate(run.spans):
            if shorts and run.wants_remote(span):
                found = self._picture(tangle, run, number).messages(shorts)
                reply.lacking.update(dict.fromkeys(id for id in found if id not in run.lacking))

    def ghosts(self, tangle: MessageId, run: ModernRun) -> bytes:
        """Short ids of what this side will not have again; of what it holds without its data, those of that as well."""
        ids = list(self._library.ghosts(tangle))
        structure = self._library.tangle(tangle)
        named: list[int] = []
        for id, (with_data, without) in zip(ids, both_shorts(run.key, ids), strict=True):
            is_held = structure is not None and id in structure
            named += (with_data, without) if is_held else (with_data,)
        return pack(named)

    def common(self, run: ModernRun) -> set[MessageId]:
        """What both sides have in the spans, as far as this side can know it.

        Of a span that the peer does not want, only whoever resolves it learns what the peer has there.
        """
        told = [picture for number, picture in run.pictures.items() if run.is_told(number)]
        found = {id for picture in told for id in picture.all_messages() if id not in run.lacking}
        if found and run.remote_ghosts:
            # What the peer has let go for good it does not have, and does not ask for either.
            # One that it holds without its data it names in both forms.
            ghosts = _named(run, found, has_data=True)
            found -= ghosts - _named(run, ghosts, has_data=False)
        return found

    def is_in_vain(self, tangle: MessageId, run: ModernRun) -> bool:
        """Whether all that is missing has come, and hangs in the air here.

        The peer has let go of what it comes after, and cannot know that this side does not have that. Another run, with
        all accounts of the tangle, would bring the same again.
        """
        hanging = [one.message for one in run.refused if one.rule is Rule.PREV_UNKNOWN]
        return bool(hanging) and not self.still_missing(tangle, run, besides=hanging)

    def still_missing(self, tangle: MessageId, run: ModernRun, *, besides: Sequence[MessageId] = ()) -> int:
        """How much of what was wanted is not here now, besides some messages."""
        if not run.wanted:
            return 0
        index = self._library.depths(tangle)
        left = run.wanted.difference(*both_shorts(run.key, besides))
        for span in run.spans:
            try:
                here = Picture(run.key, index.items(span.low, span.high))
            except SharedId:
                continue
            left.difference_update(here.ids.tolist())
        return len(left)

    # ---- parts ----------------------------------------------------------------------------------------------------

    def _picture(self, tangle: MessageId, run: ModernRun, number: int) -> Picture:
        if number not in run.pictures:
            span = run.spans[number]
            items = self._library.depths(tangle).items(span.low, span.high)
            run.pictures[number] = Picture(run.key, items)
        return run.pictures[number]

    def _listed(self, tangle: MessageId, run: ModernRun, number: int) -> Part:
        picture = self._picture(tangle, run, number)
        if len(picture) > self._limits.listed_max:
            raise PeerError("too-large", f"a span of {len(picture)} messages is too large to list")
        return Part(number, Form.LISTED, 0, pack(picture.ids.tolist()))

    def _symbols(self, tangle: MessageId, run: ModernRun, number: int, wanted: int) -> Part:
        if number not in run.encoders:
            run.encoders[number] = Encoder(self._picture(tangle, run, number).ids)
        symbols = run.encoders[number].produce(wanted)
        return Part(number, Form.SYMBOLS, symbols.first, symbols.encode())

    def _continue(self, tangle: MessageId, run: ModernRun, part: Part) -> Part:
        """More symbols, as many as the difference seems to need; or a list, where that is shorter or nothing helps."""
        if run.role is Role.OPENER or part.span not in run.encoders:
            raise MalformedModernFrame("more symbols are wanted where there were none")
        bulk = Bulk.decode(part.first, part.body)
        run.more[part.span] = run.more.get(part.span, 0) + 1
        made = run.encoders[part.span].made
        picture = self._picture(tangle, run, part.span)
        needed = max(symbols_for(estimate(measure(picture.ids), bulk)) - made, made)
        hopeless = run.more[part.span] > self._limits.more_max or made + needed > self._limits.symbols_max
        if hopeless or SHORT_BYTES * min(len(picture), bulk.size) <= SYMBOL_BYTES * needed:
            if len(picture) <= bulk.size:
                return self._listed(tangle, run, part.span)
            return Part(part.span, Form.LIST)
        return self._symbols(tangle, run, part.span, needed)

    def _hear_symbols(self, tangle: MessageId, run: ModernRun, part: Part, reply: Reply) -> None:
        picture = self._picture(tangle, run, part.span)
        if run.role is Role.ANSWERER:
            raise MalformedModernFrame("only the answerer sends symbols")
        decoder = run.decoders.get(part.span)
        if decoder is None:
            decoder = run.decoders[part.span] = Decoder(picture.ids)
        symbols = Symbols.decode(part.first, part.body)
        if part.first != decoder.received or not 0 < len(symbols) <= self._limits.symbols_max - decoder.received:
            raise MalformedModernFrame(f"symbol {decoder.received} was to come next, not {part.first}")
        try:
            complete = decoder.add(symbols)
        except InconsistentSymbols:
            reply.parts.append(self._listed(tangle, run, part.span))
            reply.names_ghosts = True
            return
        if not complete:
            bulk = measure(picture.ids)
            reply.parts.append(Part(part.span, Form.MORE, bulk.size, bulk.encode()))
            return
        ghosts = self._library.ghosts(tangle)
        difference = picture.resolve(decoder.missing.tolist(), decoder.extra.tolist(), ghosts)
        self._resolve(run, part.span, difference, reply)

    def _resolve(self, run: ModernRun, number: int, difference: Difference, reply: Reply) -> None:
        """Both sets of a span are known: send what the peer lacks and wants, want what this side lacks and wants."""
        span = run.spans[number]
        run.resolved.add(number)
        # What is not wanted for that reason alone would seem to be here.
        reply.names_ghosts |= difference.declined
        if run.wants_own(span):
            reply.wants += difference.wanted
            run.wanted.update(difference.wanted)
        lacking = difference.lacking
        if lacking and run.remote_ghosts:
            ghosts = _named(run, set(lacking), has_data=True)
            lacking = tuple(id for id in lacking if id not in ghosts)
        # Whether the peer has a ghost of its own without its data is seen from the name that it gives it.
        run.lacking.update(lacking)
        if run.wants_remote(span):
            reply.lacking.update(dict.fromkeys(lacking))


def _named(run: ModernRun, ids: set[MessageId], *, has_data: bool) -> set[MessageId]:
    """Those of some messages that the peer has named among its ghosts, in this form."""
    some = list(ids)
    shorts = keyed_ids(run.key, digest_rows([digest_of(id, has_data=has_data) for id in some])).tolist()
    return {id for id, short in zip(some, shorts, strict=True) if short in run.remote_ghosts}
