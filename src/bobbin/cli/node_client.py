"""Asking the node that serves a lace, over the socket in its folder."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bobbin.errors import ResourceError, UsageError

if TYPE_CHECKING:
    from bobbin.runtime.status import NodeStatus

_TIMEOUT_SECONDS: Final = 10.0
_BYTES_MAX: Final = 64 * 1024 * 1024
"""Far more than the links of a node take."""
_READ_BYTES: Final = 256 * 1024
# In this version of HTTP the answer is over when the connection is, so there is nothing to parse but the first line.
_QUESTION: Final = b"GET /links HTTP/1.0\r\nHost: node\r\n\r\n"


class NoNode(ResourceError):
    """No node serves this lace now."""

    def __init__(self, folder: Path) -> None:
        super().__init__(f"no node serves {folder} now; `bobbin serve {folder}` runs one", retry=True)


def ask_links(folder: Path) -> "NodeStatus":
    """What the node says about itself and its links. Raises ``NoNode``, or another ``ResourceError``."""
    import msgspec

    from bobbin.config.layout import Layout
    from bobbin.runtime.status import decode_status

    layout = Layout(folder)
    if not layout.is_lace():
        raise UsageError(f"there is no lace in {folder}")
    try:
        head, _, content = _ask(layout.node_socket).partition(b"\r\n\r\n")
    except (FileNotFoundError, ConnectionRefusedError) as error:
        raise NoNode(folder) from error
    except PermissionError as error:
        raise ResourceError(f"{layout.node_socket} belongs to another user, who runs the node", retry=False) from error
    except TimeoutError as error:
        message = f"the node that serves {folder} did not answer within {_TIMEOUT_SECONDS:.0f} seconds"
        raise ResourceError(message, retry=True) from error
    except OSError as error:
        raise ResourceError(f"the node that serves {folder} broke off: {error.strerror}", retry=True) from error
    if head.split(b" ", 2)[1:2] != [b"200"]:
        raise _not_understood(layout.node_socket, "it does not tell about links")
    try:
        return decode_status(content)
    except msgspec.MsgspecError as error:
        raise _not_understood(layout.node_socket, str(error)) from error


def _not_understood(path: Path, why: str) -> ResourceError:
    return ResourceError(f"what answers at {path} is no node of this version: {why}", retry=False)


def _ask(path: Path) -> bytes:
    import socket

    # By way of its folder: the path of a socket may have about a hundred bytes only.
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        short = Path(f"/proc/self/fd/{folder}")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(_TIMEOUT_SECONDS)
            connection.connect(os.fspath(short / path.name if short.exists() else path))
            connection.sendall(_QUESTION)
            answer = bytearray()
            while len(answer) < _BYTES_MAX and (data := connection.recv(_READ_BYTES)):
                answer += data
            return bytes(answer)
    finally:
        os.close(folder)
