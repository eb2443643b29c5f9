"""Whether what is read is up to date, or said to be old."""

from pathlib import Path

from bobbin.cli.freshness import freshen
from bobbin.cli.output import Output
from tests.support.clusters import free_ports
from tests.unit.cli.command_line import Cli


def test_a_lace_of_one_machine_is_up_to_date(folder: Path, cli: Cli) -> None:
    freshen(Output(as_json=False), folder)
    assert "stale" not in cli("list", folder).err


def test_without_a_node_it_is_said_to_be_old(tmp_path: Path, cli: Cli) -> None:
    place = f"tls:127.0.0.1:{free_ports(1)[0]}"
    assert cli("init", tmp_path / "x", "--cluster", "--listen", place).code == 0
    answer = cli("list", tmp_path / "x")
    assert answer.code == 0
    assert "stale: no node" in answer.err
    # A socket that a killed node has left is no node.
    (tmp_path / "x" / "cluster" / "node.sock").touch()
    answer = cli("get", tmp_path / "x", "//u//d//x")
    assert answer.code == 1
    assert "stale: " in answer.err
