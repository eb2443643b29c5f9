"""What the tangles ask of whoever keeps the messages."""

from collections.abc import Container
from typing import Protocol

from bobbin.tangles.message import Message, MessageId
from bobbin.tangles.tangle import Tangle


class MessageStore(Protocol):
    """The messages that are held, and the standing structure of the tangles that they form."""

    def message(self, id: MessageId) -> Message | None:
        """A message as it is held, with its data or without; ``None`` if it is not."""

    def tangle(self, id: MessageId) -> Tangle:
        """The structure of a tangle, to be read and not changed; an empty one where nothing of it is held."""

    def ghosts(self, tangle: MessageId) -> Container[MessageId]:
        """The messages of a tangle that were deleted on purpose and must not come back with their data."""
