"""Peers come into the file and leave it; comments stay, keys are never replaced, and a crash changes nothing."""

import os
import stat
from multiprocessing import get_context
from pathlib import Path

import pytest

from bobbin.config import enrolment
from bobbin.config.enrolment import KnownPeerExists, NewPeer, OtherKey, add_peer, remove_peer, trust_new
from bobbin.config.findings import InvalidConfiguration
from bobbin.config.peers import Defaults, read_peers, read_roster
from bobbin.errors import IntegrityError, ResourceError, UsageError
from bobbin.records.signing import SigningKey
from bobbin.runtime.roster import Way
from bobbin.wire import address
from tests.policy_worlds import EVERYTHING
from tests.support.exchanges import selector

_ONE, _TWO = (SigningKey.from_secret(bytes([number]) * 32).verifier for number in (1, 2))
_MINE = f"""\
# mine, by hand
[anonymous]   # whoever
policy = 'open.policy'

[[peer]]
name = "lab"   # the one upstairs
verifier = "{_ONE}"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "peers.toml"


def test_a_new_peer_makes_a_private_file(file: Path) -> None:
    entry = add_peer(file, NewPeer(name="lab", verifier=_ONE, limits="large", admit=True))
    assert (entry.name, entry.verifier, entry.profile, entry.admit) == ("lab", _ONE, "large", True)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [path.name for path in file.parent.iterdir()] == ["peers.toml"]


def test_everything_that_is_given_is_read_again(file: Path) -> None:
    new = NewPeer(
        name="lab",
        verifier=_ONE,
        ways=(Way(address=address.parse("wss:lab.example/interlace"), certificate=bytes(range(32))),),
        policy=Path("/etc/x.policy"),
        query_policy=Path("/etc/x.query"),
        limits="default",
        follow=True,
        admit=False,
    )
    add_peer(file, new)
    (entry,) = read_peers(file).entries
    assert (entry.verifier, entry.ways) == (new.verifier, new.ways)
    assert 'address = "wss:lab.example/interlace"' in file.read_text(), "one is a text, as it always was"
    assert (entry.policy, entry.query_policy, entry.profile) == ("/etc/x.policy", "/etc/x.query", "default")
    assert (entry.follow, entry.admit) == (True, False)


@pytest.mark.parametrize("pinned", [False, True])
def test_several_addresses_are_read_again_with_the_pin_of_each(file: Path, *, pinned: bool) -> None:
    places = [address.parse(f"tls:{name}.example") for name in "abc"]
    ways = tuple(
        Way(address=one, certificate=bytes([number]) * 32 if pinned else None) for number, one in enumerate(places)
    )
    add_peer(file, NewPeer(name="hall", verifier=_ONE, ways=ways))
    (entry,) = read_peers(file).entries
    assert entry.ways == ways


def test_what_people_wrote_stays(file: Path) -> None:
    file.write_text(_MINE)
    add_peer(file, NewPeer(name="two", verifier=_TWO))
    text = file.read_text()
    assert text.startswith(_MINE)
    assert [entry.name for entry in read_peers(file).entries] == ["lab", "two"]
    assert remove_peer(file, "two") is not None
    assert file.read_text().rstrip() == _MINE.rstrip()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_the_last_peer_can_go_and_another_can_come(file: Path) -> None:
    file.write_text(_MINE)
    removed = remove_peer(file, "lab")
    assert removed is not None
    assert removed.verifier == _ONE
    assert read_peers(file).entries == ()
    assert "# mine, by hand" in file.read_text()
    add_peer(file, NewPeer(name="lab", verifier=_TWO))
    assert [entry.verifier for entry in read_peers(file).entries] == [_TWO]


def test_who_is_not_known_cannot_be_removed_and_nothing_is_written(file: Path) -> None:
    assert remove_peer(file, "lab") is None
    assert not file.exists()


def test_a_known_peer_is_never_changed(file: Path) -> None:
    file.write_text(_MINE)
    for new in (NewPeer(name="lab", verifier=_TWO), NewPeer(name="other", verifier=_ONE)):
        with pytest.raises(KnownPeerExists):
            add_peer(file, new)
    assert file.read_text() == _MINE


@pytest.mark.parametrize(
    "new",
    [
        NewPeer(name="A", verifier=_ONE),
        NewPeer(name="anonymous", verifier=_ONE),
        NewPeer(name="x"),
        NewPeer(name="x", verifier=_ONE, follow=True),
        NewPeer(name="x", verifier=_ONE, limits="huge"),
        NewPeer(name="x", verifier=_ONE, ways=(Way(address=address.parse("tcp:h"), certificate=bytes(32)),)),
        NewPeer(name="x", ways=(Way(address=address.parse("unix:/a")), Way(address=address.parse("unix:/b")))),
    ],
)
def test_what_could_not_be_read_again_is_not_written(file: Path, new: NewPeer) -> None:
    with pytest.raises(UsageError):
        add_peer(file, new)
    assert not file.exists()


def test_a_file_that_is_wrong_is_not_touched(file: Path) -> None:
    file.write_text("peer = 3\n")
    with pytest.raises(InvalidConfiguration):
        add_peer(file, NewPeer(name="lab", verifier=_ONE))
    assert file.read_text() == "peer = 3\n"


def test_peers_in_another_spelling_are_left_to_people(file: Path) -> None:
    text = f'peer = [{{ name = "lab", verifier = "{_ONE}" }}]\n'
    file.write_text(text)
    with pytest.raises(UsageError, match="by hand"):
        add_peer(file, NewPeer(name="two", verifier=_TWO))
    with pytest.raises(UsageError, match="by hand"):
        remove_peer(file, "lab")
    assert file.read_text() == text


def test_a_policy_is_named_relative_to_the_file_also_through_a_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "deep" / "er" / "x.lace").mkdir(parents=True)
    (tmp_path / "x.lace").symlink_to("deep/er/x.lace")
    (tmp_path / "lab.policy").write_text("SelectHave(P) :- Have(P).\n")
    monkeypatch.chdir(tmp_path)
    file = Path("x.lace") / "peers.toml"
    add_peer(file, NewPeer(name="lab", verifier=_ONE, policy=Path("lab.policy")))
    assert read_peers(file).entries[0].policy == "../../../lab.policy"
    assert len(read_roster(file)) == 1


def test_a_file_that_is_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "peers.toml").write_text(_MINE)
    (tmp_path / "peers.toml").symlink_to("real/peers.toml")
    add_peer(tmp_path / "peers.toml", NewPeer(name="two", verifier=_TWO))
    assert (tmp_path / "peers.toml").is_symlink()
    assert len(read_peers(tmp_path / "real" / "peers.toml").entries) == 2


def test_a_disk_that_fails_leaves_the_old_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text(_MINE)

    def fail(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(ResourceError, match="No space left"):
        add_peer(file, NewPeer(name="two", verifier=_TWO))
    assert file.read_text() == _MINE
    assert [path.name for path in file.parent.iterdir()] == ["peers.toml"]


def test_an_edit_by_hand_in_the_same_moment_is_not_lost(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text(_MINE)
    by_hand = _MINE + "# one more line\n"

    def check(text: str, path: Path) -> None:
        assert "two" in text
        path.write_text(by_hand)

    monkeypatch.setattr(enrolment, "_check_whole", check)
    with pytest.raises(ResourceError, match="somebody else") as failure:
        add_peer(file, NewPeer(name="two", verifier=_TWO))
    assert failure.value.retry
    assert file.read_text() == by_hand


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(ResourceError):
        add_peer(tmp_path / "none" / "peers.toml", NewPeer(name="lab", verifier=_ONE))


def _add_some(file: Path, first: int) -> None:
    for number in range(first, first + 8):
        verifier = SigningKey.from_secret(number.to_bytes(32, "big")).verifier
        add_peer(file, NewPeer(name=f"peer-{number}", verifier=verifier))


def test_several_processes_lose_nothing_of_each_other(file: Path) -> None:
    context = get_context("spawn")
    processes = [context.Process(target=_add_some, args=(file, first)) for first in (100, 200)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
    assert len(read_peers(file).entries) == 16


def test_a_key_is_trusted_from_its_first_use_on(file: Path) -> None:
    new = NewPeer(name="lab", verifier=_ONE, ways=(Way(address=address.parse("tls:lab.example")),))
    first = trust_new(file, new)
    text = file.read_text()
    assert (first.name, first.verifier) == ("lab", _ONE)
    assert trust_new(file, new) == first
    assert file.read_text() == text
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_who_is_trusted_for_being_dialled_may_not_dial_us(file: Path) -> None:
    """Else a node with a default policy would serve whoever once answered a command."""
    new = NewPeer(name="lab", verifier=_ONE, ways=(Way(address=address.parse("tls:lab.example")),), admit=True)
    assert not trust_new(file, new).admit
    assert not read_peers(file).entries[0].admit
    (known,) = read_roster(file, Defaults(selector=selector(EVERYTHING)))
    assert not known.admit


def test_another_key_under_a_known_name_is_an_alarm_and_changes_nothing(file: Path) -> None:
    file.write_text(_MINE)
    with pytest.raises(OtherKey) as failure:
        trust_new(file, NewPeer(name="lab", verifier=_TWO))
    assert isinstance(failure.value, IntegrityError)
    message = str(failure.value)
    assert "NOT THE KNOWN ONE" in message
    assert _ONE in message
    assert _TWO in message
    assert "somebody else answers in its place" in message
    assert file.read_text() == _MINE


def test_a_name_without_a_key_is_not_given_one(file: Path) -> None:
    file.write_text('[[peer]]\nname = "box"\nunproven = true\naddress = "tcp:box.example"\n')
    with pytest.raises(OtherKey, match="no key at all"):
        trust_new(file, NewPeer(name="box", verifier=_ONE))


def test_a_known_key_gets_no_second_name(file: Path) -> None:
    file.write_text(_MINE)
    with pytest.raises(KnownPeerExists, match="'lab'"):
        trust_new(file, NewPeer(name="other", verifier=_ONE))
    assert file.read_text() == _MINE


def test_who_has_proven_nothing_is_not_trusted(file: Path) -> None:
    with pytest.raises(UsageError, match="no key"):
        trust_new(file, NewPeer(name="lab"))
    assert not file.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_what_root_changes_still_belongs_to_its_owner(file: Path) -> None:
    file.write_text(_MINE)
    os.chown(file, 12_345, 12_346)
    add_peer(file, NewPeer(name="two", verifier=_TWO))
    status = file.stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (12_345, 12_346, 0o600)
