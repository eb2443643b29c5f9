"""Who is meant by PEER, what is demanded of whoever answers, and under which terms."""

import json
from pathlib import Path

import pytest

from bobbin.cli.elsewhere import Chosen, Demands, Elsewhere, find_elsewhere, find_folder
from bobbin.cli.output import Json, Output
from bobbin.cli.sources import MissingFile
from bobbin.errors import UsageError
from bobbin.interlace.limits import LARGE, Limits
from bobbin.lace import Lace
from bobbin.policy.executables import BUDGETS
from bobbin.records.signing import SigningKey
from bobbin.runtime.introduction import NotAdmitted
from bobbin.runtime.reaching import Failure
from bobbin.transport.base import TransportError, WrongCertificate
from tests.support.served import Served
from tests.unit.cli.command_line import VERIFIER, Cli
from tests.unit.cli.policy_texts import HIDE_ALL

_OTHER = SigningKey.from_secret(bytes([2]) * 32).verifier
_ADDRESS = "tls:lab.example:4791"
_PIN, _PIN_2 = "ab" * 32, "cd" * 32


@pytest.fixture
def knowing(folder: Path, ding: Path, cli: Cli) -> Path:
    """A lace that knows two peers."""
    cli("peers", "add", folder, "lab", "--verifier", _OTHER, "--address", _ADDRESS, "--policy", ding)
    cli("peers", "add", folder, "quiet", "--verifier", SigningKey.from_secret(bytes([4]) * 32).verifier)
    return folder


# ---- a folder, or somebody elsewhere --------------------------------------------------------------------------------


def test_a_folder_is_a_folder(knowing: Path, tmp_path: Path) -> None:
    there = tmp_path / "other.lace"
    assert find_folder(knowing, str(there)) == there, "it may be missing: whoever opens it says so"
    there.mkdir()
    assert find_folder(knowing, str(there)) == there
    with pytest.raises(UsageError, match="the same lace"):
        find_folder(knowing, str(knowing))


@pytest.mark.parametrize("peer", ["tcp:host:4790", "unix:/run/lace.sock", "stdio", "lab", "nobody"])
def test_everything_else_is_elsewhere(knowing: Path, peer: str) -> None:
    assert find_folder(knowing, peer) is None


def test_a_known_name_is_the_peer_also_where_a_folder_is_called_so(
    knowing: Path, tmp_path: Path, ding: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("lab").mkdir()
    assert find_folder(knowing, "lab") is None
    assert find_elsewhere(knowing, "lab", Demands(), Chosen()).name == "lab"
    assert find_folder(knowing, "./lab") == Path("lab")
    with pytest.raises(UsageError, match="only `bobbin sync` takes"):
        find_elsewhere(knowing, "./lab", Demands(), Chosen())
    others = tmp_path / "others.toml"
    assert find_folder(knowing, "lab", others) == Path("lab"), "nobody is known there"
    cli("peers", "add", knowing, "here", "--unproven", "--address", "tcp:127.0.0.1:1", "--policy", ding)
    Path("here").mkdir()
    answer = cli("sync", knowing, "here")
    assert (answer.code, answer.err.splitlines()[0]) == (
        5,
        "here is a known peer and is dialled; ./here means the folder",
    )
    (knowing / "peers.toml").write_text("broken")
    assert find_folder(knowing, "lab") == Path("lab")


# ---- whom -----------------------------------------------------------------------------------------------------------


def test_a_name_is_known_with_its_key_address_and_policy(knowing: Path) -> None:
    there = find_elsewhere(knowing, "lab", Demands(), Chosen())
    assert (there.name, str(there.address), there.verifier) == ("lab", _ADDRESS, _OTHER)
    assert there.terms.selector is not None
    assert str(there) == f"lab · {_OTHER} · {_ADDRESS}"
    assert find_elsewhere(knowing, _ADDRESS, Demands(), Chosen()).name == "lab"


@pytest.fixture
def hall(knowing: Path, ding: Path, cli: Cli) -> Path:
    """A lace that knows a peer with two addresses, and the certificate of each."""
    places = (
        "--address",
        "tls:a.example",
        "--address",
        "tls:b.example",
        "--certificate",
        _PIN,
        "--certificate",
        _PIN_2,
    )
    verifier = SigningKey.from_secret(bytes([5]) * 32).verifier
    assert cli("peers", "add", knowing, "hall", "--verifier", verifier, *places, "--policy", ding).code == 0
    return knowing


def _pins(there: Elsewhere) -> list[str | None]:
    """What is demanded of the certificate at each address."""
    destinations = [line.dial.__self__ for line in there.peer.lines]  # type: ignore[attr-defined]
    return [None if one.certificate is None else one.certificate.hex() for one in destinations]


def test_a_name_may_stand_for_several_addresses_each_with_its_pin(hall: Path) -> None:
    there = find_elsewhere(hall, "hall", Demands(), Chosen())
    assert [line.address for line in there.peer.lines] == ["tls:a.example", "tls:b.example"]
    assert str(there.address) == "tls:a.example"
    assert _pins(there) == [_PIN, _PIN_2]
    assert _pins(find_elsewhere(hall, "hall", Demands(pin="ef" * 32), Chosen())) == ["ef" * 32] * 2


def test_an_address_means_that_one_alone_with_its_own_pin(hall: Path) -> None:
    there = find_elsewhere(hall, "tls:B.example:4791", Demands(), Chosen())
    assert there.name == "hall"
    assert [line.address for line in there.peer.lines] == ["tls:B.example:4791"]
    assert _pins(there) == [_PIN_2]


def test_a_new_address_of_a_peer_with_many_pins_has_none_of_them(hall: Path, ding: Path) -> None:
    trusting, chosen = Demands(trust_new="hall"), Chosen(policy=str(ding))
    with pytest.raises(UsageError, match="another certificate at each of its addresses"):
        find_elsewhere(hall, "tls:c.example", trusting, chosen)
    assert find_elsewhere(hall, "tls:c.example", Demands(trust_new="hall", pin=_PIN), chosen).name == "hall"


def test_an_address_that_fails_is_passed_over_and_the_user_is_told(
    folder: Path, ding: Path, node: Served, cli: Cli
) -> None:
    def known(name: str, *places: str) -> None:
        given = [part for place in places for part in ("--address", place)]
        cli("peers", "add", folder, name, "--verifier", node.verifier, *given, "--policy", ding)

    nobody = "tcp:127.0.0.1:1"
    known("hall", nobody, node.addresses["tls"])
    answer = cli("sync", folder, "hall")
    assert (answer.code, answer.err) == (0, f"passed over: {nobody}: refused; nothing listens there\n")
    assert node.addresses["tls"] in answer.lines[0]
    answer = cli("sync", folder, "hall", "--json")
    assert answer.json["peer"] == node.addresses["tls"], "the one that was used"
    said = {"event": "passed-over", "address": nobody, "reason": f"{nobody}: refused; nothing listens there"}
    assert json.loads(answer.err) == said
    cli("peers", "remove", folder, "hall")
    known("hall", nobody, "tcp:127.0.0.1:2")
    answer = cli("sync", folder, "hall")
    assert answer.code == 5
    assert f"no address leads to the peer: {nobody}: refused; nothing listens there · tcp:127.0.0.1:2: " in answer.err


def test_somebody_else_at_an_address_is_a_warning(folder: Path, ding: Path, node: Served, cli: Cli) -> None:
    places = ("--address", node.addresses["tls"], "--address", "tcp:127.0.0.1:1")
    cli("peers", "add", folder, "hall", "--verifier", _OTHER, *places, "--policy", ding)
    there = find_elsewhere(folder, "hall", Demands(), Chosen())
    assert cli("sync", folder, "hall").code == 5, "one of them may come back"
    for wrong in (
        NotAdmitted("wrong-peer", "somebody else answers"),
        WrongCertificate("another pin"),
        TransportError("nobody", retry=True),
    ):
        there.peer.passed_over(Failure(address="tls:a", error=wrong))
    told: list[tuple[str, str]] = []
    there.say_passed_over(_Telling(told))
    assert told == [
        ("warning", "passed over: tls:a: somebody else answers"),
        ("warning", "passed over: tls:a: another pin"),
        ("event", "passed over: tls:a: nobody"),
    ]
    there.say_passed_over(_Telling(told))
    assert len(told) == 3, "each once"


class _Telling(Output):
    """What is said, and how loudly."""

    def __init__(self, told: list[tuple[str, str]]) -> None:
        super().__init__(as_json=False)
        self._told = told

    def event(self, value: Json, text: str) -> None:
        del value
        self._told.append(("event", text))

    def warn(self, text: str) -> None:
        self._told.append(("warning", text))


@pytest.mark.parametrize("spelled", ["tls:lab.example", "tls:LAB.Example", "tls:Lab.example:4791"])
def test_an_address_is_known_however_it_is_spelled(knowing: Path, spelled: str) -> None:
    there = find_elsewhere(knowing, spelled, Demands(), Chosen())
    assert (there.name, there.verifier, str(there.address)) == ("lab", _OTHER, spelled)
    for other in ("tls:lab.example:4792", "tcp:lab.example:4791", "wss:lab.example:4791"):
        assert find_elsewhere(knowing, other, Demands(), Chosen()).verifier is None


def test_an_address_that_nobody_is_known_at(knowing: Path, ding: Path) -> None:
    there = find_elsewhere(knowing, "tcp:h:1", Demands(), Chosen(policy=str(ding)))
    assert (there.name, there.verifier) == (None, None)
    assert str(there) == "has proven nothing · tcp:h:1"
    assert find_elsewhere(knowing, "tcp:h:1", Demands(verifier=_OTHER), Chosen()).verifier == _OTHER


@pytest.mark.parametrize(
    ("peer", "demands", "said"),
    [
        ("nobody", Demands(), "knows nobody of that name"),
        ("quiet", Demands(), "no address for quiet"),
        ("tcp:host:0", Demands(), "a port lies between"),
        ("net:host:8008~shse:key", Demands(), "which `bobbin tangle sync` takes"),
        ("lab", Demands(verifier=VERIFIER), "known by another key"),
        ("lab", Demands(verifier="V.x"), "no verifier"),
        ("lab", Demands(trust_new="lab"), "--trust-new goes with an address"),
        ("tcp:h:1", Demands(trust_new="new", verifier=VERIFIER), "choose one"),
        ("stdio", Demands(trust_new="new"), "stdio is no such place"),
        ("tcp:h:1", Demands(pin=_PIN), "shows no certificate"),
        ("tls:h:1", Demands(pin=_PIN, authorities=Path("ca.pem")), "choose one"),
        ("tls:h:1", Demands(pin="ab"), "64 hexadecimal digits"),
    ],
)
def test_what_makes_no_sense_is_said_before_anybody_is_dialled(
    knowing: Path, peer: str, demands: Demands, said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        find_elsewhere(knowing, peer, demands, Chosen())


@pytest.mark.parametrize(
    ("demands", "said"),
    [
        (Demands(peers=Path("nowhere/peers.toml")), "there is no file nowhere/peers.toml"),
        (Demands(peers=Path("nowhere/peers.toml"), trust_new="new"), "there is no folder nowhere"),
        (Demands(authorities=Path("nowhere/ca.pem")), "there is no file nowhere/ca.pem"),
    ],
)
def test_what_is_missing_is_said_before_anybody_is_dialled(knowing: Path, demands: Demands, said: str) -> None:
    with pytest.raises(MissingFile, match=said):
        find_elsewhere(knowing, "tls:h:1", demands, Chosen())


def test_a_folder_is_not_dialled(knowing: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="only `bobbin sync` takes"):
        find_elsewhere(knowing, str(tmp_path), Demands(), Chosen())


# ---- terms ----------------------------------------------------------------------------------------------------------


def test_options_stand_before_what_is_noted(knowing: Path, tmp_path: Path, ding: Path, cli: Cli) -> None:
    hide = tmp_path / "hide.policy"
    hide.write_text(HIDE_ALL)
    cli(
        *("peers", "add", knowing, "large", "--verifier", SigningKey.from_secret(bytes([3]) * 32).verifier),
        *("--address", "tcp:l:1", "--policy", ding, "--query-policy", hide, "--limits", "large"),
    )
    noted = find_elsewhere(knowing, "large", Demands(), Chosen()).terms
    assert (noted.limits, noted.budgets) == (LARGE, BUDGETS["large"])
    assert noted.query is not None
    assert sorted(noted.texts.values()) == sorted(map(str, (ding, hide)))
    assert noted.strategy == "auto"
    with (knowing / "peers.toml").open("a") as file:
        file.write('strategy = "ranges"\n')
    assert find_elsewhere(knowing, "large", Demands(), Chosen()).terms.strategy == "ranges"
    assert find_elsewhere(knowing, "large", Demands(), Chosen(strategy="auto")).terms.strategy == "auto"
    assert "strategy      ranges" in cli("peers", "show", knowing, "large").lines
    other = tmp_path / "other.policy"
    other.write_text("SelectHave(P) :- Have(P).\n")
    given = find_elsewhere(knowing, "large", Demands(), Chosen(policy=str(other), limits="default")).terms
    assert given.selector is not None
    assert noted.selector is not None
    assert given.selector.identifier != noted.selector.identifier
    assert (given.limits, given.query) == (Limits(), noted.query)


def test_a_policy_is_wanted_where_everything_would_be_exchanged(knowing: Path, cli: Cli) -> None:
    cli("peers", "add", knowing, "bare", "--unproven", "--address", "tcp:127.0.0.1:1")
    with Lace.open(knowing) as lace:
        bare = find_elsewhere(knowing, "bare", Demands(), Chosen())
        assert bare.terms.selector is None
        bare.connect(lace, needs_policy=False)
        with pytest.raises(UsageError, match=r"^no policy is noted for bare: say --policy FILE$"):
            bare.connect(lace, needs_policy=True)
        with pytest.raises(UsageError, match=r"^nobody is known at tcp:h:1: say --policy FILE$"):
            find_elsewhere(knowing, "tcp:h:1", Demands(), Chosen()).connect(lace, needs_policy=True)


# ---- trust ----------------------------------------------------------------------------------------------------------


def test_trust_on_first_use_notes_key_address_and_policy_and_never_replaces_a_key(
    filled: Path, ding: Path, node: Served, cli: Cli
) -> None:
    arguments = ("sync", filled, node.addresses["tls"], "--trust-new", "y")
    assert cli(*arguments, "--policy", ding).code == 0
    (known,) = cli("peers", "list", filled, "--json").rows
    assert (known["name"], known["verifier"], known["address"]) == ("y", node.verifier, node.addresses["tls"])
    assert known["policy"] is not None
    assert known["admit"] is False, "it was dialled, and may not dial"
    assert cli(*arguments).code == 0, "known by now, with its policy"
    cli("peers", "remove", filled, "y")
    cli("peers", "add", filled, "y", "--verifier", _OTHER, "--policy", ding)
    before = (filled / "peers.toml").read_bytes()
    answer = cli(*arguments)
    assert (answer.code, "IS NOT THE KNOWN ONE" in answer.err) == (3, True)
    assert (filled / "peers.toml").read_bytes() == before


def test_trust_on_first_use_notes_the_terms_that_were_used(
    filled: Path, tmp_path: Path, ding: Path, node: Served, cli: Cli
) -> None:
    hide = tmp_path / "hide.policy"
    hide.write_text(HIDE_ALL)
    terms = ("--policy", ding, "--query-policy", hide, "--limits", "large")
    assert cli("sync", filled, node.addresses["tls"], "--trust-new", "y", *terms).code == 0
    noted = find_elsewhere(filled, "y", Demands(), Chosen()).terms
    assert sorted(Path(text).resolve() for text in noted.texts.values()) == sorted((ding.resolve(), hide.resolve()))
    assert noted.limits == LARGE


def test_nobody_is_trusted_who_proves_nothing_or_whose_policy_cannot_be_read_again(
    filled: Path, ding: Path, node: Served, cli: Cli
) -> None:
    answer = cli("sync", filled, node.addresses["tcp"], "--trust-new", "y", "--policy", "-", stdin=ding.read_bytes())
    assert (answer.code, "cannot be read again" in answer.err) == (2, True)
    assert not (filled / "peers.toml").exists()


def test_a_certificate_that_nobody_vouches_for_comes_with_advice(
    filled: Path, ding: Path, node: Served, tmp_path: Path, cli: Cli
) -> None:
    arguments = ("sync", filled, node.addresses["tls"], "--policy", ding)
    answer = cli(*arguments)
    assert (answer.code, "--trust-new NAME" in answer.err) == (4, True)
    assert cli(*arguments, "--pin", node.certificate).code == 0
    assert cli(*arguments, "--pin", _PIN).code == 4
    authority = tmp_path / "ca.pem"
    authority.write_bytes((node.folder / "tls" / "certificate.pem").read_bytes())
    assert cli(*arguments, "--ca", authority).code == 0
    assert cli(*arguments, "--verifier", node.verifier).code == 0
    wrong = cli(*arguments, "--verifier", _OTHER)
    assert (wrong.code, "the peer is to be" in wrong.err) == (6, True)
