"""A configuration that changes while it is in force: whole or not at all, and every file behind it is watched."""

import os
from pathlib import Path

import pytest

from bobbin.config.findings import PROBLEMS_MAX, InvalidConfiguration, InvalidPolicies
from bobbin.config.layout import Layout
from bobbin.config.node import Overrides
from bobbin.config.reload import Loaded, Origin, Reloader, load
from bobbin.errors import BobbinError
from bobbin.policy.modules import compile_selector
from bobbin.records.signing import SigningKey

_ONE, _TWO = (SigningKey.from_secret(bytes([number]) * 32).verifier for number in (1, 2))
_OLD = "SelectHave(P) :- Have(P), Field(P,'Group',_,'u').\n"
_NEW = "SelectHave(P) :- Have(P), Field(P,'Group',_,'another').\n"
_LAB = f'[[peer]]\nname = "lab"\nverifier = "{_ONE}"\npolicy = "lab.policy"\n'
_SECOND = f'[[peer]]\nname = "two"\nverifier = "{_TWO}"\n'


@pytest.fixture
def origin(tmp_path: Path) -> Origin:
    folder = tmp_path / "x.lace"
    folder.mkdir()
    (folder / "peers.toml").write_text(_LAB)
    (folder / "lab.policy").write_text(_OLD)
    (tmp_path / "node.toml").write_text('[default]\npolicy = "default.policy"\n')
    (tmp_path / "default.policy").write_text(_OLD)
    return Origin(layout=Layout(folder), file=tmp_path / "node.toml")


def _write(path: Path, text: str) -> None:
    """Write as an editor does, in such a way that no clock is needed to see it."""
    temporary = path.with_suffix(".new")
    temporary.write_text(text)
    temporary.replace(path)


def _settle(reloader: Reloader) -> Loaded | BobbinError | None:
    assert reloader.poll() is None, "a change that was seen once may not be whole"
    return reloader.poll()


def _policy(loaded: Loaded) -> str:
    peer = loaded.roster.named("lab")
    assert peer is not None
    return peer.selector.identifier


def test_everything_is_loaded_and_every_file_is_watched(origin: Origin, tmp_path: Path) -> None:
    reloader = Reloader(origin)
    assert _policy(reloader.loaded) == compile_selector(_OLD).identifier
    assert reloader.files == {
        tmp_path / "node.toml",
        tmp_path / "default.policy",
        origin.layout.peers,
        origin.layout.folder / "lab.policy",
    }
    assert reloader.poll() is None
    assert reloader.poll() is None
    assert reloader.failure is None


def test_a_changed_policy_is_taken_over_when_it_has_settled(origin: Origin) -> None:
    reloader = Reloader(origin)
    _write(origin.layout.folder / "lab.policy", _NEW)
    loaded = _settle(reloader)
    assert isinstance(loaded, Loaded)
    assert reloader.loaded is loaded
    assert _policy(loaded) == compile_selector(_NEW).identifier
    assert reloader.poll() is None


def test_a_file_that_still_changes_is_not_read(origin: Origin) -> None:
    reloader = Reloader(origin)
    policy = origin.layout.folder / "lab.policy"
    _write(policy, "SelectHave(P)")
    assert reloader.poll() is None
    _write(policy, _NEW)
    assert isinstance(_settle(reloader), Loaded)


def test_a_change_that_is_taken_back_at_once_is_none(origin: Origin) -> None:
    reloader = Reloader(origin)
    before = reloader.loaded
    _write(origin.layout.peers, _LAB)
    assert _settle(reloader) is None
    assert reloader.loaded is before
    os.utime(origin.layout.peers, ns=(1, 1))
    assert _settle(reloader) is None
    assert reloader.poll() is None


def test_what_is_wrong_leaves_the_old_in_force_and_is_said_once(origin: Origin) -> None:
    reloader = Reloader(origin)
    before = reloader.loaded
    _write(origin.layout.folder / "lab.policy", "SelectHave(P) :- Have(Q).\n")
    failure = _settle(reloader)
    assert isinstance(failure, InvalidPolicies)
    assert reloader.failure is failure
    assert reloader.loaded is before
    assert reloader.poll() is None
    assert reloader.poll() is None
    assert reloader.failure is failure
    _write(origin.layout.folder / "lab.policy", _NEW)
    assert isinstance(_settle(reloader), Loaded)
    assert reloader.failure is None


def test_one_wrong_file_keeps_right_changes_of_others_out(origin: Origin) -> None:
    reloader = Reloader(origin)
    before = reloader.loaded
    _write(origin.layout.peers, _LAB + _SECOND)
    _write(origin.layout.folder / "lab.policy", "No\n")
    assert isinstance(_settle(reloader), BobbinError)
    assert reloader.loaded is before
    assert len(before.roster) == 1


def test_a_policy_that_was_missing_is_watched_for(origin: Origin) -> None:
    reloader = Reloader(origin)
    (origin.layout.folder / "lab.policy").unlink()
    assert isinstance(_settle(reloader), InvalidConfiguration)
    _write(origin.layout.folder / "lab.policy", _NEW)
    loaded = _settle(reloader)
    assert isinstance(loaded, Loaded)
    assert _policy(loaded) == compile_selector(_NEW).identifier


def test_a_broken_list_of_peers_forgets_no_policy_behind_it(origin: Origin) -> None:
    reloader = Reloader(origin)
    _write(origin.layout.peers, "[[peer")
    assert isinstance(_settle(reloader), InvalidConfiguration)
    _write(origin.layout.folder / "lab.policy", _NEW)
    assert isinstance(_settle(reloader), InvalidConfiguration)
    _write(origin.layout.peers, _LAB)
    assert isinstance(_settle(reloader), Loaded)


def test_a_list_of_peers_can_appear_and_a_lost_one_means_nobody(origin: Origin) -> None:
    origin.layout.peers.unlink()
    reloader = Reloader(origin)
    assert len(reloader.loaded.roster) == 0
    _write(origin.layout.peers, _LAB)
    loaded = _settle(reloader)
    assert isinstance(loaded, Loaded)
    assert len(loaded.roster) == 1
    origin.layout.peers.unlink()
    loaded = _settle(reloader)
    assert isinstance(loaded, Loaded)
    assert len(loaded.roster) == 0


def test_a_list_of_peers_that_is_named_must_be_there(origin: Origin, tmp_path: Path) -> None:
    _write(tmp_path / "node.toml", 'peers = "friends.toml"\n')
    with pytest.raises(InvalidConfiguration, match=r"there is no file .*friends\.toml"):
        load(origin)
    overrides = Overrides(peers=tmp_path / "other.toml")
    with pytest.raises(InvalidConfiguration, match=r"there is no file .*other\.toml"):
        load(Origin(layout=origin.layout, overrides=overrides))
    _write(tmp_path / "friends.toml", f'{_SECOND}policy = "default.policy"\n')
    assert load(origin).roster.named("two") is not None


def test_a_reload_on_demand_needs_no_change(origin: Origin) -> None:
    reloader = Reloader(origin)
    before = reloader.loaded
    loaded = reloader.reload()
    assert isinstance(loaded, Loaded)
    assert loaded is not before
    assert reloader.loaded is loaded


def test_a_wrong_default_policy_is_said_once_and_not_for_each_peer(origin: Origin, tmp_path: Path) -> None:
    _write(origin.layout.peers, _LAB + _SECOND)
    _write(tmp_path / "default.policy", "No\n")
    with pytest.raises(InvalidPolicies) as failure:
        load(origin)
    assert {mistake.file.name for mistake in failure.value.mistakes} == {"default.policy"}


def test_mistakes_of_both_files_are_said_together(origin: Origin, tmp_path: Path) -> None:
    _write(tmp_path / "node.toml", '[default]\npolicy = "none.policy"\n')
    _write(origin.layout.peers, _LAB + _SECOND + "follow = true\n")
    with pytest.raises(InvalidConfiguration) as failure:
        load(origin)
    assert [problem.key for problem in failure.value.problems] == ["default.policy", "peer 2 (two), follow"]


def test_a_configuration_that_cannot_be_read_at_all_is_an_error(origin: Origin, tmp_path: Path) -> None:
    _write(tmp_path / "node.toml", "listen = \n")
    with pytest.raises(InvalidConfiguration, match="not TOML"):
        load(origin)


def test_without_a_default_a_peer_without_a_policy_is_refused(origin: Origin) -> None:
    _write(origin.layout.peers, _LAB + _SECOND)
    assert len(load(origin).roster) == 2
    with pytest.raises(InvalidConfiguration, match="no policy of its own"):
        load(Origin(layout=origin.layout))


def test_everything_that_is_wrong_is_said_at_once(origin: Origin, tmp_path: Path) -> None:
    """Whatever is wrong in one place, a missing policy included, hides nothing that is wrong elsewhere."""
    _write(
        tmp_path / "node.toml",
        'listen = ["nonsense"]\nbogus = 1\n[links]\ntotal_max = 0\n[default]\npolicy = "none.policy"\n'
        'query_policy = "none.query"\n[tls]\ncertificate = "none.pem"\nkey = "none.key"\n',
    )
    _write(tmp_path / "wrong.policy", "No\n")
    _write(
        origin.layout.peers,
        _LAB.replace('name = "lab"', 'name = "lab"\ncolour = "red"')
        + _SECOND
        + 'policy = "gone.policy"\nfollow = true\n[[peer]]\nname = "three"\nunproven = true\n'
        + f'address = "tcp:127.0.0.1"\npolicy = "{tmp_path / "wrong.policy"}"\n',
    )
    with pytest.raises(InvalidConfiguration) as failure:
        load(origin)
    assert [problem.key for problem in failure.value.problems] == [
        "bogus",
        "links.total_max",
        "listen 1",
        "tls.certificate",
        "tls.key",
        "default.policy",
        "default.query_policy",
        "peer 1 (lab), colour",
        "peer 2 (two), follow",
        "peer 2 (two), policy",
    ]
    assert {mistake.file.name for mistake in failure.value.mistakes} == {"wrong.policy"}


def test_a_peer_without_any_policy_is_said_beside_other_mistakes(origin: Origin, tmp_path: Path) -> None:
    _write(tmp_path / "node.toml", 'listen = ["nonsense"]\n')
    _write(origin.layout.peers, _LAB + _SECOND)
    with pytest.raises(InvalidConfiguration) as failure:
        load(origin)
    assert [problem.key for problem in failure.value.problems] == ["listen 1", "peer 2 (two), policy"]


def test_a_default_table_that_is_wrong_is_not_blamed_on_the_peers(origin: Origin, tmp_path: Path) -> None:
    _write(tmp_path / "node.toml", '[default]\npolcy = "default.policy"\n')
    _write(origin.layout.peers, _LAB + _SECOND)
    with pytest.raises(InvalidConfiguration) as failure:
        load(origin)
    assert [problem.key for problem in failure.value.problems] == ["default.polcy"]


def test_peers_are_looked_at_beside_a_configuration_that_cannot_be_read(origin: Origin, tmp_path: Path) -> None:
    _write(tmp_path / "node.toml", "listen = \n")
    _write(origin.layout.peers, _LAB + _SECOND + "follow = true\n")
    with pytest.raises(InvalidConfiguration) as failure:
        load(origin)
    assert [problem.key for problem in failure.value.problems] == ["", "peer 2 (two), follow"]


def test_a_file_that_is_wrong_from_top_to_bottom_is_an_error_like_others(origin: Origin, tmp_path: Path) -> None:
    """Beyond the number that is shown, what is wrong must not be taken for right."""
    wrong = "".join(f"no_{number} = 1\n" for number in range(2 * PROBLEMS_MAX))
    _write(tmp_path / "node.toml", wrong + "links = 1\nreconnect = 1\nmetrics = 1\nlog = 1\n")
    with pytest.raises(InvalidConfiguration) as failure:
        load(origin)
    assert len(failure.value.problems) == PROBLEMS_MAX


def test_the_files_of_a_certificate_are_watched(origin: Origin, tmp_path: Path) -> None:
    _write(
        tmp_path / "node.toml", '[tls]\ncertificate = "c.pem"\nkey = "k.pem"\n[default]\npolicy = "default.policy"\n'
    )
    for name in ("c.pem", "k.pem"):
        _write(tmp_path / name, "old")
    reloader = Reloader(origin)
    assert {path.name for path in reloader.files} >= {"c.pem", "k.pem"}
    _write(tmp_path / "c.pem", "new")
    assert isinstance(_settle(reloader), Loaded)


def test_where_the_peers_are_read_from_is_said_in_full(origin: Origin, tmp_path: Path) -> None:
    assert Reloader(origin).peers_file == str(origin.layout.peers.resolve())
    _write(tmp_path / "node.toml", 'peers = "friends.toml"\n[default]\npolicy = "default.policy"\n')
    _write(tmp_path / "friends.toml", "")
    assert Reloader(origin).peers_file == str((tmp_path / "friends.toml").resolve())
