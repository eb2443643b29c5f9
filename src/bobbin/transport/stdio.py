"""Standard input and output as a link: for a process that was started to be the other end of one.

So it is with ``ssh HOST bobbin serve DIR --listen stdio``. The two descriptors are taken away from everything else in
the process: what anybody prints afterwards goes to the standard error, and does not end up in the middle of the link.
"""

import asyncio
import fcntl
import os
import socket
import stat
from typing import Final

from bobbin.transport.base import WRITE_BYTES_MAX, Route, TransportError
from bobbin.transport.flow import Flow, FlowStream
from bobbin.transport.tcp import LOCAL
from bobbin.wire.address import Address

_INPUT: Final = 0
_OUTPUT: Final = 1
_ERROR: Final = 2


def take() -> tuple[int, int]:
    """Descriptors of the link, to read and to write, which nobody else has. Raises ``TransportError``."""
    for descriptor, name in ((_INPUT, "input"), (_OUTPUT, "output")):
        try:
            mode = os.fstat(descriptor).st_mode
        except OSError as error:
            raise TransportError(f"there is no standard {name}", retry=False) from error
        if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
            raise TransportError(
                f"the standard {name} is no pipe; stdio is for a process that is started as the end of a link",
                retry=False,
            )
    incoming, outgoing = os.dup(_INPUT), os.dup(_OUTPUT)
    nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.dup2(nothing, _INPUT)
        os.dup2(_ERROR, _OUTPUT)
    finally:
        os.close(nothing)
    return incoming, outgoing


async def open_stream(address: Address, incoming: int, outgoing: int) -> FlowStream:
    """A stream over two descriptors, which it owns from now on."""
    route = Route(address=address, remote=address.scheme.value, origin=LOCAL, loopback=True)
    first, second = os.fstat(incoming), os.fstat(outgoing)
    if stat.S_ISSOCK(first.st_mode) and (first.st_dev, first.st_ino) == (second.st_dev, second.st_ino):
        # One socket both ways, as sshd gives it. As two pipes, what comes in would look like the end of the way out.
        os.close(outgoing)
        return FlowStream(await _open_socket(incoming), route)
    reading = await (_open_socket(incoming) if stat.S_ISSOCK(first.st_mode) else _open_reading(incoming))
    writing = await (_open_socket(outgoing) if stat.S_ISSOCK(second.st_mode) else _open_writing(outgoing))
    return FlowStream(reading, route, writing=writing)


async def _open_socket(descriptor: int) -> Flow:
    connection = socket.socket(fileno=descriptor)
    connection.settimeout(0)
    _, flow = await asyncio.get_running_loop().create_connection(Flow, sock=connection)
    return flow


async def _open_reading(descriptor: int) -> Flow:
    _widen(descriptor)
    pipe = os.fdopen(descriptor, "rb", buffering=0)
    _, flow = await asyncio.get_running_loop().connect_read_pipe(Flow, pipe)
    return flow


async def _open_writing(descriptor: int) -> Flow:
    _widen(descriptor)
    pipe = os.fdopen(descriptor, "wb", buffering=0)
    _, flow = await asyncio.get_running_loop().connect_write_pipe(Flow, pipe)
    return flow


def _widen(descriptor: int) -> None:
    """Let a pipe hold more, where the system allows it: fewer turns for the same bytes."""
    option = getattr(fcntl, "F_SETPIPE_SZ", None)
    if option is None:
        return
    try:
        fcntl.fcntl(descriptor, option, WRITE_BYTES_MAX)
    except OSError:
        # Beyond what this user may have. It works as it is.
        return
