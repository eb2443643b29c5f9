"""``peers.toml``: what is right becomes a roster, what is wrong is named, and nobody is served by accident."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin.config import peers as module
from bobbin.config.findings import InvalidConfiguration, InvalidPolicies
from bobbin.config.peers import (
    Defaults,
    LimitsTable,
    certificate_text,
    limits_of,
    parse_certificate,
    read_peer,
    read_peers,
    read_roster,
)
from bobbin.errors import BobbinError, UsageError
from bobbin.interlace.choice import Strategy
from bobbin.interlace.limits import LARGE, Limits
from bobbin.policy.modules import compile_query, compile_selector, deny_all_selector
from bobbin.records.signing import SigningKey
from bobbin.runtime.roster import Way
from bobbin.wire import address

_ONE, _TWO = (SigningKey.from_secret(bytes([number]) * 32).verifier for number in (1, 2))
_PIN = "ab" * 32
_POLICY = "SelectHave(P) :- Have(P), Field(P,'Group',_,'u').\n"
_QUERY = "Queryable(P,O) :- OwnSelected(P), Viewer(O).\n"
_MANY = [f"tls:h{number}" for number in range(17)]
_TWO_ADDRESS = "peer 2 (two), address"
_LAB = f'[[peer]]\nname = "lab"\nverifier = "{_ONE}"\n'

Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    (tmp_path / "lab.policy").write_text(_POLICY)
    (tmp_path / "lab.query").write_text(_QUERY)

    def call(text: str) -> Path:
        path = tmp_path / "peers.toml"
        path.write_text(text)
        return path

    return call


def _keys(file: Path, defaults: Defaults | None = None) -> list[tuple[str, str]]:
    with pytest.raises(InvalidConfiguration) as failure:
        read_roster(file, defaults or Defaults(selector=deny_all_selector()))
    assert {problem.file for problem in failure.value.problems} == {file}
    return [(problem.key, problem.message) for problem in failure.value.problems]


def test_a_whole_file_becomes_a_roster(write: Write) -> None:
    file = write(
        f"""
        [[peer]]
        name = "lab"
        verifier = "{_ONE}"
        address = "tls:lab.example:4791"
        certificate = "{_PIN}"
        policy = "lab.policy"
        query_policy = "lab.query"
        limits = "large"
        strategy = "ranges"
        follow = true
        admit = false

        [[peer]]
        name = "box"
        unproven = true
        address = "unix:/run/box.sock"
        limits = {{ profile = "large", phase_timeout = 7 }}

        [anonymous]
        policy = "lab.policy"
        """
    )
    default = deny_all_selector()
    roster = read_roster(file, Defaults(selector=default))
    lab, box = roster
    assert (lab.name, lab.verifier) == ("lab", _ONE)
    assert lab.ways == (Way(address=address.parse("tls:lab.example:4791"), certificate=bytes.fromhex(_PIN)),)
    assert lab.selector.identifier == compile_selector(_POLICY).identifier
    assert lab.query is not None
    assert lab.query.identifier == compile_query(_QUERY).identifier
    assert lab.limits == LARGE
    assert (lab.follow, lab.admit) == (True, False)
    assert (lab.strategy, box.strategy) == (Strategy.RANGES, Strategy.AUTO)
    assert [entry.strategy for entry in read_peers(file).entries] == [Strategy.RANGES, None]
    assert (box.verifier, box.selector, box.query) == (None, default, None)
    assert (box.limits.phase_timeout, box.limits.max_loop_iterations) == (7, LARGE.max_loop_iterations)
    assert roster.anonymous is not None
    assert roster.anonymous.selector is lab.selector


def test_without_a_file_nobody_is_known(tmp_path: Path) -> None:
    assert len(read_roster(tmp_path / "peers.toml")) == 0
    assert read_roster(tmp_path / "peers.toml").anonymous is None


def test_a_file_that_is_there_and_cannot_be_read_is_not_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "peers.toml").symlink_to("nowhere")
    with pytest.raises(InvalidConfiguration, match="there is no file"):
        read_roster(tmp_path / "peers.toml")
    with pytest.raises(InvalidConfiguration, match="there is no file"):
        read_roster(tmp_path / "no such folder" / "peers.toml")


def test_a_peer_without_any_policy_is_an_error_that_says_so(write: Write) -> None:
    file = write(_LAB)
    assert _keys(file, Defaults()) == [
        (
            "peer 1 (lab), policy",
            "it has no policy of its own and there is no default one, so nothing could be exchanged with it",
        )
    ]
    assert len(read_peers(file).entries) == 1
    assert len(read_roster(file, Defaults(selector=deny_all_selector()))) == 1


def test_the_default_policy_never_holds_for_those_who_prove_nothing(write: Write) -> None:
    ((key, message),) = _keys(write("[anonymous]\n"))
    assert key == "anonymous.policy"
    assert "missing" in message


@pytest.mark.parametrize(
    ("more", "key", "word"),
    [
        ('nmae = "x"\n', "peer 1 (lab), nmae", "did you mean name?"),
        ('address = "lab.example"\n', "peer 1 (lab), address", "not an address"),
        ('address = "stdio"\n', "peer 1 (lab), address", "dialled"),
        ("follow = true\n", "peer 1 (lab), follow", "no address"),
        ("admit = false\n", "peer 1 (lab), admit", "no way"),
        ('limits = "huge"\n', "peer 1 (lab), limits", "default, large"),
        ('strategy = "magic"\n', "peer 1 (lab), strategy", "sketch"),
        ("limits = { phase_timeout = 0 }\n", "peer 1 (lab), limits, phase_timeout", "at least 1"),
        ("limits = { fase_timeout = 9 }\n", "peer 1 (lab), limits, fase_timeout", "did you mean phase_timeout?"),
        (f'certificate = "{_PIN}"\n', "peer 1 (lab), certificate", "tls or wss"),
        (f'address = "tcp:x.example"\ncertificate = "{_PIN}"\n', "peer 1 (lab), certificate", "tls or wss"),
        ('address = "tls:x.example"\ncertificate = "abc"\n', "peer 1 (lab), certificate", "64 hexadecimal"),
        ('address = ["tls:x.example", "x"]\n', "peer 1 (lab), address", "not an address"),
        ('address = ["tls:x.example", "tls:x.example"]\n', "peer 1 (lab), address", "tls:x.example is there twice"),
        (
            'address = ["tls:x.example", "tls:X.example:4791"]\n',
            "peer 1 (lab), address",
            "tls:X.example:4791 is there twice, also as tls:x.example",
        ),
        (f"address = {_MANY}\n", "peer 1 (lab), address", "at most 16"),
        ("address = [7]\n", "peer 1 (lab), address", "expected text"),
        (f'address = ["tls:x", "tls:y"]\ncertificate = ["{_PIN}"]\n', "peer 1 (lab), certificate", "one for each"),
        (f'address = ["tls:x", "tcp:y"]\ncertificate = "{_PIN}"\n', "peer 1 (lab), certificate", "tls or wss"),
        ('[[peer]]\nname = "two"\nunproven = true\naddress = ["unix:/a", "unix:/b"]\n', _TWO_ADDRESS, "only a key"),
        ("unproven = true\naddress = 'tcp:x.example'\n", "peer 1 (lab), unproven", "either"),
        ('policy = "none.policy"\n', "peer 1 (lab), policy", "there is no file"),
        ('query_policy = "lab.policy"\n', "peer 1 (lab), query_policy", "no query policy"),
        (f'[[peer]]\nname = "lab"\nverifier = "{_TWO}"\n', "peer 2 (lab), name", "same name"),
        (f'[[peer]]\nname = "two"\nverifier = "{_ONE}"\n', "peer 2 (two), verifier", "peer 1 (lab) has the same"),
        (f'[[peer]]\nname = "anonymous"\nverifier = "{_TWO}"\n', "peer 2 (anonymous), name", "prove nothing"),
        (f'[[peer]]\nname = "a/b"\nverifier = "{_TWO}"\n', "peer 2 (a/b), name", "not a name"),
        ('[[peer]]\nname = "two"\n', "peer 2 (two), verifier", "unproven = true"),
        ('[[peer]]\nname = "two"\nverifier = "V.x"\n', "peer 2 (two), verifier", "no verifier"),
        ('[[peer]]\nname = "two"\nunproven = true\n', "peer 2 (two), address", "address only"),
        ("[[peer]]\n", "peer 2, name", "missing"),
        ('[anonymous]\npolicy = "lab.policy"\nlimits = "huge"\n', "anonymous, limits", "default, large"),
    ],
)
def test_a_mistake_is_named_by_its_key(write: Write, more: str, key: str, word: str) -> None:
    ((found, message),) = _keys(write(_LAB + more))
    assert found == key
    assert word in message


@pytest.mark.parametrize(
    ("written", "pins"),
    [
        ("", (None, None)),
        (f'certificate = "{_PIN}"\n', (_PIN, _PIN)),
        (f'certificate = ["{_PIN}", "{"cd" * 32}"]\n', (_PIN, "cd" * 32)),
    ],
)
def test_each_address_has_its_own_pin_or_all_have_the_same(
    write: Write, written: str, pins: tuple[str | None, ...]
) -> None:
    file = write(f'{_LAB}address = ["tls:x", "wss:y"]\n{written}')
    (lab,) = read_peers(file).entries
    assert [str(way.address) for way in lab.ways] == ["tls:x", "wss:y"]
    assert [way.certificate for way in lab.ways] == [None if pin is None else bytes.fromhex(pin) for pin in pins]
    found = read_peers(file).at(lambda one: one.host == "y")
    assert found is not None
    assert (found[0].name, found[1]) == ("lab", lab.ways[1])
    assert read_peers(file).at(lambda one: one.host == "z") is None


def test_all_that_is_wrong_with_addresses_and_pins_is_said_at_once(write: Write) -> None:
    found = _keys(write(f'{_LAB}address = ["x", "tls:y", "z"]\ncertificate = "ab"\n'))
    assert [key.rpartition(" ")[2] for key, _ in found] == ["address", "address", "certificate"]


def test_there_is_a_bound_on_peers(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PEERS_MAX", 1)
    assert len(read_peers(write(_LAB)).entries) == 1
    ((key, message),) = _keys(write(f'{_LAB}[[peer]]\nname = "two"\nverifier = "{_TWO}"\n'))
    assert (key, "at most 1 " in message) == ("peer", True)


def test_a_secret_in_the_wrong_place_is_not_repeated(write: Write) -> None:
    secret = "&." + _ONE.removeprefix("V.")
    with pytest.raises(InvalidConfiguration) as failure:
        read_peers(write(f'[[peer]]\nname = "lab"\nverifier = "{secret}"\n'))
    assert "signing secret" in str(failure.value)
    assert secret not in str(failure.value)


def test_all_mistakes_of_all_policies_are_said(write: Write, tmp_path: Path) -> None:
    (tmp_path / "a.policy").write_text("SelectHave(P) :- Have(Q).\n")
    (tmp_path / "b.policy").write_text("SelectHave(P).\nNo\n")
    file = write(
        f'{_LAB}policy = "a.policy"\n[[peer]]\nname = "two"\nverifier = "{_TWO}"\npolicy = "b.policy"\n'
        '[anonymous]\npolicy = "a.policy"\n'
    )
    with pytest.raises(InvalidPolicies) as failure:
        read_roster(file)
    assert {mistake.file.name for mistake in failure.value.mistakes} == {"a.policy", "b.policy"}


def test_one_peer_can_be_had_whatever_is_wrong_with_the_policies_of_others(write: Write, tmp_path: Path) -> None:
    (tmp_path / "a.policy").write_text("No\n")
    file = write(f'{_LAB}policy = "lab.policy"\n[[peer]]\nname = "two"\nverifier = "{_TWO}"\npolicy = "a.policy"\n')
    lab = read_peer(file, "lab")
    assert lab is not None
    assert lab.verifier == _ONE
    assert read_peer(file, "three") is None
    with pytest.raises(InvalidPolicies):
        read_peer(file, "two")


def test_a_list_of_peers_can_be_shown_whatever_is_wrong_with_their_policies(write: Write) -> None:
    peers = read_peers(write(f'{_LAB}policy = "none.policy"\nlimits = {{ phase_timeout = 3 }}\n'))
    (lab,) = peers.entries
    assert (lab.policy, lab.profile) == ("none.policy", "default*")
    assert peers.named("lab") is lab
    assert peers.find(_ONE) is lab
    assert peers.find(_TWO) is None


def test_the_terms_of_a_peer_go_before_the_default_ones(write: Write) -> None:
    query = compile_query("")
    defaults = Defaults(selector=deny_all_selector(), query=query, limits=LARGE)
    plain, own = read_roster(
        write(f'{_LAB}[[peer]]\nname = "two"\nverifier = "{_TWO}"\nquery_policy = "lab.query"\nlimits = "default"\n'),
        defaults,
    )
    assert (plain.query, plain.limits) == (query, LARGE)
    assert own.query is not None
    assert own.query.identifier == compile_query(_QUERY).identifier
    assert own.limits == Limits()


@given(st.binary(min_size=32, max_size=32))
def test_a_pin_is_read_as_it_is_shown(digest: bytes) -> None:
    assert parse_certificate(certificate_text(digest)) == digest
    assert parse_certificate(digest.hex(":").upper()) == digest
    assert parse_certificate(digest.hex()) == digest


@pytest.mark.parametrize("text", ["", "ab", "ab" * 31, "ab" * 33, "sha1:" + "ab" * 32, "ab:" * 32, "g" * 64])
def test_what_is_no_pin_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_certificate(text)


def test_limits_are_a_profile_or_a_profile_with_changes() -> None:
    assert limits_of("large") == LARGE
    assert limits_of(LimitsTable()) == Limits()
    assert limits_of(LimitsTable(max_loop_iterations=2)) == Limits(max_loop_iterations=2)


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_bytes_are_peers_or_an_error_of_ours(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("peers") / "peers.toml"
    path.write_bytes(content)
    said = None
    try:
        read_roster(path)
    except BobbinError as error:
        said = str(error)
    assert said is None or str(path) in said


def test_a_peer_that_no_node_serves_needs_no_policy(tmp_path: Path) -> None:
    alice = SigningKey.from_secret(bytes(31) + b"\x07").verifier
    file = tmp_path / "peers.toml"
    file.write_text(f'[[peer]]\nname = "lab"\nverifier = "{alice}"\naddress = "tcp:127.0.0.1:4790"\nadmit = false\n')
    file.chmod(0o600)
    assert list(read_roster(file)) == []
    file.write_text(f'[[peer]]\nname = "lab"\nverifier = "{alice}"\naddress = "tcp:127.0.0.1:4790"\n')
    with pytest.raises(UsageError, match="no policy of its own"):
        read_roster(file)
