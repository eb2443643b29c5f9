"""What the tests of commands share: how a command ended, and the vectors of the protocol page."""

import json
from collections.abc import Callable
from typing import Any, TypeAlias

from msgspec import Struct

PLEX_1 = "P.tyYEj0zIBrq7IDVBPzaErPIq5p03OhpTTm14ePsSz80.H3"
SECRET = "&.00420lG51WS82GdB30pE3m0H4XCK5HON61_Q6mlT7Xx.H3"
VERIFIER = "V.OEL2sxn4GhPnCm_bU7hnAPU0Q0gVS8KxFlNg3zfHT2O.H3"
PLACE = ("--group", "u", "--app", "ding", "--name", "links/1")
AT = "1640995200:000000000"


class Answer(Struct, frozen=True):
    """How a command ended."""

    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode()

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @property
    def json(self) -> Any:  # noqa: ANN401 -- whatever the command says
        """The one value on stdout."""
        (line,) = self.lines
        return json.loads(line)

    @property
    def rows(self) -> list[Any]:
        """The values on stdout, one a line."""
        return [json.loads(line) for line in self.lines]

    @property
    def error(self) -> Any:  # noqa: ANN401
        """The one value on stderr."""
        (line,) = self.err.splitlines()
        return json.loads(line)


Cli: TypeAlias = Callable[..., Answer]
