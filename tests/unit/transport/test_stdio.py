"""Standard input and output as a link, in a process of its own and over descriptors of the test."""

import asyncio
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from bobbin.transport import stdio
from bobbin.transport.base import ByteStream
from bobbin.wire.address import Address, Scheme

_ADDRESS = Address(scheme=Scheme.STDIO)

_ECHO = """
import asyncio
from bobbin.transport.base import TransportError
from bobbin.transport.dial import dial
from bobbin.wire.address import parse

async def main():
    stream = await dial(parse("stdio"))
    print("printed by mistake", flush=True)
    while data := await stream.read():
        await stream.write(data.upper())
    await stream.close()

try:
    asyncio.run(main())
except TransportError as error:
    raise SystemExit(f"{error} retry={error.retry}")
"""


async def _echo(stream: ByteStream, said: bytes) -> bytes:
    await stream.write(said)
    heard = b""
    while len(heard) < len(said):
        heard += await stream.read()
    return heard


def test_a_process_speaks_through_its_pipes_and_prints_elsewhere() -> None:
    found = subprocess.run([sys.executable, "-c", _ECHO], input=b"hello" * 50_000, capture_output=True, check=True)
    assert found.stdout == b"HELLO" * 50_000
    assert found.stderr == b"printed by mistake\n"


def test_a_process_speaks_through_one_socket_for_both_ways() -> None:
    async def main() -> None:
        here, there = socket.socketpair()
        with there:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-c", _ECHO, stdin=there.fileno(), stdout=there.fileno(), stderr=subprocess.PIPE
            )
        descriptor = here.detach()
        stream = await stdio.open_stream(_ADDRESS, descriptor, os.dup(descriptor))
        assert await _echo(stream, b"hello") == b"HELLO"
        assert await _echo(stream, b"again") == b"AGAIN"
        await stream.close()
        _, errors = await process.communicate()
        assert (process.returncode, errors) == (0, b"printed by mistake\n")

    asyncio.run(main())


def test_a_socket_one_way_and_a_pipe_the_other() -> None:
    async def main() -> None:
        here, there = socket.socketpair()
        reading, writing = os.pipe()
        one = await stdio.open_stream(_ADDRESS, here.detach(), writing)
        two_reading, two_writing = reading, there.detach()
        other = await stdio.open_stream(_ADDRESS, two_reading, two_writing)
        await one.write(b"by pipe")
        assert await other.read() == b"by pipe"
        await other.write(b"by socket")
        assert await one.read() == b"by socket"
        await asyncio.gather(one.close(), other.close())

    asyncio.run(main())


def test_what_is_no_pipe_is_refused() -> None:
    with tempfile.TemporaryFile() as file:
        found = subprocess.run([sys.executable, "-c", _ECHO], stdin=file, capture_output=True, check=False)
    assert found.returncode == 1
    assert found.stderr.startswith(b"stdio: the standard input is no pipe")
    assert found.stderr.endswith(b"retry=False\n")


def test_a_missing_output_is_refused() -> None:
    command = f'exec "{sys.executable}" -c "$0" 1>&-'
    found = subprocess.run(["/bin/sh", "-c", command, _ECHO], input=b"", stderr=subprocess.PIPE, check=False)
    assert found.returncode == 1
    assert b"standard output" in found.stderr


def test_a_pipe_that_cannot_be_widened_is_used_as_it_is(tmp_path: Path) -> None:
    with (tmp_path / "no pipe").open("wb") as file:
        stdio._widen(file.fileno())
