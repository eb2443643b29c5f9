"""What all tests share: hypothesis profiles, golden files, a Spark session, fixtures that lie beside the repository."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest
from hypothesis import HealthCheck, Phase, settings

from tests.shared_fixtures import shared_fixture
from tests.support import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_GOLDEN = Path(__file__).resolve().parent / "golden"

# `test` draws the same samples on every machine, and `check` fewer of them. `evidence` searches long and at random.
# `dev` is for a quick look while writing. No profile has a deadline: a slow machine is not a failing test.
settings.register_profile("test", max_examples=100, derandomize=True, database=None, deadline=None, print_blob=True)
settings.register_profile("check", settings.get_profile("test"), max_examples=40)
settings.register_profile(
    "evidence",
    max_examples=10_000,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "dev", max_examples=25, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink]
)
settings.load_profile("test")


class Golden(Protocol):
    """Compare bytes or text with a committed file."""

    def __call__(self, name: str, actual: str | bytes) -> None:
        """Fail where ``actual`` differs from ``tests/golden/<name>``; under ``--rewrite``, write it there instead."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="renew the golden files instead of comparing with them")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Compare with the golden files, or renew them."""
    rewrite = bool(request.config.getoption("--rewrite"))

    def compare(name: str, actual: str | bytes) -> None:
        path = _GOLDEN / name
        content = actual.encode() if isinstance(actual, str) else actual
        if rewrite:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            return
        assert path.is_file(), f"tests/golden/{name} does not exist; make it with `make rewrite` and review it"
        expected = path.read_bytes()
        if isinstance(actual, str):
            assert actual == expected.decode(), f"differs from tests/golden/{name}"
        else:
            assert actual == expected, f"differs from tests/golden/{name}"

    return compare


@pytest.fixture(scope="session")
def shared_fixtures() -> Callable[..., Path]:
    """``shared_fixtures("pzp", "x.json")`` is the path of a shared fixture; skips where there are none."""
    return shared_fixture


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever uses Spark is slow, since it starts a Java; so is what ``slow_tests.txt`` names."""
    lines = (Path(__file__).parent / "slow_tests.txt").read_text("utf-8").splitlines()
    named = {line for line in lines if not line.startswith("#")}
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()) or item.nodeid.partition("[")[0] in named:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    """The Spark session of this process: `local[2]`, the test profile. A test that takes it is slow."""
    with spark_session.test_session(tmp_path_factory.mktemp("spark")) as session:
        yield session


@pytest.fixture(autouse=True)
def _clear_spark(request: pytest.FixtureRequest) -> Iterator[None]:
    """No test finds another's views or cached frames."""
    yield
    if "spark" in request.fixturenames:
        spark_session.clear(request.getfixturevalue("spark"))
