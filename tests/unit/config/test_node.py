"""The configuration of a node: read strictly, nothing exposed that was not meant."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin.config.findings import InvalidConfiguration, InvalidPolicies
from bobbin.config.node import CertificateFiles, NodeConfig, Overrides, is_local, read_node
from bobbin.errors import BobbinError
from bobbin.interlace.limits import LARGE
from bobbin.policy.modules import compile_selector
from bobbin.runtime.node_settings import LogForm, LogLevel, NodeSettings
from bobbin.wire import address

_POLICY = "SelectHave(P) :- Have(P), Field(P,'Group',_,'u').\n"

Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    (tmp_path / "x.policy").write_text(_POLICY)

    def call(text: str) -> Path:
        path = tmp_path / "node.toml"
        path.write_text(text)
        return path

    return call


def _problems(file: Path, overrides: Overrides | None = None) -> list[tuple[str, str]]:
    with pytest.raises(InvalidConfiguration) as failure:
        read_node(file, overrides or Overrides())
    return [(problem.key, problem.message) for problem in failure.value.problems]


def test_an_empty_file_and_no_file_are_the_defaults(write: Write) -> None:
    assert read_node(write("")) == NodeConfig(settings=NodeSettings())
    assert read_node(None) == NodeConfig(settings=NodeSettings())


def test_every_table_is_taken_over(write: Write, tmp_path: Path) -> None:
    file = write(
        """
        listen = ["tls:0.0.0.0:4791", "unix:/run/bobbin.sock", "tcp:127.0.0.1"]
        key = "node"
        peers = "friends.toml"

        [tls]
        certificate = "tls/c.pem"
        key = "private/k.pem"

        [default]
        policy = "x.policy"
        limits = "large"

        [links]
        total_max = 9
        introduction_seconds_max = 2

        [reconnect]
        delay_seconds_max = 30

        [metrics]
        listen = "tcp:[::1]:9790"
        links = true

        [log]
        level = "warning"
        format = "text"

        [telemetry]
        enabled = true
        endpoint = "http://collector.example:4318"
        """
    )
    for path in (tmp_path / "tls" / "c.pem", tmp_path / "private" / "k.pem"):
        path.parent.mkdir()
        path.touch()
    config = read_node(file)
    settings = config.settings
    assert [str(one) for one in settings.listen] == ["tls:0.0.0.0:4791", "unix:/run/bobbin.sock", "tcp:127.0.0.1"]
    assert (config.key, config.peers) == ("node", tmp_path / "friends.toml")
    assert config.certificate == CertificateFiles(
        certificate=tmp_path / "tls" / "c.pem", key=tmp_path / "private" / "k.pem"
    )
    assert config.defaults.selector is not None
    assert config.defaults.selector.identifier == compile_selector(_POLICY).identifier
    assert config.defaults.limits == LARGE
    assert (settings.links.total_max, settings.links.introduction_seconds_max) == (9, 2.0)
    assert settings.reconnect.delay_seconds_max == 30.0
    assert str(settings.metrics.listen) == "tcp:[::1]:9790"
    assert settings.metrics.links
    assert (settings.log.level, settings.log.format) == (LogLevel.WARNING, LogForm.TEXT)
    assert settings.telemetry.endpoint == "http://collector.example:4318"


def test_the_command_line_goes_before_the_file(write: Write, tmp_path: Path) -> None:
    file = write('listen = ["tls:0.0.0.0"]\npeers = "a.toml"\n')
    there = address.parse("tcp:0.0.0.0")
    overrides = Overrides(listen=(there,), peers=tmp_path / "b.toml", allow_insecure=True)
    config = read_node(file, overrides)
    assert config.settings.listen == (there,)
    assert config.settings.allow_insecure
    assert config.peers == tmp_path / "b.toml"
    assert read_node(None, overrides) == NodeConfig(
        settings=NodeSettings(listen=(there,), allow_insecure=True), peers=tmp_path / "b.toml"
    )


@pytest.mark.parametrize(
    ("text", "key", "word"),
    [
        ("lisen = []", "lisen", "did you mean listen?"),
        ("[link]\ntotal_max = 3", "link", "did you mean links?"),
        ("[links]\ntotal = 3", "links.total", "did you mean total_max?"),
        ("[links]\ntotal_max = 0", "links.total_max", "at least 1"),
        ("[links]\nstop_seconds_max = 1e9", "links.stop_seconds_max", "at most 86400"),
        ("[links]\nstop_seconds_max = inf", "links.stop_seconds_max", "at most"),
        ("[links]\nstop_seconds_max = nan", "links.stop_seconds_max", "a number"),
        ("[links]\ntotal_max = 99999999999999999999999", "links.total_max", "at most 1000000"),
        ("[links]\ntotal_max = 1979-05-27", "links.total_max", "not a date"),
        ('listen = "tcp:127.0.0.1"', "listen", "a list"),
        ('listen = ["127.0.0.1:4790"]', "listen 1", "not an address"),
        ('listen = ["stdio", "stdio"]', "listen 2", "twice"),
        ('key = "../x"', "key", "not a key name"),
        ('[tls]\ncertificate = "c.pem"', "tls.key", "missing"),
        ('[default]\npolicy = "none"', "default.policy", "there is no file"),
        ('[default]\nlimits = "huge"', "default.limits", "default, large"),
        ('[log]\nlevel = "loud"', "log.level", "debug, info, warning, error"),
        ('[metrics]\nlisten = "unix:/x.sock"', "metrics.listen", "tcp"),
        ('[metrics]\nlisten = "tcp:0.0.0.0:9790"', "metrics.listen", "off_loopback"),
        ('[metrics]\nlisten = "tcp:node.example:9790"', "metrics.listen", "off_loopback"),
        ('[telemetry]\nendpoint = "collector:4318"', "telemetry.endpoint", "http://"),
        ("[reconnect]\ndelay_seconds_min = 200", "reconnect.delay_seconds_min", "longer"),
        ('listen = ["tcp:0.0.0.0"]', "listen", "allow_insecure"),
        ('listen = ["ws:node.example"]', "listen", "allow_insecure"),
        ('listen = ["tcp:[::]:4790"]', "listen", "allow_insecure"),
    ],
)
def test_a_mistake_is_named_by_its_key(write: Write, text: str, key: str, word: str) -> None:
    ((found, message),) = _problems(write(text))
    assert found == key
    assert word in message


def test_too_many_addresses_are_refused(write: Write) -> None:
    listed = ", ".join(f'"unix:/run/{number}.sock"' for number in range(65))
    assert _problems(write(f"listen = [{listed}]")) == [("listen", "a node listens on at most 64 addresses")]


def test_what_is_meant_can_be_said(write: Write) -> None:
    config = read_node(
        write(
            'listen = ["tcp:0.0.0.0"]\nallow_insecure = true\n'
            '[metrics]\nlisten = "tcp:0.0.0.0:9790"\noff_loopback = true\n'
        )
    )
    assert config.settings.allow_insecure
    assert config.settings.metrics.listen is not None


def test_an_insecure_address_of_the_command_line_needs_its_flag(write: Write) -> None:
    overrides = Overrides(listen=(address.parse("tcp:0.0.0.0"),))
    ((key, message),) = _problems(write(""), overrides)
    assert (key, "--allow-insecure" in message) == ("--listen", True)
    with pytest.raises(InvalidConfiguration, match="--allow-insecure"):
        read_node(None, overrides)


def test_mistakes_in_the_default_policy_have_their_places(write: Write, tmp_path: Path) -> None:
    (tmp_path / "x.policy").write_text("SelectHave(P) :- Have(Q).\n")
    with pytest.raises(InvalidPolicies, match=r"x\.policy:1:"):
        read_node(write('[default]\npolicy = "x.policy"'))


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfiguration, match="there is no file"):
        read_node(tmp_path / "node.toml")


@pytest.mark.parametrize(
    ("text", "local"),
    [
        ("stdio", True),
        ("unix:/x.sock", True),
        ("tcp:127.0.0.1", True),
        ("tcp:127.9.9.9", True),
        ("tcp:[::1]", True),
        ("ws:localhost", True),
        ("tcp:0.0.0.0", False),
        ("tcp:[::]", False),
        ("tcp:192.0.2.1", False),
        ("tcp:localhost.example", False),
    ],
)
def test_only_what_is_plainly_local_counts_as_local(text: str, local: bool) -> None:  # noqa: FBT001
    assert is_local(address.parse(text)) is local


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_bytes_are_a_configuration_or_an_error_of_ours(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.mktemp("node") / "node.toml"
    path.write_bytes(content)
    said = None
    try:
        read_node(path)
    except BobbinError as error:
        said = str(error)
    assert said is None or str(path) in said
