"""A process with one lace that answers at an address until it is ended: ``FOLDER ADDRESS RULES [TLS-FOLDER]``.

It prints the address that it listens on. Whoever dials is admitted if its key is the one in ``RULES.admits``, where
there is such a file; else everybody is.
"""

import asyncio
import sys
from pathlib import Path

from msgspec import structs

from bobbin.lace import Lace
from bobbin.runtime.introduction import Introduction, NotAdmitted
from bobbin.transport.base import ByteStream
from bobbin.transport.listen import listen
from bobbin.transport.tls import TlsServer
from bobbin.wire import address
from bobbin.wire.address import Scheme
from tests.support.responders import Responder


def read_admitted(rules: Path) -> list[str] | None:
    """The keys that are admitted; None for everybody."""
    admits = rules.with_suffix(".admits")
    return admits.read_text().split() if admits.exists() else None


async def answer(
    lace: Lace, where: str, rules: str, *, listed: list[str] | None = None, tls_folder: Path | None = None
) -> None:
    """Listen for ever, or as long as there is a stream on standard input."""

    def admit(introduction: Introduction) -> None:
        if listed is not None and introduction.peer not in listed:
            raise NotAdmitted("not-listed", f"{introduction.peer} is not listed")

    responder = Responder(lace.participant(rules), admit=admit)
    asked = address.parse(where)
    tls = None
    if tls_folder is not None:
        tls = TlsServer(certificate=tls_folder / "certificate.pem", key=tls_folder / "key.pem")
    if asked.scheme not in (Scheme.UNIX, Scheme.STDIO):
        asked = structs.replace(asked, port=0)
    done = asyncio.Event()

    async def accept(stream: ByteStream) -> None:
        await responder.answer(stream)
        if asked.scheme is Scheme.STDIO:
            done.set()

    listener = await listen(asked, accept, tls=tls)
    if asked.scheme is not Scheme.STDIO:
        sys.stdout.write(f"{listener.address}\n")
        sys.stdout.flush()
    await done.wait()


if __name__ == "__main__":
    file = Path(sys.argv[3])
    folder = Path(sys.argv[4]) if len(sys.argv) > 4 else None
    with Lace.open(sys.argv[1]) as opened:
        asyncio.run(answer(opened, sys.argv[2], file.read_text(), listed=read_admitted(file), tls_folder=folder))
