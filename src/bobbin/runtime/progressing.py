"""How far an exchange has come, from the steps of one machine, for whoever watches."""

from collections.abc import Callable, Iterable

from bobbin.interlace.effects import Effect, Send
from bobbin.interlace.events import Event, Persisted, Received
from bobbin.interlace.messages import Delivered, Request, Response, Transfer


class Progressing:
    """Counts records and bytes that are to move and have moved, and follows the phases."""

    def __init__(self, tell: Callable[[int, int], None]) -> None:
        """``tell`` hears how many have moved, and how many either side has asked for so far, when anything changes."""
        self.phase = ""
        """The one whose block this side has sent last; empty before the first."""
        self.bytes_moved = 0
        """Record bytes, both directions together."""
        self._tell = tell
        self._moved = self._wanted = 0

    def observe(self, event: Event, effects: tuple[Effect, ...]) -> None:
        """One step of the machine has been made."""
        before = self._moved, self._wanted, self.phase, self.bytes_moved
        match event:
            case Received(Transfer(responses=responses)):
                self.bytes_moved += _size(responses)
            case Received(Request(records=records)):
                self._wanted += len(records)
            case Persisted(settled):
                self._moved += len(settled)
            case _:
                pass
        for effect in effects:
            if isinstance(effect, Send):
                self.phase = type(effect.message).__name__.lower()
            match effect:
                case Send(Request(records=records)):
                    self._wanted += len(records)
                case Send(Transfer(responses=responses)):
                    self._moved += len(responses)
                    self.bytes_moved += _size(responses)
                case _:
                    pass
        if before != (self._moved, self._wanted, self.phase, self.bytes_moved):
            self._tell(self._moved, self._wanted)


def _size(responses: Iterable[Response]) -> int:
    return sum(len(one.raw) for one in responses if isinstance(one, Delivered))
