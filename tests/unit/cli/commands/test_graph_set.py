"""``bobbin graph set``."""

import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from bobbin.reactive.permissions import OpKind
from bobbin.runtime.graph_allowances import Allowance
from tests.support.graphs import PEER, TOKEN, Sample, read, served_in_thread
from tests.unit.cli.command_line import Cli


@pytest.fixture
def sample() -> Sample:
    return Sample()


@pytest.fixture
def place(sample: Sample) -> Iterator[str]:
    with served_in_thread(sample, "ws:127.0.0.1:0") as (address,):
        yield address


@pytest.fixture
def token(tmp_path: Path) -> Path:
    path = tmp_path / "seven.token"
    path.write_text(f"{PEER} {TOKEN}\n", encoding="utf-8")
    path.chmod(0o600)
    return path


def test_a_value_is_written_and_seen(sample: Sample, place: str, token: Path, cli: Cli) -> None:
    answer = cli("graph", "set", place, "figures/one=41", "--token-file", token)
    assert (answer.code, answer.lines, answer.err) == (0, ["figures/one  written"], "")
    assert sample.one.peek() == 41
    assert cli("graph", "set", place, "figures/one=-1", "--token-file", token, "--json").json == {
        "key": "figures/one",
        "written": True,
    }


@pytest.mark.slow
def test_what_we_may_not_write_is_said(sample: Sample, place: str, token: Path, cli: Cli) -> None:
    answer = cli("graph", "set", place, "figures/two=9", "figures/one=3", "--token-file", token)
    assert answer.code == 1
    assert answer.lines[0].startswith("figures/two  not written: we may not")
    assert answer.lines[1] == "figures/one  written"
    assert (sample.one.peek(), sample.two.peek()) == (3, 2)


def test_what_makes_no_sense(place: str, token: Path, folder: Path, cli: Cli) -> None:
    for text in ("figures/one", "=1", "figures/one=x", "figures/one=1.5", "secret=x", "nowhere=1"):
        answer = cli("graph", "set", place, text, "--token-file", token)
        assert answer.code == 2, text
    assert cli("graph", "set", place, "figures/one=1", "figures/one=2", "--token-file", token).code == 2
    assert cli("graph", "set", place, "figures/one=1").code == 6
    assert cli("graph", "set", folder, "a=1").code == 5


def test_a_number_that_does_not_equal_itself_is_written(cli: Cli, token: Path) -> None:
    sample = Sample(read("*"), Allowance(PEER, OpKind.WRITE, "share"))
    share = sample.graph.cell(1.5, tag="f64", key="share")
    with served_in_thread(sample, "ws:127.0.0.1:0") as (place,):
        answer = cli("graph", "set", place, "share=nan", "--token-file", token)
    assert (answer.code, answer.lines) == (0, ["share  written"])
    assert math.isnan(share.peek())
