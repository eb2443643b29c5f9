"""Finding the difference by a rateless sketch: symbols in proportion to what differs (``bobbin.reconcile``).

The responder sends symbols of its claims, as many as the estimate asks for. The initiator takes its own out of them and
peels the rest apart. Where they are too few it asks for more, a bounded number of times. Symbols that no two sets can
have are taken for too few once: a check has only 16 bits, and more symbols tell an accident from a lie.
"""

from typing import Final

from bobbin.interlace.choice import symbols_for
from bobbin.interlace.claim_index import Keyed
from bobbin.interlace.reconciliation import More, Ranged, Sketched
from bobbin.interlace.ways import Found, Unusable
from bobbin.reconcile import Decoder, Encoder, InconsistentSymbols, Symbols

_MORE_PART: Final = 4
"""By this part of what has come the next stretch is at least."""
_MORE_MIN: Final = 16


class SketchTelling:
    """The responder's symbols."""

    def __init__(self, keyed: Keyed, difference: int, symbols_max: int) -> None:
        """``difference``: about how many claims only one side has."""
        self._encoder: Final = Encoder(keyed.ids)
        self._first: Final = min(symbols_for(difference), symbols_max)
        self._symbols_max: Final = symbols_max

    def tell(self) -> Sketched:
        """As many symbols as should be enough."""
        return self._produce(self._first)

    def tell_more(self, more: More) -> Sketched:
        """The symbols that were asked for."""
        if self._encoder.made + more.symbols > self._symbols_max:
            raise Unusable(f"more than {self._symbols_max} symbols were asked for")
        return self._produce(more.symbols)

    def _produce(self, count: int) -> Sketched:
        symbols = self._encoder.produce(count)
        return Sketched(first=symbols.first, raw=symbols.encode())


class SketchFinding:
    """What the initiator makes of them."""

    def __init__(self, keyed: Keyed, *, symbols_max: int, turns_max: int) -> None:
        self._keyed: Final = keyed
        self._symbols_max: Final = symbols_max
        self._turns_left = turns_max
        self._decoder = Decoder(keyed.ids)
        self._heard: list[Symbols] = []
        self._is_doubtful = False
        self._asked: int | None = None
        """How many symbols were asked for last; None before the first ones, of which the responder knows how many."""

    @property
    def heard(self) -> int:
        """How many symbols have come."""
        return sum(map(len, self._heard))

    def hear(self, part: Sketched | Ranged) -> Found | None:
        """Take the next symbols; what was found, once all are explained."""
        if not isinstance(part, Sketched) or part.first != self.heard:
            raise Unusable("the symbols do not follow those before them")
        symbols = Symbols.decode(part.first, part.raw)
        if not len(symbols) or self.heard + len(symbols) > self._symbols_max:
            raise Unusable(f"{len(symbols)} symbols came where up to {self._symbols_max} are taken in all")
        if self._asked is not None and len(symbols) > self._asked:
            raise Unusable(f"{len(symbols)} symbols came where {self._asked} were asked for")
        self._heard.append(symbols)
        try:
            is_complete = self._add(symbols)
        except InconsistentSymbols as error:
            if self._is_doubtful:
                raise Unusable(str(error)) from error
            self._is_doubtful = True
            return None
        return Found(self._decoder.missing, self._decoder.extra) if is_complete else None

    def ask(self) -> More:
        """A part of what has come, once more."""
        self._turns_left -= 1
        wanted = max(_MORE_MIN, self.heard // _MORE_PART)
        if self._turns_left < 0 or self.heard + wanted > self._symbols_max:
            raise Unusable(f"{self.heard} symbols were not enough")
        self._asked = wanted
        return More(symbols=wanted)

    def _add(self, symbols: Symbols) -> bool:
        if not self._is_doubtful:
            return self._decoder.add(symbols)
        # What was found before may be an invention: everything is looked at anew, together.
        self._decoder = Decoder(self._keyed.ids)
        is_complete = False
        for one in _joined(self._heard):
            is_complete = self._decoder.add(one)
        return is_complete


def _joined(heard: list[Symbols]) -> list[Symbols]:
    """Consecutive stretches as one."""
    return [Symbols.decode(0, b"".join(one.encode() for one in heard))]
