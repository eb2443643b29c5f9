"""Two processes, each with a lace of its own, over every stream that one machine has; and either of them killed."""

import asyncio
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import cast

import pytest

from bobbin.errors import UsageError
from bobbin.lace import Lace
from bobbin.runtime.connection import Destination
from bobbin.runtime.introduction import NotIntroduced
from bobbin.runtime.remote import synchronise_remote
from bobbin.transport import certificate
from bobbin.wire import address
from tests.lace_pairs import names
from tests.local_exchanges import EVE, GROUP_U, plex

_ROOT = Path(__file__).resolve().parents[2]
_SECONDS = 120
_MANY, _LARGE, _SOME = 600, 100_000, 40
"""Far more bytes than fit into the buffers between two processes, so that a kill falls into the transfer."""


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Lace]:
    """Ours. Beside it there are ``server.lace``, closed, with a key, and its rules."""
    with Lace.create(tmp_path / "server.lace") as server:
        server.new_key()
    (tmp_path / "server.rules").write_text(GROUP_U)
    with Lace.create(tmp_path / "app.lace") as lace:
        lace.new_key()
        yield lace


def _fill(folder: Path, count: int, *, first: int = 0, size: int = 0) -> set[str]:
    some = [plex(f"links/{number}", b"x" * size) for number in range(first, first + count)]
    with Lace.open(folder) as lace:
        lace.store.put_records(some)
    return {one.hash for one in some}


def _names(folder: Path) -> set[str]:
    with Lace.open(folder) as lace:
        return names(lace)


def _program(folder: Path, where: str, *more: str) -> list[str]:
    arguments = [str(folder / "server.lace"), where, str(folder / "server.rules"), *more]
    return [sys.executable, "-m", "tests.end_to_end.answering", *arguments]


@contextmanager
def _answering(folder: Path, where: str, *more: str) -> Iterator[tuple[str, "subprocess.Popen[bytes]"]]:
    """The other process, and the address that it listens on."""
    with subprocess.Popen(_program(folder, where, *more), cwd=_ROOT, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().decode().strip(), process
        finally:
            process.kill()


# ---- every stream ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["tcp", "unix", "ws"])
def test_two_processes_converge(app: Lace, tmp_path: Path, scheme: str) -> None:
    theirs = _fill(tmp_path / "server.lace", 200, size=2_000)
    mine = [plex(f"mine/{number}", b"y" * 2_000) for number in range(200)]
    app.store.put_records(mine)
    ours = {one.hash for one in mine}
    where = f"unix:{tmp_path}/server.sock" if scheme == "unix" else f"{scheme}:127.0.0.1"
    with _answering(tmp_path, where) as (found, _):
        report = app.sync(found, GROUP_U)
        assert report.fixed_point
        assert report.received == theirs
        assert report.sent == ours
        again = app.sync(found, GROUP_U)
        assert (again.fixed_point, again.received, again.sent) == (True, frozenset(), frozenset())
    assert names(app) == _names(tmp_path / "server.lace") == ours | theirs


@pytest.mark.parametrize("scheme", ["tls", "wss"])
def test_two_processes_converge_over_an_encrypted_stream(app: Lace, tmp_path: Path, scheme: str) -> None:
    theirs = _fill(tmp_path / "server.lace", 20)
    folder = tmp_path / "tls"
    folder.mkdir()
    pin = certificate.create(folder / "certificate.pem", folder / "key.pem", names=["localhost"])
    with Lace.open(tmp_path / "server.lace") as server:
        verifier = server.key().verifier
    with _answering(tmp_path, f"{scheme}:127.0.0.1", str(folder)) as (found, _):
        where = address.parse(found)
        for destination in (
            Destination(address=where, verifier=verifier),
            Destination(address=where, certificate=pin),
        ):
            report = app.sync(destination, GROUP_U)
            assert report.fixed_point
            assert report.agreed is not None
            assert report.agreed.peer == verifier
    assert names(app) == theirs


def test_two_processes_converge_over_pipes(app: Lace, tmp_path: Path) -> None:
    """Each has the other at its standard input and output, as over a remote shell."""
    theirs = _fill(tmp_path / "server.lace", 50)
    ours = app.put_record(plex("mine/1"))
    app.close()
    dialling = f"""
from pathlib import Path
from bobbin.lace import Lace
with Lace.open({str(tmp_path / "app.lace")!r}) as lace:
    report = lace.sync("stdio", Path({str(tmp_path / "server.rules")!r}).read_text())
assert report.fixed_point, report.result
"""
    with (
        subprocess.Popen(
            _program(tmp_path, "stdio"), cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as server,
        subprocess.Popen(
            [sys.executable, "-c", dialling], cwd=_ROOT, stdin=server.stdout, stdout=server.stdin
        ) as client,
    ):
        for pipe in (server.stdin, server.stdout):
            assert pipe is not None
            pipe.close()
        assert client.wait(_SECONDS) == 0
        assert server.wait(_SECONDS) == 0
    assert _names(tmp_path / "app.lace") == _names(tmp_path / "server.lace") == theirs | {ours}


def test_get_list_and_store(app: Lace, tmp_path: Path) -> None:
    theirs = sorted(_fill(tmp_path / "server.lace", 3))
    mine = plex("mine/1")
    with _answering(tmp_path, "tcp:127.0.0.1") as (found, _):
        assert app.get_from(found, theirs[0]).record is not None
        assert names(app) == {theirs[0]}
        assert {listed.hash for listed in app.list_from(found, "//u//ding//links/").records} == set(theirs)
        placed = app.store_to(found, [mine])
        assert placed.stored == {mine.hash}
        with pytest.raises(UsageError, match="its own policy"):
            app.get_from(found, theirs[0], peer_policy=GROUP_U)
        with pytest.raises(UsageError, match="its own affair"):
            app.sync(found, GROUP_U, dry_run=True)
    assert mine.hash in _names(tmp_path / "server.lace")


def test_a_known_peer_is_dialled_by_its_name_and_must_have_its_key(app: Lace, tmp_path: Path) -> None:
    theirs = _fill(tmp_path / "server.lace", 3)
    with Lace.open(tmp_path / "server.lace") as server:
        verifier = server.key().verifier
    (app.path / "own.policy").write_text(GROUP_U)
    peers = app.path / "peers.toml"
    with _answering(tmp_path, "tcp:127.0.0.1") as (found, _):

        def note(key: str) -> None:
            peers.write_text(
                f'[[peer]]\nname = "server"\nverifier = "{key}"\naddress = "{found}"\npolicy = "own.policy"\n'
            )
            peers.chmod(0o600)

        note(EVE.verifier)
        for name in ("server", found):
            with pytest.raises(Exception, match=f"the peer is to be {EVE.verifier}"):
                app.sync(name, GROUP_U)
        assert not names(app)
        note(verifier)
        assert app.sync("server").received == theirs
        with pytest.raises(UsageError, match="nobody here is called 'stranger'"):
            app.sync("stranger", GROUP_U)


def test_a_key_that_is_not_listed_gets_nothing(app: Lace, tmp_path: Path) -> None:
    _fill(tmp_path / "server.lace", 3)
    (tmp_path / "server.admits").write_text(EVE.verifier)
    with (
        _answering(tmp_path, "tcp:127.0.0.1") as (found, _),
        pytest.raises(NotIntroduced, match="is not listed there"),
    ):
        app.sync(found, GROUP_U)
    assert not names(app)


def test_a_record_that_is_written_later_is_followed(app: Lace, tmp_path: Path) -> None:
    """By a third process, so that the answering one has to notice what others write."""
    _fill(tmp_path / "server.lace", 1)

    async def follow(found: str) -> list[str]:
        seen: list[str] = []
        async with asyncio.timeout(_SECONDS), app.connect(found, GROUP_U) as link:
            async for record in link.open():
                seen.append(record.hash)
                if len(seen) == 3:
                    break
                app.put_record(plex(f"ours/{len(seen)}"))
                await asyncio.to_thread(_fill, tmp_path / "server.lace", 1, first=len(seen))
        return seen

    with _answering(tmp_path, "tcp:127.0.0.1") as (found, _):
        seen = asyncio.run(follow(found))
    assert seen == [plex(f"links/{number}").hash for number in range(3)]


def test_the_program_of_the_page(app: Lace, tmp_path: Path) -> None:
    """docs/python.md has a function that watches a peer elsewhere."""
    page = (_ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"^```py\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)
    names_here: dict[str, object] = {"Lace": Lace}
    exec(program, names_here)
    watch = cast("Callable[[Lace, str, str], Coroutine[None, None, list[str]]]", names_here["watch"])

    async def run(found: str) -> list[str]:
        async with asyncio.timeout(_SECONDS):
            watching = asyncio.create_task(watch(app, found, GROUP_U))
            came = asyncio.Event()
            app.store.subscribe(lambda _: came.set())
            for number in count():
                # One after the other. Some may still come with the exchange before; then there are more.
                came.clear()
                await asyncio.to_thread(_fill, tmp_path / "server.lace", 1, first=number)
                arrival = asyncio.create_task(came.wait())
                await asyncio.wait({arrival, watching}, return_when=asyncio.FIRST_COMPLETED)
                arrival.cancel()
                if watching.done():
                    break
            return await watching

    with _answering(tmp_path, "tcp:127.0.0.1") as (found, _):
        seen = asyncio.run(run(found))
    assert len(seen) == 2
    assert all(name.startswith("links/") for name in seen)


# ---- killed ---------------------------------------------------------------------------------------------------------


def test_the_answering_process_is_killed_in_the_middle(app: Lace, tmp_path: Path) -> None:
    """What came is stored, the result names the loss, and the next exchange brings the rest and nothing twice."""
    theirs = _fill(tmp_path / "server.lace", _MANY, size=_LARGE)
    with _answering(tmp_path, "tcp:127.0.0.1") as (found, process):

        async def cut() -> frozenset[str]:
            def kill(event: object, effects: object) -> None:
                del event, effects
                if app.store.mark().high_water > _SOME:
                    process.send_signal(signal.SIGKILL)

            peer = Destination(address=address.parse(found)).peer()
            report = await synchronise_remote(app.participant(GROUP_U), peer, observers=[kill])
            assert not report.fixed_point
            assert report.result.reason == "link-lost"
            return report.received

        first = asyncio.run(cut())
    came = len(first)
    assert first == names(app)
    assert _SOME < came < _MANY
    with _answering(tmp_path, "tcp:127.0.0.1") as (found, _):
        rest = app.sync(found, GROUP_U)
    assert rest.fixed_point
    assert (rest.received ^ (theirs - first)) == frozenset()
    assert not list(app.check())


def test_the_dialling_process_is_killed_in_the_middle(app: Lace, tmp_path: Path) -> None:
    """The other one serves the next as if nothing had been."""
    theirs = _fill(tmp_path / "server.lace", _MANY, size=_LARGE)
    app.close()
    dialling = f"""
import os, signal, sys
from bobbin.lace import Lace
with Lace.open({str(tmp_path / "app.lace")!r}) as lace:
    def kill(event, effects):
        if lace.store.mark().high_water > {_SOME}:
            os.kill(os.getpid(), signal.SIGKILL)
    lace.sync(sys.argv[1], {GROUP_U!r}, observers=[kill])
"""
    with _answering(tmp_path, "tcp:127.0.0.1") as (found, _):
        done = subprocess.run([sys.executable, "-c", dialling, found], cwd=_ROOT, check=False, timeout=_SECONDS)
        assert done.returncode == -signal.SIGKILL
        with Lace.open(tmp_path / "app.lace") as again:
            first = names(again)
            came = len(first)
            assert _SOME < came < _MANY
            rest = again.sync(found, GROUP_U)
            assert rest.fixed_point
            assert (rest.received ^ (theirs - first)) == frozenset()
            assert not list(again.check())
